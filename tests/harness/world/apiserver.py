"""The API server of a simulated cluster, and the node's way to it: requests take time and fail, watches hang, the server goes away.

```text
agent ── FaultyKube ── judge (what becomes of it) ── carry_out ──▶ MemoryKube ◀── admin: users and controllers
  ▲                                                      └──▶ auditors, who see each request of the node as it is carried out
  └──────────────────── kube.pods, kube.node ◀── shown a moment later
```
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec

from actors.agent.cluster import ClusterParts
from api.errors import Failure, FailureKind, OperatingError
from api.ports.kube import (
    CreateObject,
    DeleteObject,
    GetObject,
    KubeCall,
    KubeObject,
    ObjectPath,
    PatchObject,
)
from runtime.drivers.memory.kube import MemoryKube
from runtime.drivers.memory.kubefault import CallFault, FaultyKube
from runtime.drivers.memory.kubemerge import Object
from runtime.kernel.sim import VirtualTime

KUBECONFIG = "/etc/kubernetes/kubelet.conf"
AWAY = Failure(kind=FailureKind.UNAVAILABLE, message="connection refused")
NOT_KNOWN = Failure(kind=FailureKind.DENIED, message="Unauthorized", reason="Unauthorized")
LOST = "no answer"
REFUSALS = {
    "429": Failure(kind=FailureKind.UNAVAILABLE, message="too many requests", reason="TooManyRequests"),
    "500": Failure(kind=FailureKind.UNAVAILABLE, message="internal error", reason="InternalError"),
    "503": Failure(kind=FailureKind.UNAVAILABLE, message="not ready", reason="ServiceUnavailable"),
    "409": Failure(kind=FailureKind.CONFLICT, message="the object has been modified", reason="Conflict"),
}
"""By what a server that is not well answers, and does nothing."""
TIMED_OUT = Failure(kind=FailureKind.TIMED_OUT, message="request did not complete in time", reason="Timeout")
DONE_LATE_S = (1.0, 3.0)
"""After its deadline a write may be done still."""
RELIST_S = (0.1, 25.0)
"""Between the answer to a first request and the next list: the wait of a reflector after failures in a row."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request of the node, as it was carried out or refused by the server."""

    at: float
    call: KubeCall
    before: bytes | None
    after: bytes | None
    refused: bool
    stale: bool
    """Whether it was under way for long: a newer one may have come before it."""

    @property
    def no_effect(self) -> bool:
        """Tell whether a change was asked for and none was made."""
        return not isinstance(self.call, GetObject) and not self.refused and self.before == self.after


