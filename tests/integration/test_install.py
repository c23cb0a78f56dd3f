"""The project as an ordinary package: a wheel that has everything, and a command that runs from anywhere."""

import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.harness.agent.agent import Agent

REPOSITORY = Path(__file__).parents[2]
CODE = ("api", "actors", "runtime")
PIP = (sys.executable, "-I", "-m", "pip", "--disable-pip-version-check")
LOADED = """
import sys
from actors.agent.main import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def source_files(root):
    """Return the files of the code below a root, without what Python makes of them."""
    found = {p for folder in CODE for p in (root / folder).rglob("*") if p.is_file()}
    return {p.relative_to(root).as_posix() for p in found if "__pycache__" not in p.parts}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this checkout, made in a copy: setuptools leaves its own folders beside the sources."""
    copy, made = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(REPOSITORY / name, copy)
    for name in CODE:
        shutil.copytree(REPOSITORY / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    words = ("wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", made, copy)
    subprocess.run((*PIP, *words), check=True, timeout=100)
    [path] = made.iterdir()
    return path


@pytest.fixture(scope="module")
def command(wheel, tmp_path_factory):
    """The command in an environment of its own, which has the packages of this one and nothing of this checkout."""
    venv = tmp_path_factory.mktemp("installed")
    subprocess.run((sys.executable, "-I", "-m", "venv", "--without-pip", venv), check=True, timeout=60)
    python = venv / "bin" / "python"
    words = ("--python", python, "install", "--quiet", "--no-index", "--no-deps", wheel)
    subprocess.run((*PIP, *words), check=True, timeout=60)
    [packages] = venv.glob("lib/python*/site-packages")
    (packages / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return venv / "bin" / "nodeagent"


class Installed(Agent):
    """An agent that is started by an installed command."""

    def __init__(self, command, folder):
        super().__init__(folder)
        self.installed = command

    def command(self, *flags, manifests=True):
        """Return the words of ``run``, by the installed command."""
        _, _, _, *words = super().command(*flags, manifests=manifests)
        return ("env", "-C", "/", "-u", "PYTHONPATH", str(self.installed), *words)


def test_the_wheel_has_every_file_of_the_code(wheel):
    with zipfile.ZipFile(wheel) as file:
        held = set(file.namelist())
    assert source_files(REPOSITORY) - held == set()
    assert {name.partition("/")[0] for name in held if ".dist-info/" not in name} == set(CODE)


def test_the_installed_command_runs_pods_from_anywhere(command, tmp_path):
    agent = Installed(command, tmp_path)
    try:
        agent.start()
        agent.put("job", "exit 0", restart="Never")
        agent.until_status("job", "Completed")
        shown = subprocess.run(
            (command, "pods", "--root-dir", agent.root),
            cwd="/",
            env={},
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
        assert "Completed" in shown.stdout
    finally:
        agent.clean_up()


def test_no_start_pays_for_the_client_of_the_api_server(tmp_path):
    (manifests := tmp_path / "manifests").mkdir()
    root = ("--root-dir", str(tmp_path / "root"))
    run = ("run", "--runonce", "--pod-manifest-path", str(manifests), "--healthz-port", "0", *root)
    for words in (run, ("pods", *root), ("validate", str(manifests)), ("--help",)):
        ended = subprocess.run(
            (sys.executable, "-c", LOADED, *words),
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        loaded = ended.stdout.splitlines()[-1].split()
        assert "actors" in loaded
        assert {"kubernetes", "grpc", "aiohttp"} & set(loaded) == set()
