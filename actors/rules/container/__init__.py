"""Rules about one container or sandbox: restart, back-off, order of start."""
