"""Renders the tables of supported fields as ``docs/support.md``: ``python -m tests.tidy.support`` writes it."""

from pathlib import Path

from actors.pod.spec.support import CONFINED, SUPPORTED

PAGE = Path(__file__).parents[2] / "docs" / "support.md"
HEAD = """# Supported fields of a Pod

Made from the tables in `actors/pod/spec/support.py` by `python -m tests.tidy.support`; a test keeps it up to date.

A pod that sets a field that is not listed here, or another value than those listed, stays `Pending` with reason
`Unsupported` and the field's path in its message: no field is dropped silently. A field with its default value is
always accepted.

The embedded runtime runs plain processes of the host; a runtime that confines containers (containerd, CRI-O) supports more.
The fields of `spec.containers[]` apply to `spec.initContainers[]` too, sidecars included.
`resources.limits` and `overhead` are listed by resource: `hugepages-*` stands for each size of huge pages, `*/*` for
extended resources, such as `example.com/gpu`. A pod that requests one that the node does not have runs all the same, as with a kubelet.

## What differs without root

The embedded runtime needs no root. An agent that runs as a plain user runs the same pods, with these differences:

- **User**: each container runs as the agent's user with the agent's groups. `runAsUser` and `runAsGroup` may not name another (`CreateContainerError`). `runAsNonRoot: true` is satisfied.
- **Volumes**: `volumeMounts` need the permission to mount: a container with one is refused (`CreateContainerError`), and so are volumes that are mounts themselves: `emptyDir.medium: Memory`, `subPath`.
- **Limits**: where the user may not write cgroups, none are made. Requests are reserved and not enforced (event `CgroupsNotEnforced`); CPU and memory are counted process by process.
- **OOM kills**: a keeper is as likely to be chosen by the kernel as its containers, and `SystemOOM` is not reported where `/dev/kmsg` may not be read.
- **Ports**: a container can listen on port 1024 and above only, unless `net.ipv4.ip_unprivileged_port_start` allows less.
- **Setuid programs**: a process that became another user, as by `sudo`, gets no signal from its keeper. It ends by itself, or with its parent.
- **Files**: they are in `$XDG_STATE_HOME/nodeagent` (`~/.local/state/nodeagent`) and pod logs in `logs` below it, instead of `/var/lib/nodeagent` and `/var/log/pods`.
- **Other runtimes**: the sockets of containerd and CRI-O are root's.

## Fields

| field | on the embedded runtime | on a runtime that confines |
|---|---|---|
"""


def rendered() -> str:
    """Return the page."""
    rows = "".join(row(path) for path in sorted({**SUPPORTED, **CONFINED}))
    return HEAD + rows


def row(path: str) -> str:
    """Return one line of the table."""
    anywhere = values(SUPPORTED[path]) if path in SUPPORTED else "-"
    confined = values(CONFINED.get(path, SUPPORTED.get(path, ())))
    return f"| `{path}` | {anywhere} | {confined} |\n"


def values(accepted: tuple[object, ...]) -> str:
    """Return the accepted values of a row in words."""
    if not accepted:
        return "any"
    return ", ".join(word(value) for value in accepted)


def word(value: object) -> str:
    """Return one accepted value as YAML writes it."""
    if value is None or value == "":
        return "unset"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    PAGE.write_text(rendered())
