"""ImagePuller: the one who looks for, fetches and removes images."""
