"""The working copy of one decision of admission: pods change only by `put` and `drop`, which keep the index up to date.

So a decision costs what it touches, however many pods there are.
"""

from collections.abc import Callable, Mapping

import msgspec
from msgspec.structs import replace

from actors.admission.state import AdmissionEntry, AdmissionIndex, AdmissionState
from actors.admission.verdict import Verdict
from actors.rules.membership import sort_member
from api.ids import Instant, Uid
from api.lifecycle import Action
from api.messages.admission import Allocated

GENERATIONS = 1_000_000_000
"""More answers than an incarnation gives."""


def is_open(entry: AdmissionEntry) -> bool:
    """Return whether a pod waits for its verdict."""
    return entry.verdict is None and entry.row.open and entry.row.pod is not None


def is_on_node(entry: AdmissionEntry) -> bool:
    """Return whether a pod has a claim on the node: it was admitted, and may have running containers."""
    return entry.verdict is not None and entry.verdict.refusal is None and not entry.row.ended


def is_leaving(entry: AdmissionEntry) -> bool:
    """Return whether a pod is being stopped, or may have ended already."""
    return entry.row.ending or entry.preempted or may_have_ended(entry)


def may_have_ended(entry: AdmissionEntry) -> bool:
    """Return whether an earlier life admitted the pod and its actor has not reported yet whether it has ended."""
    return entry.row.silent and not entry.fresh


def is_asking(entry: AdmissionEntry) -> bool:
    """Return whether an admitted pod requests other amounts than it has."""
    verdict, requested = entry.verdict, entry.requested
    if verdict is None or requested is None or verdict.refusal is not None:
        return False
    if entry.row.ending or entry.row.ended:
        return False
    return requested.allocated != verdict.allocated or requested.claim != verdict.claim


def is_outdated(entry: AdmissionEntry) -> bool:
    """Return whether an admitted pod requests other amounts than when it was last decided on."""
    verdict, requested, row = entry.verdict, entry.requested, entry.row
    if verdict is None or verdict.refusal is not None or requested is None or row.ending or row.ended:
        return False
    return requested.allocated != entry.asked


def is_resizing(entry: AdmissionEntry) -> bool:
    """Return whether a pod requests other amounts than it has, or no longer does and must be sent that."""
    return entry.resize is not None or is_asking(entry) or is_outdated(entry)


def is_unkept(entry: AdmissionEntry) -> bool:
    """Return whether a verdict is not in the ledger yet."""
    return entry.verdict is not None and not entry.kept


def is_unsent(entry: AdmissionEntry) -> bool:
    """Return whether there is an answer that the supervisor waits for and was not sent."""
    return entry.verdict is not None and entry.kept and entry.row.open and entry.sent < entry.generation


def is_preempting(entry: AdmissionEntry) -> bool:
    """Return whether the supervisor has not confirmed the preemption of a pod."""
    return entry.preempted and not entry.row.preempted and not entry.row.ending and not entry.row.ended


QUESTIONS: tuple[tuple[str, Callable[[AdmissionEntry], bool]], ...] = (
    ("open", is_open),
    ("on_node", is_on_node),
    ("resizing", is_resizing),
    ("unkept", is_unkept),
    ("unsent", is_unsent),
    ("preempting", is_preempting),
)


def admission_inputs(entry: AdmissionEntry | None) -> tuple[object, ...]:
    """Return what of a pod its own admission and that of others depends on."""
    if entry is None:
        return ()
    row = entry.row
    return (
        row.pod,
        row.order,
        row.settled,
        is_open(entry),
        entry.verdict,
        entry.held,
        entry.resize,
        is_on_node(entry) and (is_leaving(entry), may_have_ended(entry), row.stoppable, row.ending),
    )


class AdmissionWork:
    """Pods and actions of one decision; lives no longer than that."""

    def __init__(self, state: AdmissionState) -> None:
        self.pods: dict[Uid, AdmissionEntry] = dict(state.pods)
        self.actions: list[Action] = []
        self.wakes: list[Instant] = []
        """When to decide again at the latest, one instant for each reason."""
        self.settling: list[Instant] = []
        """When pods without room are judged again at the latest."""
        self.judged: list[tuple[Uid, int]] = []
        """UID and number of the pods that this decision judged."""
        self.room_due = state.room_due
        self.must_read = False
        """A pod waits until the API server's Node was read once more."""
        self.recalled: Mapping[Uid, Verdict] | None = state.record.recalled
        """Verdicts of an earlier life for pods that no one owns."""
        self.edition = state.record.edition
        self.generation = state.next_generation
        self.members: dict[str, Mapping[Uid, None]] = {
            name: getattr(state.index, name) for name, _ in QUESTIONS
        }
        self._kept = state.index

    def put(self, entry: AdmissionEntry) -> None:
        """Replace the entry of this UID."""
        before = self.pods.get(entry.uid)
        if before is entry:
            return
        self.pods[entry.uid] = entry
        self._note(entry.uid, before, entry)

    def answer(self, entry: AdmissionEntry, asked: tuple[Allocated, ...]) -> None:
        """Replace the entry of this UID and give it a new answer, about these requested amounts."""
        self.generation += 1
        self.put(replace(entry, generation=self.generation, asked=asked))

    def drop(self, uid: Uid) -> None:
        """Remove a pod; the same UID is judged again should it come back."""
        before = self.pods.pop(uid, None)
        if before is not None:
            self.edition += before.verdict is not None
            self._note(uid, before, None)

    def named(self, question: str) -> list[AdmissionEntry]:
        """Return the pods that a question is about."""
        return [self.pods[uid] for uid in self.members[question]]

    def _note(self, uid: Uid, before: AdmissionEntry | None, after: AdmissionEntry | None) -> None:
        self.room_due = self.room_due or admission_inputs(before) != admission_inputs(after)
        sort_member(self.members, self._kept, QUESTIONS, uid, after)

    def index(self) -> AdmissionIndex:
        """Return the index after this decision."""
        return AdmissionIndex(**self.members)

    def settled(self, state: AdmissionState) -> AdmissionState:
        """Return the state after this decision."""
        record = replace(state.record, recalled=self.recalled, edition=self.edition)
        return msgspec.structs.replace(
            state,
            pods=self.pods,
            index=self.index(),
            room_due=self.room_due,
            record=record,
            next_generation=self.generation,
        )
