"""What CertificateManager says: in the log once per change, and in rows what is valid until when and what happens next."""

from collections.abc import Mapping

import msgspec

from actors.certificates.core import APPROVED_BY
from actors.certificates.state import CertificatePhase, CertificatesState, SigningWait
from api.ids import Instant, WallNs
from api.wallclock import rfc3339


class CertificateLogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the log."""

    text: str
    facts: Mapping[str, object] = {}
    warning: bool = False


def report(before: CertificatesState, after: CertificatesState) -> tuple[CertificateLogLine, ...]:
    """Return what changed between two states."""
    lines: list[CertificateLogLine] = []
    if after.rotations > before.rotations and after.certificate is not None:
        lines.append(CertificateLogLine(text="client certificate stored", facts=facts_of(after)))
    elif after.certificate != before.certificate and after.certificate is not None:
        lines.append(CertificateLogLine(text="client certificate read", facts=facts_of(after)))
    if after.failure is not None and after.failure != before.failure and before.exchange is not None:
        facts: dict[str, object] = {"cannot": before.exchange.step.value, "why": after.failure.message}
        if hint := remedy(after):
            facts["what_to_do"] = hint
        lines.append(CertificateLogLine(text="client certificate request failed", facts=facts, warning=True))
    if after.request is not None and before.request is None and after.request.bootstrap:
        facts = {"bootstrap_kubeconfig": after.settings.bootstrap_kubeconfig}
        lines.append(CertificateLogLine(text="first client certificate is requested", facts=facts))
    elif after.request is not None and before.request is None:
        lines.append(CertificateLogLine(text="client certificate is being rotated"))
    wait = awaited(after)
    if wait is not None and wait != awaited(before):
        lines.append(CertificateLogLine(text="certificate signing request waits", facts=wait))
    return tuple(lines)


def facts_of(state: CertificatesState) -> dict[str, object]:
    """Return what is known of the certificate in use."""
    one, rotate_at = state.certificate, state.rotate_at
    if one is None:
        return {}
    facts: dict[str, object] = {
        "subject": one.subject,
        "file": one.where,
        "valid_until": rfc3339(one.valid_until),
    }
    if rotate_at is not None:
        facts["rotated_from"] = rfc3339(rotate_at)
    return facts


def awaited(state: CertificatesState) -> dict[str, object] | None:
    """Return the object that is waited for, and for what; None while none is."""
    wait = state.request.wait if state.request is not None else None
    if wait is None:
        return None
    if wait.is_approved:
        return {"name": wait.name, "waits_for": "certificate"}
    return {"name": wait.name, "waits_for": "approval", "what_to_do": f"{APPROVED_BY} {wait.name}"}


def remedy(state: CertificatesState) -> str:
    """Return what to do about a bootstrap identity that the server does not take, empty for other failures."""
    request, failure = state.request, state.failure
    if request is None or not request.bootstrap or failure is None:
        return ""
    if failure.reason == "Unauthorized":
        return (
            f"have a new bootstrap token made (kubeadm token create) and write it to"
            f" {state.settings.bootstrap_kubeconfig}, which is read again when it changes"
        )
    if failure.reason == "Forbidden":
        return (
            "bind the ClusterRole system:node-bootstrapper to the group of the bootstrap identity,"
            " system:bootstrappers"
        )
    return ""


# ---------------------------------------------------------------- rows


def sentence(state: CertificatesState, now: Instant, wall: WallNs) -> str:
    """Return what is valid until when, and what happens next."""
    doing = next_step(state, now)
    parts = (validity(state, wall), doing)
    return "; ".join(part for part in parts if part)


def without_identity(state: CertificatesState, now: Instant) -> str:
    """Return what the node's first identity waits for; empty where there is one, or none is asked for."""
    request = state.request
    if request is None or not request.bootstrap:
        return ""
    return next_step(state, now)


def validity(state: CertificatesState, wall: WallNs) -> str:
    """Return until when the certificate in use is valid, empty while none is known."""
    one, rotate_at = state.certificate, state.rotate_at
    if one is None:
        if state.was_read and state.request is None:
            return "the kubeconfig has no client certificate of its own: there is nothing to rotate"
        return ""
    if wall >= one.valid_until:
        return f"client certificate {one.where} of {one.subject} expired at {rfc3339(one.valid_until)}"
    text = f"client certificate {one.where} of {one.subject} is valid until {rfc3339(one.valid_until)}"
    if rotate_at is None:
        return f"{text} and is not rotated (rotateCertificates is false)"
    return f"{text}, rotated from {rfc3339(rotate_at)} on"


def next_step(state: CertificatesState, now: Instant) -> str:
    """Return what is being done about a certificate, empty where nothing is."""
    phase, request = state.phase(now), state.request
    if phase is CertificatePhase.BACKING_OFF and state.failure is not None:
        hint = remedy(state)
        return (
            f"{state.failure.message}{f'; {hint}' if hint else ''}"
            f"; next attempt in {max(0.0, state.retry.at - now):.0f} s"
        )
    if phase is CertificatePhase.WAITING and request is not None and request.wait is not None:
        return waiting_sentence(request.wait, now)
    if phase is CertificatePhase.REQUESTING and request is not None:
        who = state.settings.bootstrap_kubeconfig if request.bootstrap else state.settings.kubeconfig
        step = state.exchange.step.value if state.exchange is not None else "about to begin"
        return f"a client certificate is requested with {who}: {step}"
    return "the client certificate is being read" if phase is CertificatePhase.READING else ""


def waiting_sentence(wait: SigningWait, now: Instant) -> str:
    """Return what a signing request waits for, and for how long yet."""
    left = f"given up in {max(0.0, wait.until - now) / 60:.0f} min"
    if wait.is_approved:
        return (
            f"waits for the certificate of CertificateSigningRequest {wait.name}, which is approved; {left}"
        )
    return (
        f"waits for the approval of CertificateSigningRequest {wait.name}: {APPROVED_BY} {wait.name}; {left}"
    )
