"""Pods that the API server has bound to this node."""
