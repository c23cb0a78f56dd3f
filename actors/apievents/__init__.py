"""Events on the API server."""
