"""What holds at every step of a node of a cluster: its own books, from what users asked for and what the node requested.

Each rule is a sentence in `RULES`. The book never asks the agent what is right: it knows what the API server has, what users
asked for, and what the runtime really did.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from actors.pod.state import Gone, PodState
from api.ids import Path, Uid
from api.messages.pod import KillCause
from api.ports.kube import CreateObject, DeleteObject, PatchObject, ReplaceObject
from api.ports.runtime import RuntimeContainerState
from runtime.drivers.memory.history import Cause, Happening, HistoryRow
from runtime.drivers.memory.kubemerge import Object
from tests.harness.check.podcheck import WANTED_S
from tests.harness.world.workload import ENDLESS, Wish

if TYPE_CHECKING:
    from tests.harness.check.check import Checker
    from tests.harness.world.apiserver import ApiServer, Request

MIRROR = "kubernetes.io/config.mirror"
TERMINAL = ("Succeeded", "Failed")
STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
UNSEEN = "ContainerStatusUnknown"
ABSENCE = (KillCause.REMOVED, KillCause.ORPHAN, KillCause.REPLACED, KillCause.DELETED)
HOT_REQUESTS, HOT_S = 40, 10.0
"""Of one kind about one object. A round of five attempts, or a pod whose containers come and go, takes fewer."""
IDLE_WRITES, IDLE_S = 8, 60.0
"""Writes that change nothing: one follows a write whose answer was lost, and each new life of the agent."""


def is_mirror(pod: Object) -> bool:
    """Tell whether a pod only shows a static one."""
    return MIRROR in _annotations(pod)


def _annotations(pod: Object) -> Any:
    meta: Any = pod["metadata"]
    return meta.get("annotations", {})


class ClusterBook:
    """What users asked for, what the node requested, and what of that is wrong."""

    def __init__(self, api: ApiServer, checker: Checker) -> None:
        self.api, self.checker = api, checker
        self.born_at: dict[Uid, float] = {}
        self.deleted_at: dict[Uid, float] = {}
        self.plain: set[Uid] = set()
        """Pods whose containers nothing but users, and they themselves, may end."""
        self.remarks: dict[tuple[Uid, str], str] = {}
        """Conditions that others set, by pod and type."""
        self.node_said: dict[str, str] = {}
        """Labels that others gave the Node which is there."""
        self.ended: set[Uid] = set()
        """Pods that the server showed as ended."""
        self.gone: set[Uid] = set()
        """Deleted pods of which nothing was left on the node."""
        self.owners: dict[str, Uid] = {}
        """By container id: whose it is."""
        self.writes = 0
        self._paces: dict[tuple[str, str], deque[float]] = {}
        self._idle: dict[str, deque[float]] = {}
        self._renewed = ""
        self._said = ""
        self._stale: set[Uid] = set()
        """Pods whose status was written by a request that was long under way, which may have come after a newer one."""
        api.auditors.append(self.audit)

    # ------------------------------------------------------------ what users did

    def born(self, uid: Uid, wish: Wish) -> None:
        """Note that a user created a pod."""
        self.born_at[uid] = self.checker.world.time.now()
        endless = all(script in ENDLESS for script in wish.scripts)
        asks = (
            wish.hooks or wish.inits or wish.probes or wish.deadline_s or wish.all_again or wish.unsupported
        )
        if endless and wish.policy == "Always" and not asks:
            self.plain.add(uid)

    def deleted(self, uid: Uid) -> None:
        """Note that a user deleted a pod."""
        self.deleted_at.setdefault(uid, self.checker.world.time.now())

    def changed(self, uid: Uid) -> None:
        """Note that a user changed what a pod is asked to be."""
        self.plain.discard(uid)

    def remarked(self, uid: Uid, kind: str, status: str) -> None:
        """Note that another writer set a condition."""
        self.remarks[uid, kind] = status

    # ------------------------------------------------------------ steps

    def step(self) -> None:
        """Fail for what a request of this step broke."""
        said, self._said = self._said, ""
        if said:
            rule, _, what = said.partition("|")
            self.checker.fail(rule, what)

    def take_state(self, before: PodState | None, after: PodState) -> str:
        """Return what is wrong with a pod of users that is killed."""
        if isinstance(after.life, Gone) and after.uid in self.deleted_at:
            self.gone.add(after.uid)
        kill = after.killed
        if kill is None or (before is not None and before.killed is not None):
            return ""
        if after.uid in self.born_at:
            self.checker.coverage.note("cluster kill", kill.cause.name)
        if after.uid not in self.born_at or after.uid in self.deleted_at or kill.cause not in ABSENCE:
            return ""
        return f"killed ({kill.cause}), and the API server has it"

    def take_row(self, row: HistoryRow) -> str:
        """Return what is wrong with what happened in the runtime."""
        uid = row.uid
        if row.container_id:
            self.owners.setdefault(row.container_id, uid)
        if uid not in self.born_at:
            return ""
        away = self.api.down is not None
        if away and row.what is Happening.EXITED:
            self.checker.coverage.note("cluster", f"ended in an outage: {row.cause}")
        if away and row.what is Happening.STARTED:
            self.checker.coverage.note("cluster", "started in an outage")
        if row.what is Happening.STARTED and uid in self.ended:
            return f"{row.name} starts, and the API server was shown that the pod has ended"
        if row.what is Happening.STARTED and uid in self.gone:
            return f"{row.name} starts, and the pod was deleted and is gone"
        if row.what is Happening.TERM_SENT and row.cause is Cause.AGENT and uid in self.plain:
            known = self.checker.states.get(Path(f"/node/pods/{uid}"))
            if uid not in self.deleted_at and (known is None or known[1].killed is None):
                return f"{row.name} is stopped, for which there is no reason"
        return ""

    # ------------------------------------------------------------ requests

    def audit(self, request: Request) -> None:
        """Look at a request of the node; what it broke fails with the step."""
        for rule, said in self._broken(request):
            self._said = self._said or f"{rule}|{said}"

    def _broken(self, request: Request) -> Iterator[tuple[str, str]]:
        call = request.call
        what = type(call).__name__
        yield from self._pace(request)
        if isinstance(call, DeleteObject) and call.path.plural == "pods":
            yield from self._deletion(request, call)
        elif isinstance(call, PatchObject) and call.path.plural == "pods":
            yield from self._status(request, call)
        elif isinstance(call, CreateObject | ReplaceObject) and call.path.plural == "leases":
            yield from self._lease(request)
        elif call.path.plural not in ("nodes", "leases", "events") and not isinstance(call, CreateObject):
            yield "a node asks only for what is its own", f"{what} {call.path.brief()}"

    def _pace(self, request: Request) -> Iterator[tuple[str, str]]:
        call, at = request.call, request.at
        made: Any = msgspec.json.decode(call.body) if isinstance(call, CreateObject) else {}
        key = (type(call).__name__, call.path.brief(), made.get("metadata", {}).get("name", ""))
        times = self._paces.setdefault(key, deque(maxlen=HOT_REQUESTS))
        times.append(at)
        writes = isinstance(call, PatchObject | CreateObject | ReplaceObject | DeleteObject)
        if writes and call.path.plural != "events":
            # What a crash loop goes on doing is counted in its events.
            self.writes += 1
        if len(times) == HOT_REQUESTS and at - times[0] < HOT_S:
            yield "no request is made in a hot loop", f"{HOT_REQUESTS} times {key} in {at - times[0]:.1f} s"
        if request.no_effect and isinstance(call, PatchObject):
            idle = self._idle.setdefault(call.path.brief(), deque(maxlen=IDLE_WRITES))
            idle.append(at)
            if len(idle) == IDLE_WRITES and at - idle[0] < IDLE_S:
                yield "what the server has is not written again", f"{IDLE_WRITES} times {call.path.brief()}"

    def _deletion(self, request: Request, call: DeleteObject) -> Iterator[tuple[str, str]]:
        """The last delete of a pod comes after everything of it."""
        rule = "the last delete has grace 0 and the pod's UID, when nothing of it runs and the server shows its end"
        if call.grace_s != 0 or not call.uid:
            yield rule, f"{call.path.brief()}: grace {call.grace_s}, UID {call.uid or 'none'}"
        if request.before is None or request.refused:
            return
        pod: Any = msgspec.json.decode(request.before)
        uid, status = Uid(pod["metadata"]["uid"]), pod.get("status", {})
        if is_mirror(pod):
            yield from self._mirror_deletion(pod)
            return
        self.checker.coverage.note("cluster", "last delete")
        if "deletionTimestamp" not in pod["metadata"]:
            yield rule, f"pod {uid} was not asked to be deleted"
        if uid in self._stale:
            return
        if status.get("phase") not in TERMINAL:
            yield rule, f"pod {uid} is shown as {status.get('phase')}"
        containers = self.checker.world.runtime._world.pod(uid).containers
        alive = [one.name for one in containers if one.state is RuntimeContainerState.RUNNING]
        if alive:
            yield rule, f"containers {alive} of pod {uid} run"
        newest = {one.name: one for one in reversed(containers)}
        for one in _statuses(status):
            truth, end = newest.get(one["name"]), one.get("state", {}).get("terminated", {})
            if truth is None or truth.state is not RuntimeContainerState.EXITED:
                continue
            if (end.get("exitCode", 0), end.get("containerID")) != (truth.exit_code, truth.id):
                yield rule, f"{one['name']} of pod {uid} ended with {truth.exit_code}, shown is {end}"
        ran = [one["name"] for one in _statuses(status) if "running" in one.get("state", {})]
        if ran:
            yield rule, f"containers {ran} of pod {uid} are shown as running"

    def _mirror_deletion(self, pod: Any) -> Iterator[tuple[str, str]]:
        uid = Uid(_annotations(pod)[MIRROR])
        since = self.checker.wanted_since.get(uid, float("inf"))
        now = self.checker.world.time.now()
        node: Any = self.api.look("nodes", self.api.node)
        owned = node is not None and pod["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]
        if now - since > WANTED_S and owned and "deletionTimestamp" not in pod["metadata"]:
            yield (
                "a mirror stays while its static pod is wanted",
                f"{pod['metadata']['name']} of {uid}, wanted since {since:.0f} s, is deleted",
            )

    def _status(self, request: Request, call: PatchObject) -> Iterator[tuple[str, str]]:
        """A status says what is true of this pod and of no other, and an end is final."""
        body: Any = msgspec.json.decode(call.body)
        if not body.get("metadata", {}).get("uid") or call.path.subresource != "status":
            yield "a status is written to the pod that it is about, by its UID", call.path.brief()
        if request.before is None or request.after is None or request.refused:
            return
        pod: Any = msgspec.json.decode(request.after)
        uid = Uid(_annotations(pod).get(MIRROR, pod["metadata"]["uid"]))
        for one in _statuses(body.get("status", {})):
            ends = (one.get("state", {}).get("terminated"), one.get("lastState", {}).get("terminated"))
            ids = (one.get("containerID", ""), *(end.get("containerID", "") for end in ends if end))
            others = [id_ for id_ in ids if id_ and self.owners.get(id_, uid) != uid]
            if others:
                yield (
                    "a pod never has the containers of another UID",
                    f"{others} in the status of {uid} are of {self.owners[others[0]]}",
                )
            for end in ends:
                id_ = end.get("containerID", "") if end else ""
                if not id_ or end.get("reason") == UNSEEN:
                    continue
                truth = self.checker.exits.get(id_)
                if truth is None or truth != end.get("exitCode", 0):
                    yield (
                        "an exit code at the server is the one that the container ended with",
                        f"{one['name']} of {uid}: {end.get('exitCode')}, {truth} is true",
                    )
        if is_mirror(pod):
            return
        old: Any = msgspec.json.decode(request.before)
        was, now = old.get("status", {}).get("phase"), pod.get("status", {}).get("phase")
        if request.stale:
            self._stale.add(uid)
        elif was in TERMINAL and now != was:
            yield "a terminal phase at the server is final", f"pod {uid}: {was} -> {now}"
        if now in TERMINAL and uid in self.born_at:
            self.checker.coverage.note("cluster phase", now)
            self.ended.add(uid)

    def _lease(self, request: Request) -> Iterator[tuple[str, str]]:
        if request.after is None or request.refused:
            return
        lease: Any = msgspec.json.decode(request.after)
        renewed = lease["spec"]["renewTime"]
        if request.before is None:
            self._renewed = ""
        if renewed <= self._renewed:
            yield "a lease is renewed later than before", f"{self._renewed} -> {renewed}"
        self._renewed = renewed


def _statuses(status: Any) -> Iterator[Any]:
    for group in STATUSES:
        yield from status.get(group) or ()
