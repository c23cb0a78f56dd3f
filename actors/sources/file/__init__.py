"""Pods from a folder of manifests, or from one file."""
