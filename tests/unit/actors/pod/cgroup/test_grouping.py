"""A pod's own cgroup: made in time, told of, resized with its containers, found again when nobody knows where it is."""

import msgspec
import pytest
from msgspec.structs import replace

from actors.pod.explain import explain
from actors.pod.spec.cgroup import cgroup_parent, pod_limits
from api import paths
from api.errors import FailureKind
from api.kube.objects.container import Container, ResourceRequirements
from api.kube.objects.pod import Pod
from api.messages.cgroups import PodCpuAsked
from api.messages.kernel import Restarted
from api.messages.pod import ClearPod, KillCause
from api.ports.cgroups import UNLIMITED, EnsurePodCgroup, PodCgroupMade, RemovePodCgroup
from api.ports.node import CgroupDriver, NodeFacts
from api.ports.podfiles import MakePodFolders, RemovePodFolders
from api.ports.runtime import RunSandbox, UpdateContainer
from tests.unit.actors.pods import IMAGE, box, from_fields, wanted
from tests.unit.actors.tiny import FACTS, Hand

MI, GI = 1 << 20, 1 << 30
NODE = NodeFacts(confined=True, pod_cgroups=True, cgroup_version=2, huge_page_sizes=(2 * MI,))
PATH = "/kubepods/burstable/podu1"


def pod_of(*resources, inits=(), **spec):
    containers = ({"name": f"c{n}", "resources": one} for n, one in enumerate(resources))
    first = [{"name": f"i{n}", "image": "x", "resources": one} for n, one in enumerate(inits)]
    return from_fields(*containers, initContainers=first, **spec)


def limits(cpu, memory, **more):
    return {"limits": {"cpu": cpu, "memory": memory}, **more}


SURE, HALF = limits("1", "1Gi"), {"requests": {"cpu": "500m"}, "limits": {"memory": "64Mi"}}


@pytest.mark.parametrize(
    ("pod", "shares", "quota", "memory"),
    [
        (pod_of({}), 2, UNLIMITED, UNLIMITED),
        (pod_of(SURE), 1024, 100_000, GI),
        (pod_of(SURE, SURE), 2048, 200_000, 2 * GI),
        # A limit counts where every container has one, init containers too.
        (pod_of(HALF), 512, UNLIMITED, 64 * MI),
        (pod_of(HALF, {}), 512, UNLIMITED, UNLIMITED),
        (pod_of(SURE, HALF), 1536, UNLIMITED, GI + 64 * MI),
        (pod_of(SURE, inits=[{}]), 1024, UNLIMITED, UNLIMITED),
        (pod_of(SURE, inits=[limits("2", "1Mi")]), 2048, 200_000, GI),
        # The pod as a whole wins, and then no container needs a limit of its own.
        (pod_of({}, resources=limits("2", "2Gi")), 2048, 200_000, 2 * GI),
        # The overhead is added to what is limited, and to what is requested anyway.
        (pod_of(SURE, overhead={"cpu": "500m", "memory": "1Mi"}), 1536, 150_000, GI + MI),
        (pod_of({}, overhead={"cpu": "500m", "memory": "1Mi"}), 2, UNLIMITED, UNLIMITED),
    ],
)  # fmt: skip
def test_what_a_pod_as_a_whole_may_use(pod, shares, quota, memory):
    given = pod_limits(pod, NODE)
    assert (given.cpu_shares, given.cpu_quota_us, given.memory_bytes) == (shares, quota, memory)


def test_processes_huge_pages_and_the_quota_are_as_the_node_is_configured():
    pages = pod_of({"limits": {"cpu": "15m", "memory": "1Mi", "hugepages-2Mi": "4Mi"}})
    node = msgspec.structs.replace(NODE, pod_pids_limit=100, cpu_cfs_quota=False)
    given = pod_limits(pages, node)
    assert (given.pids, given.hugepages, given.cpu_quota_us) == (100, (("2MB", 4 * MI),), UNLIMITED)
    assert pod_limits(pod_of({}), NODE).pids == UNLIMITED
    assert pod_limits(pod_of({}), NODE).hugepages == (("2MB", 0),)
    assert pod_limits(pages, NODE).cpu_quota_us == 1500
    # systemd rounds up; a container must not be given more than its slice.
    slices = msgspec.structs.replace(NODE, cgroup_driver=CgroupDriver.SYSTEMD)
    assert pod_limits(pages, slices).cpu_quota_us == 2000


