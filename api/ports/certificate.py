"""The port ``certificates``: the client certificate of this node on its disk, and the key of the next one, which never leaves the driver.

```text
ReadCertificate      -> CertificateRead        what the kubeconfig comes to now
MakeSigningRequest   -> SigningRequestMade     with the key of the next certificate
StoreCertificate     -> CertificateRead        the certificate that was issued for it, written beside its key and in use from now on
```

Failures: ``NotFound`` without a kubeconfig, or a file that it names; ``Denied`` with the reason `EXPIRED`; ``Rejected`` for a
certificate that is not for this key and node, and for a kubeconfig that is none; ``Exhausted`` for a full disk.
"""

import msgspec

from api.ids import WallNs
from api.ports.call import HostCall

EXPIRED = "Expired"
"""Reason of the failure of a kubeconfig whose client certificate is not valid any more."""
SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
ORGANIZATION = "system:nodes"
USAGES = ("digital signature", "client auth")
"""Of a certificate with an elliptic key; one with an RSA key would need ``key encipherment`` too."""


class ReadCertificate(HostCall, frozen=True, kw_only=True):
    """Read the client certificate of the kubeconfig -> CertificateRead. Costs a few stat calls while no file has changed."""


class MakeSigningRequest(HostCall, frozen=True, kw_only=True):
    """Make a signing request for a key -> SigningRequestMade."""

    bootstrap: bool = False
    """Use the pending key in the folder, or make one there, so that a restart of the agent asks for the same certificate.
    Otherwise the key is new and in memory only."""


class StoreCertificate(HostCall, frozen=True, kw_only=True):
    """Write an issued certificate with the key of the last `MakeSigningRequest`, and use it -> CertificateRead."""

    certificate: bytes
    """A chain in PEM."""
    bootstrap: bool = False
    """Write the kubeconfig as well, and drop the pending key."""


class ClientCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a client certificate: nothing secret."""

    subject: str
    """``O=system:nodes, CN=system:node:n1``."""
    valid_from: WallNs
    valid_until: WallNs
    where: str
    """The file that it is read from."""


class CertificateRead(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The client certificate in use; None where the identity is a token, or what an exec plugin gives."""

    certificate: ClientCertificate | None = None


class SigningRequestMade(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A request to be signed; its key is the driver's."""

    pem: bytes
    """PKCS #10."""
    name: str
    """Of the object of a bootstrap: the same for the same key and subject."""
