"""The CertificateSigningRequest of certificates.k8s.io/v1: a public key and a name that a signer is to make a certificate of."""

import msgspec

from api.kube.objects.meta import ObjectMeta
from api.kube.objects.wiretype import ApiObject, Time


class SigningRequestSpec(ApiObject, frozen=True, kw_only=True):
    """What is asked for. `request` is PKCS #10 in PEM; on the wire, base64 of that."""

    expiration_seconds: int | None = None
    request: bytes = msgspec.field(default_factory=bytes)
    signer_name: str = msgspec.field(default_factory=str)
    usages: tuple[str, ...] = ()


class SigningRequestCondition(ApiObject, frozen=True, kw_only=True):
    """What was decided: ``Approved``, ``Denied`` or ``Failed``."""

    last_transition_time: Time | None = None
    last_update_time: Time | None = None
    message: str = ""
    reason: str = ""
    status: str = msgspec.field(default_factory=str)
    type: str = msgspec.field(default_factory=str)


class SigningRequestStatus(ApiObject, frozen=True, kw_only=True):
    """What became of it. `certificate` is a chain in PEM, that of the request first; on the wire, base64 of that."""

    certificate: bytes = b""
    conditions: tuple[SigningRequestCondition, ...] = ()


class CertificateSigningRequest(ApiObject, frozen=True, kw_only=True):
    """A whole one; the API server adds who asks for it."""

    api_version: str = msgspec.field(default_factory=lambda: "certificates.k8s.io/v1")
    kind: str = msgspec.field(default_factory=lambda: "CertificateSigningRequest")
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: SigningRequestSpec = SigningRequestSpec()
    status: SigningRequestStatus = SigningRequestStatus()
