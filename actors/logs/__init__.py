"""LogRotator: keeps the containers' log files small and the links to them true."""
