"""Typed views of Kubernetes objects: frozen data under their wire names."""
