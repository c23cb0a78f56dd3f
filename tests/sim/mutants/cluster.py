"""Planted mutants of the actors that only a node of a cluster has: hunted by seeds of one."""

from __future__ import annotations

from msgspec.structs import replace

from actors.sources.api.state import ApiLevel
from api.messages.kernel import Heard
from api.ports.kube import ApiPodsListed, WatchChecked
from tests.harness.world.kind import Kind
from tests.sim.mutants.catalogue import Mutant


def let_go_of_what_runs(right):
    """A deleted pod is let go of before it has ended."""
    return lambda target, own: target.metadata.deletion_timestamp is not None


def never_let_go(right):
    """A deleted pod that has ended stays at the server."""
    return lambda target, own: False


def give_up_writing(right):
    """A status whose write failed is not written again."""

    def failed(entry, call, failure, now):
        after = right(entry, call, failure, now)
        return replace(after, own=None)

    return failed


def overwrite_for_ever(right):
    """A status that the server has is written again and again."""

    def status_patch(uid, shown, wanted, written=None):
        body = right(uid, shown, wanted, None)
        return body if body is not None else right(uid, replace(shown, phase=""), wanted, None)

    return status_patch


def write_for_any_uid(right):
    """A write of a status does not say which pod it is about."""
    return lambda uid, *rest: right("", *rest)


def drop_remarks(right):
    """Conditions of others are taken away."""

    def condition_changes(shown, wanted, written):
        mine = {one.type for one in wanted.conditions}
        others = [{"$patch": "delete", "type": one.type} for one in shown.conditions if one.type not in mine]
        return [*right(shown, wanted, written), *others]

    return condition_changes


def believe_an_outage(right):
    """A server that is away has no pods."""

    def absorb(state, message, now):
        match message:
            case Heard(item=WatchChecked(failure=failure)) if failure is not None:
                message = replace(message, item=ApiPodsListed())
            case _:
                pass
        return right(state, message, now)

    return absorb


def restore_nothing(right):
    """What the ledger has of the last list is not used after a restart."""

    def due_messages(state):
        return right(state) if state.level is not None else ()

    return due_messages


def keep_the_deleted(right):
    """A pod that the server has no more stays in the checkpoint."""

    def lacking(level: ApiLevel, stored):
        known, unwritten = right(level, stored)
        return known, tuple(one for one in unwritten if one.entry is not None)

    return lacking


def mirror_once(right):
    """A mirror that somebody deleted is left as it is."""

    def must_go(state, mirror, static):
        return mirror.metadata.deletion_timestamp is None and right(state, mirror, static)

    return must_go


def mirror_the_old(right):
    """A mirror of an earlier version stays."""
    return lambda state, mirror, static: static is None and right(state, mirror, static)


def forget_the_owner(right):
    """Mirrors of a Node that is gone stay its own."""
    return lambda mirror, node_uid: True


def sleep_long(right):
    """The lease is renewed only now and then."""
    return lambda state, now: replace(right(state, now), due_at=now + 60.0)


def own_for_ever(right):
    """The lease stays owned by the Node that is gone."""

    def renewed(lease, state, owner, at):
        after = right(lease, state, owner, at)
        had = lease.metadata.owner_references
        return replace(after, metadata=replace(after.metadata, owner_references=had)) if had else after

    return renewed


def register_once(right):
    """A Node that was deleted is not made again."""
    return lambda state, now: replace(
        right(state, now), registration=replace(state.registration, is_done=True)
    )


def report_each_round(right):
    """A status of the Node that did not change is written each time it is looked at."""
    return lambda *given: replace(right(*given), is_changed=True)


CLUSTER_MUTANTS: tuple[Mutant, ...] = (
    Mutant("reckless", "actors.apistatus.core", "must_end", let_go_of_what_runs, kind=Kind.CLUSTER),
    Mutant("hanger-on", "actors.apistatus.core", "must_end", never_let_go, kind=Kind.CLUSTER),
    Mutant("defeatist", "actors.apistatus.core", "failed", give_up_writing, kind=Kind.CLUSTER),
    Mutant("scribbler", "actors.apistatus.core", "status_patch", overwrite_for_ever, kind=Kind.CLUSTER),
    Mutant("nameless", "actors.apistatus.core", "status_patch", write_for_any_uid, kind=Kind.CLUSTER),
    Mutant("eraser", "actors.apistatus.patch", "condition_changes", drop_remarks, kind=Kind.CLUSTER),
    Mutant("credulous", "actors.sources.api.core", "absorb", believe_an_outage, kind=Kind.CLUSTER),
    Mutant(
        "tabula-rasa",
        "actors.sources.api.core",
        "due_messages",
        restore_nothing,
        kind=Kind.CLUSTER,
        first=8_200_003,
    ),
    Mutant("necromancer", "actors.sources.api.checkpoint", "lacking", keep_the_deleted, kind=Kind.CLUSTER),
    Mutant("ghost", "actors.mirrors.core", "must_go", mirror_once, kind=Kind.CLUSTER),
    Mutant("antiquarian", "actors.mirrors.core", "must_go", mirror_the_old, kind=Kind.CLUSTER),
    Mutant("orphanage", "actors.mirrors.mirrorpod", "is_owned", forget_the_owner, kind=Kind.CLUSTER),
    Mutant("dozer", "actors.lease.core", "paused", sleep_long, kind=Kind.CLUSTER),
    Mutant("widow", "actors.lease.core", "renewed", own_for_ever, kind=Kind.CLUSTER),
    Mutant("homeless", "actors.nodestatus.exchange", "gone", register_once, kind=Kind.CLUSTER),
    Mutant("pest", "actors.nodestatus.exchange", "composed", report_each_round, kind=Kind.CLUSTER),
)
