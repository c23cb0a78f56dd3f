"""The verbs that talk to a running agent."""
