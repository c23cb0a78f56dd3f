"""ImagePuller: looks up, pulls and removes images."""
