"""CertificateManager's decisions: read the client certificate, have it renewed in time, or ask for the first one.

```text
READ ─▶ valid ──70 to 90 % of its life, and rotateCertificates──▶ MAKE ─▶ CREATE ─▶ LOOK, again and again ─▶ STORE ─▶ valid
  └─ no kubeconfig, or an expired certificate, and a bootstrap kubeconfig ──────▶ the same, by the identity of that one
```

A rotation has a new key and an object with a generated name; a bootstrap a key that stays in the folder and a name that follows
from it, so that a restarted agent waits for the same object.
"""

from collections.abc import Callable
from typing import assert_never

import msgspec
from msgspec.structs import replace

from actors.certificates.state import (
    CertificateExchange,
    CertificateRequest,
    CertificatesState,
    CertificateStep,
    SigningWait,
)
from actors.rules.retry import Retry, RetryPolicy
from actors.rules.share import share
from api.decoding import UndecodableError, from_json
from api.errors import Failure, FailureKind
from api.ids import Instant, OpId, WallNs
from api.kube.objects.meta import ObjectMeta
from api.kube.objects.signingrequest import (
    CertificateSigningRequest,
    SigningRequestCondition,
    SigningRequestSpec,
)
from api.lifecycle import Action, Decision, Start
from api.messages.kernel import Alarm, ChildDied, Heard, KernelMessage, Outcome, Restarted, StreamEnded
from api.ports.certificate import (
    EXPIRED,
    SIGNER,
    USAGES,
    CertificateRead,
    MakeSigningRequest,
    ReadCertificate,
    SigningRequestMade,
    StoreCertificate,
)
from api.ports.kube import CreateObject, GetObject, KubeObject, ObjectPath
from api.shortening import shortened

KUBE, BOOTSTRAP, CERTIFICATES = "kube", "bootstrap", "certificates"
"""Ports; `BOOTSTRAP` is the API server as the identity of the bootstrap kubeconfig reaches it."""
REQUESTS = ObjectPath(api_version="certificates.k8s.io/v1", plural="certificatesigningrequests")
GENERATED_NAME = "csr-"
READ_AGAIN_S = 60.0
"""Between two looks at the files; also how long a jump of the wall clock may go unnoticed."""
ROTATION_WAIT_S, BOOTSTRAP_WAIT_S = 900.0, 3600.0
"""How long an object is waited for, as by a kubelet."""
LOOKS = RetryPolicy(base_s=1.0, limit_s=10.0)
"""Between two looks at an object that is not signed yet."""
RETRY = RetryPolicy(base_s=2.0, limit_s=32.0)
"""After a failure, as a kubelet."""
REFUSED = RetryPolicy(base_s=10.0, limit_s=300.0)
"""After a denial: each further request is one more object for people to look at."""
JITTER = 0.1
KUBE_DEADLINE_S, HOST_DEADLINE_S = 10.0, 60.0
APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
APPROVED_BY = "kubectl certificate approve"
"""The command with which people approve a request, before its name."""
SAID_LIMIT = 200
"""Characters of what a signer says."""


def decide(
    before: CertificatesState,
    message: KernelMessage | None,
    now: Instant,
    wall: WallNs,
    new_op: Callable[[], OpId],
) -> Decision[CertificatesState]:
    """Absorb a message (None: the actor begins) and choose the next call."""
    state = before if message is None else absorb(before, message, now)
    return plan(state, now, wall, new_op)


def absorb(state: CertificatesState, message: KernelMessage, now: Instant) -> CertificatesState:
    """Return the state after `message`."""
    match message:
        case Outcome(op=op) if state.exchange is not None and op == state.exchange.op:
            return answered(replace(state, exchange=None), state.exchange.step, message, now)
        case Outcome() | Alarm() | Restarted() | ChildDied() | Heard() | StreamEnded():
            return state
        case _:
            assert_never(message)