def burstable(cpu="100m", memory="64Mi", limit=None):
    asked = ResourceRequirements(
        requests={"cpu": cpu, "memory": memory}, limits={"memory": limit} if limit else {}
    )
    return Container(name="a", image=IMAGE, resources=asked)


def ensured(hand):
    return [call for call in hand.started if isinstance(call, EnsurePodCgroup)]


def test_a_pod_gets_its_cgroup_after_its_folder_which_names_it_to_the_next_life_of_the_agent():
    hand = Hand(node=FACTS)
    hand.update(wanted(burstable())), hand.settle_until(RunSandbox)
    stage = [type(call) for call in hand.started]
    assert stage.index(MakePodFolders) < stage.index(EnsurePodCgroup) < stage.index(RunSandbox)
    assert [call.spec.cgroup_parent for call in hand.started if isinstance(call, RunSandbox)] == [PATH]


def test_a_cgroup_is_called_as_the_supervisor_says_not_as_was_assumed_when_the_actor_was_made():
    hand = Hand(node=msgspec.structs.replace(FACTS, cgroup_driver=CgroupDriver.SYSTEMD))
    assert not ensured(hand)
    hand.update(wanted(burstable()), node=FACTS)
    hand.settle()
    assert [call.cgroup_parent for call in ensured(hand)] == [PATH]
    assert hand.state.remembered.cgroup_parent == PATH


def test_a_pod_waits_for_its_cgroup_and_says_so():
    hand = Hand(node=FACTS)
    hand.update(wanted(burstable())), hand.settle_until(EnsurePodCgroup)
    hand.fail(EnsurePodCgroup, FailureKind.UNAVAILABLE), hand.settle()
    assert not any(isinstance(call, RunSandbox) for call in hand.started)
    (event,) = [event for event in hand.state.events if event.reason == "FailedCreatePodContainer"]
    assert event.message.startswith("unable to ensure pod container exists: ")
    said = explain(hand.state, hand.now, hand.wall)
    assert said.waits_for.startswith("retrying (1 failure): ")
    hand.ring(), hand.settle()
    assert hand.status.phase == "Running"


def test_a_limit_that_the_kernel_does_not_take_is_told_and_holds_up_nothing():
    hand = Hand(node=FACTS)
    hand.world.made = PodCgroupMade(unapplied=("/x/pids.max: could not be set to 1: Invalid argument",))
    hand.update(wanted(burstable())), hand.settle()
    assert hand.status.phase == "Running"
    assert [e.message for e in hand.state.events if e.reason == "FailedPodCgroupLimit"] == list(
        hand.world.made.unapplied
    )


def test_a_pod_grows_before_its_containers_and_shrinks_after_them():
    hand = Hand(node=FACTS)
    hand.update(wanted(burstable(limit="64Mi"))), hand.settle()
    for generation, amount, order in (
        (2, "128Mi", [(EnsurePodCgroup, 128 * MI), (UpdateContainer, 128 * MI)]),
        (3, "32Mi", [(UpdateContainer, 32 * MI), (EnsurePodCgroup, 32 * MI)]),
    ):
        hand.started.clear()
        hand.update(wanted(burstable(memory="16Mi", limit=amount)), generation=generation), hand.settle()
        steps = [
            (
                type(call),
                call.limits.memory_bytes
                if isinstance(call, EnsurePodCgroup)
                else call.resources.memory_limit_bytes,
            )
            for call in hand.started
            if isinstance(call, EnsurePodCgroup | UpdateContainer)
        ]
        assert steps == order


def test_a_pod_of_which_nobody_knows_where_it_was_is_looked_for_in_every_class():
    hand = Hand(node=FACTS)
    hand.kill(cause=KillCause.ORPHAN, deleted=True), hand.settle()
    removed = [call.cgroup_parent for call in hand.started if isinstance(call, RemovePodCgroup)]
    assert removed == [
        "/kubepods/podu1",
        "/kubepods/burstable/podu1",
        "/kubepods/besteffort/podu1",
        "/kubepods.slice/kubepods-podu1.slice",
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu1.slice",
        "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podu1.slice",
    ]


def ended_pod():
    """Return a pod with a cgroup of its own that was evicted."""
    hand = Hand(node=FACTS)
    hand.update(wanted(burstable(), source="api")), hand.settle()
    hand.kill(deleted=False, evict=True, cause=KillCause.EVICTED, reason="Evicted"), hand.settle()
    hand.started.clear()
    return hand


