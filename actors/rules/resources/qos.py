"""Quality of service of a pod: what its requests and limits promise (Kubernetes' QoS classes)."""

from collections.abc import Mapping

from api.kube.objects import pod as v1
from api.kube.quantity import Amount, parse

COMPUTE = ("cpu", "memory")


def qos_class(spec: v1.PodSpec) -> str:
    """Return ``Guaranteed``, ``Burstable`` or ``BestEffort``; what the pod asks for as a whole counts alone."""
    whole = spec.resources
    if whole is not None and (amounts(whole.requests) or amounts(whole.limits)):
        asking = [whole]
    else:
        asking = [container.resources for container in (*spec.containers, *spec.init_containers)]
    asked = False
    guaranteed = True
    for resources in asking:
        requests, limits = amounts(resources.requests), amounts(resources.limits)
        asked = asked or bool(requests) or bool(limits)
        for name in COMPUTE:
            limit = limits.get(name)
            if limit is None or requests.get(name, limit) != limit:
                guaranteed = False
        if asked and not guaranteed:
            return "Burstable"
    return "Guaranteed" if asked else "BestEffort"


def amounts(quantities: Mapping[str, str]) -> dict[str, Amount]:
    """Return the non-zero compute resources of a list as numbers."""
    parsed = {name: parse(text) for name, text in quantities.items() if name in COMPUTE}
    return {name: amount for name, amount in parsed.items() if amount.value()}
