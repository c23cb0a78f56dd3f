"""Output of the agent for users and programs: actors, pods, metrics, eviction."""
