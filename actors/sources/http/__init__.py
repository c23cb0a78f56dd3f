"""Pods from a URL."""
