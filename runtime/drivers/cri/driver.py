"""The port ``runtime`` on a container runtime behind a socket; see `api.ports.runtime` for the rules that it keeps.

The same connection serves the ports ``images``, unless an image service of its own keeps them, and ``streams``.
"""

from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from api.errors import Failure, FailureKind, OperatingError
from api.ports import runtime as c
from api.ports import usage as u
from api.ports.port import Done, Undo
from api.ports.runtimecall import Call
from runtime.drivers.cri import shown
from runtime.drivers.cri.call import Calls
from runtime.drivers.cri.concurrency import HEAVY_AT_ONCE, ConcurrencyLimit
from runtime.drivers.cri.follow import EventFollower
from runtime.drivers.cri.hint import Hints
from runtime.drivers.cri.image import CriImages
from runtime.drivers.cri.known import Known
from runtime.drivers.cri.link import Channels
from runtime.drivers.cri.opencall import Ask, Steps, Together, start_call
from runtime.drivers.cri.pause import Pause
from runtime.drivers.cri.stat import StatCalls
from runtime.drivers.cri.streaming import CriStreams
from runtime.drivers.cri.view import PodLister
from runtime.drivers.cri.watch import ExitWatch
from runtime.net.loop import Loop, OnBug
from runtime.wire import cri
from runtime.wire.endpoint import parse_endpoint
from runtime.wire.generated import cri_pb2 as pb
from runtime.wire.status import UNIMPLEMENTED

CANCELLABLE = (
    c.ExecInContainer,
    c.StopContainer,
    c.ListPods,
    c.InspectPod,
    c.RuntimeStatus,
    u.ReadContainerStats,
)
"""The rest is completed: half of a change would help no one."""
ADOPT_AFTER_S, ADOPT_AGAIN_S = 2.0, 5.0
"""When, after the first subscription, running containers are watched too; most were inspected by then anyway."""
ADOPTION_LIMIT_S = 300.0
CLOSE_PATIENCE_S = 2.0


