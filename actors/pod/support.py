"""What of a v1 Pod this agent honours today: everything else is said, never dropped.

The table names every field that is honoured or has nothing to do on a node. A pod that sets any other field stays
Pending with that field's path in its message. ``docs/support.md`` is made from this table.
"""

from collections.abc import Iterator, Mapping

import msgspec

from api.objects.pod import Pod

HONOURED: dict[str, tuple[object, ...]] = {
    # Path pattern -> accepted values; an empty tuple accepts any.
    "spec.activeDeadlineSeconds": (None,),
    "spec.automountServiceAccountToken": (None, False),
    "spec.containers[].args": (),
    "spec.containers[].command": (),
    "spec.containers[].env[].name": (),
    "spec.containers[].env[].value": (),
    "spec.containers[].image": (),
    "spec.containers[].imagePullPolicy": (),
    "spec.containers[].name": (),
    "spec.containers[].ports[].containerPort": (),
    "spec.containers[].ports[].hostPort": (),
    "spec.containers[].ports[].name": (),
    "spec.containers[].ports[].protocol": (),
    "spec.containers[].resources.requests": (),
    "spec.containers[].restartPolicy": (),
    "spec.containers[].restartPolicyRules[].action": ("Restart",),
    "spec.containers[].restartPolicyRules[].exitCodes": (),
    "spec.containers[].securityContext.runAsGroup": (),
    "spec.containers[].securityContext.runAsUser": (),
    "spec.containers[].terminationMessagePath": ("", "/dev/termination-log"),
    "spec.containers[].terminationMessagePolicy": ("", "File"),
    "spec.containers[].workingDir": (),
    "spec.dnsPolicy": ("", "ClusterFirst", "Default"),
    "spec.enableServiceLinks": (),
    "spec.hostIPC": (),
    "spec.hostNetwork": (),
    "spec.hostPID": (),
    "spec.imagePullSecrets": (),
    "spec.nodeName": (),
    "spec.os.name": ("", "linux"),
    "spec.preemptionPolicy": (),
    "spec.priority": (),
    "spec.priorityClassName": (),
    "spec.restartPolicy": (),
    "spec.schedulerName": (),
    "spec.securityContext.runAsGroup": (),
    "spec.securityContext.runAsUser": (),
    "spec.serviceAccount": ("", "default"),
    "spec.serviceAccountName": ("", "default"),
    "spec.terminationGracePeriodSeconds": (),
    "spec.tolerations": (),
}


def unsupported_paths(pod: Pod) -> tuple[str, ...]:
    """Return the path of every field that the pod sets and this agent does not honour yet, in spec order."""
    return tuple(unhonoured(pod.spec, "spec", "spec"))


def unhonoured(value: object, path: str, pattern: str) -> Iterator[str]:
    """Walk a value; yield the paths below it that no row of the table accepts."""
    accepted = HONOURED.get(pattern)
    if accepted is not None:
        if accepted and value not in accepted:
            yield path
    elif isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            part = getattr(value, field.name)
            if not is_unset(part):
                name = field.encode_name
                yield from unhonoured(part, f"{path}.{name}", f"{pattern}.{name}")
    elif isinstance(value, tuple):
        for index, part in enumerate(value):
            yield from unhonoured(part, f"{path}[{index}]", f"{pattern}[]")
    else:
        yield path


def is_unset(value: object) -> bool:
    """Tell whether a field asks for nothing: unset, false, or empty all the way down."""
    if value is None or value is False or value in ("", 0):
        return True
    if isinstance(value, (tuple, Mapping)):
        return not value
    if isinstance(value, msgspec.Struct):
        return all(is_unset(getattr(value, field)) for field in value.__struct_fields__)
    return False
