"""The ports ``runtime``, ``images`` and ``streams`` on containerd and CRI-O, over CRI v1.

```text
begin(call) --> errand (steps of the call, a generator)
                  |-- asks --> wire (gRPC, by callback)      heavy ones pass the gate first
                  |-- view --> lists this pod again, asks only for what is not known yet
                  '-- done --> result or failure
watch (pidfds) and following (CRI events) --> hints --> stream ``runtime.events``
```

Whoever makes the driver imports `runtime.drivers.cri.driver`, and with it gRPC; nobody else pays for that.
"""
