"""What the views ask of the runtime for people: the calls, and why some are not made."""

import pytest

from actors.pod.state import PodState
from actors.view import PODS, View
from api.containers import OpenExec, StreamUrl
from api.errors import NotFoundError, RejectedError
from api.ids import Path
from tests.unit.actors.pods import UID, WALL, box, instance, shown, wanted


class OnePod:
    """The actor system of a node with one pod."""

    def __init__(self, *containers):
        pod = wanted(*(container.name for container in containers))
        observed = shown(box(), *containers)
        self.state = PodState(uid=UID, desired=pod, observed=observed, log_root="/logs")

    def committed_children(self, path):
        return ((Path(f"{PODS}/{UID}"), self.state),) if path == PODS else ()

    def committed(self, path):
        return None


def view_of(*containers):
    """Return a view, and the calls that it makes."""
    calls = []

    def perform(call, deadline_s):
        calls.append(call)
        return StreamUrl(url="http://127.0.0.1:1/token")

    return View(OnePod(*containers), lambda: 0.0, lambda: WALL, perform), calls


def open_exec(view, pod="web", container=""):
    return view.open_exec(pod, container, ("sh", "-l"), tty=True, stdin=True, stdout=True, stderr=False)


def test_a_command_with_streams_is_opened_in_the_instance_that_runs():
    view, calls = view_of(
        instance("a", attempt=1), instance("a", "exited", attempt=0), instance("b", attempt=4)
    )
    assert open_exec(view, "default/web", "a") == "http://127.0.0.1:1/token"
    assert calls == [
        OpenExec(
            uid=UID,
            container_id="tiny://a1",
            command=("sh", "-l"),
            tty=True,
            stdin=True,
            stdout=True,
            stderr=False,
        )
    ]


def test_a_container_that_does_not_run_is_not_asked_for_streams():
    view, calls = view_of(instance("a", "exited"))
    with pytest.raises(RejectedError, match='container "a" is not running'):
        open_exec(view)
    with pytest.raises(RejectedError, match='no container "z"'):
        open_exec(view, container="z")
    with pytest.raises(NotFoundError, match='no pod "db"'):
        open_exec(view, "db")
    assert calls == []
