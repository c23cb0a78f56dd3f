"""Asks containers whether they have started, are well and are ready: one actor for all probes of the node."""
