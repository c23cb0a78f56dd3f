"""The agent's own HTTP server: the admin socket and the health port. Answers from a `Window` and never asks an actor."""
