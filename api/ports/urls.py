"""The port ``urls``: it takes `FetchManifests`."""

from urllib.parse import urlsplit

import msgspec

from api.ports.call import HostCall
from api.ports.manifests import Problem


class FetchManifests(HostCall, frozen=True, kw_only=True):
    """GET a URL -> FetchedManifests. Header values are secret and never shown."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    known_digest: str = ""
    """Digest of the last body: an equal one comes back as `unchanged`, without documents."""

    def brief(self) -> str:
        """Return one line for traces."""
        return f"FetchManifests {shown_url(self.url)}"

    def __repr__(self) -> str:
        return f"FetchManifests(url={shown_url(self.url)!r}, headers=<hidden>)"


def shown_url(url: str) -> str:
    """Return a URL as it may be shown: without user, password, query and fragment.

    Where these cannot be told from the rest, as in a URL without ``//`` or with a slash in its password, nothing is shown.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.netloc.rpartition("@")[2], parts.port
    except ValueError:
        return "<malformed URL>"
    if not host:
        return "<malformed URL>"
    return f"{parts.scheme}://{host}{parts.path}{'?...' if parts.query else ''}"


class FetchedManifests(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The body of a URL. An empty body is an empty list; a status other than 200 is a failure of the call."""

    digest: str
    unchanged: bool = False
    document: bytes | None = None
    """A Pod, PodList or List as compact JSON; None for an empty body or when there is a problem."""
    problems: tuple[Problem, ...] = ()

    def __repr__(self) -> str:
        return f"FetchedManifests(digest={self.digest!r}, unchanged={self.unchanged}, problems={self.problems!r})"