class ApiServer:
    """One server, and what is wrong with the way to it."""

    def __init__(self, time: VirtualTime, seed: int, node: str) -> None:
        self._time, self._random = time, Random(f"{seed}/api server")
        self._shows = Random(f"{seed}/api streams")
        self.node = node
        self.kube = MemoryKube(node, time.wall, self._soon)
        self.port = FaultyKube(time, self.judge, self.carry_out)
        self.down: Failure | None = None
        """Why no request is answered."""
        self.down_since = 0.0
        self.rough = 0.0
        """The share of requests that go wrong."""
        self.auditors: list[Callable[[Request], None]] = []
        self.noted: Callable[[str], None] = lambda _what: None
        """Is shown what a request met."""
        self.trace: Callable[[str], None] | None = None
        self.healed = False
        self.admin = self.kube.admin
        """The hands of everybody else."""
        self._slow: set[int] = set()
        """Ids of the calls that are long under way."""

    def parts(self) -> ClusterParts:
        """Return what the agent is assembled with."""
        return ClusterParts(server=KUBECONFIG, kube=self.port, pods=self.kube.pods, node=self.kube.node)

    # ------------------------------------------------------------ requests

    def judge(self, call: KubeCall) -> CallFault:
        """Say what becomes of a request that is sent now."""
        delay_s = self._random.uniform(0.001, 0.05)
        answer_s = self._random.choice((0.001, 0.02, 0.1))
        if self.down is not None:
            self.noted("refused: away" if self.down is AWAY else "refused: unknown identity")
            return CallFault(delay_s=delay_s, failure=self.down, commits=False)
        if self._random.random() >= self.rough:
            return CallFault(delay_s=delay_s, answer_s=answer_s)
        writes = not isinstance(call, GetObject)
        kind = self._random.choice((*REFUSALS, *REFUSALS, LOST, "504", "late", "slow"))
        if kind == "409" and not writes:
            kind = "500"
        self.noted(f"answer {kind}")
        match kind:
            case "504":
                return CallFault(delay_s=delay_s, answer_s=answer_s, failure=TIMED_OUT)
            case "late":
                self._slow.add(id(call))
                return CallFault(delay_s=30.0 + self._random.uniform(*DONE_LATE_S), answer_s=float("inf"))
            case "slow":
                self._slow.add(id(call))
                return CallFault(
                    delay_s=self._random.uniform(0.5, 8.0), answer_s=self._random.uniform(0.1, 1.0)
                )
            case _ if kind == LOST:
                return CallFault(delay_s=delay_s, answer_s=float("inf"))
            case _:
                return CallFault(delay_s=delay_s, failure=REFUSALS[kind], commits=False)

    def carry_out(self, call: KubeCall, answered: bool) -> KubeObject:  # as the driver calls it
        """Carry out a request of the node, and show it to the auditors."""
        place = msgspec.structs.replace(call.path, subresource="")
        if isinstance(call, CreateObject):
            name = msgspec.json.decode(call.body)["metadata"]["name"]
            place = msgspec.structs.replace(place, name=name)
        before = self.kube.stored(place)
        try:
            answer = self.kube.request(self.node, call, answered=answered)
        except OperatingError:
            self._audit(call, place, before, refused=True)
            raise
        self._audit(call, place, before, refused=False)
        return answer

    def _audit(self, call: KubeCall, place: ObjectPath, before: bytes | None, *, refused: bool) -> None:
        stale = id(call) in self._slow
        self._slow.discard(id(call))
        after = before if refused else self.kube.stored(place)
        if self.trace is not None:
            said = (
                "refused"
                if refused
                else "gone"
                if after is None
                else "unchanged"
                if after == before
                else "ok"
            )
            self.trace(f"{self._time.now():.6f} api: {type(call).__name__} {place.brief()} {said}")
        if isinstance(call, PatchObject | DeleteObject) and not refused:
            self.noted(f"{type(call).__name__} {call.path.plural}")
        made = Request(
            at=self._time.now(), call=call, before=before, after=after, refused=refused, stale=stale
        )
        for auditor in self.auditors:
            auditor(made)

    def _soon(self, show: Callable[[], None]) -> None:
        self._time.call_at(self._time.now() + self._shows.choice((0.0, 0.01, 0.03, 0.3)), show)

    # ------------------------------------------------------------ what breaks

    def go_away(self, why: Failure = AWAY) -> None:
        """Answer nothing, and say so on the streams."""
        self.down_since = self._time.now() if self.down is None else self.down_since
        self.down = why
        self.kube.blind(why)

    def come_back(self) -> None:
        """Answer again; the streams find that out a while later."""
        if self.down is not None:
            self.down = None
            self._relist_in(self._random.uniform(*RELIST_S))

    def hang(self, for_s: float) -> None:
        """Let the watches bring nothing, in silence, until the driver gives them up and lists again."""
        if self.down is None:
            self.kube.blind()
            self._relist_in(for_s)

    def compact(self) -> None:
        """Forget the versions that the watches are at."""
        if self.down is None:
            self.kube.relist()

    def _relist_in(self, seconds: float) -> None:
        def relist() -> None:
            if self.down is None:
                self.kube.relist()

        self._time.call_at(self._time.now() + seconds, relist)

    def heal(self) -> None:
        """Be well from now on."""
        self.healed, self.down, self.rough = True, None, 0.0
        self.kube.relist()

    # ------------------------------------------------------------ looks

    def pods(self) -> dict[str, Object]:
        """Return the pods that are bound to the node, by UID; mirrors are among them."""
        found = (msgspec.json.decode(body) for body in self.kube.bodies())
        return {pod["metadata"]["uid"]: pod for pod in found}

    def look(self, plural: str, name: str, namespace: str = "") -> Object | None:
        """Return an object, None when there is none."""
        body = self.kube.stored(ObjectPath(plural=plural, name=name, namespace=namespace))
        return msgspec.json.decode(body) if body is not None else None
