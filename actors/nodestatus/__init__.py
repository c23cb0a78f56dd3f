"""NodeStatusManager: registers this node with the API server, and reports its status there."""
