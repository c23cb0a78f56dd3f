"""OomWatcher: tells of processes that were killed for want of memory."""
