"""How a hook is called: from a handler in a spec, or in a container's annotation, to a call on a port, and back to words.

Texts are the kubelet's (reference ``pod-lifecycle`` section 8). The API still accepts tcpSocket, which cannot be
called: such a hook fails, as a kubelet's does.
"""

import json

import msgspec

from actors.pod.hookrecord import HookKind
from actors.pod.state import PodState
from api.decoding import ready
from api.errors import Failure
from api.kube.objects.container import Container, ContainerPort, HTTPGetAction, Lifecycle, LifecycleHandler
from api.kube.objects.wiretype import IntOrString
from api.messages.kernel import Outcome
from api.ports.net import UNREADABLE, HttpGet
from api.ports.runtime import ANNOTATION_PORTS, ANNOTATION_PRE_STOP, ExecInContainer, ExecResult
from api.ports.runtime import RuntimeContainer as Instance

HOOK_CALLS = (ExecInContainer.__name__, HttpGet.__name__)
"""Class names of the calls that a PodActor makes for hooks only."""
USER_AGENT = "kube-lifecycle/1.36"
OUTPUT_BYTES = 4096
"""What is kept of each stream of a hook's command."""


class HookCall(msgspec.Struct, frozen=True, kw_only=True):
    """A hook as a call on a port."""

    port: str
    call: msgspec.Struct
    what: str


def spec_of(state: PodState, name: str) -> Container | None:
    """Return a container of the pod's spec, also one that goes before the regular ones; None when it names none such."""
    if state.desired is None:
        return None
    spec = state.desired.spec
    return next((c for c in (*spec.containers, *spec.init_containers) if c.name == name), None)


def handler_of(state: PodState, instance: Instance, kind: HookKind) -> LifecycleHandler | None:
    """Return the hook of an instance, None when it has none.

    Without a spec it is read from the instance's annotation, as by a kubelet (section 6.8).
    """
    container = spec_of(state, instance.name)
    if container is not None:
        lifecycle = container.lifecycle or Lifecycle()
        return lifecycle.pre_stop if kind is HookKind.PRE_STOP else lifecycle.post_start
    return recorded_handler(instance) if kind is HookKind.PRE_STOP else None


def recorded_handler(instance: Instance) -> LifecycleHandler | None:
    """Return the preStop hook that an instance was made with, None when there was none or it does not decode."""
    text = dict(instance.annotations).get(ANNOTATION_PRE_STOP, "")
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=ready(LifecycleHandler))
    except msgspec.DecodeError:
        return None


def hook_call(
    state: PodState,
    instance: Instance,
    handler: LifecycleHandler,
    left_s: float,
    kind: HookKind,
    *,
    plain: bool = False,
) -> HookCall | int | str:
    """Return the call of a hook, the seconds of a sleep, or why it cannot be called.

    `plain`: an HTTPS request is repeated without TLS, to a server that speaks none.
    """
    if handler.sleep is not None:
        return max(0, handler.sleep.seconds)
    if handler.exec is not None:
        call = ExecInContainer(
            uid=state.uid,
            container_id=instance.id,
            command=handler.exec.command,
            timeout_s=left_s + 1.0,
            limit_bytes=OUTPUT_BYTES,
        )
        return HookCall(port="runtime", call=call, what=f"exec {' '.join(handler.exec.command)}")
    if handler.http_get is not None:
        return get_of(state, instance, handler.http_get, left_s, plain=plain)
    why = "tcpSocket is not supported" if handler.tcp_socket is not None else "no handler is set"
    return f"the {kind.value} hook of container {instance.name} cannot be called: {why}; use exec, httpGet or sleep"


def get_of(
    state: PodState, instance: Instance, action: HTTPGetAction, left_s: float, *, plain: bool
) -> HookCall | str:
    """Return the GET of a hook, or why it has no host or port."""
    host = action.host or pod_ip(state, instance)
    if not host:
        return http_text(state, instance.name, action, "the pod has no IP address")
    port = port_number(state, instance, action.port)
    if port is None:
        return http_text(state, instance.name, action, f"no port named {quoted(str(action.port))}")
    headers = {header.name: str(header.value) for header in action.http_headers}
    if not any(name.lower() == "user-agent" for name in headers):
        headers["User-Agent"] = USER_AGENT
    if plain:
        headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
    call = HttpGet(
        scheme="http" if plain else (action.scheme or "HTTP").lower(),
        host=host,
        port=port,
        path=action.path or "/",
        headers=tuple(sorted(headers.items())),
        timeout_s=max(left_s, 0.001),
    )
    return HookCall(port="net", call=call, what=call.brief().removeprefix("HttpGet "))


def pod_ip(state: PodState, instance: Instance) -> str:
    """Return the address of an instance, empty when it is unknown."""
    boxes = state.observed.sandboxes if state.observed is not None else ()
    for box in boxes:
        if box.id == instance.sandbox_id and box.ips:
            return box.ips[0]
    host_network = any(box.host_network for box in boxes)
    return state.settings.node_ip if host_network or not state.node.confined else state.base.pod_ip


def port_number(state: PodState, instance: Instance, port: IntOrString) -> int | None:
    """Return a port by number or by the name that the container gives it; None when no port is named so."""
    if isinstance(port, int):
        return port
    container = spec_of(state, instance.name)
    if container is not None:
        return next((p.container_port for p in container.ports if p.name == port), None)
    try:
        text = dict(instance.annotations).get(ANNOTATION_PORTS, "[]")
        ports = msgspec.json.decode(text, type=ready(tuple[ContainerPort, ...]))
    except msgspec.DecodeError:
        return None
    return next((p.container_port for p in ports if p.name == port), None)


def failure_text(
    state: PodState,
    name: str,
    handler: LifecycleHandler | None,
    outcome: Outcome | None,
    why: str = "",
) -> str:
    """Return why a hook failed, for the status; empty when it succeeded."""
    failure: Failure | None = outcome.failure if outcome is not None else None
    result = outcome.result if outcome is not None else None
    if failure is not None and failure.reason == UNREADABLE:
        return ""  # The server answered: any answer counts as success.
    error, output = failure.message if failure is not None else why, ""
    if isinstance(result, ExecResult) and result.exit_code != 0:
        command = " ".join(handler.exec.command) if handler is not None and handler.exec is not None else ""
        told = result.stderr.decode(errors="replace")
        error = f"command '{command}' exited with {result.exit_code}: {told}"
        output = result.stdout.decode(errors="replace") + told
    if not error:
        return ""
    where = f"for Container {quoted(name)} in Pod {quoted(pod_text(state))} failed - error: {error}"
    if handler is not None and handler.http_get is not None:
        return http_text(state, name, handler.http_get, error)
    if handler is not None and handler.sleep is not None:
        return f"Sleep lifecycle hook ({handler.sleep.seconds}) {where}"
    words = " ".join(handler.exec.command) if handler is not None and handler.exec is not None else ""
    return f"Exec lifecycle hook ([{words}]) {where}, message: {quoted(output)}"


def http_text(state: PodState, name: str, action: HTTPGetAction, error: str) -> str:
    """Return why a GET of a hook failed, as it is published."""
    where = f"for Container {quoted(name)} in Pod {quoted(pod_text(state))}"
    return f"HTTP lifecycle hook ({action.path}) {where} failed - error: {error}"


def pod_text(state: PodState) -> str:
    """Return how messages name the pod."""
    return f"{state.memo.name}_{state.memo.namespace}({state.uid})"


def quoted(text: str) -> str:
    """Return a text in quotation marks, with what does not print escaped."""
    return json.dumps(text, ensure_ascii=False)
