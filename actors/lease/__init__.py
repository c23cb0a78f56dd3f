"""LeaseManager: renews the lease by which the control plane sees that this node is alive."""
