"""Which credentials fit an image, in the order in which they are tried (reference ``runtime-cri`` section 14.4).

```text
https://index.docker.io/v1/   -> index.docker.io           scheme gone, /v1/ and /v2/ gone
*.example.com:5000/team       -> fits a.example.com:5000/team-a/app: one label a glob, ports equal, the path a prefix
```
"""

import fnmatch
from collections.abc import Iterable

import msgspec

from actors.rules.imagename import split_tag
from api.messages.images import Credential
from api.ports.images import ImageAuth

DOCKER_HUB = "docker.io"
DOCKER_HUB_KEY = "index.docker.io"
"""Under which credentials for Docker Hub are kept, whatever its images are called."""


class CredentialCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """One credential to try, and where it is from."""

    where: str
    """The entry's own name, as it may be shown."""
    auth: ImageAuth


def offers(
    image: str, pod: Iterable[Credential], node: Iterable[Credential]
) -> tuple[CredentialCandidate, ...]:
    """Return what to try for an image: the pod's own first, then the node's; equal ones once."""
    found: list[CredentialCandidate] = []
    for ring in (tuple(pod), tuple(node)):
        for credential in fitting(image, ring):
            if all(offer.auth != credential.auth for offer in found):
                found.append(CredentialCandidate(where=key_of(credential.where), auth=credential.auth))
    return tuple(found)


def fitting(image: str, ring: tuple[Credential, ...]) -> tuple[Credential, ...]:
    """Return the credentials of one ring that fit an image, longest path first."""
    repository, _ = split_tag(image.partition("@")[0])
    # The sort is stable: several credentials under one key keep their order.
    ordered = sorted(ring, key=lambda credential: key_of(credential.where), reverse=True)
    found = tuple(credential for credential in ordered if fits(key_of(credential.where), repository))
    if not found and repository.partition("/")[0] == DOCKER_HUB:
        found = tuple(credential for credential in ordered if key_of(credential.where) == DOCKER_HUB_KEY)
    return found


def key_of(where: str) -> str:
    """Return an entry's name without scheme, user and API version (``/v1/``)."""
    _, _, rest = where.rpartition("://")
    host, slash, path = rest.partition("/")
    host = host.rpartition("@")[2]
    path = slash + path.partition("?")[0].partition("#")[0]
    if path.startswith(("/v1/", "/v2/")):
        path = path[3:]
    elif path in ("/v1", "/v2"):
        path = ""
    return host + ("" if path == "/" else path)


def fits(key: str, repository: str) -> bool:
    """Return whether a key fits a repository: globs per label of the host, ports equal, the path a prefix."""
    key_host, key_slash, key_path = key.partition("/")
    host, slash, path = repository.partition("/")
    key_name, key_port = host_and_port(key_host)
    name, port = host_and_port(host)
    key_labels, labels = key_name.split("."), name.split(".")
    if key_port != port or len(key_labels) != len(labels):
        return False
    if not (slash + path).startswith(key_slash + key_path):
        return False
    return all(
        # An IPv6 address in brackets is no glob.
        label == glob or fnmatch.fnmatchcase(label, glob.replace("[^", "[!"))
        for glob, label in zip(key_labels, labels, strict=True)
    )


def host_and_port(host: str) -> tuple[str, str]:
    """Return a host's name and its port, empty when it names none; an IPv6 address keeps its brackets."""
    name, colon, port = host.rpartition(":")
    return (name, port) if colon and port.isdigit() else (host, "")
