"""What people and programs are shown of the agent: actors, metrics, the state of eviction."""
