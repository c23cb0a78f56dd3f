"""PodConfig: merges what all sources want into one numbered stream of changes."""
