"""What must be true of a cluster's API server and this node once all is quiet: both say the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from actors.pod.state import PodState
from actors.rules.container.ownership import OWNED
from api.decoding import from_json
from api.ids import Uid
from api.kube.objects.pod import Pod, PodSpec
from api.kube.objects.podstatus import PodStatus
from api.wallclock import wall_ns
from tests.harness.check.clusterbook import MIRROR, STATUSES, TERMINAL, is_mirror
from tests.harness.world.workload import NODE

if TYPE_CHECKING:
    from tests.harness.world.apiserver import ApiServer
    from tests.harness.world.world import World

SCALARS = ("phase", "reason", "message", "hostIP", "podIP", "startTime")
LEASE_NAMESPACE = "kube-node-lease"
LEASE_S = 40.0
NS = 1e9


def cluster_complaints(world: World, wanted: frozenset[Uid], states: dict[Uid, PodState]) -> Iterator[str]:
    """Yield what API server and node do not say alike, or what the node lacks there."""
    api = world.api
    if api is None:
        return
    yield from node_object_complaints(world, api)
    shown, mirrors = dict[Uid, Any](), dict[Uid, list[Any]]()
    for pod in api.pods().values():
        meta: Any = pod["metadata"]
        if is_mirror(pod):
            mirrors.setdefault(Uid(meta["annotations"][MIRROR]), []).append(pod)
        else:
            shown[Uid(meta["uid"])] = pod
    for uid, pod in shown.items():
        if "deletionTimestamp" in pod["metadata"]:
            yield f"pod {uid} was deleted and is still there"
        elif uid in states:
            yield from status_differences(f"pod {uid}", pod["status"], states[uid].base)
            yield from generation_complaint(uid, pod, states[uid])
    yield from mirror_complaints(api, wanted - shown.keys(), mirrors, states)


def mirror_complaints(
    api: ApiServer, statics: frozenset[Uid], mirrors: dict[Uid, list[Any]], states: dict[Uid, PodState]
) -> Iterator[str]:
    """Yield each static pod without its one mirror, and each mirror without its static pod."""
    for uid in sorted(statics | mirrors.keys()):
        found = mirrors.get(uid, [])
        if uid not in statics:
            yield f"mirror {found[0]['metadata']['name']} shows {uid}, which no manifest wants"
        elif len(found) != 1:
            yield f"static pod {uid} has {len(found)} mirrors"
        elif "deletionTimestamp" in found[0]["metadata"]:
            yield f"the mirror of static pod {uid} was deleted and is still there"
        elif uid in states:
            yield from status_differences(f"the mirror of {uid}", found[0]["status"], states[uid].base)
            yield from owner_complaint(api, f"the mirror of {uid}", found[0])


def status_differences(what: str, shown: Any, own: PodStatus) -> Iterator[str]:
    """Yield each part of a status that the API server shows otherwise than it was composed."""
    plain: Any = msgspec.json.decode(msgspec.json.encode(own))
    for field in (*SCALARS, *STATUSES):
        there, composed = shown.get(field) or None, plain.get(field) or None
        if field in STATUSES:
            there, composed = by(there, "name"), by(composed, "name")
        if there != composed:
            yield f"{what} shows {field} {there}, composed is {composed}"
    there, composed = by(shown.get("conditions"), "type"), by(plain.get("conditions"), "type")
    for kind in sorted(OWNED & (there.keys() | composed.keys())):
        one, other = there.get(kind, {}), composed.get(kind, {})
        if one.get("status") != other.get("status"):
            yield f"{what} shows condition {kind} {one}, composed is {other}"


def by(rows: Any, key: str) -> dict[str, Any]:
    """Return rows by one of their fields."""
    return {row[key]: row for row in rows or ()}


def generation_complaint(uid: Uid, pod: Any, state: PodState) -> Iterator[str]:
    """Yield that the status is of an older spec than the server has; of a pod that has ended none is composed any more.

    A spec that was changed and changed back while nobody saw it is no change to the merge, as to a kubelet's.
    """
    seen, generation = pod["status"].get("observedGeneration", 0), pod["metadata"]["generation"]
    known = state.desired.spec if state.desired is not None else None
    if seen != generation and state.base.phase not in TERMINAL and known != spec_of(pod):
        yield f"pod {uid} is of generation {generation}, its status of {seen}"


def spec_of(pod: Any) -> PodSpec:
    """Return the spec that the API server has of a pod."""
    return from_json(msgspec.json.encode(pod), Pod).spec


def remark_complaints(world: World, remarks: dict[tuple[Uid, str], str]) -> Iterator[str]:
    """Yield each condition of others that is not as they set it."""
    assert world.api is not None
    for uid, pod in world.api.pods().items():
        shown = by(pod["status"].get("conditions") if isinstance(pod["status"], dict) else None, "type")
        for (of, kind), status in remarks.items():
            if of == uid and shown.get(kind, {}).get("status") != status:
                yield f"pod {uid} lost condition {kind} {status}, which others set: {shown.get(kind)}"


def node_object_complaints(world: World, api: ApiServer) -> Iterator[str]:
    """Yield what is wrong with the Node and its lease."""
    node: Any = api.look("nodes", NODE)
    if node is None:
        yield "there is no Node"
        return
    ready = by(node.get("status", {}).get("conditions"), "type").get("Ready", {})
    expected = "True" if world.runtime.info.network_ready else "False"
    if ready.get("status") != expected:
        yield f"the Node's condition Ready is {ready}, not {expected}"
    lease: Any = api.look("leases", NODE, LEASE_NAMESPACE)
    if lease is None:
        yield "there is no lease"
        return
    late_s = (world.time.wall() - wall_ns(lease["spec"]["renewTime"])) / NS
    if late_s > LEASE_S / 2:
        yield f"the lease was renewed {late_s:.0f} s ago"
    if lease["spec"]["leaseDurationSeconds"] != LEASE_S:
        yield f"the lease counts for {lease['spec']['leaseDurationSeconds']} s"
    yield from owner_complaint(api, "the lease", lease)


def owner_complaint(api: ApiServer, what: str, one: Any) -> Iterator[str]:
    """Yield that something is not owned by the Node that is there."""
    node: Any = api.look("nodes", NODE)
    owners = [(owner["kind"], owner["uid"]) for owner in one["metadata"].get("ownerReferences", ())]
    if node is not None and owners != [("Node", node["metadata"]["uid"])]:
        yield f"{what} is owned by {owners}, the Node is {node['metadata']['uid']}"
