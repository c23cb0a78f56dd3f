"""The first use of a checkout: the scripts of `bin/` make `.venv`, once, for its owner alone, from nothing that lies around.

The checkout has the scripts of this one, an agent of three lines and one package, which pip finds in a folder: no test
needs a network.
"""

import fcntl
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.harness.part import need
from tests.harness.wait import until

REPOSITORY = Path(__file__).parents[2]
AGENT = """
import argparse, json, sys
import parcel
print(json.dumps({"path": sys.path, "words": sys.argv[1:], "parcel": parcel.VERSION}))
"""
HIJACK = "import os; open(os.environ['TAKEN'], 'a').write(__file__ + '\\n')\n"
TEMPTING = (
    "actors/__init__.py",
    "actors/agent/__init__.py",
    "actors/agent/main.py",
    "argparse.py",
    "ensurepip.py",
    "venv.py",
    "pip.py",
    "site.py",
)
"""What Python would import from a current folder that is on its path: in the first use, or when the agent starts."""
SLOW_PYTHON = """#!/bin/sh
case "$*" in *"-m venv"*) echo made >>"$SEEN"; flock "$GATE" true;; esac
exec "$REAL" "$@"
"""


class Checkout:
    """A folder with the scripts of `bin/` and what they need of a checkout."""

    def __init__(self, folder):
        self.folder, self.wheels = folder / "checkout", folder / "wheels"
        self.wheels.mkdir(parents=True)
        shutil.copytree(REPOSITORY / "bin", self.folder / "bin")
        (self.folder / "actors" / "agent").mkdir(parents=True)
        (self.folder / "actors" / "__init__.py").touch()
        (self.folder / "actors" / "agent" / "__init__.py").touch()
        (self.folder / "actors" / "agent" / "main.py").write_text(AGENT)
        self.wheel = make_wheel(self.wheels, "parcel", "1.0")
        self.lock("parcel", "1.0", self.wheel)
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "NODEAGENT_PYTHON": sys._base_executable,
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
        }

    @property
    def venv(self):
        return self.folder / ".venv"

    def lock(self, name, version, wheel):
        """Have the checkout ask for this package as it is now, and no other of its version."""
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        (self.folder / "requirements.lock").write_text(f"{name}=={version} --hash=sha256:{digest}\n")

    def begin(self, *words, env=(), cwd="/", **kwargs):
        """Start `bin/nodeagent` and return the process."""
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        command = [self.folder / "bin" / "nodeagent", *words]
        return subprocess.Popen(command, env={**self.env, **dict(env)}, cwd=cwd, **streams, **kwargs)

    def run(self, *words, **kwargs):
        """Run `bin/nodeagent` to its end and return exit code, answer and what it said."""
        with self.begin(*words, **kwargs) as process:
            out, err = process.communicate(timeout=90)
        return process.returncode, out, err


