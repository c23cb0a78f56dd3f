"""A pod's containers: order of start, launch, hooks, probes, stops and restarts."""
