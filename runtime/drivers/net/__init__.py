"""Clients of other machines: HTTP, TCP and TLS."""
