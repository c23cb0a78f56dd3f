"""What the agent runs on: everything impure, nothing that decides about pods."""
