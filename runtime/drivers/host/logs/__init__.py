"""Container log files: the format of CRI, reading, rotation, links and removal."""
