"""Kubernetes objects: their types, kinds and versions, defaults, validation, quantities."""
