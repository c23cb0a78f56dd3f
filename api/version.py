"""The version that this agent reports of itself to an API server."""

KUBELET_VERSION = "v1.36.0"
"""The version of Kubernetes whose node behaviour this agent has: what API servers and tools compare with their own."""
