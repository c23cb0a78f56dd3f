"""Finds out what a kubeconfig comes to, by the child process `child`."""

import os
import time

from api.errors import UnavailableError
from runtime.drivers.kubeconfig.process import ChildAnswer, ask_child
from runtime.net.kubeaccess import Access

DEADLINE_S = 60.0
REST = 0.8
"""This part of the time is the child's own, so that it can say what took so long."""


class Resolved(ChildAnswer, frozen=True, kw_only=True):
    """The child's answer."""

    access: Access | None = None


def resolve(path: str, deadline_s: float = DEADLINE_S, *, current: str = "") -> Access:
    """Return what a kubeconfig comes to: server, authorities, identity. Blocks for as long as its exec plugin takes.

    `current` is the file with the certificate and key that rotation stored last, which may not be there yet: they take the
    place of those in the kubeconfig. Raises an `OperatingError` of one line that names the file, what is wrong and what to
    do. When it returns, nothing that it started runs any more.
    """
    path = os.path.abspath(path)  # noqa: PTH100  # links stay: what the file names lies beside the link, as in kubectl
    end = time.monotonic() + deadline_s * REST
    where = f"kubeconfig {path}"
    found = ask_child("child", (path, str(end), current), Resolved, where, deadline_s)
    if found.access is None:
        raise UnavailableError(f"{where}: the process that reads it printed neither an access nor a failure")
    return found.access
