"""Fields of a container's status beside its state: how its volumes are mounted, what it is held to, whom it runs as."""

import pytest

from actors.pod.status.containerfield import mounts_of, resources_of, user_of
from api.kube.objects.container import Container, ResourceRequirements, VolumeMount
from api.ports.confinement import Resources
from api.ports.node import NodeFacts
from api.ports.runtime import ContainerIds, RuntimeHandler
from tests.unit.actors.pods import instance, wanted

ABLE = NodeFacts(handlers=(RuntimeHandler(name="", recursive_read_only_mounts=True),))


@pytest.mark.parametrize(
    ("fields", "node", "recursive"),
    [
        ({}, ABLE, ""),
        ({"read_only": True}, ABLE, "Disabled"),
        ({"read_only": True, "recursive_read_only": "IfPossible"}, ABLE, "Enabled"),
        ({"read_only": True, "recursive_read_only": "IfPossible"}, NodeFacts(), "Disabled"),
        ({"read_only": True, "recursive_read_only": "Enabled"}, NodeFacts(), "Disabled"),
    ],
)
def test_a_mount_is_shown_as_it_was_made(fields, node, recursive):
    mount = VolumeMount(name="v", mount_path="/v", **fields)
    container = Container(name="a", image="x", volume_mounts=(mount,))
    [shown] = mounts_of(wanted(container), container, node)
    assert (shown.name, shown.mount_path, shown.read_only) == ("v", "/v", mount.read_only)
    assert shown.recursive_read_only == recursive


def test_what_the_runtime_cannot_tell_from_nothing_is_shown_as_it_was_granted():
    granted = ResourceRequirements(requests={"cpu": "1m"}, limits={"cpu": "5m"})
    container = Container(name="a", image="x", resources=granted)
    told = Resources(cpu_shares=2, cpu_quota_us=1000, cpu_period_us=100_000)
    assert resources_of(container, instance(resources=told)) == granted
    assert resources_of(container, instance(state="exited", resources=told)) == granted


def test_ids_are_shown_where_the_runtime_tells_them():
    assert user_of(instance()) is None
    shown = user_of(instance(ids=ContainerIds(user=1, group=2, groups=(3,))))
    assert (shown.linux.uid, shown.linux.gid, shown.linux.supplemental_groups) == (1, 2, (3,))