class CriRuntime:
    """A container runtime over CRI v1. Pods outlive it; a later one on the same socket adopts them.

    `endpoint` and `image_endpoint` are as users write them (``unix:///path``); without the second, images are kept by
    the runtime itself. `request_timeout_s` is what each CRI call may take from when it is begun: RunPodSandbox twice that,
    a stop and a command beside their own time, a pull as long as it likes. `heavy_at_once` bounds RunPodSandbox,
    CreateContainer and StartContainer together. Connections and the one thread begin with the first use;
    `on_bug` hears of callbacks on it that raise. Raises RejectedError for an endpoint that is none.
    """

    name = "runtime"

    def __init__(
        self,
        *,
        endpoint: str,
        image_endpoint: str = "",
        request_timeout_s: float = 120.0,
        heavy_at_once: int = HEAVY_AT_ONCE,
        on_bug: OnBug = lambda _what, _error: None,
    ) -> None:
        runtime = parse_endpoint(endpoint, field="containerRuntimeEndpoint")
        images = parse_endpoint(image_endpoint, field="imageServiceEndpoint") if image_endpoint else runtime
        self._link = Channels(runtime, images, request_timeout_s)
        self.images = CriImages(self._link)
        self._loop = Loop("cri", self._end_watching, on_bug=on_bug)
        self.events = Hints(self._loop, self._listened_to)
        self._watch = ExitWatch(self._link, self._loop, self.events.now)
        self._known = Known(self._watch.add, self._watch.forget)
        self._watch.known = self._known
        self._view = PodLister(self._link, self._known, self._loop)
        self.streams = CriStreams(self._link, self._view)
        self._follower = EventFollower(self._link, self._loop, self.events.now, self.events.soon)
        limit = ConcurrencyLimit(self._loop.after, heavy_at_once)
        self._calls = Calls(self._link, self._known, self._view, limit, self._watch)
        self._stats = StatCalls(self._link, self._known, self._view)
        self._cgroup_driver: str | None = None
        self._heard = self._adopting = False
        self._closed = False

    def begin(self, call: msgspec.Struct, deadline_s: float, done: Done) -> Undo:
        """Start one call of `RuntimeCall`; the deadline is in seconds."""
        assert isinstance(call, Call)
        return start_call(
            self._steps(call),  # type: ignore[arg-type]
            deadline_s,
            done,
            what=call.brief(),
            cancellable=isinstance(call, CANCELLABLE),
        )

    def close(self) -> None:
        """Close all connections; pods continue to run. Calls in flight fail with Cancelled."""
        if self._closed:
            return
        self._closed = True
        self._follower.close()
        self._link.close()
        self._loop.stop(CLOSE_PATIENCE_S)
        self.events.end(
            Failure(kind=FailureKind.CANCELLED, message="the driver of the container runtime was closed")
        )

    def _end_watching(self) -> None:
        self._watch.close()

    def _steps(self, call: c.RuntimeCall) -> Steps[Any]:  # noqa: C901 one case per call
        match call:
            case c.RunSandbox():
                return self._calls.run_sandbox(call)
            case c.StopSandbox():
                return self._calls.stop_sandbox(call)
            case c.RemoveSandbox():
                return self._calls.remove_sandbox(call)
            case c.CreateContainer():
                return self._calls.create(call)
            case c.StartContainer():
                return self._calls.start(call)
            case c.StopContainer():
                return self._calls.stop(call)
            case c.UpdateContainer():
                return self._calls.update(call)
            case c.RemoveContainer():
                return self._calls.remove(call)
            case c.ListPods():
                return self._listing()
            case c.InspectPod():
                return self._view.pod(call.uid)
            case c.ExecInContainer():
                return self._calls.exec(call)
            case c.ReopenContainerLog():
                return self._calls.reopen_log(call)
            case u.ReadContainerStats():
                return self._stats.read()
            case c.RuntimeStatus():
                return self._status()
            case c.SetPodCidr():
                return self._calls.set_pod_cidr(call)
            case _:
                assert_never(call)

    def _status(self) -> Steps[c.RuntimeInfo]:
        """Version and Status, and once RuntimeConfig and ImageFsInfo."""
        asks: list[Ask] = [
            self._link.ask(cri.VERSION, pb.VersionRequest()),
            self._link.ask(cri.STATUS, pb.StatusRequest()),
        ]
        if self._cgroup_driver is None:
            asks.append(self._link.ask(cri.RUNTIME_CONFIG, pb.RuntimeConfigRequest()))
            asks.append(self._link.ask(cri.IMAGE_FS, pb.ImageFsInfoRequest()))
        answers: Sequence[Any] = yield Together(asks)
        version, status, *rest = answers
        if isinstance(version, OperatingError):
            raise self._view.explained(version)
        self._view.greet(version)
        if isinstance(status, OperatingError):
            raise status
        if rest:
            if isinstance(rest[1], OperatingError):
                raise rest[1]
            self._cgroup_driver = _cgroup_driver(rest[0])
        return shown.runtime_info(version, status, self._cgroup_driver or "")

    # -- exits

    def _listened_to(self) -> None:
        """Follow the runtime's events and watch running containers, now that there is a subscriber."""
        self._heard = True
        self._follower.start()
        self._adopt_in(ADOPT_AFTER_S)

    def _listing(self) -> Steps[c.PodListing]:
        listing = yield from self._view.listing()
        if not listing.complete and self._heard:
            self._adopt_in(ADOPT_AFTER_S)
        return listing

    def _adopt_in(self, seconds: float) -> None:
        if not self._adopting and not self._closed:
            self._adopting = True
            self._loop.after(seconds, self._adopt)

    def _adopt(self) -> None:
        def done(_: msgspec.Struct | None, failure: Failure | None) -> None:
            self._adopting = False
            if failure is not None:
                self._adopt_in(ADOPT_AGAIN_S)

        start_call(self._adoption(), ADOPTION_LIMIT_S, done, what="adoption", cancellable=False)

    def _adoption(self) -> Steps[c.PodListing]:
        """Inspect every pod of which something is not known yet, one after the other.

        Not part of a listing, which must not wait for a container whose runtime hangs.
        """
        listing = yield from self._view.listing()
        for pod in listing.pods:
            if not self._view.settled(pod):
                yield from self._view.pod(pod.uid)
                # Calls of starting pods are more urgent.
                yield Pause(self._loop, 0.01)
        return listing


def _cgroup_driver(answer: Any) -> str:
    """Return which cgroup driver the runtime says it uses, empty when it does not say."""
    if isinstance(answer, OperatingError):
        if answer.reason != UNIMPLEMENTED:
            raise answer
        return ""
    if not answer.HasField("linux"):
        return ""
    return shown.DRIVERS.get(answer.linux.cgroup_driver, "")
