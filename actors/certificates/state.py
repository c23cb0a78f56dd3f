"""What CertificateManager knows: the client certificate in use, and the one that is being asked for."""

from enum import StrEnum

import msgspec

from actors.rules.retry import Retry
from actors.rules.share import share
from api.errors import Failure
from api.ids import Instant, OpId, WallNs
from api.ports.certificate import ClientCertificate, SigningRequestMade

NEVER = float("-inf")
EARLIEST, LATEST = 0.7, 0.9
"""Shares of a certificate's life between which it is renewed, as by a kubelet: each node at another instant."""


class CertificateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator says of certificates."""

    node_name: str
    kubeconfig: str
    bootstrap_kubeconfig: str = ""
    """The identity that asks for the first certificate; empty: none, there must be a kubeconfig."""
    rotates: bool = False
    """Whether a certificate is renewed (rotateCertificates)."""


class CertificatePhase(StrEnum):
    """What CertificateManager is doing."""

    READING = "reading"
    VALID = "valid"
    """Nothing is asked for, with a certificate or with an identity that has none."""
    REQUESTING = "requesting"
    WAITING = "waiting for approval"
    BACKING_OFF = "backing off"


class CertificateStep(StrEnum):
    """What the call in flight is for."""

    READ = "read the client certificate"
    MAKE = "make a key and a signing request"
    CREATE = "create the CertificateSigningRequest"
    LOOK = "read the CertificateSigningRequest"
    STORE = "store the certificate"


class CertificateExchange(msgspec.Struct, frozen=True, kw_only=True):
    """The call in flight: at most one."""

    op: OpId
    step: CertificateStep


class SigningWait(msgspec.Struct, frozen=True, kw_only=True):
    """A CertificateSigningRequest on the API server that is not signed yet."""

    name: str
    until: Instant
    """When it is given up."""
    looks: int = 0
    look_at: Instant
    is_approved: bool = False


class CertificateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate that is being asked for."""

    bootstrap: bool
    """By the identity of the bootstrap kubeconfig, not by the one that is to be renewed."""
    made: SigningRequestMade | None = None
    """None: to be made."""
    wait: SigningWait | None = None
    """None: to be created on the API server."""
    issued: bytes = b""
    """The certificate, to be stored; empty while there is none."""


class CertificatesState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that CertificateManager knows."""

    settings: CertificateSettings
    certificate: ClientCertificate | None = None
    """In use, as it was read last."""
    was_read: bool = False
    """Whether the identity in use is known, be it one without a certificate."""
    read_at: Instant = NEVER
    """When it is read again."""
    request: CertificateRequest | None = None
    exchange: CertificateExchange | None = None
    retry: Retry = Retry()
    failure: Failure | None = None
    """Why the last call, or request, came to nothing; None once another one went well."""
    rotations: int = 0
    """Certificates that were stored since the agent started."""
    refusals: int = 0
    """Requests that came to nothing since the last one that did not."""
    errors: int = 0
    """Requests that came to nothing since the agent started."""

    @property
    def rotate_at(self) -> WallNs | None:
        """Return when the certificate is renewed; None where it is not."""
        one = self.certificate
        if one is None or not self.settings.rotates:
            return None
        jitter = share(self.settings.node_name, "certificate", one.valid_from, one.valid_until)
        life = one.valid_until - one.valid_from
        return one.valid_from + round(life * (EARLIEST + (LATEST - EARLIEST) * jitter))

    def phase(self, now: Instant) -> CertificatePhase:
        """Return what is being done."""
        request = self.request
        if self.exchange is None and now < self.retry.at:
            return CertificatePhase.BACKING_OFF
        if request is None:
            return CertificatePhase.VALID if self.was_read else CertificatePhase.READING
        return CertificatePhase.REQUESTING if request.wait is None else CertificatePhase.WAITING
