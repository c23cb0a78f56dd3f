"""Environment, command and arguments: references between variables, and the downward API.

Reference ``runtime-cri`` sections 16.3 and 16.4. Values from ConfigMaps, Secrets and files are not supported: a pod with
them is refused by `actors.pod.spec.support` before anything is created.
"""

import re
from collections.abc import Iterable

from actors.pod.spec.lookup import service_variables
from actors.pod.spec.problem import refuse
from actors.pod.spec.resource import with_pod_limits
from api.kube.objects.container import Container, EnvVarSource, EphemeralContainer
from api.kube.objects.meta import ResourceFieldSelector
from api.kube.objects.pod import Pod
from api.kube.quantity import NANO, Amount, ceil_div, parse
from api.ports.kube import ClusterService
from api.ports.node import NodeFacts
from api.ports.runtime import EnvironmentVariable

REFERENCE = re.compile(r"\$(\$|\(([^)]*)\))")
SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")
HUGE_PAGES = "hugepages-"


def environment(
    container: Container | EphemeralContainer,
    pod: Pod,
    node: NodeFacts,
    ips: tuple[str, ...],
    services: Iterable[ClusterService] = (),
) -> tuple[EnvironmentVariable, ...]:
    """Return the environment in definition order, then the Services' that it does not define itself.

    A later variable may refer to earlier ones and to Services', the last of a name wins. `ips` are the pod's, as its sandbox
    shows them. Raises `Unfit` for what is no field of a pod.
    """
    values: dict[str, str] = {}
    linked = service_variables(pod, services)
    for variable in container.env:
        if variable.value_from is None:
            values[variable.name] = expand(variable.value, {**linked, **values} if linked else values)
        else:
            values[variable.name] = sourced(variable.value_from, container, pod, node, ips)
    values |= {name: value for name, value in linked.items() if name not in values}
    return tuple(EnvironmentVariable(name, value) for name, value in values.items())


def expand(text: str, values: dict[str, str]) -> str:
    """Replace ``$(NAME)`` by its value; ``$$`` is one dollar; an unknown name stays as it is (Kubernetes' rule)."""

    def replacement(match: re.Match[str]) -> str:
        if match.group(1) == "$":
            return "$"
        return values.get(match.group(2), match.group(0))

    return REFERENCE.sub(replacement, text)


def sourced(
    source: EnvVarSource,
    container: Container | EphemeralContainer,
    pod: Pod,
    node: NodeFacts,
    ips: tuple[str, ...],
) -> str:
    """Return the value of a variable that comes from the pod itself."""
    if source.field_ref is not None:
        return field(source.field_ref.field_path, pod, node, ips)
    if source.resource_field_ref is not None:
        return resource_field(source.resource_field_ref, container, pod, node)
    return refuse("the valueFrom source of an environment variable is not supported")


def field(path: str, pod: Pod, node: NodeFacts, ips: tuple[str, ...]) -> str:
    """Return a field of the pod as text; a label or annotation that is not there is empty."""
    meta, spec = pod.metadata, pod.spec
    subscript = SUBSCRIPT.fullmatch(path)
    if subscript is not None:
        entries = meta.labels if subscript[1] == "labels" else meta.annotations
        return entries.get(subscript[2], "")
    addresses = pod_ips(pod, node, ips)
    known = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "spec.nodeName": spec.node_name or node.name,
        "spec.serviceAccountName": spec.service_account_name,
        "status.hostIP": first(node.ips),
        "status.hostIPs": ",".join(node.ips),
        "status.podIP": first(addresses),
        "status.podIPs": ",".join(addresses),
    }
    if path not in known:
        refuse(f"unsupported fieldPath: {path}")
    return known[path]


def pod_ips(pod: Pod, node: NodeFacts, ips: tuple[str, ...]) -> tuple[str, ...]:
    """Return the pod's addresses, the node's primary family first; on the host's network they are the node's."""
    if pod.spec.host_network:
        return node.ips
    if not node.ips:
        return ips
    is_v6 = ":" in node.ips[0]
    return tuple(sorted(ips, key=lambda ip: (":" in ip) != is_v6))


def first(texts: tuple[str, ...]) -> str:
    """Return the first of some texts, empty when there are none."""
    return texts[0] if texts else ""


def resource_field(
    selector: ResourceFieldSelector, container: Container | EphemeralContainer, pod: Pod, node: NodeFacts
) -> str:
    """Return a request or limit of a container of the pod, divided and rounded up."""
    chosen = container
    if selector.container_name and selector.container_name != container.name:
        others = (*pod.spec.containers, *pod.spec.init_containers)
        found = next((one for one in others if one.name == selector.container_name), None)
        chosen = found or refuse(f"container {selector.container_name} not found")
    which, _, name = selector.resource.partition(".")
    if which not in ("limits", "requests") or not (
        name in ("cpu", "memory", "ephemeral-storage") or name.startswith(HUGE_PAGES)
    ):
        refuse(f"unsupported container resource: {selector.resource}")
    if which == "requests":
        amount = parse(chosen.resources.requests.get(name, "0"))
    else:
        amount = limit_or_allocatable(chosen, name, pod, node)
    divisor = parse(selector.divisor or "0").nanos or NANO
    return str(ceil_div(amount.nanos, divisor))


def limit_or_allocatable(
    container: Container | EphemeralContainer, name: str, pod: Pod, node: NodeFacts
) -> Amount:
    """Return a limit: the container's, else the pod's, else the node's allocatable; huge pages have no default."""
    limit = with_pod_limits(container.resources.limits, pod.spec).get(name)
    if limit is not None:
        return limit
    whole = {
        "cpu": node.allocatable_cpu_milli * (NANO // 1000),
        "memory": node.allocatable_memory_bytes * NANO,
        "ephemeral-storage": node.allocatable_ephemeral_bytes * NANO,
    }
    return Amount(whole.get(name, 0))
