"""Where pods come from: one actor for each source, and what they have in common."""
