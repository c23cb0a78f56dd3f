"""The kubelet as judge: the same pods through a real kubelet and through our agent, one after the other, compared field by field.

What may differ is named here with the reason, and for users in docs/differences.md.
"""

import contextlib

import pytest

from tests.harness.agent.agent import NODE
from tests.harness.cluster.clusteradmin import ClusterAdmin
from tests.harness.cluster.comparison import event_lines, pod_differences
from tests.harness.cluster.controlplane import ControlPlane, assets
from tests.harness.cluster.kubelet import Kubelet
from tests.harness.cluster.member import EVENTS, NODE_PATH, PODS, ContainerdMember
from tests.harness.cluster.samplepods import samples
from tests.harness.wait import until

pytestmark = [pytest.mark.real, pytest.mark.optional, pytest.mark.timeout(600)]

SETTLES_S = 120.0
MAY_DIFFER = {
    ".restartCount": "how far a crash loop is when it is looked at is chance",
    "[main].state.terminated.startedAt": "a container that never started has no start; a kubelet says 1970",
    "[main].state.waiting.message": "why a volume cannot be mounted stands in the status too, not only in an event",
}
"""Ends of paths of fields, and why the two differ there."""
OURS = ("Exited ", "MissingClusterDNS ")
"""Events of ours that a kubelet has not, or in other words: the exit code of a container, and what to do about a missing clusterDNS."""
THEIRS = ("MissingClusterDNS ",)
CRASHING = "CrashLoopBackOff"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory, request):
    """Return pods and events of both, the kubelet's first."""
    programs = assets("kubelet")
    folder = tmp_path_factory.mktemp("judge")
    containerd = request.getfixturevalue("containerd")
    found = []
    for name in ("kubelet", "agent"):
        with contextlib.ExitStack() as ends:
            plane = ControlPlane(folder / f"plane-{name}", programs)
            ends.callback(plane.clean_up)
            plane.start()
            admin = ends.enter_context(contextlib.closing(ClusterAdmin(plane.admin_kubeconfig)))
            admin.make_namespace("default")
            if name == "kubelet":
                agent = Kubelet(folder / name, containerd, plane)
            else:
                settings = {"cgroupsPerQOS": False, "enforceNodeAllocatable": []}
                agent = ContainerdMember(folder / name, containerd, **settings)
                agent.join(plane.node_kubeconfig(NODE), admin)
            ends.callback(agent.clean_up)
            agent.start()
            found.append(outcome_of(admin))
    return found


def outcome_of(admin):
    """Return what became of all samples on the node that there is: pods by name, and events."""
    until(lambda: is_ready(admin), "the node is Ready", 60.0)
    wanted = {one.name: one for one in samples()}
    for one in wanted.values():
        admin.create(PODS, one.body())

    left = dict(wanted)

    def are_settled():
        # A crash loop is in its back-off at times only.
        pods = {pod["metadata"]["name"]: pod for pod in admin.read(PODS)["items"]}
        for name in [name for name, one in left.items() if one.is_settled(pods[name])]:
            del left[name]
        return not left

    until(are_settled, "all pods are settled", SETTLES_S, lambda: str([*left]), every_s=0.3)
    names = {name for name, one in wanted.items() if one.state == "Succeeded"}
    until(
        lambda: names <= {one["involvedObject"]["name"] for one in admin.read(EVENTS)["items"]},
        "events",
        20.0,
    )
    pods = {pod["metadata"]["name"]: pod for pod in admin.read(PODS)["items"]}
    return pods, settled_events(admin)


def settled_events(admin):
    """Return the events when no new one came for a while: a writer sends them one after the other."""
    seen = [-1]

    def is_quiet():
        count = len(admin.read(EVENTS)["items"])
        was, seen[0] = seen[0], count
        return count == was

    until(is_quiet, "no new event comes", 60.0, every_s=4.0)
    return admin.read(EVENTS)["items"]


def is_ready(admin):
    node = admin.read(NODE_PATH) or {}
    found = node.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in found)


CASES = [one.name for one in samples()]


def test_there_are_sixty_pods():
    assert len(set(CASES)) >= 60


@pytest.mark.parametrize("name", CASES)
def test_a_pod_is_shown_as_by_a_kubelet(outcomes, name):
    (their_pods, their_events), (our_pods, our_events) = outcomes
    ours, theirs = our_pods[name], their_pods[name]
    state = next(one.state for one in samples() if one.name == name)
    found = [
        one
        for one in pod_differences(ours, theirs)
        if not any(one[0].endswith(path) for path in MAY_DIFFER)
        # A crash loop runs, waits or has ended at any moment.
        and not (state == CRASHING and ("Statuses[" in one[0] or "conditions[" in one[0]))
    ]
    assert found == []
    our_lines, their_lines = event_lines(our_events, name), event_lines(their_events, name)
    more = [one for one in our_lines - their_lines if not one.partition(" ")[2].startswith(OURS)]
    less = [one for one in their_lines - our_lines if not one.partition(" ")[2].startswith(THEIRS)]
    assert (sorted(more), sorted(less)) == ([], [])
