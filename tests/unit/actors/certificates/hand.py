"""CertificateManager's core with a disk, a signer and a clock that a test moves."""

import itertools
import json

from actors.certificates.core import BOOTSTRAP, CERTIFICATES, KUBE, decide
from actors.certificates.report import report
from actors.certificates.state import CertificateSettings, CertificatesState
from api.errors import Failure, FailureKind
from api.lifecycle import Start
from api.messages.kernel import Alarm, Outcome
from api.ports.certificate import (
    EXPIRED,
    CertificateRead,
    ClientCertificate,
    MakeSigningRequest,
    ReadCertificate,
    SigningRequestMade,
    StoreCertificate,
)
from api.ports.kube import CreateObject, GetObject, KubeObject

NS = 10**9
WALL = 1_700_000_000 * NS
DAY = 86_400
ISSUED = b"-----BEGIN CERTIFICATE-----\n"
DOWN = Failure(kind=FailureKind.UNAVAILABLE, message="connection refused")


def certificate(age_s, left_s, wall=WALL):
    return ClientCertificate(
        subject="O=system:nodes, CN=system:node:n1",
        valid_from=wall - round(age_s * NS),
        valid_until=wall + round(left_s * NS),
        where="/pki/kubelet-client-current.pem",
    )


def failed(kind, message="no", reason=""):
    return Failure(kind=kind, message=message, reason=reason)


class Hand:
    """Calls wait until the test has the world answer them; `life_s` is that of a certificate that is issued."""

    def __init__(self, held=None, *, bootstrap=False, rotates=True, life_s=10 * DAY):
        self.now, self.wall, self.ops = 100.0, WALL, itertools.count(1)
        self.held, self.life_s = held, life_s
        self.requests, self.numbers = {}, itertools.count(1)
        self.open, self.asked, self.lines, self.down = {}, [], [], {}
        settings = CertificateSettings(
            node_name="n1",
            kubeconfig="/etc/kubeconfig",
            bootstrap_kubeconfig="/etc/bootstrap" if bootstrap else "",
            rotates=rotates,
        )
        self.state = CertificatesState(settings=settings)
        self.take(decide(self.state, None, self.now, self.wall, lambda: next(self.ops)))

    # the core

    def take(self, decision):
        self.lines += [(line.text, line.facts) for line in report(self.state, decision.state)]
        self.state, self.wake_at = decision.state, decision.wake_at
        for action in decision.actions:
            assert isinstance(action, Start), action
            assert not self.open, "two calls at once"
            self.open[action.op] = action
            self.asked.append((action.port, type(action.call).__name__))
        assert bool(self.open) != (self.wake_at is not None)
        assert self.wake_at is None or self.wake_at > self.now

    def give(self, message):
        self.take(decide(self.state, message, self.now, self.wall, lambda: next(self.ops)))

    def answer(self, answer=None):
        ((op, start),) = self.open.items()
        del self.open[op]
        answer = answer or self.down.get(start.port) or self.serve(start.port, start.call)
        is_failure = isinstance(answer, Failure)
        self.give(
            Outcome(
                op=op,
                call=type(start.call).__name__,
                result=None if is_failure else answer,
                failure=answer if is_failure else None,
                started_at=self.now,
                ended_at=self.now,
            )
        )

    def pass_time(self, seconds):
        self.now += seconds
        self.wall += round(seconds * NS)

    def wake(self):
        self.pass_time(max(0.0, self.wake_at - self.now) + 1e-6)
        self.give(Alarm(at=self.now))

    def settle(self):
        for _ in range(50):
            if not self.open:
                return
            self.answer()
        raise AssertionError("it asks again and again without a pause")

    def run(self, seconds):
        """Let time pass, and the world answer all that is asked meanwhile."""
        until = self.now + seconds
        self.settle()
        while self.wake_at <= until:
            self.wake()
            self.settle()
        self.pass_time(max(0.0, until - self.now))

    def calls(self):
        """Return what was asked since the last question."""
        asked, self.asked = self.asked, []
        return asked

    def said(self):
        lines, self.lines = self.lines, []
        return [text for text, _ in lines]

    # the world

    def serve(self, port, call):
        match call:
            case ReadCertificate():
                return self.read()
            case MakeSigningRequest(bootstrap=bootstrap):
                name = "node-csr-n1" if bootstrap else f"unused-{next(self.numbers)}"
                return SigningRequestMade(pem=b"CSR", name=name)
            case StoreCertificate(certificate=chain):
                assert chain == ISSUED
                self.held = certificate(0, self.life_s, self.wall)
                return CertificateRead(certificate=self.held)
            case CreateObject(body=body):
                return self.create(port, json.loads(body))
            case GetObject(path=path):
                if path.name not in self.requests:
                    return failed(FailureKind.NOT_FOUND)
                return self.object(path.name)
        raise AssertionError(call)

    def read(self):
        if self.held == "token":
            return CertificateRead()
        if self.held is None:
            return failed(FailureKind.NOT_FOUND, "kubeconfig /etc/kubeconfig: there is no such file")
        if self.held.valid_until <= self.wall:
            return failed(FailureKind.DENIED, "it was valid until yesterday", EXPIRED)
        return CertificateRead(certificate=self.held)

    def create(self, port, body):
        assert body["spec"] == {
            "request": "Q1NS",
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"],
        }
        if port == BOOTSTRAP:
            name = body["metadata"]["name"]
        else:
            assert (port, body["metadata"]) == (KUBE, {"generateName": "csr-"})
            name = f"csr-{next(self.numbers)}"
        if name in self.requests:
            return failed(FailureKind.ALREADY_EXISTS)
        body["metadata"] = {"name": name}
        self.requests[name] = body
        return self.object(name)

    def object(self, name):
        return KubeObject(body=json.dumps(self.requests[name]).encode())

    def decide_on(self, name, condition, *, signed=True, message="fine"):
        """Have somebody approve or deny a request, and the signer sign it."""
        entry = {"type": condition, "status": "True", "reason": "Why", "message": message}
        status = {"conditions": [entry]}
        if condition == "Approved" and signed:
            status["certificate"] = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg=="
        self.requests[name]["status"] = status

    @property
    def only(self):
        """Return the name of the only request on the server."""
        (name,) = self.requests
        return name


READ, MAKE, STORE = (CERTIFICATES, "ReadCertificate"), (CERTIFICATES, "MakeSigningRequest"), (CERTIFICATES, "StoreCertificate")  # fmt: skip


def lived(share, life_s=10 * DAY):
    """Return a certificate of which this share of its life is over."""
    return certificate(life_s * share, life_s * (1 - share))
