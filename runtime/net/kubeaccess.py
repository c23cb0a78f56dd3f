"""How an API server is reached and who we are there: what a kubeconfig comes to."""

import msgspec


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """One API server and one identity. Certificates and keys are PEM; its repr shows no secret."""

    server: str
    """``https://host[:port][/prefix]``, without a slash at its end."""
    ca: bytes = b""
    """Empty: the authorities that the machine trusts."""
    cert: bytes = b""
    key: bytes = b""
    token: str = ""
    server_name: str = ""
    """The name that the server's certificate must have; empty for that of the URL."""
    insecure: bool = False
    """Do not verify the server's certificate."""
    expires_at: float | None = None
    """Seconds of wall clock from which on it must be found out again; None for never."""

    def __repr__(self) -> str:
        has = [word for word in ("ca", "cert", "key", "token", "insecure") if getattr(self, word)]
        return f"Access({self.server}, {' '.join(has) or 'no identity'}, expires_at={self.expires_at})"
