"""What the cgroups of pods are called is what a host takes for the cgroup of a pod, and nothing else is."""

import pytest

from actors.pod.spec.cgroup import possible_parents
from api.errors import RejectedError
from api.ports.cgroups import check_pod_cgroup
from api.ports.node import NodeFacts

UIDS = ("0b6bc7e9-8c0a-4a4a-9d0b-4f5cbf0f1f1a", "49af7e8d358063c2b3a8e4d3ef9e3f42", "fixed-p07")
ROOTS = ("/", "/nodeagent", "/edge.slice", "/site/my-agents", "/edge.slice/edge-agents.slice")


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("uid", UIDS)
def test_every_cgroup_that_a_pod_may_have_is_taken_for_one_below_any_root(uid, root):
    paths = possible_parents(uid, NodeFacts(cgroup_root=root))
    assert len(set(paths)) == 6
    for path in paths:
        check_pod_cgroup(path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/kubepods",
        "/kubepods/burstable",
        "/kubepods.slice",
        "/kubepods.slice/kubepods-burstable.slice",
        "/site.slice/site-kubepods.slice/site-kubepods-burstable.slice",
        "/system.slice",
        "/system.slice/ssh.service",
        "/system.slice/tripod.slice",
        "kubepods/pod1",
        "/kubepods/../podx",
        "/kubepods/pod1/main",
        "/kubepods/pod1/..",
    ],
)
def test_what_is_not_a_pods_own_cgroup_is_refused(path):
    with pytest.raises(RejectedError, match="is not the cgroup of a pod"):
        check_pod_cgroup(path)
