"""ImageGCManager: frees the space of images that nobody uses."""
