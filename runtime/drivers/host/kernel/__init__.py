"""Notifications of the kernel: OOM kills and memory pressure."""
