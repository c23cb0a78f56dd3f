"""What the kernel tells by itself: out-of-memory kills and memory pressure."""
