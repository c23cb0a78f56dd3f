"""MirrorManager: shows static pods on the API server by mirror pods."""
