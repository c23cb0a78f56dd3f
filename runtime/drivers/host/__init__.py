"""The machine itself: manifest files, inotify, the ledger, pod folders, container logs."""
