"""Who goes first, what is said of it, and who is over a limit of its own (reference ``node`` sections 6.7 to 6.11)."""

import pytest
from msgspec.structs import replace

from actors.admission.pressure import refused_under
from actors.rules.resources.ranking import Contender, is_spared, local_excess, low_on, rank, request_of
from api.eviction import Observation, Pressure, Quantity, Signal, Threshold
from api.kube.objects.container import Container, ResourceRequirements
from api.kube.objects.meta import ObjectMeta
from api.kube.objects.placement import Toleration
from api.kube.objects.pod import Pod, PodSpec
from api.kube.objects.volume import EmptyDirVolumeSource, Volume
from api.usage import ContainerUsage, FsUsage, MemoryUsage, PodUsage, VolumeUsage

MI = 1 << 20
STATIC = {"kubernetes.io/config.source": "file"}


def container(name="a", requests=None, limits=None):
    resources = ResourceRequirements(requests=requests or {}, limits=limits or {})
    return Container(name=name, image="x", resources=resources)


def pod(name="web", *containers, annotations=None, **spec):
    meta = ObjectMeta(name=name, namespace="default", uid=name, annotations=annotations or {})
    return Pod(metadata=meta, spec=PodSpec(containers=containers or (container(),), **spec))


def memory(used):
    return MemoryUsage(at=1, usage_bytes=used, working_set_bytes=used)


def fs(used, inodes=1):
    return FsUsage(at=1, used_bytes=used, inodes_used=inodes)


def usage(name="web", used=None, *, pids=None, layer=None, logs=None, volume=None, disk=True, inodes=1):
    one = ContainerUsage(
        name="a",
        id="a",
        memory=memory(used) if used is not None else None,
        rootfs=fs(layer, inodes) if layer is not None else None,
        logs=fs(logs, inodes) if logs is not None else None,
    )
    volumes = (VolumeUsage(name="v", kind="empty-dir", fs=fs(volume, inodes)),) if volume is not None else ()
    known = sum(part or 0 for part in (layer, logs, volume))
    return PodUsage(
        uid=name,
        namespace="default",
        name=name,
        as_of=1.0,
        disk_as_of=1.0 if disk else None,
        memory=memory(used) if used is not None else None,
        pids=pids,
        containers=(one,),
        volumes=volumes,
        ephemeral=fs(known),
    )


def part(usage):
    """Return a usage of whose volumes and logs not everything could be counted."""
    return replace(
        usage,
        containers=tuple(
            replace(one, logs=replace(one.logs, at_least=True) if one.logs else None)
            for one in usage.containers
        ),
        volumes=tuple(replace(one, fs=replace(one.fs, at_least=True)) for one in usage.volumes),
        ephemeral=replace(usage.ephemeral, at_least=True),
    )


def order(signal, *rows, dedicated=False):
    """Return the names of pods, first to go first."""
    contenders = tuple(Contender(uid=one.metadata.uid, pod=one, usage=used) for one, used in rows)
    return [row.name.removeprefix("default/") for row in rank(signal, contenders, dedicated=dedicated)]


def asks(name, megabytes, resource="memory", **spec):
    return pod(name, container("a", {resource: f"{megabytes}Mi"} if megabytes else None), **spec)


def test_memory_takes_who_is_over_its_request_then_lower_priority_then_the_largest_excess():
    rows = [
        (asks("within", 500, priority=-10), usage("within", 400 * MI)),
        (asks("little", 100), usage("little", 150 * MI)),
        (asks("much", 100), usage("much", 300 * MI)),
        (asks("important", 0, priority=100), usage("important", 900 * MI)),
        (asks("unknown", 0, priority=-100), None),
    ]
    expected = ["much", "little", "important", "within", "unknown"]
    for signal in (Signal.MEMORY, Signal.PODS_MEMORY):
        assert order(signal, *rows) == expected
        assert order(signal, *reversed(rows)) == expected


def test_exactly_its_request_is_not_over_it():
    rows = [(asks("exact", 100), usage("exact", 100 * MI)), (asks("over", 1), usage("over", MI + 1))]
    assert order(Signal.MEMORY, *rows) == ["over", "exact"]


def test_processes_take_lower_priority_then_who_has_most_whatever_they_asked_for():
    rows = [
        (asks("many", 0), usage("many", pids=90)),
        (asks("few", 0), usage("few", pids=3)),
        (asks("low", 0, priority=-1), usage("low", pids=1)),
    ]
    assert order(Signal.PID, *rows) == ["low", "many", "few"]


def test_disk_counts_layers_logs_and_volumes_where_images_share_the_disk():
    rows = [
        (pod("layer"), usage("layer", layer=30, logs=1)),
        (pod("logs"), usage("logs", logs=40)),
        (pod("volume"), usage("volume", volume=50)),
        (pod("unread"), usage("unread", volume=90, disk=False)),
    ]
    for signal in (Signal.NODEFS, Signal.IMAGEFS):
        assert order(signal, *rows) == ["volume", "logs", "layer", "unread"]
    assert order(Signal.NODEFS, *rows, dedicated=True) == ["volume", "logs", "layer", "unread"]
    assert order(Signal.IMAGEFS, *rows, dedicated=True)[0] == "layer", "only layers are on the images' disk"