def answered(
    state: CertificatesState, step: CertificateStep, outcome: Outcome, now: Instant
) -> CertificatesState:
    """Return the state after the answer to a call."""
    if step is CertificateStep.READ:
        return read(state, outcome, now)
    if state.request is None:
        return state
    match step, outcome.result:
        case CertificateStep.MAKE, SigningRequestMade() as made:
            return worked(state, replace(state.request, made=made))
        case ((CertificateStep.CREATE | CertificateStep.LOOK), KubeObject(body=body)):
            return seen(state, state.request, body, now)
        case CertificateStep.STORE, CertificateRead(certificate=certificate):
            stored = replace(state, certificate=certificate, was_read=True, rotations=state.rotations + 1)
            return replace(worked(stored, None), read_at=now + READ_AGAIN_S, refusals=0)
        case _:
            return failed(state, state.request, step, failure_of(outcome), now)


def read(state: CertificatesState, outcome: Outcome, now: Instant) -> CertificatesState:
    """Return the state after the client certificate was read, or could not be."""
    if isinstance(outcome.result, CertificateRead):
        certificate = outcome.result.certificate
        # Somebody may have given the node a kubeconfig while it waited for a bootstrap.
        state = replace(state, certificate=certificate, was_read=True, read_at=now + READ_AGAIN_S)
        return worked(state, None)
    failure = failure_of(outcome)
    is_absent = failure.kind is FailureKind.NOT_FOUND or failure.reason == EXPIRED
    if is_absent and state.settings.bootstrap_kubeconfig:
        request = state.request or CertificateRequest(bootstrap=True)
        return replace(state, certificate=None, was_read=False, request=request, read_at=now + READ_AGAIN_S)
    state = replace(state, certificate=None, was_read=False) if is_absent else state
    return again(state, failure, state.retry.after(now, RETRY), now)


def worked(state: CertificatesState, request: CertificateRequest | None) -> CertificatesState:
    """Return the state after a step that went well."""
    return replace(state, request=request, failure=None, retry=Retry())


def again(state: CertificatesState, failure: Failure, retry: Retry, now: Instant) -> CertificatesState:
    """Return the state after a failure: the next step waits, a little longer on one node than on another."""
    later_s = (retry.at - now) * JITTER * share(state.settings.node_name, "retry", retry.failures)
    return replace(state, failure=failure, retry=replace(retry, at=retry.at + later_s))


def failure_of(outcome: Outcome) -> Failure:
    """Return why a call came to nothing."""
    unknown = Failure(kind=FailureKind.REJECTED, message=f"{outcome.call}: an answer of another kind")
    return outcome.failure or unknown


def failed(
    state: CertificatesState,
    request: CertificateRequest,
    step: CertificateStep,
    failure: Failure,
    now: Instant,
) -> CertificatesState:
    """Return the state after a failed call about a request."""
    if (
        step is CertificateStep.CREATE
        and failure.kind is FailureKind.ALREADY_EXISTS
        and request.made is not None
        and request.bootstrap
    ):
        return worked(state, replace(request, wait=waited(request.made.name, request, now)))
    if step is CertificateStep.LOOK and failure.kind is FailureKind.NOT_FOUND and request.wait is not None:
        gone = f"CertificateSigningRequest {request.wait.name} was deleted before it was signed"
        failure = Failure(kind=failure.kind, message=f"{gone}; another one is made")
        return dropped(state, request, failure, now, RETRY)
    if step is CertificateStep.STORE and failure.kind in (FailureKind.REJECTED, FailureKind.NOT_FOUND):
        return dropped(state, request, failure, now, REFUSED)
    return again(state, failure, state.retry.after(now, RETRY), now)


def dropped(
    state: CertificatesState,
    request: CertificateRequest,
    failure: Failure,
    now: Instant,
    policy: RetryPolicy,
) -> CertificatesState:
    """Return the state in which a request has come to nothing: a rotation begins from its start, with another key."""
    left = CertificateRequest(bootstrap=True) if request.bootstrap else None
    retry = Retry(failures=state.refusals).after(now, policy)
    state = replace(state, request=left, errors=state.errors + 1, refusals=state.refusals + 1)
    return again(state, failure, retry, now)


