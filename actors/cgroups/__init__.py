"""The cgroups above the pods."""
