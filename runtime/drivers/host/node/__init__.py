"""Facts about the machine: capacity, allocatable, and files that pods see something of."""
