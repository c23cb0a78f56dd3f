"""The actors that make a node of a cluster together, in virtual time, on a server in memory."""

import json

from actors.lease.actor import LeaseManager
from actors.lease.state import LeaseSettings, LeaseState
from actors.node.actor import NodeManager
from actors.node.state import NodeState
from actors.nodestatus.actor import NodeStatusManager
from actors.nodestatus.state import NodeStatusSettings, NodeStatusState
from actors.pleg.actor import Pleg
from actors.pleg.state import STREAM, PlegState
from api import paths
from api.errors import Failure, FailureKind, NotFoundError, UnavailableError
from api.ports.images import ImageListing
from api.ports.kube import LEASES, NODE, ApiNodeListed, GetObject, KubeObject
from api.ports.runtime import ListPods, PodListing
from runtime.drivers.memory.node import MemoryNode
from runtime.drivers.memory.stream import MemoryStream
from runtime.kernel.actor import Restart
from runtime.kernel.sim import SimSystem
from tests.unit.actors.nodestatus.hand import INFO, MACHINE, Server

RESTART = Restart(max_restarts=5)


class Kube:
    """The port ``kube``: one Node and one lease."""

    name = "kube"

    def __init__(self):
        self.nodes, self.lease, self.renewals, self.down = Server(), None, 0, False

    def perform(self, call, deadline_s):
        if self.down:
            raise UnavailableError("connection refused")
        answer = self.lease_of(call) if call.path.api_version == LEASES else self.nodes.answer(call)
        if isinstance(answer, Failure):
            raise (
                NotFoundError(answer.message)
                if answer.kind is FailureKind.NOT_FOUND
                else UnavailableError("no")
            )
        return answer

    def lease_of(self, call):
        if not isinstance(call, GetObject):
            self.lease, self.renewals = json.loads(call.body), self.renewals + 1
        if self.lease is None:
            raise NotFoundError("no lease")
        return KubeObject(body=json.dumps(self.lease).encode())


class Runtime:
    """The ports ``runtime`` and ``images``, as far as they are asked here."""

    name = "runtime"

    def perform(self, call, deadline_s):
        return PodListing() if isinstance(call, ListPods) else INFO


class Images:
    name = "images"

    def perform(self, call, deadline_s):
        return ImageListing()


def test_a_node_registers_becomes_ready_is_renewed_and_comes_back_when_it_is_deleted():
    system, kube, stream = SimSystem(1), Kube(), MemoryStream(NODE)
    runtime = Runtime()
    node = NodeState(machine=MACHINE, in_cluster=True)
    status = NodeStatusState(settings=NodeStatusSettings(node_name="n1"))
    lease = LeaseState(settings=LeaseSettings(node_name="n1"))
    system.spawn(
        NodeManager.options(name=paths.leaf(paths.NODE), restart=RESTART).bind(
            node, {"node": MemoryNode(MACHINE), "runtime": runtime}
        )
    )
    system.spawn(
        Pleg.options(name=paths.leaf(paths.PLEG), restart=RESTART).bind(
            PlegState(), {"runtime": runtime}, {STREAM: MemoryStream(STREAM)}
        )
    )
    system.spawn(
        NodeStatusManager.options(name=paths.leaf(paths.NODESTATUS), restart=RESTART).bind(
            status, {"kube": kube, "images": Images()}, {NODE: stream}
        )
    )
    system.spawn(
        LeaseManager.options(name=paths.leaf(paths.LEASE), restart=RESTART).bind(lease, {"kube": kube})
    )
    system.run_for(15.0)
    assert kube.nodes.condition("Ready")["status"] == "True"
    assert kube.lease["metadata"]["ownerReferences"][0]["uid"] == "uid-1"
    facts = system.committed(paths.NODE).facts
    assert [one.key for one in facts.taints] == ["own", "node.kubernetes.io/not-ready"]
    kube.down = True
    system.run_for(30.0)
    kube.down = False
    renewals, writes = kube.renewals, len(kube.nodes.writes)
    system.run_for(60.0)
    assert kube.renewals - renewals in (5, 6)
    assert len(kube.nodes.writes) == writes, "nothing has changed"
    kube.nodes.node = None
    stream.push(ApiNodeListed(body=None))
    system.run_for(20.0)
    assert kube.nodes.condition("Ready")["status"] == "True"
    assert kube.lease["metadata"]["ownerReferences"][0]["uid"] == "uid-2"
