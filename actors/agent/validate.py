"""``nodeagent validate``: what is wrong with a manifest or configuration file, without running anything."""

import msgspec

from actors.agent.run import this_machine
from actors.sources.manifest import FILE, Origin, read_pod
from api.config.settings import Flags, configure
from api.ports.manifests import Problem
from runtime.drivers.host.manifests.manifest import VanishedError, read_file

CONFIGURATION = "KubeletConfiguration"


def problems_of(path: str) -> tuple[Problem, ...]:
    """Return all problems of one file, also that it cannot be read."""
    try:
        read = read_file(path, None, path).file
    except VanishedError:
        return (Problem(where=path, message="no such file"),)
    if read.problems or read.document is None:
        return read.problems or (Problem(where=path, message="the file is empty"),)
    raw = msgspec.json.decode(read.document)
    machine = this_machine()
    if isinstance(raw, dict) and raw.get("kind") == CONFIGURATION:
        flags = Flags(
            config=path, container_runtime_endpoint=raw.get("containerRuntimeEndpoint") or "embedded"
        )
        configured = configure(read.document, flags, machine)
        return (*configured.problems, *configured.warnings)
    origin = Origin(source=FILE, where=path, shown=path, node_name=machine.hostname)
    pod = read_pod(read.document, origin)
    return (*pod.problems, *pod.warnings)
