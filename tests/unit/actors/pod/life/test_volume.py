"""A pod's volumes, call by call: before the sandbox, again after failures, gone after the end, never from under a container."""

import pytest

from actors.pod.explain import explain
from actors.pod.spec.volume import memory_size, volume_plans
from actors.pod.state import Finished, Gone, Terminated
from api.errors import FailureKind
from api.kube.objects.container import Container, ResourceRequirements, VolumeMount
from api.kube.objects.pod import Pod, PodSpec
from api.kube.objects.volume import EmptyDirVolumeSource, HostPathVolumeSource, Volume
from api.ports.node import NodeFacts
from api.ports.podfiles import MakePodFolders, RemovePodFolders
from api.ports.runtime import CreateContainer, RunSandbox, StopContainer
from api.ports.volumes import EmptyDir, HostPath, Medium, PrepareSubPath, PrepareVolume, RemoveVolumes
from tests.unit.actors.pods import IMAGE, shown, wanted
from tests.unit.actors.tiny import FACTS, Hand, TinyWorld, running_pod

GIB = 1 << 30
DISK = Volume(name="disk", empty_dir=EmptyDirVolumeSource())
NODE = Volume(name="node", host_path=HostPathVolumeSource(path="/srv", type="Directory"))


def mount(volume, path, **more):
    return VolumeMount(name=volume, mount_path=path, **more)


def asking(*mounts, name="a"):
    return Container(name=name, image=IMAGE, volume_mounts=mounts)


def pod(*mounts, volumes=(DISK, NODE), **more):
    return wanted(asking(*(mounts or (mount("disk", "/d"), mount("node", "/n")))), volumes=volumes, **more)


def hand_on(what, **more):
    hand = Hand(node=FACTS, **more)
    hand.update(what)
    return hand


def kinds(calls, *wanted_kinds):
    return [type(c) for c in calls if isinstance(c, wanted_kinds)]


def test_volumes_come_after_the_folders_and_before_the_sandbox_side_by_side():
    hand = hand_on(pod()).settle_until(PrepareVolume)
    assert len(hand.open) == 2
    hand.settle()
    assert kinds(hand.started, MakePodFolders, PrepareVolume, RunSandbox, CreateContainer) == [
        MakePodFolders,
        PrepareVolume,
        PrepareVolume,
        RunSandbox,
        CreateContainer,
    ]
    (create,) = (c for c in hand.started if isinstance(c, CreateContainer))
    assert [(m.container_path, m.host_path) for m in create.spec.mounts[:2]] == [
        ("/d", "/volumes/disk"),
        ("/n", "/volumes/node"),
    ]


def test_a_pod_without_volumes_makes_the_same_calls_as_ever():
    hand = running_pod(wanted(), node=FACTS)
    hand.kill(), hand.settle()
    assert isinstance(hand.state.life, Gone)
    assert not kinds(hand.started, PrepareVolume, RemoveVolumes)


def test_one_volume_that_fails_keeps_the_sandbox_waiting_and_is_told_as_a_kubelet_tells_it():
    hand = hand_on(pod()).settle_until(PrepareVolume)
    bad = next(op for op, (start, _) in hand.open.items() if start.call.volume == "node")
    hand.end(bad, FailureKind.REJECTED, happens=False), hand.settle()
    assert not kinds(hand.started, RunSandbox)
    (event,) = (e for e in hand.state.events if e.reason == "FailedMount")
    assert (event.type, event.message) == (
        "Warning",
        'MountVolume.SetUp failed for volume "node" : it broke',
    )
    waiting = hand.status.container_statuses[0].state.waiting
    assert waiting.reason == "ContainerCreating"
    assert "it broke" in explain(hand.state, hand.now, hand.wall).waits_for
    hand.ring()
    assert [start.call.volume for start, _ in hand.open.values()] == ["node"], (
        "the other one is not made again"
    )
    hand.settle()
    assert hand.status.phase == "Running"


