"""Admission: may a pod run on this node, beside those that do (reference ``pod-lifecycle`` section 12).

```text
sysctls -> operating system -> supplemental groups -> resources -> selector, name, ports, taints -> AppArmor
                                                      |  short now, not once those have ended who are about to: wait
                                                      '- short, and critical: others are stopped for it, then: wait
```

The first refusal counts, with a kubelet's reasons and messages. A critical pod hears of a lack of resources last, since
room can be made for it. Where room cannot be made, one of a critical priority is refused in the words for that, and any
other static pod, which is critical only in that nobody stops it lightly, like every pod.
"""

import msgspec

from actors.admission.fit import PODS, ResourceSum, Shortage, clashes, shortages
from actors.admission.placement import is_selected, is_untolerated, wrong_os, wrong_os_label
from actors.admission.preemption import (
    Candidate,
    NoVictimsError,
    Standing,
    may_preempt,
    standing_of,
    victims,
)
from actors.rules.container.apparmor import asks_for_apparmor
from actors.rules.container.sysctl import forbidden_sysctl
from actors.rules.identity import kept_for_last
from actors.rules.resources.qos import qos_class
from actors.rules.resources.request import Claim, is_critical, is_of_critical_priority, is_static
from api.ids import Uid
from api.kube.objects.pod import Pod, PodSpec
from api.kube.quantity import NANO, Amount, Notation
from api.kube.validation.security import dotted
from api.messages.pod import Refusal
from api.ports.node import NodeFacts

PORTS = "NodePorts"
NAMED_AT_MOST = 5
"""Of those that have what is short, so many are named."""


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that may have running containers, or was promised room."""

    uid: Uid
    name: str
    """``namespace/name``."""
    claim: Claim
    leaving: bool = False
    """It is being stopped, or may turn out to have ended: its room may be free soon."""
    pod: Pod | None = None
    """None when no source describes it."""


class House(msgspec.Struct, frozen=True, kw_only=True):
    """Everybody who takes something of the node."""

    tenants: tuple[Tenant, ...] = ()
    load: ResourceSum = ResourceSum()
    staying: ResourceSum = ResourceSum()
    """Without those who are leaving."""

    def without(self, uid: Uid) -> "House":
        """Return the house without one tenant."""
        after = House()
        for tenant in self.tenants:
            after = after if tenant.uid == uid else after.plus(tenant)
        return after

    def plus(self, tenant: Tenant) -> "House":
        """Return the house with one tenant more."""
        return House(
            tenants=(*self.tenants, tenant),
            load=self.load.plus(tenant.claim),
            staying=self.staying if tenant.leaving else self.staying.plus(tenant.claim),
        )


class Admitted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It may run."""


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It never runs here."""

    refusal: Refusal
    scarce: bool = False
    """For want of what others have, who may be about to be removed."""


class Waiting(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It may run once others have ended; nothing is decided yet, and its room is kept for it."""

    why: str
    victims: tuple[Uid, ...] = ()
    """Who is to be stopped for it."""


Judgement = Admitted | Refused | Waiting


def judge(pod: Pod, claim: Claim, node: NodeFacts, house: House) -> Judgement:
    """Decide on a pod that is not in the house yet."""
    unfit = unfit_spec(pod, node)
    if unfit is not None:
        return Refused(refusal=unfit)
    short = shortages(claim, house.staying, node)
    misplaced = misplacement(pod, claim, node, house)
    critical = is_critical(pod)
    if short and not (critical and misplaced):
        if critical:
            return make_room(pod, claim, node, house, short)
        return Refused(refusal=out_of(short[0], claim, node, house), scarce=True)
    refusal = misplaced or unenforceable(pod, node)
    if refusal is not None:
        return Refused(refusal=refusal, scarce=refusal.reason == PORTS)
    if shortages(claim, house.load, node) or clashes(claim, house.load):
        return Waiting(why=f"room on the node, which these take until they have ended: {leavers(house)}")
    return Admitted()


