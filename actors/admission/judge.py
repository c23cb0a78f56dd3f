"""Admission: may a pod run on this node, beside those that do (reference ``pod-lifecycle`` section 12).

```text
sysctls -> operating system -> supplemental groups -> resources -> selector, name, ports, taints -> AppArmor
                                                      |  short now, enough once leaving pods have ended: wait
                                                      '- short, and critical: preempt others, then wait
```

The first refusal counts, with a kubelet's reasons and messages. A critical pod is checked for resources last, since others
can be preempted for it. Where that does not suffice, a pod of critical priority is refused as ``UnexpectedAdmissionError``,
any other static pod like every pod.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from heapq import nsmallest

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
from actors.rules.resources.qos import qos_class
from actors.rules.resources.request import Claim, is_critical, is_of_critical_priority, is_static
from api.ids import Uid
from api.kube.objects.pod import Pod, PodSpec
from api.kube.quantity import NANO, Amount, Notation
from api.kube.validation.security import dotted
from api.messages.pod import Refusal
from api.ports.node import NodeFacts

LABELS, TAINTS = "NodeAffinity", "TaintToleration"
PORTS = "NodePorts"
UNITS = {"cpu": "CPUs", "ephemeral-storage": "of ephemeral storage", "memory": "of memory", PODS: "pod"}
NAMED_AT_MOST = 5
"""How many users of a scarce resource a message names."""


class PodOnNode(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that may have running containers, or has reserved room."""

    uid: Uid
    name: str
    """``namespace/name``."""
    claim: Claim
    leaving: bool = False
    """It is being stopped, or may have ended already: its room may be free soon."""
    pod: Pod | None = None
    """None when no source describes it."""


class ResourceUsers(msgspec.Struct, frozen=True, kw_only=True):
    """The pods that use a resource."""

    count: int
    largest: tuple[tuple[int, str], ...]
    """Amount and name, the largest first, at most `NAMED_AT_MOST`."""


class UsersByResource(dict[str, ResourceUsers]):
    """The users of each resource, collected when a resource is first asked for."""

    def __init__(self, pods: tuple[PodOnNode, ...]) -> None:
        self._pods = pods

    def __missing__(self, resource: str) -> ResourceUsers:
        amounts = ((pod.claim.amount(resource), pod.name) for pod in self._pods)
        rows = [(-amount, name) for amount, name in amounts if amount]
        largest = tuple((-amount, name) for amount, name in nsmallest(NAMED_AT_MOST, rows))
        self[resource] = users = ResourceUsers(count=len(rows), largest=largest)
        return users


