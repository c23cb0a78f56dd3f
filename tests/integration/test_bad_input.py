"""Bad input, each a clear message and nothing lost: what names the file, the place in it, why, and what to do."""

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from runtime.net.endpoint import listen_unix
from tests.harness.agent.agent import NODE, REPOSITORY, pod

FOREVER = "exec sleep 1000000"
BOMB = "\n".join(
    ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    + [f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 10)}]" for i in range(9)]
)


def manifest(**changes):
    """Return a manifest with some fields of its spec or itself changed."""
    whole = pod("bad", FOREVER)
    whole["spec"] |= changes.pop("spec", {})
    return json.dumps(whole | changes)


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 3}
"""

# Each: file name, content, and every word that the message must have: what, where, why, what to do.
BROKEN = {
    "an empty file": (b"", ("empty",)),
    "20 MB": (b"# " + b"x" * 20_000_000, ("20000002 bytes", "1 MiB", "keep large data in files of its own")),
    "binary": (b"\x7fELF\x00\x01\x02", ("binary", "NUL byte", "UTF-8 text")),
    "tabs": (b"apiVersion: v1\nkind: Pod\nmetadata:\n\tname: web\n", (":4:", "tab", "spaces")),
    "an alias bomb": (BOMB.encode(), ("alias",)),
    "duplicate keys": (
        b"apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  name: b\n",
        (":5:", "duplicate key 'name'", "each key is allowed once in an object"),
    ),
    "a Deployment": (DEPLOYMENT.encode(), ("kind", "Deployment", "Pod")),
    "two documents": (b"kind: Pod\n---\nkind: Pod\n", (":2", "document")),
    "no containers": (manifest(spec={"containers": []}).encode(), ("spec.containers", "at least one")),
    "a negative grace": (
        manifest(spec={"terminationGracePeriodSeconds": -1}).encode(),
        ("spec.terminationGracePeriodSeconds", "-1", "0"),
    ),
    "a long name": (manifest(metadata={"name": "n" * 254}).encode(), ("metadata.name", "253")),
}


@pytest.mark.parametrize("case", sorted(BROKEN))
def test_a_broken_file_is_told_with_place_and_reason(agent, case):
    content, words = BROKEN[case]
    agent.put("good", FOREVER)
    agent.start()
    agent.until_status("good", "Running")
    main = agent.mains("good")
    agent.write("bad.yaml", content)
    told = agent.until_source("bad.yaml", "broken")
    assert all(word in told for word in words), told
    assert told.startswith("bad.yaml"), told
    assert len(told) < 1000, told
    # The log says the same once, in one line, and the other pod did not notice.
    [line] = [line for line in agent.stderr().splitlines() if "bad.yaml" in line]
    assert words[0].strip(":") in line, line
    assert agent.mains("good") == main
    assert set(agent.rows()) == {"good"}
    # A person sees the same words in the table's foot and from `validate`.
    shown = agent.verb("sources").stdout
    assert all(word in shown for word in words), shown
    checked = agent.verb_alone("validate", str(agent.manifests / "bad.yaml"))
    assert checked.returncode == 1
    assert words[-1] in checked.stdout, checked.stdout


def test_an_unknown_field_is_warned_of_and_the_pod_runs(agent):
    whole = pod("web", FOREVER, folder=agent.folder)
    whole["spec"]["contianers"] = []
    agent.write("web.yaml", json.dumps(whole))
    agent.start()
    agent.until_status("web", "Running")
    told = agent.until_source("web.yaml", "accepted")
    assert "web.yaml: spec.contianers" in told
    assert "did you mean 'containers'?" in told
    assert "ignored" in told
    assert "spec.contianers" in agent.stderr()


def test_of_two_files_with_one_pod_the_first_keeps_running_and_the_second_is_told(agent):
    agent.put("web", FOREVER)
    agent.start()
    agent.until_status("web", "Running")
    main = agent.mains("web")
    second = pod("web", "exec sleep 2000000", folder=agent.folder)
    agent.write("also.yaml", json.dumps(second))
    told = agent.until_source("also.yaml", "duplicate")
    assert f"default/web-{NODE}" in told, told
    assert "web.yaml" in told, told
    assert agent.mains("web") == main
    agent.drop("web")
    agent.until(
        lambda: agent.source("also.yaml")["status"] == "accepted" and agent.row("web")["status"] == "Running",
        "the second takes the first one's place",
    )
    assert agent.mains("web") != main


def test_an_unknown_image_is_told_and_the_others_run(agent):
    agent.put("good", FOREVER)
    agent.put("bad", FOREVER, image="docker.io/library/nginx:1.27")
    agent.start()
    agent.until_status("good", "Running")
    row = agent.until(
        lambda: (
            agent.row("bad")["status"]
            in (
                "ErrImagePull",
                "ImagePullBackOff",
                "ErrImageNeverPull",
                "InvalidImageName",
                "CreateContainerError",
            )
            and agent.row("bad")
        ),
        "the image is refused",
    )
    assert row["ready"] == "0/1"
    told = " ".join(agent.explain("bad")["containers"])
    assert "docker.io/library/nginx:1.27" in told, told
    assert "nodeagent.local/host" in told, told
    [event, *_] = [e for e in agent.json("/events?pod=bad")["events"] if e["type"] == "Warning"]
    assert "nodeagent.local/host" in event["message"]


def test_a_command_that_does_not_exist_is_told_and_the_others_run(agent):
    agent.put("good", FOREVER)
    whole = pod("bad", "", folder=agent.folder)
    whole["spec"]["containers"][0]["command"] = ["no-such-program", "--flag"]
    agent.write("bad.yaml", json.dumps(whole))
    agent.start()
    agent.until_status("good", "Running")
    agent.until(lambda: agent.row("bad")["restarts"] >= 1, "it is tried again")
    agent.until_status("bad", "CrashLoopBackOff")
    told = " ".join(agent.explain("bad")["containers"])
    assert "exit code 128 (StartError)" in told, told
    last = agent.status("bad")["lastState"]["terminated"]
    assert (last["exitCode"], last["reason"]) == (128, "StartError")
    assert last["message"] == 'exec "no-such-program": no such file or directory in $PATH'
    assert "no-such-program" in told, told


# ---------------------------------------------------------------- the root directory


def refused(ended, *words):
    """Hold a start that was refused to one clear line."""
    assert ended.returncode == 1, ended
    [line] = [line for line in ended.stderr.splitlines() if line.startswith("nodeagent:")]
    assert "Traceback" not in ended.stderr
    assert all(word in line for word in words), line


def test_a_second_agent_on_one_root_directory_names_the_first(agent):
    agent.put("web", FOREVER)
    agent.start()
    agent.until_status("web", "Running")
    refused(agent.run(), str(agent.root), f"pid {agent.process.pid}", "stop it", "--root-dir")
    assert agent.row("web")["status"] == "Running"
    assert agent.json("/actors")["total"] > 0


def test_a_socket_that_another_process_listens_on_is_named_and_left_alone(agent):
    agent.root.mkdir()
    other = listen_unix(str(agent.root / "nodeagent.sock"))
    try:
        refused(agent.run(), str(agent.root / "nodeagent.sock"), f"pid {os.getpid()}", "--root-dir")
        assert (agent.root / "nodeagent.sock").is_socket()
    finally:
        other.close()


def test_a_health_port_in_use_is_named(agent):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        refused(agent.run("--healthz-port", str(port)), f"127.0.0.1:{port}", "in use", "healthzPort")
    # What was begun is taken back: the next start finds neither socket nor lock.
    agent.start()


def test_a_root_directory_that_is_not_writable_is_told_with_the_user(agent):
    agent.root.mkdir()
    command = agent.command()
    agent.root.chmod(0o555)
    if os.geteuid() == 0:
        # Root may write anywhere; root without its capabilities may write only where its mode says so.
        command = ("setpriv", "--bounding-set", "-all", "--inh-caps", "-all", *command)
    ended = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY, check=False)
    agent.root.chmod(0o755)
    refused(ended, str(agent.root), f"as user {os.geteuid()}", "Permission denied", "--root-dir")


def test_a_root_directory_of_two_hundred_characters_works(make_agent, tmp_path):
    root = tmp_path / ("r" * 100) / ("s" * 100)
    agent = make_agent(root=root)
    assert len(str(root)) > 200
    agent.put("web", FOREVER)
    agent.put("job", "echo done", restart="Never")
    agent.start()
    agent.until_status("web", "Running")
    agent.until_status("job", "Completed")
    assert agent.verb("pods").returncode == 0
    assert agent.verb("logs", "job").stdout == "done\n"
    main = agent.mains("web")
    agent.kill9()
    agent.start()
    agent.until(lambda: agent.mains("web") == main, "the pod is adopted")


# ---------------------------------------------------------------- a full disk


@pytest.mark.real
def test_a_full_disk_under_the_logs_harms_no_pod_and_is_told(make_agent, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small file system")
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "nodeagent-test", str(small)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"a tmpfs cannot be mounted here: {mounted.stderr.decode()}")
    agent = make_agent(podLogsDir=str(small))
    try:
        beat = agent.folder / "beat"
        agent.put("good", FOREVER)
        agent.put("loud", f"while :; do echo {'x' * 1000}; date +%s%N >{beat}; sleep 0.002; done")
        agent.start()
        agent.until_status("loud", "Running")
        agent.until(
            lambda: "dropped" in json.dumps(agent.explain("loud")["containers"]),
            "explain says that lines are dropped",
            30,
        )
        told = json.dumps(agent.explain("loud"))
        assert "No space left" in told or "no space left" in told, told
        last = beat.read_text()
        agent.until(lambda: beat.read_text() != last, "the loud pod goes on")
        assert agent.row("loud")["restarts"] == 0
        # A pod that starts on the full disk runs too.
        agent.put("late", FOREVER)
        agent.until_status("late", "Running")
        assert agent.row("good")["status"] == "Running"
        for name in ("good", "loud", "late"):
            agent.drop(name)
        agent.until_gone("good", "loud", "late")
        agent.stop(signal.SIGTERM)
    finally:
        if agent.process is not None and agent.process.poll() is None:
            agent.kill9()
        subprocess.run(["umount", "-l", str(small)], check=True)


def test_the_harness_writes_nothing_to_the_systems_log_folder(agent):
    agent.put("web", FOREVER)
    agent.start()
    agent.until_status("web", "Running")
    uid = agent.row("web")["uid"]
    assert list(agent.logs.glob(f"*{uid}"))
    assert not list(Path("/var/log/pods").glob(f"*{uid}"))
