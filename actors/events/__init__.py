"""EventRecorder: keeps what happened to the pods of this node, over restarts of the agent."""
