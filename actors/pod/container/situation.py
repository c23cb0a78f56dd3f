"""What one decision about a pod uses: its state, the two clocks, and the answers that more than one step needs.

A situation is created once for each decision, and again after each transition of the pod's life. Each answer is computed
once, at its first use: nothing that it depends on changes.
"""

from collections.abc import Mapping
from functools import cached_property

from actors.pod.cgroup.resize import ResizeStep, resize_steps, restarts_among
from actors.pod.container.due import AnyContainer, must_start, next_attempt, start_order
from actors.pod.container.health import ready_names, started_names
from actors.pod.container.outgoing import containers_to_stop
from actors.pod.container.probe import ProbeFailure, probe_failures
from actors.pod.container.stop import ContainerStop
from actors.pod.container.wait import Wait, call_backoff_wait, crash_wait, image_wait
from actors.pod.container.want import want_of
from actors.pod.life.stage import crash_wait_s
from actors.pod.state import PodState
from actors.rules.container.instance import newest_of
from actors.rules.container.progress import Progress, active_id, progress
from actors.rules.container.sandbox import SandboxVerdict, judge
from api.ids import Instant, WallNs
from api.kube.objects.pod import Pod
from api.messages.images import ImageWant
from api.ports.runtime import RuntimeContainer as Instance
from api.ports.runtime import RuntimePod


class Situation:
    """One pod at one moment. Pure: the same state and clocks give the same answers."""

    def __init__(self, state: PodState, now: Instant, wall: WallNs) -> None:
        self.state = state
        self.now = now
        self.wall = wall

    @cached_property
    def effective(self) -> Pod | None:
        """The pod to run; None before the first update."""
        return self.state.effective

    @property
    def pod(self) -> Pod:
        """The pod to run, for steps after the wait for it."""
        assert self.effective is not None
        return self.effective

    @property
    def observed(self) -> RuntimePod:
        """What the runtime shows, for steps after the inspection."""
        assert self.state.observed is not None
        return self.state.observed

    @property
    def sandbox_id(self) -> str:
        """The id of the pod's newest sandbox, empty when it has none."""
        return active_id(self.state.observed)

    @cached_property
    def sandbox(self) -> SandboxVerdict:
        """Whether the pod needs a new sandbox."""
        return judge(self.observed, host_network=self.pod.spec.host_network)

    def newest(self, name: str) -> Instance | None:
        """Return the newest instance of a container."""
        return newest_of(self.state.observed, name)

    @cached_property
    def started(self) -> tuple[str, ...]:
        """The sidecars and regular containers that count as started."""
        return started_names(self.state)

    @cached_property
    def ready(self) -> tuple[str, ...]:
        """The sidecars and regular containers that count as ready."""
        return ready_names(self.state, self.started)

    @cached_property
    def progress(self) -> Progress:
        """How far the pod is in its newest sandbox."""
        pod, observed = self.effective, self.state.observed
        if pod is None or observed is None:
            return Progress()
        started = self.started if pod.spec.init_containers else ()
        return progress(pod.spec, observed, self.sandbox_id, started)

    @cached_property
    def containers_to_start(self) -> tuple[AnyContainer, ...]:
        """The containers to start unless something delays them, in start order."""
        pod = self.effective
        if pod is None:
            return ()
        spec = pod.spec
        return tuple(one for one in start_order(spec) if must_start(self.state, spec, one, self.progress))

    @cached_property
    def next_attempts(self) -> Mapping[str, int]:
        """The number of the next instance, for each container to start."""
        return {
            one.name: next_attempt(self.state, one.name, self.newest(one.name))
            for one in self.containers_to_start
        }

    @cached_property
    def crash_waits_s(self) -> Mapping[str, float]:
        """What is left of the crash-loop back-off in seconds, for each container to start."""
        return {
            one.name: crash_wait_s(
                self.state, one, self.newest(one.name), self.wall, self.next_attempts[one.name]
            )
            for one in self.containers_to_start
        }

    @cached_property
    def wants(self) -> Mapping[str, ImageWant | None]:
        """The image that is needed now, or None, for each container to start."""
        return {
            one.name: want_of(
                self.state,
                one,
                self.newest(one.name),
                self.next_attempts[one.name],
                backs_off=self.crash_waits_s[one.name] > 0,
            )
            for one in self.containers_to_start
        }

    @cached_property
    def waits(self) -> tuple[Wait, ...]:
        """The containers to start that wait: in back-off after failed calls, in crash-loop back-off, for an image."""
        found = (
            call_backoff_wait(self.state, one.name, self.now)
            or crash_wait(
                self.state,
                self.pod,
                one,
                self.newest(one.name),
                self.next_attempts[one.name],
                self.crash_waits_s[one.name],
                self.now,
                self.wall,
            )
            or image_wait(self.state, self.wants[one.name], self.now)
            for one in self.containers_to_start
        )
        return tuple(wait for wait in found if wait is not None)

    @cached_property
    def resize_steps(self) -> tuple[ResizeStep, ...]:
        """The resource changes that running containers still need."""
        return resize_steps(self.state)

    @cached_property
    def probe_failures(self) -> tuple[ProbeFailure, ...]:
        """The containers to stop because a probe failed."""
        return tuple(probe_failures(self.state))

    @cached_property
    def resize_restarts(self) -> tuple[Instance, ...]:
        """The instances to restart for a resize that is not possible in place."""
        pod = self.state.desired
        return () if pod is None else restarts_among(self.state, pod, self.resize_steps, self.now)

    @cached_property
    def restarts(self) -> tuple[Instance, ...]:
        """The running instances to stop and restart."""
        if self.state.desired is None or self.state.killed is not None:
            return ()
        return (*(one.instance for one in self.probe_failures if one.renews), *self.resize_restarts)

    @cached_property
    def containers_to_stop(self) -> tuple[ContainerStop, ...]:
        """The running containers to stop while the pod runs on."""
        return containers_to_stop(self.state, self.pod, self.probe_failures, self.resize_restarts)