def unfit_spec(pod: Pod, node: NodeFacts) -> Refusal | None:
    """Return why the spec does not fit the node whoever else is there, None when it does."""
    spec = pod.spec
    context = spec.security_context
    for one in context.sysctls if context is not None else ():
        why = forbidden_sysctl(
            dotted(one.name),
            host_network=spec.host_network,
            host_ipc=spec.host_ipc,
            allowed=node.allowed_sysctls,
        )
        if why:
            advice = "allowedUnsafeSysctls in the node's configuration says which others may be set"
            return Refusal(reason="SysctlForbidden", message=why, advice=(advice,))
    if wrong_os_label(pod):
        return Refusal(
            reason="PodOSSelectorNodeLabelDoesNotMatch",
            message="Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        )
    if wrong_os(pod):
        message = "Failed to admit pod as the OS field doesn't match node OS"
        return Refusal(reason="PodOSNotSupported", message=message)
    if context is not None and context.supplemental_groups_policy == "Strict" and not node.strict_groups:
        return Refusal(
            reason="SupplementalGroupsPolicyNotSupported",
            message="SupplementalGroupsPolicy=Strict is not supported in this node",
        )
    return None


def misplacement(pod: Pod, claim: Claim, node: NodeFacts, house: House) -> Refusal | None:
    """Return why the pod is on the wrong node or finds a port taken, None when neither is so."""
    spec = pod.spec
    if not is_selected(spec, node):
        labels = ", ".join(f"{key}={value}" for key, value in node.labels)
        advice = f"it asks for {selection(spec)}; the node has the labels {labels or 'none'}"
        return failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector", advice)
    if spec.node_name not in ("", node.name):
        advice = f"it asks for node {spec.node_name}, and this one is {node.name}"
        return failed("NodeName", "node(s) didn't match the requested node name", advice)
    if clashes(claim, house.staying):
        advice = "; ".join(port_holders(claim, house))
        return failed(PORTS, "node(s) didn't have free ports for the requested pod ports", advice)
    if not is_static(pod) and is_untolerated(spec, node.taints):
        taints = ", ".join(f"{one.key}={one.value}" for one in node.taints if one.effect == "NoExecute")
        return failed(
            "TaintToleration", "node(s) had taints that the pod didn't tolerate", f"the node has {taints}"
        )
    return None


def selection(spec: PodSpec) -> str:
    """Return what a pod asks of its node's labels, in words."""
    asked = [f"{key}={value}" for key, value in sorted(spec.node_selector.items())]
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is not None and affinity.required_during_scheduling_ignored_during_execution is not None:
        asked.append("what its required node affinity says")
    return ", ".join(asked)


def failed(predicate: str, message: str, advice: str) -> Refusal:
    """Return the refusal of a predicate."""
    text = f"Predicate {predicate} failed: {message}"
    return Refusal(reason=predicate, message=text, advice=(advice,))


def unenforceable(pod: Pod, node: NodeFacts) -> Refusal | None:
    """Return why the pod's AppArmor profiles cannot be enforced, None when they can or it has none."""
    if node.apparmor or not asks_for_apparmor(pod):
        return None
    message = "Cannot enforce AppArmor: AppArmor is not enabled on the host"
    return Refusal(reason="AppArmor", message=message)


def make_room(
    pod: Pod, claim: Claim, node: NodeFacts, house: House, short: tuple[Shortage, ...]
) -> Judgement:
    """Choose who is stopped for a critical pod, or refuse it when that would not do."""
    unable = unenforceable(pod, node)
    if unable is not None:
        # Nobody is stopped for a pod that would be refused afterwards.
        return Refused(refusal=unable)
    mine = standing_of(pod)
    candidates = tuple(one for one, standing in stoppable(house) if may_preempt(mine, standing))
    try:
        chosen = victims(candidates, short)
    except NoVictimsError as error:
        refusal = out_of(short[0], claim, node, house)
        if is_of_critical_priority(pod):
            found = f"preemption: error finding a set of pods to preempt: {error}"
            message = f"Unexpected error while attempting to recover from admission failure: {found}"
            refusal = msgspec.structs.replace(refusal, reason="UnexpectedAdmissionError", message=message)
        return Refused(refusal=refusal, scarce=True)
    names = ", ".join(one.name for one in house.tenants if one.uid in chosen)
    return Waiting(why=f"room on the node, for which these are stopped: {names}", victims=chosen)


@kept_for_last
def stoppable(house: House) -> tuple[tuple[Candidate, Standing], ...]:
    """Return who could be stopped for others at all, and how they stand: the same for everyone who finds no room."""
    return tuple(
        (Candidate(uid=one.uid, claim=one.claim, qos=qos_class(one.pod.spec)), standing_of(one.pod))
        for one in house.tenants
        if not one.leaving and one.pod is not None
    )


# in words


def out_of(short: Shortage, claim: Claim, node: NodeFacts, house: House) -> Refusal:
    """Return the refusal for want of a resource; a pod on its way out still counts as using what it has."""
    now = next((one for one in shortages(claim, house.load, node) if one.resource == short.resource), short)
    return Refusal(reason=f"OutOf{now.resource}", message=now.sentence(), advice=shares(now, house))


def shares(short: Shortage, house: House) -> tuple[str, ...]:
    """Return what is short in words: how much is asked for, used and free, and by whom it is used."""
    name = short.resource
    asked, used, whole = (human(name, amount) for amount in (short.asked, short.used, short.capacity))
    free = human(name, max(0, short.capacity - short.used))
    what = f"{name}: it asks for {asked}; of {whole} that pods may have {used} are used and {free} are free"
    holders = holders_of(house, name)
    rows = [
        who if name == PODS else f"{who} ({human(name, amount)})" for amount, who in holders[:NAMED_AT_MOST]
    ]
    if len(holders) > NAMED_AT_MOST:
        rows.append(f"{len(holders) - NAMED_AT_MOST} more")
    return (what, f"{name} is used by: {', '.join(rows)}") if rows else (what,)


@kept_for_last
def holders_of(house: House, resource: str) -> tuple[tuple[int, str], ...]:
    """Return how much of a resource each has who has any, and its name: the most first."""
    held = ((one.claim.amount(resource), one.name) for one in house.tenants)
    return tuple(sorted((row for row in held if row[0]), key=lambda row: (-row[0], row[1])))


def port_holders(claim: Claim, house: House) -> tuple[str, ...]:
    """Return which of the ports are taken, and by whom."""
    return tuple(
        f"port {mine.port}/{mine.protocol} is taken by {one.name}"
        for mine in claim.ports
        for one in house.tenants
        if not one.leaving and any(mine.clashes(other) for other in one.claim.ports)
    )


def leavers(house: House) -> str:
    """Return who is on the way out."""
    names = [one.name for one in house.tenants if one.leaving]
    more = f" and {len(names) - NAMED_AT_MOST} more" if len(names) > NAMED_AT_MOST else ""
    return ", ".join(names[:NAMED_AT_MOST]) + more


def human(resource: str, amount: int) -> str:
    """Write an amount of a resource for people."""
    if resource == "cpu":
        return str(Amount(amount * (NANO // 1000)))
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return str(Amount(amount * NANO, Notation.BINARY))
    return str(amount)