def test_disk_takes_who_is_over_its_request_of_ephemeral_storage_first():
    rows = [
        (asks("asked", 100, "ephemeral-storage"), usage("asked", volume=90 * MI)),
        (asks("bold", 1, "ephemeral-storage"), usage("bold", volume=2 * MI)),
    ]
    assert order(Signal.NODEFS, *rows) == ["bold", "asked"]


def test_of_inodes_nothing_is_requested_so_the_most_go_first():
    rows = [
        (asks("asked", 100, "ephemeral-storage"), usage("asked", volume=1, inodes=900)),
        (asks("other", 0), usage("other", volume=1 << 30, inodes=30)),
    ]
    assert order(Signal.NODEFS_INODES, *rows) == ["asked", "other"]


def test_overhead_counts_only_where_something_was_requested():
    overhead = {"memory": "10Mi"}
    assert request_of(asks("a", 100, overhead=overhead), "memory") == 110 * MI
    assert request_of(asks("a", 0, overhead=overhead), "memory") == 0


@pytest.mark.parametrize(
    ("one", "spares_static", "why"),
    [
        (pod(), False, ""),
        (pod(annotations=STATIC), False, ""),
        (pod(annotations=STATIC), True, "it comes from a file or URL of this node"),
        (pod(annotations={"kubernetes.io/config.mirror": "h"}), True, "it comes from a file or URL of this node"),
        (pod(priority=1_999_999_999), False, ""),
        (pod(priority=2_000_000_000), False, "its priority 2000000000 is critical"),
        (pod(annotations=STATIC, priority_class_name="system-node-critical"), False, "its priority 2000001000 is critical"),
        (pod(priority=5, priority_class_name="system-cluster-critical"), False, "its priority class system-cluster-critical is critical"),
    ],
)  # fmt: skip
def test_who_is_never_evicted(one, spares_static, why):
    assert is_spared(one, spares_static=spares_static) == why


# messages

HARD = Threshold(signal=Signal.MEMORY, value=Quantity(amount=700 * MI))
SEEN = Observation(signal=Signal.MEMORY, available=(100 << 20) + 1, capacity=1 << 30, as_of=1.0)


def test_the_message_of_memory_names_threshold_available_and_the_containers_over_their_request():
    one = pod("web", container("a", {"memory": "100M"}), container("b"), init_containers=(container("i"),))
    rows = tuple(
        ContainerUsage(name=name, id=name, memory=memory(used))
        for name, used in (("a", 200 * MI), ("b", 0), ("i", 1025))
    )
    used = PodUsage(
        uid="web", namespace="default", name="web", memory=memory(200 * MI + 1025), containers=rows
    )
    assert low_on(Signal.MEMORY, HARD, SEEN, one, used) == (
        "The node was low on resource: memory. "
        "Threshold quantity: 700Mi, available: 104857601. "
        "Container a was using 200Mi, request is 100M, has larger consumption of memory. "
        "Container i was using 1025, request is 0, has larger consumption of memory. "
    )


def test_a_pod_that_asked_for_memory_as_a_whole_is_named_itself():
    one = pod("web", resources=ResourceRequirements(requests={"memory": "1Gi"}))
    used = usage("web", 2 << 30)
    assert low_on(Signal.MEMORY, HARD, None, one, used) == (
        "The node was low on resource: memory. "
        "Pod web was using 2Gi, request is 1Gi, has larger consumption of memory. "
        "Container a was using 2Gi, request is 0, has larger consumption of memory. "
    )


@pytest.mark.parametrize(
    ("signal", "value", "used", "message"),
    [
        (Signal.NODEFS, Quantity(amount=2048), usage(layer=1024, logs=1024), "The node was low on resource: ephemeral-storage. Threshold quantity: 2Ki, available: 1Ki. Container a was using 2Ki, request is 0, has larger consumption of ephemeral-storage. "),
        (Signal.NODEFS, Quantity(amount=2048), usage(logs=1024), "The node was low on resource: ephemeral-storage. Threshold quantity: 2Ki, available: 1Ki. "),
        (Signal.NODEFS_INODES, Quantity(percent=25.0), usage(layer=1, logs=1), "The node was low on resource: inodes. Threshold quantity: 1Ki, available: 1Ki. "),
        (Signal.PID, Quantity(amount=30), usage(pids=9), "The node was low on resource: pids. Threshold quantity: 30, available: 1Ki. "),
        (Signal.PID, Quantity(amount=30), None, "The node was low on resource: pids. Threshold quantity: 30, available: 1Ki. "),
    ],
)  # fmt: skip
def test_other_messages(signal, value, used, message):
    threshold = Threshold(signal=signal, value=value)
    seen = Observation(signal=signal, available=1024, capacity=4096, as_of=1.0)
    assert low_on(signal, threshold, seen, pod(), used) == message


# limits of local storage

DISK = Volume(name="v", empty_dir=EmptyDirVolumeSource(size_limit="1Mi"))
EPHEMERAL = "ephemeral-storage"


