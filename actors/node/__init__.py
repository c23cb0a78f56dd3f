"""NodeManager: owns the node's facts and what the runtime says of itself."""
