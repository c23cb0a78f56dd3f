"""The owner of a process: by cgroup, descent, session, or a variable in its environment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from runtime.drivers.embedded.keeper import cgroup, process
from runtime.drivers.embedded.keeper.command import Command
from runtime.drivers.embedded.keeper.container import KeptContainer


def belonging(
    container: KeptContainer, containers: Iterable[KeptContainer], commands: Mapping[int, Command]
) -> list[process.ProcessStat]:
    """Return the live processes of a container but its main one; `containers` and `commands` are all of its keeper."""
    pids = {pid for group in container.groups for pid in cgroup.members(group)}
    live = [one for one in containers if one.is_live]
    mains = {one.pid: one for one in live if one.pid}
    for pid in process.children(os.getpid()):
        if pid in mains:
            owner: KeptContainer | None = mains[pid]
        elif pid in commands:
            owner = commands[pid].container
        else:
            owner = owner_of_orphan(pid, live)
        if owner is container:
            pids.add(pid)
            pids.update(process.descendants(pid))
    pids.discard(container.pid)
    return alive(pids)


def owner_of_orphan(pid: int, live: list[KeptContainer]) -> KeptContainer | None:
    """Return the container among those alive that a process came from whose parent has died; None where none is likely."""
    seen = process.look(pid)
    if seen is None:
        return None
    for container in live:
        if container.session == seen.session:
            return container
    for container in live:
        if any(pid in cgroup.members(group) for group in container.groups):
            return container
    _, mark = process.marks(pid)
    for container in live:
        if container.identity == mark:
            return container
    # One that took off session, cgroup and environment: the only one it can be, if there is only one.
    return live[0] if len(live) == 1 else None


def alive(pids: Iterable[int]) -> list[process.ProcessStat]:
    """Return those of some processes that are there and no zombies."""
    found = (process.look(pid) for pid in pids)
    return [seen for seen in found if seen is not None and seen.state not in "ZX"]