def test_tries_of_a_volume_are_half_a_second_apart_then_twice_as_far():
    hand = hand_on(pod(mount("node", "/n"))).settle_until(PrepareVolume)
    waits = []
    for _ in range(11):
        hand.fail(PrepareVolume, FailureKind.REJECTED)
        waits.append(round(hand.wake_at - hand.now, 3))
        hand.ring()
    assert waits == [0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122, 122]


def test_volumes_that_fail_in_one_stage_are_one_failure():
    hand = hand_on(pod()).settle_until(PrepareVolume)
    hand.fail(PrepareVolume), hand.fail(PrepareVolume)
    assert hand.state.call_backoff("").retry.failures == 1


def test_a_volume_that_hangs_is_explained_and_a_kill_waits_for_it_and_removes_it():
    hand = hand_on(pod()).settle_until(PrepareVolume)
    assert "PrepareVolume" in explain(hand.state, hand.now, hand.wall).waits_for
    hand.kill()
    assert len(hand.open) == 2
    hand.settle()
    assert isinstance(hand.state.life, Gone)
    assert hand.world.volumes == set()
    assert not kinds(hand.started, RunSandbox)


def test_volumes_are_removed_after_all_containers_stopped_and_before_the_folders():
    hand = running_pod(pod(), node=FACTS)
    assert hand.world.volumes == {"disk", "node"}
    hand.kill(), hand.settle()
    ends = kinds(hand.started, StopContainer, RemoveVolumes, RemovePodFolders)
    assert ends == [StopContainer, RemoveVolumes, RemovePodFolders]


def test_a_pod_that_ran_to_its_end_is_finished_only_when_its_volumes_are_gone():
    hand = running_pod(pod(policy="Never"), node=FACTS)
    hand.world.exit("a", 0, hand.wall)
    hand.wait(1), hand.observe(), hand.settle_until(RemoveVolumes)
    assert isinstance(hand.state.life, Terminated)
    assert hand.status.phase == "Succeeded"
    hand.fail(RemoveVolumes, FailureKind.CONFLICT)
    assert isinstance(hand.state.life, Terminated)
    assert "it broke" in explain(hand.state, hand.now, hand.wall).waits_for
    hand.ring(), hand.settle()
    assert isinstance(hand.state.life, Finished)
    assert hand.world.volumes == set()


@pytest.mark.parametrize("kind", [PrepareVolume, RunSandbox, RemoveVolumes, RemovePodFolders])
def test_an_agent_that_dies_at_any_step_leaves_no_volume(kind):
    hand = hand_on(pod())
    if kind not in (PrepareVolume, RunSandbox):
        hand.settle(), hand.kill()
    hand.settle_until(kind)
    for op in list(hand.open):
        start, _ = hand.open[op]
        hand.world.apply(start.call, hand.wall)
    after = Hand(hand.world, now=hand.now + 1, node=FACTS)
    after.kill(), after.settle()
    assert isinstance(after.state.life, Gone)
    assert after.world.volumes == set()


def test_an_orphan_whose_spec_nobody_knows_is_looked_at_for_volumes():
    hand = Hand(TinyWorld(shown()), node=FACTS)
    hand.kill(), hand.settle()
    assert kinds(hand.started, RemoveVolumes, RemovePodFolders) == [RemoveVolumes, RemovePodFolders]


def test_folders_that_cannot_be_removed_have_perhaps_a_volume_that_nobody_remembers():
    hand = running_pod(wanted(), node=FACTS)
    hand.kill(), hand.settle_until(RemovePodFolders)
    hand.fail(RemovePodFolders, FailureKind.CONFLICT)
    hand.ring(), hand.settle()
    assert kinds(hand.started, RemoveVolumes, RemovePodFolders) == [
        RemovePodFolders,
        RemoveVolumes,
        RemovePodFolders,
    ]
    assert isinstance(hand.state.life, Gone)


