"""The world in memory, for simulation: a container runtime, a ledger, manifests, folders and URLs without a machine."""
