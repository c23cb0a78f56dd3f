"""What the kernel itself says, read by the tests' own means beside the agent's, and whether both agree."""

import os
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

TOLERANCE = 0.02
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


def agree(one: float, other: float, tolerance: float = TOLERANCE) -> bool:
    """Tell whether two figures differ by two per cent at most."""
    return abs(one - other) <= tolerance * max(abs(one), abs(other))


def groups_of(pid: int) -> dict[str, Path]:
    """Return the folders of a process's v1 cgroups, by controller, as this machine mounts them one by one."""
    found = {}
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            folder = Path(f"/sys/fs/cgroup/{name}{path}")
            if name and folder.is_dir():
                found[name] = folder
    return found


def value(path: Path, key: str = "") -> int:
    """Return the number in a file, or behind a key in it."""
    text = path.read_text()
    if not key:
        return int(text)
    return next(int(line.split()[1]) for line in text.splitlines() if line.split()[0] == key)


def working_set(folder: Path) -> int:
    """Return a v1 cgroup's working set."""
    inactive = value(folder / "memory.stat", "total_inactive_file")
    return max(0, value(folder / "memory.usage_in_bytes") - inactive)


def resident(pid: int) -> int:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS


def metrics(page: bytes) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Return a page as a Prometheus server reads it: name -> labels -> value."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def pod_named(summary: dict, name: str) -> dict:
    """Return a pod of a summary, empty when it is not in it."""
    return next((pod for pod in summary["pods"] if pod["podRef"]["name"] == name), {})
