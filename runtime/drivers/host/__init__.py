"""The machine: its files, mounts and processes."""