def unreadable(state: CertificatesState, text: str, now: Instant) -> CertificatesState:
    """Return the state after an answer that is no CertificateSigningRequest of ours."""
    failure = Failure(kind=FailureKind.REJECTED, message=text)
    return again(state, failure, state.retry.after(now, RETRY), now)


def waited(name: str, request: CertificateRequest, now: Instant) -> SigningWait:
    """Return the wait for an object that was just created, or found."""
    limit_s = BOOTSTRAP_WAIT_S if request.bootstrap else ROTATION_WAIT_S
    return SigningWait(name=name, until=now + limit_s, look_at=now)


def seen(
    state: CertificatesState, request: CertificateRequest, body: bytes, now: Instant
) -> CertificatesState:
    """Return the state after the server sent the CertificateSigningRequest as it is now."""
    try:
        found = from_json(body, CertificateSigningRequest)
    except UndecodableError as error:
        text = f"what the API server sent as CertificateSigningRequest cannot be read: {error}"
        return unreadable(state, text, now)
    name = plain(found.metadata.name)
    expected = request.wait.name if request.wait is not None else request.made.name if request.made else ""
    is_named = name == expected or (request.wait is None and not request.bootstrap and name)
    if found.kind != "CertificateSigningRequest" or not is_named:
        text = "the API server sent another object than the CertificateSigningRequest"
        return unreadable(state, text, now)
    if found.spec.signer_name != SIGNER:
        text = (
            f"CertificateSigningRequest {name} is for another signer than {SIGNER}; delete it:"
            f" kubectl delete certificatesigningrequest {name}"
        )
        return dropped(state, request, Failure(kind=FailureKind.REJECTED, message=text), now, REFUSED)
    conditions = {one.type: one for one in found.status.conditions}
    refusal = conditions.get(DENIED) or conditions.get(FAILED)
    if refusal is not None:
        return dropped(state, request, refused(name, refusal, request), now, REFUSED)
    wait = request.wait or waited(name, request, now)
    if APPROVED in conditions and found.status.certificate:
        return worked(state, replace(request, wait=wait, issued=found.status.certificate))
    if now >= wait.until:
        return dropped(state, request, late(name, wait, request), now, RETRY)
    looks = wait.looks + 1
    wait = replace(wait, looks=looks, look_at=now + LOOKS.wait_s(looks), is_approved=APPROVED in conditions)
    return worked(state, replace(request, wait=wait))


def refused(name: str, condition: SigningRequestCondition, request: CertificateRequest) -> Failure:
    """Return the failure of a request that was denied, or could not be signed."""
    said = ": ".join(plain(one) for one in (condition.reason, condition.message) if one)
    how = "was denied" if condition.type == DENIED else "could not be signed"
    what_to_do = "another one is made after a while"
    if request.bootstrap:
        what_to_do = f"to have another one made, delete it: kubectl delete certificatesigningrequest {name}"
    text = f"CertificateSigningRequest {name} {how}{f' ({said})' if said else ''}; {what_to_do}"
    return Failure(kind=FailureKind.DENIED, message=text, reason=condition.type)


def plain(text: str) -> str:
    """Return what a server says as a part of one line."""
    return shortened("".join(c if c.isprintable() else " " for c in text), SAID_LIMIT)


def late(name: str, wait: SigningWait, request: CertificateRequest) -> Failure:
    """Return the failure of a request that nobody signed in time."""
    minutes = round((BOOTSTRAP_WAIT_S if request.bootstrap else ROTATION_WAIT_S) / 60)
    if wait.is_approved:
        text = f"is approved, but was not signed within {minutes} min; does a controller manager with a signer run?"
    else:
        text = f"was not approved within {minutes} min: {APPROVED_BY} {name}"
    return Failure(kind=FailureKind.TIMED_OUT, message=f"CertificateSigningRequest {name} {text}")