def make_wheel(folder, name, version, code=""):
    """Write a wheel with one module and return its path."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", f"VERSION = {version!r}\n{code}\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    """A checkout whose first use is over: under no umask, in a folder full of traps; `said` is what it wrote to people."""
    made = Checkout(tmp_path_factory.mktemp("ready"))
    made.traps = tmp_path_factory.mktemp("traps")
    env = {"TAKEN": str(tempt(made.traps)), "PYTHONPATH": ":"}
    made.code, made.out, made.said = made.run("pods", cwd=made.traps, env=env, umask=0)
    return made


def test_two_first_uses_at_once_install_once_and_the_second_says_that_it_waits(checkout, tmp_path):
    slow, seen, gate = tmp_path / "python", tmp_path / "seen", tmp_path / "gate"
    slow.write_text(SLOW_PYTHON)
    slow.chmod(0o755)
    seen.touch()
    real = {"NODEAGENT_PYTHON": str(slow), "REAL": sys._base_executable, "SEEN": str(seen), "GATE": str(gate)}
    with gate.open("w") as shut:
        fcntl.flock(shut, fcntl.LOCK_EX)
        first = checkout.begin("first", env=real)
        until(lambda: seen.read_text() == "made\n", "the first makes the environment")
        second = checkout.begin("second", env=real)
        said = second.stderr.readline()
    ended = [(*process.communicate(timeout=90), process.returncode) for process in (first, second)]
    assert "waiting" in said
    assert seen.read_text() == "made\n"
    assert [(json.loads(out)["words"], code) for out, _, code in ended] == [(["first"], 0), (["second"], 0)]


def test_the_first_use_says_one_line_and_the_next_nothing(ready):
    assert (ready.code, json.loads(ready.out)["words"]) == (0, ["pods"]), ready.said
    [line] = ready.said.splitlines()
    assert line.startswith("nodeagent: ")
    assert str(ready.venv) in line
    assert ready.run("pods") == (0, ready.out, "")


def test_only_its_owner_may_write_what_the_first_use_makes_whatever_the_umask(ready):
    made = [p for p in ready.folder.rglob("*") if not p.is_symlink()]
    assert [p for p in made if "__pycache__" in p.parts]
    assert [str(p) for p in made if stat.S_IMODE(p.stat().st_mode) & 0o022] == []


def test_no_code_of_the_current_folder_is_run_by_the_first_use(ready):
    assert not (ready.traps / "taken").exists()


@pytest.mark.parametrize("inherited", [None, "", ":", ".", "./"])
def test_no_code_of_the_current_folder_is_run(ready, tmp_path, inherited):
    taken = tempt(tmp_path)
    env = {"TAKEN": str(taken), **({} if inherited is None else {"PYTHONPATH": inherited})}
    code, out, said = ready.run("pods", cwd=tmp_path, env=env)
    assert (code, said, taken.exists()) == (0, "", False)
    answer = json.loads(out)
    assert answer["words"] == ["pods"]
    assert {"", ".", str(tmp_path)}.isdisjoint(answer["path"])


def tempt(folder):
    """Fill a folder with modules that leave word when they are imported; return where."""
    for name in TEMPTING:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(HIJACK)
    return folder / "taken"


def test_root_does_not_use_an_environment_of_another_user(ready):
    need("root")
    os.chown(ready.venv, 65534, 65534)
    try:
        code, out, said = ready.run()
    finally:
        os.chown(ready.venv, 0, 0)
    assert (code, out) == (1, "")
    [line] = said.splitlines()
    assert f"{ready.venv} belongs to nobody" in line
    assert ready.run()[0] == 0


def test_an_environment_that_every_user_may_write_is_not_used(ready):
    mode = stat.S_IMODE(ready.venv.stat().st_mode)
    ready.venv.chmod(0o777)
    try:
        code, out, said = ready.run()
    finally:
        ready.venv.chmod(mode)
    assert (code, out) == (1, "")
    [line] = said.splitlines()
    assert f"other users may write {ready.venv}" in line


def test_nothing_is_installed_beside_a_file_that_every_user_may_write(checkout):
    planted = checkout.venv / "lib" / "planted.pth"
    planted.parent.mkdir(parents=True)
    planted.touch()
    planted.chmod(0o666)
    code, _, said = checkout.run()
    [line] = said.splitlines()
    assert (code, f"other users may write {planted}" in line) == (1, True)


def test_a_package_that_is_not_the_locked_one_is_refused_and_the_next_use_tries_again(checkout):
    locked = checkout.wheel.read_bytes()
    make_wheel(checkout.wheels, "parcel", "1.0", 'print("of somebody else")')
    code, out, said = checkout.run()
    assert (code, out) == (1, "")
    assert "DO NOT MATCH THE HASHES" in said
    checkout.wheel.write_bytes(locked)
    assert checkout.run()[0] == 0


def test_what_a_renewed_lock_names_is_installed_by_the_next_use(ready):
    ready.lock("parcel", "1.1", make_wheel(ready.wheels, "parcel", "1.1"))
    code, out, said = ready.run()
    assert (code, json.loads(out)["parcel"]) == (0, "1.1"), said
