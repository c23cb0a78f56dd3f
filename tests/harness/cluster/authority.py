"""A certificate authority for tests, by the openssl command, and key pairs for JSON Web Tokens."""

import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True)
class Issued:
    """Files of one certificate and its key."""

    cert: Path
    key: Path


def openssl(*words):
    """Run the command; its error output is in the failure."""
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"openssl {words[0]}: {done.stderr}"


class Authority:
    """Signs certificates of its own making, in a folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.cert, self._key = folder / f"{name}.crt", folder / f"{name}.key"
        extension = ("-addext", "keyUsage=critical,keyCertSign,digitalSignature")
        openssl(
            "req", "-x509", *CURVE, "-subj", f"/CN={name}", "-days", 30, *extension, "-keyout", self._key, "-out", self.cert
        )  # fmt: skip

    def issue(
        self, file: str, common_name: str, organization: str = "", addresses: str = "", days: int = 2
    ) -> Issued:
        """Return a certificate for this subject; `addresses` as in ``IP:127.0.0.1,DNS:localhost``, negative days for an expired one."""
        issued = Issued(self._folder / f"{file}.crt", self._folder / f"{file}.key")
        request, settings = self._folder / f"{file}.csr", self._folder / f"{file}.ext"
        settings.write_text(
            "keyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n"
            + (f"subjectAltName={addresses}\n" if addresses else "")
        )
        subject = (f"/O={organization}" if organization else "") + f"/CN={common_name}"
        openssl("req", "-new", *CURVE, "-subj", subject, "-keyout", issued.key, "-out", request)
        openssl(
            "x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self._key, "-CAcreateserial",
            "-days", days, "-extfile", settings, "-out", issued.cert,
        )  # fmt: skip
        return issued

    def sign(self, request: bytes, life_s: float, *, age_s: float = 0.0, common_name: str = "") -> bytes:
        """Return the certificate for a signing request, in PEM, valid for seconds; another name where one is given."""
        asked = x509.load_pem_x509_csr(request)
        authority = x509.load_pem_x509_certificate(self.cert.read_bytes())
        since = datetime.now(UTC) - timedelta(seconds=age_s)
        subject = asked.subject
        if common_name:
            subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority.subject)
            .public_key(asked.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(since)
            .not_valid_after(since + timedelta(seconds=life_s))
            .add_extension(usage, critical=False)
            .sign(serialization.load_pem_private_key(self._key.read_bytes(), None), hashes.SHA256())
        )
        return made.public_bytes(serialization.Encoding.PEM)


def signing_key(path: Path) -> Path:
    """Make a private key that signs tokens of service accounts."""
    openssl("genrsa", "-out", path, 2048)
    return path
