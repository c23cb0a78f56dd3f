"""The child process that makes keys: prints a key and a signing request for it, as JSON of `SignedRequest`.

```text
python -P -m runtime.drivers.kubeconfig.signing COMMON_NAME ORGANIZATION USAGE...      input: the key to use, empty for a new one
```

A process of its own since the package `cryptography`, which it imports, costs 20 MB.
"""

import base64
import hashlib
import sys

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from runtime.drivers.kubeconfig.keypair import SignedRequest

NAME_PREFIX = "node-csr-"
DELIMITER = b"|"
"""Not in the alphabet of the parts, which are base64: no two lists of parts come to the same text."""


def signed_request(given: bytes, common_name: str, organization: str, usages: list[str]) -> SignedRequest:
    """Return a request for this subject; its key is the given one where that is an elliptic key in PEM, else a new one (P-256)."""
    key = _read_key(given) or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return SignedRequest(
        key=key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        ),
        request=request.public_bytes(serialization.Encoding.PEM),
        name=digested_name(public, [common_name, organization, *usages]),
    )


def digested_name(public_key: bytes, words: list[str]) -> str:
    """Return the name of a bootstrap's request: a digest of all that must be equal for it to be the same, as a kubelet's.

    SHA-512/256 over each part in base64 with a delimiter after it, itself in base64; both in the alphabet for URLs, unpadded.
    """
    parts = (public_key, *(word.encode() for word in words))
    digest = hashlib.new("sha512_256", b"".join(_encoded(part) + DELIMITER for part in parts)).digest()
    return NAME_PREFIX + _encoded(digest).decode()


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _read_key(pem: bytes) -> ec.EllipticCurvePrivateKey | None:
    """Return an elliptic key, None for anything else: another is made in its place."""
    try:
        key = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError):
        return None
    return key if isinstance(key, ec.EllipticCurvePrivateKey) else None


def main(words: list[str]) -> None:
    """Print a key and a request."""
    common_name, organization, *usages = words
    made = signed_request(sys.stdin.buffer.read(), common_name, organization, usages)
    sys.stdout.buffer.write(msgspec.json.encode(made))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
