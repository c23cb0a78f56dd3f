"""A pod's situation with the next stage and the status to publish.

The status is a projection: it is composed once, after the stage was chosen, and no stage depends on it.
"""

from functools import cached_property

from msgspec.structs import replace

from actors.pod.cgroup.resize import resize_conditions
from actors.pod.container.situation import Situation
from actors.pod.life.refusal import has_containers, is_rejected, rejected_status
from actors.pod.life.stage import Stage
from actors.pod.plan import next_stage
from actors.pod.state import Finished, Gone, Kill, Recalling, Terminated
from actors.pod.status.compose import Facts, compose
from actors.pod.status.ephemeral import with_ephemeral
from api.kube.objects.pod import Pod
from api.kube.objects.podstatus import PodStatus
from api.messages.pod import KillCause

PREEMPTED = "Pod was preempted by Kubelet to accommodate a critical pod."


class Planned(Situation):
    """One pod at one moment, with its next stage and status."""

    @cached_property
    def stage(self) -> Stage:
        """The next stage, as if no call were in flight."""
        return next_stage(self)

    @cached_property
    def status(self) -> PodStatus:
        """The status to publish; before the recall, and without a spec, the one that was published last."""
        state, pod = self.state, self.effective
        if pod is None or isinstance(state.life, Recalling):
            return state.base
        if is_rejected(state) and not has_containers(state):
            return rejected_status(state, pod, self.wall, over=self.is_over)
        facts = self._facts(pod)
        return with_ephemeral(compose(facts, self.wall), facts)

    @property
    def is_over(self) -> bool:
        """Every container is proven stopped for good."""
        return isinstance(self.state.life, Terminated | Finished | Gone)

    def _facts(self, pod: Pod) -> Facts:
        state, kill, node_ip = self.state, self.state.killed, self.state.settings.node_ip
        stage, waiting = Stage(), dict[str, tuple[str, str]]()
        if kill is None:
            stage = self.stage
            waiting = {name: (reason, message) for name, reason, message in stage.waiting}
            waiting |= {wait.container: (wait.reason, wait.message) for wait in self.waits if wait.reason}
        return Facts(
            pod=pod,
            observed=state.observed,
            base=state.base,
            waiting=tuple((name, reason, message) for name, (reason, message) in waiting.items()),
            terminal=self.is_over,
            terminating=kill is not None,
            reason=kill.reason if kill and self.is_over else stage.pod_reason,
            message=kill.message if kill and self.is_over else stage.pod_message,
            failed=bool(kill and kill.reason),
            completed=kill is not None and kill.cause is KillCause.COMPLETED,
            restarting=state.memo.restarting,
            disruption=disruption_of(kill),
            resizes=resize_conditions(state, self.resize_steps),
            messages={key: one.termination_message for key, one in state.instances.items()},
            refused=state.wanted.refusal is not None,
            started=self.started,
            ready=self.ready,
            node=replace(state.node, ips=state.node.ips or ((node_ip,) if node_ip else ())),
        )


def disruption_of(kill: Kill | None) -> str | None:
    """Return the message of the condition DisruptionTarget, None for a pod without it."""
    if kill is None or not kill.disruption:
        return None
    return PREEMPTED if kill.cause is KillCause.PREEMPTED else kill.message
