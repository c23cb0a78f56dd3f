"""SPDY/3.1 without sockets: what Kubernetes' streaming endpoints speak after an HTTP upgrade.

```text
bytes from the peer --> frame.Decoder --> session.Session.receive --> events
                                          session.Session.outgoing --> bytes for the peer
```
"""
