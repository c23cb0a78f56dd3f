"""What the checker knows of admission: verdicts as the ledger holds them, and what really runs beside one another."""

from __future__ import annotations

from actors.admission.verdict import KEY, SECTION, Verdict, decoded
from actors.pod.state import Gone, PodState, Recalling
from actors.rules.resources.cgroupvalue import MIN_SHARES, shares_of
from actors.rules.resources.request import Claim, claim_of
from api import paths
from api.ids import Path, Uid
from api.messages import Message
from api.messages.kernel import Outcome
from api.ports.ledger import Remember
from api.ports.runtime import RuntimeContainer
from runtime.drivers.memory.history import Cause, Happening, HistoryRow
from tests.harness.world.world import World

SUPERVISOR = Path("/node/pods")
TERMINAL = ("Succeeded", "Failed")


class Admissions:
    """The books of admission."""

    def __init__(self) -> None:
        self.claims: dict[Uid, Claim] = {}
        self.told: dict[Uid, bool] = {}
        """By UID: whether it was admitted, as its actor was first told."""
        self.live: dict[Uid, set[str]] = {}
        self.anew: set[Uid] = set()
        """Pods that may run again after their end, beside those who have their room: the page that said so is lost."""
        self.unwritten = False
        """The ledger once did not take a verdict: what an agent forgot, it may decide otherwise."""
        self._page: bytes | None = None
        self._verdicts: dict[Uid, Verdict] = {}

    def see(self, path: Path, message: Message) -> None:
        """Note that a verdict could not be written."""
        if path == paths.ADMISSION and isinstance(message, Outcome) and message.failure is not None:
            self.unwritten = self.unwritten or message.call in (Remember.__name__, "Recall")

    def forget(self, uid: Uid) -> None:
        """Note that nothing is left of a pod: the same UID is judged anew."""
        self.told.pop(uid, None)

    def lost(self, uid: Uid) -> None:
        """Note that a pod's own page is lost."""
        self.forget(uid)
        self.anew.add(uid)

    def take_page(self, world: World) -> None:
        """Take in what the ledger says; whom it names no more and of whom nothing is left is judged anew.

        That is a pod whose manifest went while no agent lived, before anything was made or written of it: no later life
        has an actor for it that could be seen to end. Of whom anything is left is held to what it was told.
        """
        page = world.ledger._now.get((SECTION, KEY))
        if page is self._page:
            return
        self._page, self._verdicts = page, dict(decoded(page))
        for uid in sorted(self.told.keys() - self._verdicts.keys()):
            if not is_left(world, uid):
                self.forget(uid)

    def verdict(self, world: World, uid: Uid) -> Verdict | None:
        """Return what the ledger says of a pod."""
        self.take_page(world)
        return self._verdicts.get(uid)

    def take_state(self, world: World, before: PodState | None, after: PodState) -> str:
        """Return what is wrong with what a pod's actor was told of its admission."""
        pod = after.desired
        if isinstance(after.life, Gone):
            self.forget(after.uid)
            self.anew.discard(after.uid)
            return ""
        if pod is None or (before is not None and before.wanted.generation == after.wanted.generation):
            return ""
        if pod.metadata.deletion_timestamp is not None or pod.status.phase in TERMINAL:
            # It is only to end, or has: nothing is decided on it, nor written.
            return ""
        self.claims[after.uid] = claim_of(pod.spec)
        admitted = after.wanted.refusal is None
        if self.told.setdefault(after.uid, admitted) != admitted and not self.unwritten:
            return f"pod {after.uid} was {'refused' if admitted else 'admitted'} before"
        known = self.verdict(world, after.uid)
        truth = world.runtime._world.pod(after.uid)
        if self.unwritten or truth.sandboxes or not isinstance(after.life, Recalling):
            return ""
        if known is None:
            return f"pod {after.uid} was told its verdict, and the ledger does not hold it"
        return (
            "" if (known.refusal is None) == admitted else f"pod {after.uid}: told {admitted}, not so written"
        )

    def take_row(self, world: World, row: HistoryRow, over: set[Uid]) -> str:
        """Return what is wrong with a start: the pod was refused, or does not fit beside what runs."""
        if row.what is Happening.EXITED or (row.what is Happening.REMOVED and row.cause is Cause.WORLD):
            self.live.get(row.uid, set()).discard(row.container_id)
            return ""
        if row.what not in (Happening.STARTED, Happening.SANDBOX_STARTED):
            return ""
        known = self.verdict(world, row.uid)
        if known is not None and known.refusal is not None and not self.unwritten:
            return f"{row.what} {row.name} of {row.uid}, which was refused: {known.refusal.reason}"
        if row.what is Happening.SANDBOX_STARTED:
            return ""
        self.live.setdefault(row.uid, set()).add(row.container_id)
        running = [self.claims[uid] for uid in self.holders(over)]
        node = world.parts.facts
        cpu = sum(claim.cpu_milli for claim in running)
        if cpu > node.allocatable_cpu_milli and not self.unwritten:
            return f"{cpu} thousandths of a CPU are requested by what runs, of {node.allocatable_cpu_milli}"
        ports = [port for claim in running for port in claim.ports]
        if len(ports) != len(set(ports)) and not self.unwritten:
            return f"ports of the node are had twice: {sorted(ports)}"
        return self.judge_shares(world, over)

    def holders(self, over: set[Uid]) -> list[Uid]:
        """Return the pods that run and whose claims count."""
        return [
            uid
            for uid, some in self.live.items()
            if some and uid not in over and uid not in self.anew and uid in self.claims
        ]

    def judge_shares(self, world: World, over: set[Uid]) -> str:
        """Return that what runs is given more CPU than there is, by what the runtime shows: a claim changes with a resize."""
        shown = world.runtime._world.containers
        given = {
            uid: sum(shares_shown(shown[one]) for one in self.live[uid] if one in shown)
            for uid in self.holders(over)
        }
        most = shares_of(world.parts.facts.allocatable_cpu_milli)
        if sum(given.values()) <= most or self.unwritten:
            return ""
        had = {uid: shares for uid, shares in sorted(given.items()) if shares}
        return f"containers that run have more CPU than the node, in shares: {had}"


def is_left(world: World, uid: Uid) -> bool:
    """Tell whether anything is left of a pod: an actor, a page of its own in the ledger, a sandbox."""
    if any((section, uid) in world.ledger._now for section in ("pods", "status")):
        return True
    lives = world.system is not None and world.alive and Path(f"{SUPERVISOR}/{uid}") in world.system._cells
    return lives or bool(world.runtime._world.pod(uid).sandboxes)


def shares_shown(container: RuntimeContainer) -> int:
    """Return the CPU shares that a container has of a request; as few as there can be are no request."""
    shares = container.resources.cpu_shares if container.resources is not None else 0
    return shares if shares > MIN_SHARES else 0
