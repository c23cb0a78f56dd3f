"""Pleg: listings and runtime events in, facts about pods out."""