def test_a_part_is_bound_for_each_instance_anew():
    hand = running_pod(pod(mount("disk", "/d", sub_path="x"), mount("disk", "/e")), node=FACTS)
    hand.world.exit("a", 1, hand.wall)
    hand.wait(1), hand.observe(), hand.settle()
    calls = [c for c in hand.started if isinstance(c, PrepareSubPath | CreateContainer)]
    assert [type(c) for c in calls] == [PrepareSubPath, CreateContainer] * 2
    assert [c.attempt for c in calls if isinstance(c, PrepareSubPath)] == [0, 1]
    assert [m.host_path for m in calls[-1].spec.mounts[:2]] == ["/bound/0", "/volumes/disk"]


def test_a_part_that_cannot_be_bound_holds_its_container_only_and_tells_no_path():
    two = wanted(
        asking(mount("disk", "/d", sub_path="x")), asking(mount("disk", "/d"), name="b"), volumes=(DISK,)
    )
    hand = hand_on(two).settle_until(PrepareSubPath)
    hand.fail(PrepareSubPath, FailureKind.CONFLICT), hand.settle()
    first, second = hand.status.container_statuses
    assert (first.state.waiting.reason, first.state.waiting.message) == (
        "CreateContainerConfigError",
        'failed to prepare subPath for volumeMount "disk" of container "a"',
    )
    assert second.state.running
    assert any("it broke" in t.result for t in hand.state.calls.tried), "the operator may know"
    hand.ring(), hand.settle()
    assert hand.status.container_statuses[0].state.running


def test_a_container_that_could_not_be_made_has_its_parts_looked_at_again():
    hand = hand_on(pod(mount("disk", "/d", sub_path="x"))).settle_until(CreateContainer)
    hand.fail(CreateContainer), hand.settle(), hand.ring(), hand.settle()
    assert kinds(hand.started, PrepareSubPath, CreateContainer) == [PrepareSubPath, CreateContainer] * 2


@pytest.mark.parametrize(
    ("limit", "containers", "node", "expected"),
    [
        ("", (None,), 8 * GIB, 8 * GIB),
        ("0", (None,), 8 * GIB, 8 * GIB),
        ("1Gi", (None,), 8 * GIB, GIB),
        ("16Gi", (None,), 8 * GIB, 8 * GIB),
        ("", ("1Gi", "2Gi"), 8 * GIB, 3 * GIB),
        ("", ("1Gi", None), 8 * GIB, 8 * GIB),
        ("2Gi", ("1Gi",), 8 * GIB, GIB),
        ("1k", ("1Gi",), 8 * GIB, 1000),
        ("", (None,), 0, 0),
    ],
)
def test_memory_is_bounded_by_the_node_the_pod_and_the_volume(limit, containers, node, expected):
    made = tuple(
        Container(
            name=f"c{number}", resources=ResourceRequirements(limits={"memory": memory} if memory else {})
        )
        for number, memory in enumerate(containers)
    )
    source = EmptyDirVolumeSource(medium="Memory", size_limit=limit)
    spec = Pod(spec=PodSpec(containers=made))
    assert memory_size(spec, source, NodeFacts(allocatable_memory_bytes=node)) == expected


def test_only_what_a_container_refers_to_is_made():
    plans = volume_plans(pod(mount("node", "/n")), FACTS)
    assert plans == (("node", HostPath(path="/srv", kind="Directory")),)
    shared = pod(mount("disk", "/d", mount_propagation="HostToContainer"), mount("disk", "/e"))
    assert volume_plans(shared, FACTS) == (("disk", EmptyDir(shared=True)),)
    memory = Volume(name="disk", empty_dir=EmptyDirVolumeSource(medium="Memory"))
    plan = dict(volume_plans(pod(mount("disk", "/d"), volumes=(memory,)), FACTS))["disk"]
    assert plan == EmptyDir(medium=Medium.MEMORY)
