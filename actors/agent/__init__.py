"""The command `nodeagent` and the agent that it runs: arguments, drivers, actors; the composition root."""
