"""UsageManager: reads what the node and its pods use, once for all subscribers."""
