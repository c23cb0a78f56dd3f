"""What can be said: every word that two parts of the agent share. Pure data, no I/O."""
