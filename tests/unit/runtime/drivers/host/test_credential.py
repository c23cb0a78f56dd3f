"""The node's own credentials: where they are looked for, and what is said of a broken file."""

import base64
import json
import os
from pathlib import Path

import pytest

from api.errors import RejectedError
from api.ports.credentials import NodeCredentials, ReadNodeCredentials
from api.ports.manifests import ReadManifests
from runtime.drivers.host.credential import NodeCredentialFiles
from runtime.drivers.memory.credential import MemoryCredentials

SECRET = "hunter2-very-secret"


def entry(password):
    return {"auth": base64.b64encode(f"u:{password}".encode()).decode()}


def config_json(password):
    return json.dumps({"auths": {"r.example.com": entry(password)}})


def config(password):
    return json.dumps({"r.example.com": entry(password)})


@pytest.fixture
def places(tmp_path):
    for name in ("root", "home/.docker", "top/.docker"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def read(places, home=True):
    port = NodeCredentialFiles(places / "root", places / "home" if home else None, places / "top")
    return port.perform(ReadNodeCredentials(), 1.0)


def passwords(found):
    return [credential.auth.password for credential in found.credentials]


@pytest.mark.parametrize("port", [NodeCredentialFiles, MemoryCredentials])
def test_without_files_there_are_none_and_other_calls_are_refused(port, tmp_path):
    made = port(tmp_path, None, tmp_path) if port is NodeCredentialFiles else port()
    assert made.name == "credentials"
    assert made.perform(ReadNodeCredentials(), 1.0) == NodeCredentials()
    with pytest.raises(RejectedError):
        made.perform(ReadManifests(path="/x"), 1.0)


def test_files_are_looked_for_in_the_kubelets_order(places):
    order = [
        ("root/config.json", config_json),
        ("home/.docker/config.json", config_json),
        ("top/.docker/config.json", config_json),
        ("root/.dockercfg", config),
        ("home/.dockercfg", config),
        ("top/.dockercfg", config),
    ]
    for number, (name, text) in reversed(list(enumerate(order))):
        (places / name).write_text(text(f"p{number}"))
        assert passwords(read(places)) == [f"p{number}"]
    (places / "root/config.json").unlink()
    assert passwords(read(places, home=False)) == ["p2"]


def test_a_file_is_read_anew_each_time(places):
    port = NodeCredentialFiles(places / "root", None, places / "top")
    for password in ("a", "b"):
        (places / "root/config.json").write_text(config_json(password))
        assert passwords(port.perform(ReadNodeCredentials(), 1.0)) == [password]


@pytest.mark.parametrize("content", [f'{{"auths": {SECRET}', f'{{"auths": "{SECRET}"}}', SECRET * 100_000])
def test_a_broken_file_is_named_without_its_content_and_the_next_one_counts(places, content):
    (places / "root/config.json").write_text(content)
    (places / "home/.dockercfg").write_text(config(SECRET))
    found = read(places)
    assert passwords(found) == [SECRET]
    [problem] = found.problems
    assert problem.where == str(places / "root/config.json")
    assert problem.message
    assert SECRET not in repr(found)


def test_what_is_no_file_is_a_problem_and_holds_nobody_up(places):
    os.mkfifo(places / "root/config.json")
    (places / "top/.docker/config.json").mkdir()
    before = len(list(Path("/proc/self/fd").iterdir()))
    messages = [problem.message for problem in read(places).problems]
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert messages == ["not a regular file"] * 2
