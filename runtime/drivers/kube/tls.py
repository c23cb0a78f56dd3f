"""The TLS settings of an access, and what its failures mean for whoever runs this node."""

import os
import ssl
from urllib.parse import urlsplit

from api.errors import RejectedError
from api.shortening import shortened
from runtime.net.kubeaccess import Access

PROTOCOLS = ("h2", "http/1.1")


def settings_of(access: Access) -> ssl.SSLContext:
    """Return the settings. Raises `RejectedError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(list(PROTOCOLS))
    try:
        if access.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif access.ca:
            # Comments between the certificates may be in any language.
            context.load_verify_locations(cadata=access.ca.decode("ascii", "replace").replace("\ufffd", "?"))
        else:
            context.load_default_certs()
        if access.cert:
            load_pair(context, access.cert, access.key)
    except (ssl.SSLError, OSError, ValueError):
        raise RejectedError(
            f"the certificates for {access.server} cannot be used; look at those that the kubeconfig names"
        ) from None
    try:
        client_tls(context, access, ssl.MemoryBIO(), ssl.MemoryBIO())
    except ValueError:
        raise RejectedError(
            f"{access.server}: no certificate can have the name {shortened(expected_name(access))!r}; correct"
            " tls-server-name, or server, in the kubeconfig"
        ) from None
    return context


def client_tls(
    settings: ssl.SSLContext, access: Access, received: ssl.MemoryBIO, unsent: ssl.MemoryBIO
) -> ssl.SSLObject:
    """Return the client's end of one connection. Raises ValueError for a server whose name no certificate can have."""
    return settings.wrap_bio(received, unsent, server_hostname=expected_name(access))


def expected_name(access: Access) -> str:
    """Return the name that the server's certificate must have."""
    return access.server_name or urlsplit(access.server).hostname or ""


def load_pair(context: ssl.SSLContext, cert: bytes, key: bytes) -> None:
    """Load a certificate and its key, which OpenSSL takes from files only: these are in memory."""
    descriptors = []
    try:
        for content in (cert, key):
            descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
            descriptors.append(descriptor)
            os.write(descriptor, content)
        chain, secret = (f"/proc/self/fd/{one}" for one in descriptors)
        # An empty password: OpenSSL would ask the terminal for that of an encrypted key.
        context.load_cert_chain(chain, secret, password=b"")
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def why_not(error: ssl.SSLError, server: str) -> str:
    """Return what is wrong with the TLS of a server, and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"{server}: its certificate is not trusted: {error.verify_message}; {remedy(error.verify_code)}"
        )
    reason = (error.reason or "").lower().replace("_", " ")
    if "alert" in reason:
        return f"{server} refuses this node's certificate: {reason}; have a valid one issued by the cluster's authority"
    return f"{server}: TLS failed: {reason or 'the server hung up'}; is it the HTTPS port of an API server?"


EXPIRED, NOT_YET, WRONG_NAME, WRONG_ADDRESS = 10, 9, 62, 64
"""Verify results of OpenSSL, x509_vfy.h."""


def remedy(code: int) -> str:
    """Return what to do about a certificate that is not trusted."""
    match code:
        case _ if code in (EXPIRED, NOT_YET):
            return "renew it, or set this machine's clock"
        case _ if code in (WRONG_NAME, WRONG_ADDRESS):
            return "name the server as its certificate does, or set tls-server-name in the kubeconfig"
        case _:
            return "set certificate-authority in the kubeconfig to the authority that issued it"