def removed_of(hand):
    return [type(call) for call in hand.started if isinstance(call, RemovePodCgroup | RemovePodFolders)]


def test_the_cgroup_of_a_pod_that_has_ended_goes_before_the_folders_that_tell_of_it():
    hand = ended_pod()
    assert removed_of(hand) == []
    hand.give(ClearPod(uid=hand.state.uid)), hand.settle()
    assert removed_of(hand) == [RemovePodCgroup, RemovePodFolders]
    hand.kill(), hand.settle()
    assert removed_of(hand) == [RemovePodCgroup, RemovePodFolders], "once is enough"


def test_what_comes_back_after_the_end_brings_its_cgroup_with_it():
    hand = ended_pod()
    hand.give(ClearPod(uid=hand.state.uid)), hand.settle()
    hand.world.view = replace(hand.world.view, sandboxes=(box(1),))
    hand.wait(1), hand.observe(), hand.settle()
    assert hand.world.view.sandboxes == ()
    assert removed_of(hand) == [RemovePodCgroup, RemovePodFolders, RemovePodCgroup]


def told(hand):
    return [
        message.milli for to, message in hand.told if to == paths.CGROUPS and isinstance(message, PodCpuAsked)
    ]


def test_what_a_burstable_pod_requests_is_told_while_anything_of_it_may_run():
    hand = Hand(node=FACTS)
    hand.update(wanted(burstable("300m"))), hand.settle()
    assert set(told(hand)) == {300}
    before = len(told(hand))
    hand.give(Restarted(path=paths.CGROUPS, incarnation=2, cause="crash"))
    assert len(told(hand)) == before + 1
    hand.kill(deleted=True), hand.settle()
    assert told(hand)[-1] == 0


def test_pods_of_other_classes_tell_nothing():
    hand = Hand(node=FACTS)
    hand.update(wanted()), hand.settle()
    assert told(hand) == []


def test_the_class_that_was_recorded_decides_where_a_pod_is():
    hand = Hand(node=FACTS)
    hand.update(wanted()), hand.settle()
    hand.started.clear()
    hand.update(wanted(burstable()), generation=2), hand.settle()
    assert {call.cgroup_parent for call in ensured(hand)} == {"/kubepods/besteffort/podu1"}
    assert cgroup_parent(hand.state.desired, hand.state.node) == PATH


def test_limits_that_are_the_same_are_not_asked_for_again():
    hand = Hand(node=FACTS)
    hand.update(wanted(burstable())), hand.settle()
    hand.started.clear()
    again = msgspec.convert(msgspec.to_builtins(wanted(burstable())), Pod)
    hand.update(again, generation=2), hand.settle()
    assert ensured(hand) == []


def test_where_cgroups_may_not_be_written_no_pod_complains():
    made = PodCgroupMade(refused=("cgroup /x cannot be made: Read-only file system",))
    hand = Hand(node=FACTS)
    hand.world.made = made
    hand.update(wanted(burstable())), hand.settle()
    assert hand.status.phase == "Running"
    assert not [event for event in hand.state.events if "cgroup" in event.message.lower()]


def test_a_limit_that_the_kernel_did_not_take_is_tried_again_until_it_does():
    hand = Hand(node=FACTS)
    text = "/x/memory.limit_in_bytes: could not be set to 1: Device or resource busy"
    hand.world.made = PodCgroupMade(unapplied=(text,))
    hand.update(wanted("a")), hand.settle()
    assert hand.status.phase == "Running", "nothing waits for it"
    said = explain(hand.state, hand.now, hand.wall)
    assert said.problems == (f"some limits of its cgroup are not set: {text}",)
    (step,) = said.next
    assert (step.what, 0 < step.in_s <= 10) == ("retry EnsurePodCgroup", True)
    for most in (10, 20):
        assert most - 1 < hand.wake_at - hand.now <= most + 0.1
        asked = hand.ring()
        assert [type(call) for call in asked] == [EnsurePodCgroup]
        hand.settle()
    hand.world.made = PodCgroupMade()
    hand.ring(), hand.settle()
    said = explain(hand.state, hand.now, hand.wall)
    assert (said.problems, said.next, hand.state.call_backoff("(limits)")) == ((), (), None)
    (event,) = (event for event in hand.state.events if event.reason == "FailedPodCgroupLimit")
    assert event.count == 3
