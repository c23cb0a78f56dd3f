"""Rules of resources: amounts that are none below zero, requests within limits."""

from collections.abc import Mapping

from api import quantity
from api.objects.container import ResourceRequirements
from api.problem import joined, shown
from api.validation import name as names
from api.validation.check import Check

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
            check.wrong(
                place, resources.requests[name], f"at most the limit, {shown(resources.limits[name])}"
            )
        elif name not in STANDARD and (limit is None or request != limit):
            # What can not be shared or overcommitted is requested and limited alike.
            place = joined(f"{path}.requests", name)
            check.wrong(
                place, resources.requests[name], f"the same amount in limits: {name} can not be overcommitted"
            )
    seen: set[tuple[str, str]] = set()
    for index, claim in enumerate(resources.claims):
        place = f"{path}.claims[{index}]"
        if check.required(f"{place}.name", claim.name, "the name of a claim") and claim.name not in claims:
            check.wrong(f"{place}.name", claim.name, "the name of one of the pod's resourceClaims")
        if (claim.name, claim.request) in seen:
            check.wrong(place, claim.name, "each claim once")
        seen.add((claim.name, claim.request))


def check_amounts(
    check: Check, amounts: Mapping[str, str], path: str, standard: tuple[str, ...] = STANDARD
) -> dict[str, quantity.Amount]:
    """Check names and amounts; return those that are well."""
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
            check.wrong(place, text, "a whole number")
        good[name] = amount
    return good
