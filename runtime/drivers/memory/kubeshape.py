"""What an API server makes of fields that depend on each other, before it stores an object."""

from api.errors import RejectedError
from runtime.drivers.memory.kubemerge import Object
from runtime.drivers.memory.kuberule import section


def settled(plural: str, body: Object) -> Object:
    """Return an object with the fields that follow from others. Raises `RejectedError` where they contradict."""
    status = section(body, "status")
    match plural:
        case "events":
            namespace, about = section(body, "metadata").get("namespace"), section(body, "involvedObject")
            if about.get("namespace", "default") != namespace:
                why = f"involvedObject.namespace: Invalid value: {about.get('namespace')!r}: does not match event.namespace"
                raise RejectedError(why, reason="Invalid")
            return body
        case "nodes":
            needs = status.get("capacity") and not status.get("allocatable")
            return {**body, "status": {**status, **({"allocatable": status["capacity"]} if needs else {})}}
        case "pods":
            return {**body, "status": _with_addresses(status)}
    return body


def _with_addresses(status: Object) -> Object:
    """``podIP`` wins over ``podIPs``, whose first it is; there is at most one of each family."""
    first, listed = status.get("podIP"), status.get("podIPs")
    addresses = [one.get("ip") for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    if first and addresses[:1] != [first]:
        addresses = [first]
    families = [":" in str(address) for address in addresses]
    if len(set(families)) < len(families):
        why = "may specify no more than one IP for each IP family"
        raise RejectedError(f"status.podIPs: Invalid value: {addresses}: {why}", reason="Invalid")
    rest = {name: value for name, value in status.items() if name not in ("podIP", "podIPs")}
    if not addresses:
        return rest
    return {**rest, "podIP": addresses[0], "podIPs": [{"ip": address} for address in addresses]}
