"""ApiStatusWriter: writes the statuses of pods to the API server, and ends what was deleted there."""
