"""The port ``certificates``, and the identities that follow from its files. Keys are made by a child process and stay here."""

import os
import re
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from api.errors import DeniedError, NotFoundError, RejectedError
from api.ids import Instant, WallNs
from api.ports.certificate import (
    EXPIRED,
    ORGANIZATION,
    USAGES,
    CertificateRead,
    ClientCertificate,
    MakeSigningRequest,
    ReadCertificate,
    SigningRequestMade,
    StoreCertificate,
)
from runtime.drivers.kubeconfig.certificate import CertificateFacts, check_pair, facts_of
from runtime.drivers.kubeconfig.folder import CertificateFolder
from runtime.drivers.kubeconfig.keypair import make_request
from runtime.drivers.kubeconfig.resolve import DEADLINE_S, resolve
from runtime.drivers.kubeconfig.written import write_kubeconfig
from runtime.net.kubeaccess import Access, FileMark, file_mark

CHAIN_LIMIT_BYTES = 64 << 10
NS = 10**9
EXPIRED_AGAIN_S = 60.0
"""While a bootstrap waits, connections ask for the kubeconfig that has expired all the time: unless it changes, it is read so seldom."""
BLOCK = re.compile(
    re.escape(ssl.PEM_HEADER).encode() + rb"[A-Za-z0-9+/=\s]+" + re.escape(ssl.PEM_FOOTER).encode()
)


class ExpiredKubeconfig(msgspec.Struct, frozen=True, kw_only=True):
    """A kubeconfig whose certificate has expired, as it was seen, and until when it need not be read again."""

    mark: FileMark
    until: Instant
    message: str


def ignore_bootstrap() -> None:
    """Need nothing at a bootstrap's end."""


class CertificateDriver:
    """The client certificate of one node. `bootstrap` is a kubeconfig, empty for none; only what `rotates` looks into the folder."""

    name = "certificates"

    def __init__(
        self, node_name: str, kubeconfig: str, folder: str, *, bootstrap: str = "", rotates: bool = False
    ) -> None:
        self._common_name = f"system:node:{node_name}"
        self._kubeconfig, self._bootstrap = kubeconfig, bootstrap
        self._folder = CertificateFolder(folder)
        self._current = self._folder.current if rotates else ""
        self._read: tuple[Access, CertificateRead] | None = None
        self._expired: ExpiredKubeconfig | None = None
        self._key = b""
        self.bootstrapped: Callable[[], None] = ignore_bootstrap
        """Called when the node has its first certificate: the identity of the bootstrap is not needed any more."""

    # identities

    def access(self, deadline_s: float = DEADLINE_S) -> Access:
        """Return what the kubeconfig comes to, with the certificate that rotation stored last. Raises an `OperatingError`."""
        if self._bootstrap and not os.path.lexists(self._kubeconfig):
            raise NotFoundError(
                f"kubeconfig {self._kubeconfig} is not there yet: the node's first client certificate is being requested with"
                f" {self._bootstrap}"
            )
        mark = file_mark(self._kubeconfig) + file_mark(self._folder.current)
        known = self._expired
        if known is not None and known.mark == mark and time.monotonic() < known.until:
            raise DeniedError(known.message, reason=EXPIRED)
        try:
            return resolve(self._kubeconfig, deadline_s, current=self._current)
        except DeniedError as error:
            if self._bootstrap and error.reason == EXPIRED:
                until = time.monotonic() + EXPIRED_AGAIN_S
                self._expired = ExpiredKubeconfig(mark=mark, until=until, message=str(error))
            raise

    def bootstrap_access(self, deadline_s: float = DEADLINE_S) -> Access:
        """Return what the bootstrap kubeconfig comes to. Raises an `OperatingError`."""
        return resolve(self._bootstrap, deadline_s)

    # the port

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:
        """Carry out a call; raises an `OperatingError`."""
        match call:
            case ReadCertificate():
                return self._certificate(deadline_s)
            case MakeSigningRequest(bootstrap=bootstrap):
                return self._made(deadline_s, bootstrap=bootstrap)
            case StoreCertificate():
                return self._stored(call, deadline_s)
            case _:
                raise TypeError(f"the port certificates takes no {type(call).__name__}")

    def _certificate(self, deadline_s: float) -> CertificateRead:
        if self._read is not None:
            access, known = self._read
            if all(file_mark(one.path) == one.mark for one in access.files):
                return known
        self._read = None
        access = self.access(deadline_s)
        facts = facts_of(access.cert) if access.cert_file else None
        known = CertificateRead(certificate=shown(facts, access.cert_file) if facts is not None else None)
        self._read = access, known
        if self._bootstrap and self._folder.has_pending_key():
            # Somebody gave the node a kubeconfig while a bootstrap waited.
            self._folder.drop_pending_key()
        return known

    def _made(self, deadline_s: float, *, bootstrap: bool) -> SigningRequestMade:
        self._folder.check()
        given = self._folder.pending_key() if bootstrap else b""
        made = make_request(self._common_name, ORGANIZATION, USAGES, deadline_s, given=given)
        if bootstrap and made.key != given:
            self._folder.keep_pending_key(made.key)
        self._key = made.key
        return SigningRequestMade(pem=made.request, name=made.name)

    def _stored(self, call: StoreCertificate, deadline_s: float) -> CertificateRead:
        if not self._key:
            raise NotFoundError(
                "the key of the certificate is not known any more; another certificate is requested"
            )
        chain = certificates_in(call.certificate)
        facts = self._checked(chain)
        bootstrap = self.bootstrap_access(deadline_s) if call.bootstrap else None
        self._folder.store(chain, self._key, datetime.now(UTC))
        if bootstrap is not None:
            write_kubeconfig(self._kubeconfig, bootstrap, self._folder.current)
            self._folder.drop_pending_key()
            self.bootstrapped()
        self._key, self._read = b"", None
        return CertificateRead(certificate=shown(facts, self._folder.current))

    def _checked(self, chain: bytes) -> CertificateFacts:
        """Return what an issued certificate says; raises `RejectedError` for one that must not be used."""
        wrong, facts = "", facts_of(chain)
        if facts is None:
            wrong = f"it is no certificate in PEM of at most {CHAIN_LIMIT_BYTES >> 10} KiB"
        elif why := check_pair(chain, self._key):
            wrong = why
        elif facts.common_name != self._common_name or ORGANIZATION not in facts.organizations:
            wrong = f"it is for {facts.subject!r}, not for O={ORGANIZATION}, CN={self._common_name}"
        elif facts.until <= datetime.now(UTC).timestamp():
            wrong = f"it was valid until {datetime.fromtimestamp(facts.until, UTC).isoformat()}; set this machine's clock"
        if wrong or facts is None:
            raise RejectedError(
                f"the certificate that the signer issued cannot be used: {wrong}; look at the signer"
            )
        return facts


def certificates_in(pem: bytes) -> bytes:
    """Return the certificates of a PEM text and nothing else of it: a key in it would be taken for ours. Empty for too long a text."""
    found = BLOCK.findall(pem) if len(pem) <= CHAIN_LIMIT_BYTES else []
    return b"\n".join(found) + b"\n" if found else b""


def shown(facts: CertificateFacts, where: str) -> ClientCertificate:
    """Return what the agent is to know of a certificate."""
    return ClientCertificate(
        subject=facts.subject,
        valid_from=WallNs(round(facts.since) * NS),
        valid_until=WallNs(round(facts.until) * NS),
        where=where,
    )