@pytest.mark.parametrize(
    ("one", "used", "dedicated", "limit", "message"),
    [
        (pod("w", volumes=(DISK,)), usage(volume=MI + 1), False, "emptydirfs.limit", 'Usage of EmptyDir volume "v" exceeds the limit "1Mi". '),
        (pod("w", volumes=(DISK,)), usage(volume=MI), False, "", ""),
        (pod("w", volumes=(Volume(name="v", empty_dir=EmptyDirVolumeSource(size_limit="0")),)), usage(volume=MI), False, "", ""),
        (pod("w", volumes=(Volume(name="v", empty_dir=EmptyDirVolumeSource()),)), usage(volume=MI), False, "", ""),
        (pod("w", container("a", limits={EPHEMERAL: "1Gi"}), container("b", limits={EPHEMERAL: "1Gi"})), usage(volume=(2 << 30) + 1), False, "ephemeralpodfs.limit", "Pod ephemeral local storage usage exceeds the total limit of containers 2Gi. "),
        (pod("w", container("a", limits={EPHEMERAL: "1Ki"}), container("b", limits={EPHEMERAL: "1Gi"})), usage(layer=1000, logs=25), False, "ephemeralcontainerfs.limit", 'Container a exceeded its local ephemeral storage limit "1Ki". '),
        (pod("w", container("a", limits={EPHEMERAL: "1Ki"}), container("b", limits={EPHEMERAL: "1Gi"})), usage(layer=1000, logs=25), True, "", ""),
        (pod("w", container("a", limits={EPHEMERAL: "1Ki"}), container("b", limits={EPHEMERAL: "1Gi"})), usage(logs=1025), True, "ephemeralcontainerfs.limit", 'Container a exceeded its local ephemeral storage limit "1Ki". '),
        (pod("w", container("a", limits={EPHEMERAL: "1Ki"}), volumes=(DISK,)), usage(volume=2 * MI), False, "emptydirfs.limit", 'Usage of EmptyDir volume "v" exceeds the limit "1Mi". '),
        (pod("w"), usage(layer=1 << 40), False, "", ""),
        (pod("w", volumes=(DISK,)), part(usage(volume=MI * 9 // 10)), False, "", ""),
        (pod("w", volumes=(DISK,)), part(usage(volume=MI * 9 // 10 + 1)), False, "emptydirfs.limit", 'Usage of EmptyDir volume "v" exceeds the limit "1Mi". It could not be counted in time: 943719 at least. '),
        (pod("w", container("a", limits={EPHEMERAL: "10Ki"})), part(usage(volume=9 << 10)), False, "", ""),
        (pod("w", container("a", limits={EPHEMERAL: "10Ki"})), part(usage(volume=(9 << 10) + 1)), False, "ephemeralpodfs.limit", "Pod ephemeral local storage usage exceeds the total limit of containers 10Ki. It could not be counted in time: 9217 at least. "),
        (pod("w", container("a", limits={EPHEMERAL: "10Ki"}), container("b", limits={EPHEMERAL: "1Gi"})), part(usage(logs=10 << 10)), False, "ephemeralcontainerfs.limit", 'Container a exceeded its local ephemeral storage limit "10Ki". It could not be counted in time: 10Ki at least. '),
        (pod("w", container("a", limits={EPHEMERAL: "0"})), part(usage(volume=0)), False, "", ""),
    ],
)  # fmt: skip
def test_limits_of_local_storage(one, used, dedicated, limit, message):
    found = local_excess(one, used, dedicated=dedicated)
    assert (found.limit, found.message) == (limit, message) if limit else found is None


# admission under pressure

MEMORY, DISKS = (Pressure.MEMORY,), (Pressure.DISK,)
TOLERATES = Toleration(key="node.kubernetes.io/memory-pressure", operator="Exists", effect="NoSchedule")


@pytest.mark.parametrize(
    ("one", "conditions", "spares_static", "message"),
    [
        (pod(), (), False, ""),
        (pod(), MEMORY, False, "The node had condition: [MemoryPressure]. "),
        (asks("w", 1), MEMORY, False, ""),
        (pod(tolerations=(TOLERATES,)), MEMORY, False, ""),
        (asks("w", 1), DISKS, False, "The node had condition: [DiskPressure]. "),
        (asks("w", 1), (*DISKS, *MEMORY), False, "The node had condition: [DiskPressure MemoryPressure]. "),
        (pod(tolerations=(TOLERATES,)), (*MEMORY, Pressure.PID), False, "The node had condition: [MemoryPressure PIDPressure]. "),
        (pod(priority=2_000_000_000), DISKS, False, ""),
        (pod(annotations=STATIC), DISKS, False, "The node had condition: [DiskPressure]. "),
        (pod(annotations=STATIC), DISKS, True, ""),
    ],
)  # fmt: skip
def test_who_is_let_in_under_pressure(one, conditions, spares_static, message):
    refusal = refused_under(one, conditions, spares_static=spares_static)
    assert (refusal.reason, refusal.message) == ("Evicted", message) if message else refusal is None
