"""Exits as they occur: a pidfd on every process that the runtime reported.

```text
lives(id, pid) --> pidfd opened --> is it still that one? --> watched ... exit --> the runtime is asked until it
                                                                               knows --> hint
```

The kernel reports an exit within a millisecond, the runtime knows it some 30 to 60 ms later. The descriptor only triggers
an inspection: what is shown comes from the runtime.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from api.errors import Failure, FailureKind
from api.ids import Uid
from api.ports.runtime import RuntimeContainerState, SandboxState
from runtime.drivers.cri import shown
from runtime.drivers.cri.known import Known
from runtime.drivers.cri.link import Channels
from runtime.drivers.cri.process import is_of
from runtime.net.loop import Loop
from runtime.wire import cri
from runtime.wire.generated import cri_pb2 as pb

FIRST_CHECK_S = 0.006
"""After an exit; no runtime was seen to know it earlier."""
CHECK_EVERY_S = 0.005
EAGER_CHECKS = 60
SLOW_CHECK_EVERY_S = 0.25
CHECK_LIMIT = 100
"""After so many checks the exit is left to the listings."""


@dataclass
class _Watched:
    identity: str
    uid: Uid
    pid: int
    is_sandbox: bool
    fd: int = -1
    checks: int = 0
    ended: bool = False
    """Its process is gone; the runtime is being asked."""
    wanted: bool = True


class ExitWatch:
    """Watches processes on the loop's thread and pushes hints. Its public methods may be called anywhere."""

    def __init__(self, link: Channels, loop: Loop, changed: Callable[[Uid], None]) -> None:
        self._link, self._loop, self._changed = link, loop, changed
        self._watched: dict[str, _Watched] = {}
        self._held: dict[str, int] = {}
        self._closed = False
        self.known: Known | None = None
        """Set by the driver: both refer to each other."""

    def add(self, identity: str, uid: Uid, pid: int, is_sandbox: bool) -> None:
        """Watch a process, unless it is watched already."""
        if identity not in self._watched:
            entry = _Watched(identity=identity, uid=uid, pid=pid, is_sandbox=is_sandbox)
            self._loop.submit(lambda: self._open(entry))

    def forget(self, identity: str) -> None:
        """Stop watching what the runtime no longer holds."""
        if identity in self._watched:
            self._loop.submit(lambda: self._drop(identity))

    @contextlib.contextmanager
    def held(self, identity: str) -> Iterator[None]:
        """Report no end of a container or sandbox while a call waits for it."""
        self._loop.submit(lambda: self._count(identity, 1))
        try:
            yield
        finally:
            self._loop.submit(lambda: self._count(identity, -1))

    # -- on the loop's thread

    def _count(self, identity: str, change: int) -> None:
        held = self._held.get(identity, 0) + change
        if held > 0:
            self._held[identity] = held
            return
        self._held.pop(identity, None)
        entry = self._watched.get(identity)
        if entry is not None and entry.ended:
            self._check(entry)

    def _open(self, entry: _Watched) -> None:
        if entry.identity in self._watched or self._closed:
            return
        self._watched[entry.identity] = entry
        try:
            entry.fd = os.pidfd_open(entry.pid)
        except OSError:
            # It ended before it was watched, or is out of sight (another process namespace): ask once.
            self._ask(entry)
            return
        self._loop.watch(entry.fd, lambda _: self._fired(entry))
        if not is_of(entry.pid, entry.identity):
            # Process ids are reused: only the runtime can say whether this one is still the container's.
            self._ask(entry)

    def close(self) -> None:
        """Close every descriptor; called once, when the loop ends."""
        self._closed = True
        for identity in list(self._watched):
            self._drop(identity)

    def _drop(self, identity: str) -> None:
        entry = self._watched.pop(identity, None)
        if entry is not None:
            entry.wanted = False
            self._close(entry)

    def _close(self, entry: _Watched) -> None:
        if entry.fd >= 0:
            self._loop.forget(entry.fd)
            os.close(entry.fd)
            entry.fd = -1

    def _fired(self, entry: _Watched) -> None:
        self._close(entry)
        entry.ended = True
        if entry.identity not in self._held:
            self._loop.after(FIRST_CHECK_S, lambda: self._check(entry))

    def _check(self, entry: _Watched) -> None:
        if not entry.wanted or entry.identity in self._held:
            return
        if self._is_known(entry):
            # The call that waited for the end has inspected it.
            self._report(entry)
        else:
            self._ask(entry)

    def _is_known(self, entry: _Watched) -> bool:
        """Return whether the end of it is known to the last detail."""
        assert self.known is not None
        if entry.is_sandbox:
            sandbox = self.known.sandbox(entry.identity)
            return sandbox is not None and sandbox.state is SandboxState.NOT_READY
        container = self.known.container(entry.identity)
        ended = container is not None and container.state is RuntimeContainerState.EXITED
        return ended and self.known.settled(entry.identity)

    def _ask(self, entry: _Watched) -> None:
        """Inspect it; the answer comes on gRPC's thread and is handled on the loop's."""
        assert self.known is not None
        begun, limit_s = self.known.moment, self._link.request_timeout_s

        def answered(reply: object, failure: Failure | None) -> None:
            self._loop.submit(lambda: self._answered(entry, reply, failure, begun))

        if entry.is_sandbox:
            request = pb.PodSandboxStatusRequest(pod_sandbox_id=entry.identity, verbose=not entry.ended)
            self._link.channel.begin(cri.SANDBOX_STATUS, request, limit_s, answered)
        else:
            status = pb.ContainerStatusRequest(container_id=entry.identity, verbose=not entry.ended)
            self._link.channel.begin(cri.CONTAINER_STATUS, status, limit_s, answered)

    def _answered(self, entry: _Watched, reply: object, failure: Failure | None, begun: int) -> None:
        if not entry.wanted:
            return
        assert self.known is not None
        pid = 0
        if isinstance(reply, pb.ContainerStatusResponse):
            pid = shown.pid_of(reply.info)
            self.known.absorb_container_status(reply.status, pid, begun)
        elif isinstance(reply, pb.PodSandboxStatusResponse):
            pid = shown.pid_of(reply.info)
            self.known.absorb_sandbox_status(reply.status, pid)
        gone = failure is not None and failure.kind is FailureKind.NOT_FOUND
        if gone or self._is_known(entry):
            self._report(entry)
        elif entry.ended or entry.fd < 0 or (failure is None and pid != entry.pid):
            self._check_again(entry)

    def _check_again(self, entry: _Watched) -> None:
        """Check again in a moment: the runtime does not know of the exit yet."""
        entry.ended = True
        self._close(entry)
        entry.checks += 1
        if entry.checks >= CHECK_LIMIT:
            self._report(entry)
            return
        eager = entry.checks < EAGER_CHECKS
        self._loop.after(CHECK_EVERY_S if eager else SLOW_CHECK_EVERY_S, lambda: self._check(entry))

    def _report(self, entry: _Watched) -> None:
        if self._watched.get(entry.identity) is entry:
            self._drop(entry.identity)
        self._changed(entry.uid)
