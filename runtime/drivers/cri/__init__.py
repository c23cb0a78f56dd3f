"""The ports ``runtime``, ``images`` and ``streams`` on containerd and CRI-O, over CRI v1.

```text
begin(call) --> OpenCall (steps of the call, a generator)
                  |-- asks --> wire (gRPC, by callback)      heavy ones wait for the concurrency limit
                  |-- view --> lists this pod again, inspects only what is not known yet
                  '-- done --> result or failure
watch (pidfds) and following (CRI events) --> hints --> stream ``runtime.events``
```

Only the import of `runtime.drivers.cri.driver` imports gRPC.
"""
