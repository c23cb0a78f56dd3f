"""``nodeagent validate``: what is wrong with a manifest or configuration file, without running anything."""

import msgspec

from actors.run import file_bytes, this_machine
from actors.sources.manifest import FILE, Origin, read_pod
from api.config import Flags, configure
from api.errors import OperatingError
from api.host import MANIFEST_LIMIT_BYTES, Problem
from runtime.drivers.host.yamltext import read_document

CONFIGURATION = "KubeletConfiguration"


def problems_of(path: str) -> tuple[Problem, ...]:
    """Return everything that is wrong with one file, also that it can not be read."""
    try:
        content = file_bytes(path)
    except OperatingError as error:
        return (Problem(where=path, message=str(error).removeprefix(f"{path}: ")),)
    if len(content) > MANIFEST_LIMIT_BYTES:
        limit = MANIFEST_LIMIT_BYTES >> 20
        found = f"has {len(content)} bytes; a manifest over {limit} MiB is not read: keep large data in files of its own"
        return (Problem(where=path, message=found),)
    read = read_document(content, path)
    if read.problems or read.json is None:
        return read.problems or (Problem(where=path, message="the file is empty"),)
    raw = msgspec.json.decode(read.json)
    machine = this_machine()
    if isinstance(raw, dict) and raw.get("kind") == CONFIGURATION:
        flags = Flags(
            config=path, container_runtime_endpoint=raw.get("containerRuntimeEndpoint") or "embedded"
        )
        configured = configure(read.json, flags, machine)
        return (*configured.problems, *configured.warnings)
    origin = Origin(source=FILE, where=path, shown=path, node_name=machine.hostname)
    pod = read_pod(read.json, origin)
    return (*pod.problems, *pod.warnings)
