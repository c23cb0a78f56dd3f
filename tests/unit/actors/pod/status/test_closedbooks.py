"""The final statuses of a pod that is over."""

from actors.pod.status.compose import final_status
from api.kube.objects.podstatus import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
)

WAITING = ContainerState(waiting=ContainerStateWaiting(reason="PodInitializing"))


def test_the_end_of_the_last_instance_that_ran_counts_with_its_id():
    ended = ContainerState(terminated=ContainerStateTerminated(container_id="memory://1", exit_code=0))
    made = ContainerStatus(
        name="i", container_id="memory://2", restart_count=1, state=WAITING, last_state=ended
    )
    closed = final_status(made)
    assert (closed.state, closed.container_id, closed.restart_count) == (ended, "memory://1", 1)


def test_an_end_that_nobody_saw_is_told_as_such():
    closed = final_status(ContainerStatus(name="a", container_id="memory://1", state=WAITING))
    assert closed.state.terminated is not None
    assert (closed.state.terminated.reason, closed.container_id) == ("ContainerStatusUnknown", "memory://1")
