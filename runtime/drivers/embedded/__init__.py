r"""The built-in container runtime: pods as plain processes of the host, without any daemon.

::

    agent:  EmbeddedRuntime --socketpair--> keeper server --fork--> keeper (one per pod)
                  \________ unix socket, frames of JSON ________/   |
                                                               processes, logs, records

`driver` is the port ``runtime`` and has the others; `keeper` is what outlives the agent. This file imports nothing: the
keeper server loads `keeper` through it and must stay small.
"""
