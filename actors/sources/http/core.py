"""Decides when to fetch the manifest URL and what its answer means for the pods.

An answer with the bytes of the last one changes nothing; one that is wrong is not looked at again until its bytes
change; a failure keeps what was wanted. An empty body is an empty list, and a list is all or nothing: one pod in it
that is wrong keeps the whole of the previous one.
"""

from collections.abc import Callable
from typing import assert_never

import msgspec
from msgspec.structs import replace

from actors.rules.retry import RetryPolicy
from actors.sources.manifest import HTTP, Origin, read_pods
from api.errors import Failure
from api.ids import Instant, OpId, Path
from api.kube.objects.pod import Pod
from api.lifecycle import Action, Decision, Start, Tell
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.messages.podconfig import PodsSeen
from api.ports.manifests import Problem
from api.ports.urls import FetchedManifests, FetchManifests, shown_url
from api.shown.introspection import SourceRow

PERIOD_S = 20.0
FETCH_DEADLINE_S = 10.0
RETRY_FIRST_S = 1.0

URLS = "urls"

NewOp = Callable[[], OpId]


class HttpState(msgspec.Struct, frozen=True, kw_only=True):
    """All that the URL source knows."""

    url: str
    headers: tuple[tuple[str, str], ...]
    """Secret."""
    node_name: str
    config: Path
    period_s: float
    digest: str = ""
    """Of the last body, right or wrong."""
    pods: tuple[Pod, ...] = ()
    seen: bool = False
    """The URL gave one valid list, even an empty one: before that nothing is sent."""
    sent: bool = False
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    fetching: OpId | None = None
    fetch_at: Instant = 0.0
    failure: Failure | None = None
    failures: int = 0

    def __repr__(self) -> str:
        return f"HttpState(url={shown_url(self.url)!r}, headers=<hidden>, seen={self.seen}, pods={len(self.pods)})"


def begin(
    url: str,
    headers: tuple[tuple[str, str], ...],
    node_name: str,
    config: Path,
    now: Instant,
    new_op: NewOp,
    *,
    period_s: float = PERIOD_S,
) -> Decision[HttpState]:
    """Begin an incarnation."""
    state = HttpState(
        url=url, headers=headers, node_name=node_name, config=config, period_s=period_s, fetch_at=now
    )
    return plan(state, now, new_op)


def decide(state: HttpState, message: KernelMessage, now: Instant, new_op: NewOp) -> Decision[HttpState]:
    """Take in one message and choose what is next."""
    return plan(absorb(state, message, now), now, new_op)


def absorb(state: HttpState, message: KernelMessage, now: Instant) -> HttpState:
    """Return what is known after a message."""
    match message:
        case Outcome(op=op, result=result, failure=failure) if op == state.fetching:
            state = replace(state, fetching=None)
            if isinstance(result, FetchedManifests):
                return take_answer(replace(state, fetch_at=now + state.period_s), result)
            # Sooner than the period at first: a server that restarts should not cost a node its whole period.
            failures = state.failures + 1
            policy = RetryPolicy(base_s=RETRY_FIRST_S, limit_s=state.period_s)
            fetch_at = now + policy.wait_s(failures)
            return replace(state, failure=failure, failures=failures, fetch_at=fetch_at)
        case Restarted(path=path) if path == state.config:
            return replace(state, sent=False)
        case Alarm() | Outcome() | Heard() | StreamEnded() | Restarted() | ChildDied():
            return state
        case _:
            assert_never(message)


def take_answer(state: HttpState, answer: FetchedManifests) -> HttpState:
    """Take in a body; what is wanted changes only with one that is wholly right."""
    # Each answer repeats the list to the merge: that repairs a lost one.
    state = replace(state, failure=None, failures=0, sent=False)
    if answer.unchanged or answer.digest == state.digest:
        return state
    state = replace(state, digest=answer.digest, problems=answer.problems, warnings=())
    if answer.problems:
        return state
    if answer.document is None:
        return replace(state, seen=True, pods=())
    origin = Origin(source=HTTP, where=state.url, shown=shown_url(state.url), node_name=state.node_name)
    read = read_pods(answer.document, origin)
    state = replace(state, problems=read.problems, warnings=read.warnings)
    return state if read.problems else replace(state, seen=True, pods=read.pods)


def plan(state: HttpState, now: Instant, new_op: NewOp) -> Decision[HttpState]:
    """Choose what is next."""
    actions: list[Action] = []
    if state.fetching is None and now >= state.fetch_at:
        op = new_op()
        call = FetchManifests(url=state.url, headers=state.headers, known_digest=state.digest)
        actions.append(Start(op=op, port=URLS, call=call, deadline_s=FETCH_DEADLINE_S))
        state = replace(state, fetching=op)
    if state.seen and not state.sent:
        actions.append(Tell(to=state.config, message=PodsSeen(source=HTTP, pods=state.pods)))
        state = replace(state, sent=True)
    return Decision(
        state=state, actions=tuple(actions), wake_at=state.fetch_at if state.fetching is None else None
    )


def rows(state: HttpState) -> tuple[SourceRow, ...]:
    """Return what became of the URL and of each pod from it."""
    said = [f"{problem.where}: {problem.message}" for problem in (*state.problems, *state.warnings)]
    status = "accepted"
    if state.problems:
        status = "broken"
        said.append(
            "the pods of its last right answer are kept" if state.seen else "it never gave a right answer"
        )
    elif not state.seen:
        status = "waiting"
    if state.failure is not None:
        status = "unreachable"
        said.insert(0, state.failure.message)
    where = shown_url(state.url)
    pods = tuple(
        SourceRow(
            source=HTTP, where=where, status="accepted", pod=f"{p.metadata.namespace}/{p.metadata.name}"
        )
        for p in state.pods
    )
    return (SourceRow(source=HTTP, where=where, status=status, problems=tuple(said)), *pods)


def changed_rows(before: HttpState, after: HttpState) -> tuple[SourceRow, ...]:
    """Return the rows that changed."""
    known = set(rows(before))
    return tuple(row for row in rows(after) if row not in known)
