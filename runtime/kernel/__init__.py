"""The actor kernel: cells and incarnations on pykka, mailboxes, supervision, two executors.

```text
what actors use     actor.py      Actor, Spec, Context       shell.py         the shell around a pure core
                    context.py    handles, and what an incarnation may do
one actor           cell.py       the pykka actor: what it is handed, and its run
                    mailbox.py    two lanes, bounds, conflation, accounts
                    delivery.py   one message, handled and measured
                    lifecycle.py  incarnations begin and die; stopping        supervision.py   the verdict over a death
                    alarm.py      operations.py      streams.py
all actors          system.py     the tree, messages by path, dead letters    ask.py           questions from outside
                    introspection.py   trace.py   meter.py                    what people see
what runs them      executor.py   the contract               pooled.py  runqueue.py  offload.py  timers.py     sim.py
breaking            intercept.py  the seam for faults        failure.py       errors of the actor system
```
"""
