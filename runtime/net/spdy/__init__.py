"""SPDY/3.1 without sockets: the protocol of Kubernetes' streaming endpoints after an HTTP upgrade.

```text
bytes from the peer --> frame.Decoder --> session.Session.receive --> events
                                          session.Session.outgoing --> bytes for the peer
```
"""