class PodsOnNode(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All pods with a claim on the node, and the sums of their claims."""

    pods: tuple[PodOnNode, ...] = ()
    load: ResourceSum = ResourceSum()
    staying: ResourceSum = ResourceSum()
    """Without pods that are leaving."""

    @staticmethod
    def of(pods: Iterable[PodOnNode]) -> "PodsOnNode":
        """Return these pods with the sums of their claims."""
        pods = tuple(pods)
        return PodsOnNode(
            pods=pods,
            load=ResourceSum.of(pod.claim for pod in pods),
            staying=ResourceSum.of(pod.claim for pod in pods if not pod.leaving),
        )

    def without(self, uid: Uid) -> "PodsOnNode":
        """Return the pods without one."""
        return PodsOnNode.of(pod for pod in self.pods if pod.uid != uid)

    def plus(self, pod: PodOnNode) -> "PodsOnNode":
        """Return the pods with one more."""
        return PodsOnNode(
            pods=(*self.pods, pod),
            load=self.load.plus(pod.claim),
            staying=self.staying if pod.leaving else self.staying.plus(pod.claim),
        )

    @cached_property
    def users(self) -> Mapping[str, ResourceUsers]:
        """By resource: the same for each pod that finds too little of it."""
        return UsersByResource(self.pods)

    @cached_property
    def preemptable(self) -> tuple[tuple[Candidate, Standing], ...]:
        """The pods that may be preempted at all, with their standing: the same for each pod without room."""
        return tuple(
            (Candidate(uid=one.uid, claim=one.claim, qos=qos_class(one.pod.spec)), standing_of(one.pod))
            for one in self.pods
            if not one.leaving and one.pod is not None
        )


class Admitted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It may run."""


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It never runs here."""

    refusal: Refusal
    scarce: bool = False
    """A resource is short that other pods may release soon."""


class Waiting(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It may run once others have ended; it has no verdict yet, and its room is reserved."""

    why: str
    victims: tuple[Uid, ...] = ()
    """The pods to preempt for it."""


Judgement = Admitted | Refused | Waiting


def judge(pod: Pod, claim: Claim, node: NodeFacts, on_node: PodsOnNode) -> Judgement:
    """Decide on a pod that is not in `on_node` yet."""
    unfit = unfit_spec(pod, node)
    if unfit is not None:
        return Refused(refusal=unfit)
    short = shortages(claim, on_node.staying, node)
    misplaced = misplacement(pod, claim, node, on_node)
    critical = is_critical(pod)
    if short and not (critical and misplaced):
        if critical:
            return make_room(pod, claim, node, on_node, short)
        return Refused(refusal=out_of_resource(short[0], claim, node, on_node), scarce=True)
    refusal = misplaced or unenforceable(pod, node)
    if refusal is not None:
        return Refused(refusal=refusal, scarce=refusal.reason == PORTS)
    if shortages(claim, on_node.load, node) or clashes(claim, on_node.load):
        return Waiting(why=f"room on the node, used by pods that are ending: {names_leaving(on_node)}")
    return Admitted()


def unfit_spec(pod: Pod, node: NodeFacts) -> Refusal | None:
    """Return why the spec does not fit the node, other pods aside; None when it does."""
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
            advice = "set allowedUnsafeSysctls in the node's configuration to allow others"
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


def misplacement(pod: Pod, claim: Claim, node: NodeFacts, on_node: PodsOnNode) -> Refusal | None:
    """Return why the pod does not belong on this node or which port is taken, None when it fits."""
    spec = pod.spec
    if not is_selected(spec, node):
        labels = ", ".join(f"{key}={value}" for key, value in node.labels)
        advice = f"requires {selection(spec)}; the node has the labels {labels or 'none'}"
        return predicate_refusal(LABELS, "node(s) didn't match Pod's node affinity/selector", advice)
    if spec.node_name not in ("", node.name):
        advice = f"requires node {spec.node_name}; this node is {node.name}"
        return predicate_refusal("NodeName", "node(s) didn't match the requested node name", advice)
    if clashes(claim, on_node.staying):
        advice = "; ".join(port_holders(claim, on_node))
        return predicate_refusal(PORTS, "node(s) didn't have free ports for the requested pod ports", advice)
    if not is_static(pod) and is_untolerated(spec, node.taints):
        taints = ", ".join(f"{one.key}={one.value}" for one in node.taints if one.effect == "NoExecute")
        return predicate_refusal(
            TAINTS, "node(s) had taints that the pod didn't tolerate", f"the node has {taints}"
        )
    return None


def selection(spec: PodSpec) -> str:
    """Return the node selector as text: ``disk=ssd, arch=arm64``."""
    asked = [f"{key}={value}" for key, value in sorted(spec.node_selector.items())]
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is not None and affinity.required_during_scheduling_ignored_during_execution is not None:
        asked.append("its required node affinity")
    return ", ".join(asked)


def predicate_refusal(predicate: str, message: str, advice: str) -> Refusal:
    """Return the refusal by a scheduler predicate."""
    text = f"Predicate {predicate} failed: {message}"
    return Refusal(reason=predicate, message=text, advice=(advice,))


def unenforceable(pod: Pod, node: NodeFacts) -> Refusal | None:
    """Return why the pod's AppArmor profiles cannot be enforced, None when they can or it has none."""
    if node.apparmor or not asks_for_apparmor(pod):
        return None
    message = "Cannot enforce AppArmor: AppArmor is not enabled on the host"
    return Refusal(reason="AppArmor", message=message)


def make_room(
    pod: Pod, claim: Claim, node: NodeFacts, on_node: PodsOnNode, short: tuple[Shortage, ...]
) -> Judgement:
    """Choose the pods to preempt for a critical pod, or refuse it when preemption would not free enough."""
    unable = unenforceable(pod, node)
    if unable is not None:
        # No pod is preempted for one that would be refused afterwards.
        return Refused(refusal=unable)
    mine = standing_of(pod)
    candidates = tuple(one for one, standing in on_node.preemptable if may_preempt(mine, standing))
    try:
        chosen = victims(candidates, short)
    except NoVictimsError as error:
        refusal = out_of_resource(short[0], claim, node, on_node)
        if is_of_critical_priority(pod):
            found = f"preemption: error finding a set of pods to preempt: {error}"
            message = f"Unexpected error while attempting to recover from admission failure: {found}"
            refusal = msgspec.structs.replace(refusal, reason="UnexpectedAdmissionError", message=message)
        return Refused(refusal=refusal, scarce=True)
    names = ", ".join(one.name for one in on_node.pods if one.uid in chosen)
    return Waiting(why=f"room on the node, which preempts: {names}", victims=chosen)


# texts


def out_of_resource(short: Shortage, claim: Claim, node: NodeFacts, on_node: PodsOnNode) -> Refusal:
    """Return the refusal for a lack of a resource; a pod that is leaving still counts as using what it has."""
    now = next((one for one in shortages(claim, on_node.load, node) if one.resource == short.resource), short)
    return Refusal(
        reason=f"OutOf{now.resource}", message=now.sentence(), advice=shortage_details(now, on_node)
    )


def shortage_details(short: Shortage, on_node: PodsOnNode) -> tuple[str, ...]:
    """Return the shortage as sentences: requested, free, allocatable, and the largest users."""
    name = short.resource
    asked, whole = (formatted(name, amount) for amount in (short.asked, short.capacity))
    free = formatted(name, max(0, short.capacity - short.used))
    what = f"requests {asked} {UNITS.get(name, name)}; {free} of {whole} are free"
    users = on_node.users[name]
    rows = [who if name == PODS else f"{who} ({formatted(name, amount)})" for amount, who in users.largest]
    if users.count > NAMED_AT_MOST:
        rows.append(f"{users.count - NAMED_AT_MOST} more")
    return (what, f"{name} is used by: {', '.join(rows)}") if rows else (what,)


def port_holders(claim: Claim, on_node: PodsOnNode) -> tuple[str, ...]:
    """Return which of the ports are taken, each with the pod that has it."""
    return tuple(
        f"port {mine.port}/{mine.protocol} is taken by {one.name}"
        for mine in claim.ports
        for one in on_node.pods
        if not one.leaving and any(mine.clashes(other) for other in one.claim.ports)
    )


def names_leaving(on_node: PodsOnNode) -> str:
    """Return the names of the pods that are leaving, the first few of them."""
    names = [one.name for one in on_node.pods if one.leaving]
    more = f" and {len(names) - NAMED_AT_MOST} more" if len(names) > NAMED_AT_MOST else ""
    return ", ".join(names[:NAMED_AT_MOST]) + more


def formatted(resource: str, amount: int) -> str:
    """Return an amount of a resource with its unit: CPUs as ``1.9``, bytes as ``2Gi``."""
    if resource == "cpu":
        return f"{amount / 1000:.3f}".rstrip("0").rstrip(".")
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return str(Amount(amount * NANO, Notation.BINARY))
    return str(amount)
