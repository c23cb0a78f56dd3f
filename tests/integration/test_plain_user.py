"""The examples once more, run by a user without root: a session as root becomes one for it, another is one already."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from runtime.drivers.embedded.keeper import process
from tests.harness.agent.agent import REPOSITORY

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        os.geteuid() != 0,
        reason="needs root, to become another user: this session runs the examples as its own user",
    ),
]
RUN_LIMIT_S = 110.0


@pytest.fixture
def user():
    """Return the id of a user whom the machine does not know and who runs nothing."""
    first = 60_000 + os.getpid() % 1000
    return next(uid for uid in range(first, first + 1000) if not processes_of(uid))


@pytest.fixture
def folder(user):
    """Return a folder of that user's own; pytest's are closed to all but their maker."""
    made = Path(tempfile.mkdtemp(prefix="plain-user-"))
    os.chown(made, user, user)
    yield made
    shutil.rmtree(made)


def test_a_plain_user_brings_the_examples_to_their_states_and_removing_them_leaves_nothing(user, folder):
    ran = run_as(
        user,
        folder,
        *("-m", "pytest", "-p", "no:cacheprovider", "--basetemp", folder / "tests", "-m", ""),
        "tests/integration/test_examples.py",
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert processes_of(user) == []


def run_as(user, folder, *words):
    """Run an interpreter with these words as a user without root, at home in `folder`."""
    python = interpreter(user, folder)
    return subprocess.run([python, *words], **as_user(user, folder), timeout=RUN_LIMIT_S, check=False)


def interpreter(user, folder):
    """Return a Python that the user may run and that finds this checkout and its packages."""
    same = f"/usr/bin/python3.{sys.version_info.minor}"
    for python in (sys.executable, same):
        try:
            ran = subprocess.run(
                [python, "-c", "import actors.agent.main, pytest"],
                **as_user(user, folder),
                timeout=60,
                check=False,
            )
        except OSError:
            # One below root's home, for example.
            continue
        if ran.returncode == 0:
            return python
    return pytest.skip(
        f"user {user} may run neither {sys.executable} nor {same} on {REPOSITORY}: make the checkout readable for"
        " everybody, with a Python that everybody may run"
    )


def as_user(user, folder):
    """Return what makes a subprocess one of that user, with nothing of this session."""
    return {
        "user": user,
        "group": user,
        "extra_groups": [],
        "cwd": REPOSITORY,
        "env": {
            "HOME": str(folder),
            "PATH": os.defpath,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(Path(pytest.__file__).parents[1])]),
        },
        "capture_output": True,
        "text": True,
    }


def processes_of(user):
    """Return the living processes of a user."""
    found = (process.look(pid) for pid in process.all_pids() if owner_of(pid) == user)
    return [seen.pid for seen in found if seen is not None and seen.state not in "ZX"]


def owner_of(pid):
    """Return whose a process is, None when it is gone."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return None
