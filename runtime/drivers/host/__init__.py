"""The machine itself: files, logs, folders, signals of the file system."""
