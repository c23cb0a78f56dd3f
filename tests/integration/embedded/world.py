"""What the tests look at from outside: processes by a unique word, keepers, records."""

import contextlib
import itertools
import json
import os
import signal
from pathlib import Path

from runtime.drivers.embedded.keeper import process

_NUMBERS = itertools.count(1)


def unique_seconds():
    """Return a number of seconds for `sleep` that no other process of the machine waits for."""
    return 10_000_000 + os.getpid() * 1000 + next(_NUMBERS)


def sleeping(seconds):
    """Return the pids of living `sleep SECONDS` processes."""
    found = []
    for pid in process.all_pids():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            seen = process.look(pid)
            if words[:2] == [b"sleep", str(seconds).encode()] and seen and seen.state not in "ZX":
                found.append(pid)
    return found


def shell(text, **fields):
    """Return what makes a container spec run a shell script."""
    return {"command": ("/bin/sh", "-c"), "args": (text,)} | fields


def folder_of(bench, sandbox):
    """Return the folder of a sandbox's record."""
    return bench.driver.root / "run" / "sandboxes" / sandbox.id


def record_of(bench, sandbox):
    """Return a sandbox's record as it is on disk."""
    return json.loads((folder_of(bench, sandbox) / "record.json").read_text())


def change_record(bench, sandbox, change):
    """Rewrite a sandbox's record; only when its keeper is gone."""
    record = record_of(bench, sandbox)
    change(record)
    (folder_of(bench, sandbox) / "record.json").write_text(json.dumps(record))


def keeper_of(bench, sandbox):
    """Return the pid of a sandbox's keeper."""
    return record_of(bench, sandbox)["keeper"]["pid"]


def is_gone(pid):
    """Say whether a process is gone, or a zombie that its parent has not read yet."""
    seen = process.look(pid)
    return seen is None or seen.state in "ZX"


def kill_keeper(bench, sandbox):
    """SIGKILL a keeper and wait until it is gone."""
    pid = keeper_of(bench, sandbox)
    os.kill(pid, signal.SIGKILL)
    bench.until(lambda: is_gone(pid), "the end of the keeper")
