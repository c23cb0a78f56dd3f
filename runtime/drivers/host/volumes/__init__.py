"""The port `volumes`: emptyDir, hostPath and subPath on this machine, and mounts."""
