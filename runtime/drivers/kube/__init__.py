"""The port ``kube``: one HTTP/2 connection to the API server for objects and watches, and one for heartbeats."""
