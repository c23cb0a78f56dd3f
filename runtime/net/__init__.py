"""Sockets without decisions: the loop that waits for many of them, and the protocol of streams."""
