"""A pod's own cgroup: where it stands, its limits, and in-place resize."""
