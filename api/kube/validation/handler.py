"""Rules of probes and hooks: exactly one handler, numbers in range, valid ports."""

import re
from typing import Literal

from api.kube.objects.container import (
    ExecAction,
    HTTPGetAction,
    Lifecycle,
    LifecycleHandler,
    Probe,
    TCPSocketAction,
)
from api.kube.objects.wiretype import IntOrString
from api.kube.validation import name as names
from api.kube.validation.check import Check

PORT_EXPECTED = "a port number from 1 to 65535 or the name of a port"
SIGNAL = re.compile(
    r"SIG(ABRT|ALRM|BUS|CHLD|CLD|CONT|FPE|HUP|ILL|INT|IO|IOT|KILL|PIPE|POLL|PROF|PWR|QUIT|SEGV|STKFLT|STOP|SYS|TERM"
    r"|TRAP|TSTP|TTIN|TTOU|URG|USR1|USR2|VTALRM|WINCH|XCPU|XFSZ|RTMIN(\+([1-9]|1[0-5]))?|RTMAX(-([1-9]|1[0-4]))?)"
)
ProbeKind = Literal["livenessProbe", "readinessProbe", "startupProbe"]


def check_port(check: Check, port: IntOrString | None, path: str) -> None:
    """Check a port given by number or by name."""
    if port is None or port in (0, ""):
        check.required(path, None, PORT_EXPECTED)
    elif isinstance(port, str):
        if not names.PORT_NAME.accepts(port):
            hint = " (write a number without quotes)" if port.isdigit() else ""
            check.wrong(path, port, PORT_EXPECTED + hint)
    elif not 1 <= port <= 65535:
        check.wrong(path, port, PORT_EXPECTED)


def check_exec(check: Check, action: ExecAction | None, path: str) -> None:
    """Check a command."""
    if action is not None:
        check.required(f"{path}.exec.command", action.command, "a command with its arguments, as a list")


def check_http(check: Check, action: HTTPGetAction | None, path: str) -> None:
    """Check an HTTP GET."""
    if action is None:
        return
    check.required(f"{path}.httpGet.path", action.path, "a path such as /healthz")
    check_port(check, action.port, f"{path}.httpGet.port")
    check.one_of(f"{path}.httpGet.scheme", action.scheme, ("HTTP", "HTTPS"))
    for index, header in enumerate(action.http_headers):
        check.matches(f"{path}.httpGet.httpHeaders[{index}].name", header.name, names.HTTP_TOKEN)


def check_tcp(check: Check, action: TCPSocketAction | None, path: str) -> None:
    """Check a TCP connection."""
    if action is not None:
        check_port(check, action.port, f"{path}.tcpSocket.port")


def check_probe(check: Check, probe: Probe | None, path: str, kind: ProbeKind) -> None:
    """Check a probe; `path` ends in its kind."""
    if probe is None:
        return
    handlers = {
        "exec": probe.exec,
        "httpGet": probe.http_get,
        "tcpSocket": probe.tcp_socket,
        "grpc": probe.grpc,
    }
    check.exactly_one(path, handlers, "handler")
    check_exec(check, probe.exec, path)
    check_http(check, probe.http_get, path)
    check_tcp(check, probe.tcp_socket, path)
    if probe.grpc is not None:
        check.within(f"{path}.grpc.port", probe.grpc.port, 1, 65535)
    check.within(f"{path}.initialDelaySeconds", probe.initial_delay_seconds, 0)
    check.within(f"{path}.timeoutSeconds", probe.timeout_seconds, 0)
    check.within(f"{path}.periodSeconds", probe.period_seconds, 0)
    check.within(f"{path}.failureThreshold", probe.failure_threshold, 0)
    check.within(f"{path}.successThreshold", probe.success_threshold, 0)
    if kind == "readinessProbe":
        if probe.termination_grace_period_seconds is not None:
            found = probe.termination_grace_period_seconds
            check.wrong(
                f"{path}.terminationGracePeriodSeconds",
                found,
                "nothing: a readiness probe stops no container",
            )
        return
    check.within(f"{path}.terminationGracePeriodSeconds", probe.termination_grace_period_seconds, 1)
    if probe.success_threshold > 1:
        check.wrong(f"{path}.successThreshold", probe.success_threshold, f"1 for a {kind}")


def check_lifecycle(check: Check, lifecycle: Lifecycle | None, path: str, grace_s: int | None) -> None:
    """Check hooks and stop signal; a sleep must fit into the pod's grace period `grace_s`."""
    if lifecycle is None:
        return
    for name, hook in (("postStart", lifecycle.post_start), ("preStop", lifecycle.pre_stop)):
        check_hook(check, hook, f"{path}.{name}", grace_s)
    if lifecycle.stop_signal and not SIGNAL.fullmatch(lifecycle.stop_signal):
        check.wrong(
            f"{path}.stopSignal", lifecycle.stop_signal, "a signal such as SIGTERM, SIGQUIT or SIGRTMIN+3"
        )


def check_hook(check: Check, hook: LifecycleHandler | None, path: str, grace_s: int | None) -> None:
    """Check one hook."""
    if hook is None:
        return
    handlers = {
        "exec": hook.exec,
        "httpGet": hook.http_get,
        "tcpSocket": hook.tcp_socket,
        "sleep": hook.sleep,
    }
    check.exactly_one(path, handlers, "handler")
    check_exec(check, hook.exec, path)
    check_http(check, hook.http_get, path)
    check_tcp(check, hook.tcp_socket, path)
    if hook.sleep is not None:
        check.within(f"{path}.sleep.seconds", hook.sleep.seconds, 0, grace_s)
