"""A pod's status in Kubernetes' words: phase, conditions, container statuses, addresses."""
