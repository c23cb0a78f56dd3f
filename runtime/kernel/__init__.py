"""The actor kernel: cells and incarnations on pykka, mailboxes, supervision, two executors.

```text
actor.py    the surface actors are written against        shell.py       the shell around a pure core
cell.py     a pykka actor, its incarnations, its end       context.py     handles, and what an incarnation may do
mailbox.py  two lanes, bounds, conflation, accounts        supervision.py the verdict over a death
system.py   the tree, dead letters, what people see        pooled.py sim.py  the two executors
operations.py offload.py streams.py timers.py              intercept.py trace.py  breaking and seeing
```
"""