# ---------------------------------------------------------------- plan


def plan(
    state: CertificatesState, now: Instant, wall: WallNs, new_op: Callable[[], OpId]
) -> Decision[CertificatesState]:
    """Choose the next call from the state alone."""
    if state.exchange is not None:
        return Decision(state=state)
    if now < state.retry.at:
        return Decision(state=state, wake_at=state.retry.at)
    if state.request is None:
        state = due(state, wall)
    request = state.request
    actions: tuple[Action, ...]
    if request is None:
        if now >= state.read_at:
            state, actions = started(state, CertificateStep.READ, CERTIFICATES, ReadCertificate(), new_op)
            return Decision(state=state, actions=actions)
        return Decision(state=state, wake_at=min(state.read_at, turns_at(state, now, wall)))
    if request.wait is not None and not request.issued and now < request.wait.look_at:
        if request.bootstrap and now >= state.read_at:
            state, actions = started(state, CertificateStep.READ, CERTIFICATES, ReadCertificate(), new_op)
            return Decision(state=state, actions=actions)
        return Decision(state=state, wake_at=request.wait.look_at)
    step, port, call = next_call(request)
    state, actions = started(state, step, port, call, new_op)
    return Decision(state=state, actions=actions)


def due(state: CertificatesState, wall: WallNs) -> CertificatesState:
    """Return the state with a request where the certificate is to be replaced now."""
    one, rotate_at = state.certificate, state.rotate_at
    if one is not None and wall >= one.valid_until and state.settings.bootstrap_kubeconfig:
        return replace(state, request=CertificateRequest(bootstrap=True))
    if rotate_at is not None and wall >= rotate_at:
        return replace(state, request=CertificateRequest(bootstrap=False))
    return state


def turns_at(state: CertificatesState, now: Instant, wall: WallNs) -> Instant:
    """Return when the certificate is to be replaced, by the wall clock as it goes now."""
    ends = (state.rotate_at, state.certificate and state.certificate.valid_until)
    return now + min(((at - wall) / 10**9 for at in ends if at and at > wall), default=READ_AGAIN_S)


def next_call(request: CertificateRequest) -> tuple[CertificateStep, str, msgspec.Struct]:
    """Return what a request needs next: the step, its port and its call."""
    port = BOOTSTRAP if request.bootstrap else KUBE
    if request.made is None:
        return CertificateStep.MAKE, CERTIFICATES, MakeSigningRequest(bootstrap=request.bootstrap)
    if request.wait is None:
        return CertificateStep.CREATE, port, CreateObject(path=REQUESTS, body=signing_object(request))
    if not request.issued:
        return CertificateStep.LOOK, port, GetObject(path=replace(REQUESTS, name=request.wait.name))
    store = StoreCertificate(certificate=request.issued, bootstrap=request.bootstrap)
    return CertificateStep.STORE, CERTIFICATES, store


def signing_object(request: CertificateRequest) -> bytes:
    """Return the CertificateSigningRequest to create, in JSON."""
    assert request.made is not None
    named = ObjectMeta(name=request.made.name)
    metadata = named if request.bootstrap else ObjectMeta(generate_name=GENERATED_NAME)
    spec = SigningRequestSpec(request=request.made.pem, signer_name=SIGNER, usages=USAGES)
    return msgspec.json.encode(CertificateSigningRequest(metadata=metadata, spec=spec))


def started(
    state: CertificatesState,
    step: CertificateStep,
    port: str,
    call: msgspec.Struct,
    new_op: Callable[[], OpId],
) -> tuple[CertificatesState, tuple[Action, ...]]:
    """Return the state with a call in flight, and its start."""
    op = new_op()
    deadline_s = HOST_DEADLINE_S if port == CERTIFICATES else KUBE_DEADLINE_S
    start = Start(op=op, port=port, call=call, deadline_s=deadline_s)
    return replace(state, exchange=CertificateExchange(op=op, step=step)), (start,)
