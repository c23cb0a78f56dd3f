"""Planted mutants of whoever evicts, reads what is used, or collects images: hunted by seeds of a node that runs short."""

from __future__ import annotations

from msgspec.structs import replace

from actors.eviction.core import over
from actors.eviction.reading import pressure_of
from actors.eviction.state import Killing
from api import paths
from tests.harness.world.kind import Kind
from tests.sim.mutants.catalogue import Mutant


def take_two(right):
    """Two pods have to go in one round."""
    return lambda state, actions, *rest: right(right(state, actions, *rest), actions, *rest)


def trust_old_readings(right):
    """A reading begun before the last action was over is decided on."""
    return lambda state, seen, now: True


def spare_images(right):
    """Pods have to go before unused images."""
    return lambda state, signal: False


def know_no_grace(right):
    """A soft threshold counts at once."""

    def with_usage(*given):
        state = right(*given)
        met = tuple(replace(one, ripe=True) for one in state.pressure.met)
        return replace(state, pressure=replace(state.pressure, met=met))

    return with_usage


def be_content(right):
    """What is short is so no more without its minimum reclaim."""
    return lambda threshold, seen, **_: right(threshold, seen)


def forget_pressure(right):
    """A pressure is over at once, whatever the transition period."""
    return lambda state, now: tuple(sorted({pressure_of(one.threshold) for one in state.pressure.met}))


def spare_nobody(right):
    """Critical pods have to go like others."""
    return lambda pod, *, spares_static: ""


def begin_with_the_least(right):
    """Who uses least has to go first."""
    return lambda state, signal, now: tuple(reversed(right(state, signal, now)))


def overlook_users(right):
    """An image that containers are made of may go."""
    return lambda look: replace(right(look), users={})


def overlook_wants(right):
    """An image that pods want may go."""
    return lambda state, names, now: ""


def tell_once(right):
    """An admission that began again is not told of pressure."""
    return lambda state, path, now: (state, ()) if path == paths.ADMISSION else right(state, path, now)


def wait_for_ever(right):
    """A victim that hangs is awaited for ever."""

    def kill(*given, **named):
        state = right(*given, **named)
        return replace(state, doing=replace(state.doing, until=float("inf")))

    return kill


def call_it_new(right):
    """What was read long ago is told as read now."""

    def node_usage(state, now):
        usage, whys = right(state, now)
        return replace(usage, as_of=now, disk_as_of=now, image_as_of=now), whys

    return node_usage


def let_everybody_in(right):
    """Newcomers are let in whatever the node is short of."""
    return lambda pod, conditions, *, spares_static: None


def ignore_the_dying(right):
    """A new incarnation does not wait for the victim of the last one."""
    return lambda pods: pods.whole


def bury_the_living(right):
    """A victim is taken for gone while its volumes are there."""

    def when_gone(state, now):
        stopped = isinstance(state.doing, Killing) and state.doing.stopped
        return over(state, now, "") if stopped else right(state, now)

    return when_gone


EVICTION_MUTANTS: tuple[Mutant, ...] = (
    Mutant("glutton", "actors.eviction.core", "evict", take_two, kind=Kind.EVICTION),
    Mutant("dinosaur", "actors.eviction.verdict", "is_news", trust_old_readings, kind=Kind.EVICTION),
    Mutant("collector", "actors.eviction.core", "reclaims_images", spare_images, kind=Kind.EVICTION),
    Mutant("hothead", "actors.eviction.core", "with_usage", know_no_grace, kind=Kind.EVICTION),
    Mutant("half-hearted", "actors.eviction.reading", "is_met", be_content, kind=Kind.EVICTION, first=8),
    Mutant("carefree", "actors.eviction.core", "pressures", forget_pressure, kind=Kind.EVICTION),
    Mutant("regicide", "actors.eviction.verdict", "is_spared", spare_nobody, kind=Kind.EVICTION),
    Mutant("populist", "actors.eviction.core", "ranking", begin_with_the_least, kind=Kind.EVICTION),
    Mutant("sawyer", "actors.imagegc.core", "inventory", overlook_users, kind=Kind.EVICTION),
    Mutant("evictor", "actors.images.drop", "holder", overlook_wants, kind=Kind.EVICTION, first=16),
    Mutant("mute", "actors.eviction.core", "restarted", tell_once, kind=Kind.EVICTION),
    Mutant("mourner", "actors.eviction.core", "kill", wait_for_ever, kind=Kind.EVICTION),
    Mutant("forger", "actors.usage.compose", "node_usage", call_it_new, kind=Kind.EVICTION),
    Mutant("innkeeper", "actors.admission.admit", "refused_under", let_everybody_in, kind=Kind.EVICTION),
    Mutant("successor", "actors.eviction.core", "is_quiet", ignore_the_dying, kind=Kind.EVICTION, first=7),
    Mutant("undertaker", "actors.eviction.core", "when_gone", bury_the_living, kind=Kind.EVICTION),
)
