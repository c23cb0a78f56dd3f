"""Rules of resources: no negative quantities, requests within limits."""

from collections.abc import Mapping

from api.kube import quantity
from api.kube.objects.container import Container, ResourceRequirements
from api.kube.validation import name as names
from api.kube.validation.check import Check
from api.problem import joined, shown
from api.shortening import shortened

STANDARD = ("cpu", "memory", "ephemeral-storage")
POD_LEVEL = ("cpu", "memory")
HUGE_PAGES = "hugepages-"


def check_resources(
    check: Check,
    resources: ResourceRequirements,
    path: str,
    claims: frozenset[str],
    standard: tuple[str, ...] = STANDARD,
) -> None:
    """Check requests, limits and claims; `claims` are the names that the pod declares."""
    limits = check_amounts(check, resources.limits, f"{path}.limits", standard)
    requests = check_amounts(check, resources.requests, f"{path}.requests", standard)
    for name, request in requests.items():
        limit = limits.get(name)
        if limit is not None and request > limit:
            place = joined(f"{path}.requests", name)
            check.wrong(place, resources.requests[name], f"at most the limit {shown(resources.limits[name])}")
        elif name not in STANDARD and (limit is None or request != limit):
            # Request and limit of a resource that cannot be overcommitted must be equal.
            place = joined(f"{path}.requests", name)
            check.wrong(
                place,
                resources.requests[name],
                f"equal to the limit ({shortened(name)} cannot be overcommitted)",
            )
    seen: set[tuple[str, str]] = set()
    for index, claim in enumerate(resources.claims):
        place = f"{path}.claims[{index}]"
        if check.required(f"{place}.name", claim.name, "the name of a claim") and claim.name not in claims:
            check.wrong(f"{place}.name", claim.name, "the name of one of the pod's resourceClaims")
        if (claim.name, claim.request) in seen:
            check.wrong(place, claim.name, "a claim that is unique in this list")
        seen.add((claim.name, claim.request))


def check_pod_level(
    check: Check,
    whole: ResourceRequirements,
    containers: tuple[Container, ...],
    inits: tuple[Container, ...],
) -> None:
    """Check pod-level resources: requests cover the sum of its containers' requests, limits cover each container's limit."""
    beside = tuple(one for one in inits if one.restart_policy == "Always")
    for name in POD_LEVEL:
        request = readable(whole.requests.get(name))
        asked = (readable(one.resources.requests.get(name)) for one in (*containers, *beside))
        total = sum((one for one in asked if one is not None), quantity.ZERO)
        if request is not None and total > request:
            place = joined("spec.resources.requests", name)
            check.wrong(place, whole.requests[name], f"at least {total}, the sum of its containers' requests")
        limit = readable(whole.limits.get(name))
        for group, many in (("initContainers", inits), ("containers", containers)):
            for index, one in enumerate(many):
                own = readable(one.resources.limits.get(name))
                if limit is not None and own is not None and own > limit:
                    place = joined(f"spec.{group}[{index}].resources.limits", name)
                    text = f"at most the limit of the pod, {shown(whole.limits[name])}"
                    check.wrong(place, one.resources.limits[name], text)


def readable(text: str | None) -> quantity.Amount | None:
    """Return a quantity, None when it is unset or invalid (which is a problem of its own)."""
    try:
        return quantity.parse(text) if text is not None else None
    except quantity.QuantityError:
        return None


def check_amounts(
    check: Check, amounts: Mapping[str, str], path: str, standard: tuple[str, ...] = STANDARD
) -> dict[str, quantity.Amount]:
    """Check names and quantities; return the valid ones."""
    good = {}
    for name, text in amounts.items():
        place = joined(path, name)
        known = name in standard or name.startswith(HUGE_PAGES)
        if not known and (standard is not STANDARD or "/" not in name or not names.QUALIFIED.accepts(name)):
            extended = " or a name with a domain, such as example.com/gpu" if standard is STANDARD else ""
            check.note(
                place, f"the resource {shown(name)}", f"{', '.join(standard)}, hugepages-<size>{extended}"
            )
            continue
        amount = check.amount(place, text)
        if amount is None:
            continue
        if "/" in name and amount.nanos % quantity.NANO:
            check.wrong(place, text, "an integer")
        good[name] = amount
    return good
