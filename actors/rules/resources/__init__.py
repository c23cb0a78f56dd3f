"""Rules about what pods take of the node: requests, admission, preemption, QoS classes, cgroup values."""
