"""AdmissionManager: decides which pods may run on this node, and what each gets of it."""
