"""The port `cgroups`: cgroups of version 1 and 2, and slices of systemd."""
