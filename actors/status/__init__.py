"""StatusManager: versions and stores what PodActors compose."""
