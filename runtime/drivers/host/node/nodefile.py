"""Reads the files of the node that pods see something of: its resolver file and its hosts file."""

import os
import stat
from pathlib import Path

from api.ports.manifests import Problem
from api.ports.node import NodeFiles, parse_resolver
from api.ports.podfiles import ReadNodeFiles

HOSTS = Path("/etc/hosts")
LIMIT_BYTES = 1 << 20
"""A file over this size is refused."""
CHUNK_BYTES = 1 << 16
"""Read at once: all of a usual file, without a buffer made for a megabyte."""


def read_node_files(call: ReadNodeFiles, hosts: Path = HOSTS) -> NodeFiles:
    """Return the files as they are now; one that cannot be read is a problem, not a failure."""
    problems = []
    resolver = None
    if call.resolv_conf:
        found = _read(Path(call.resolv_conf))
        if isinstance(found, Problem):
            problems.append(found)
        else:
            resolver = parse_resolver(found, call.resolv_conf)
    text = _read(hosts)
    if isinstance(text, Problem):
        problems.append(text)
        text = ""
    return NodeFiles(resolver=resolver, hosts=text, problems=tuple(problems))


def _read(path: Path) -> str | Problem:
    try:
        # Not blocking: a pipe in its place must not block the thread.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return Problem(where=str(path), message="not a regular file")
            content = b""
            while len(content) <= LIMIT_BYTES and (more := os.read(fd, CHUNK_BYTES)):
                content += more
        finally:
            os.close(fd)
    except OSError as error:
        return Problem(where=str(path), message=error.strerror or type(error).__name__)
    if len(content) > LIMIT_BYTES:
        return Problem(where=str(path), message=f"more than {LIMIT_BYTES} bytes")
    return content.decode(errors="replace")
