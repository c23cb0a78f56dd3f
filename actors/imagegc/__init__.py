"""ImageGCManager: removes unused images through the image puller."""
