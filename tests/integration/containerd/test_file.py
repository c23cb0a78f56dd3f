"""What a real agent on a real containerd writes and removes beside its pods: logs, links, last words, cgroups; and ``exec -i``."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.agent.agent import NODE, REPOSITORY
from tests.harness.agent.node import container
from tests.harness.agent.terminal import Terminal

pytestmark = pytest.mark.real
FOREVER = "exec sleep 1000000"


def log_files(node, name):
    """Return the names of a container's logs, and the folder they are in."""
    (folder,) = node.logs.glob(f"default_{name}-{NODE}_*/main")
    return folder, sorted(path.name for path in folder.iterdir())


def text_lines(path):
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [line.split(" ", 3)[3] for line in data.decode().splitlines()]


def words(node, *rest):
    return [sys.executable, "-m", "actors.agent.main", *rest, "--root-dir", str(node.root)]


def exec_words(node, *rest):
    return [sys.executable, "-m", "actors.agent.main", "exec", "--root-dir", str(node.root), *rest]


def test_a_log_is_rotated_and_compressed_and_following_it_loses_nothing(node):
    node.configure(containerLogMaxSize="30Ki", containerLogMaxFiles=3, containerLogMonitorInterval="3s")
    script = "i=0; while ! test -e /tmp/stop; do echo line $i; i=$((i+1)); test $((i%20)) = 0 && sleep 0.05; done; echo last"
    node.put("loud", script, restart="Never")
    node.start()
    node.until_running("loud")
    with subprocess.Popen(
        words(node, "logs", "-f", "loud"), stdout=subprocess.PIPE, cwd=REPOSITORY
    ) as following:
        seen = set()

        def rotated_often():
            _, names = log_files(node, "loud")
            assert len(names) <= 4, names  # One more only while the newest is being put aside.
            seen.update(name.removesuffix(".gz") for name in names)
            return len(seen) >= 5 and any(name.endswith(".gz") for name in names)

        node.until(rotated_often, "it was rotated four times", 40.0)
        assert node.verb("exec", "loud", "--", "touch", "/tmp/stop").returncode == 0
        followed = following.stdout.read().decode().splitlines()
        assert following.wait(10) == 0
    assert followed == [*(f"line {number}" for number in range(len(followed) - 1)), "last"]
    node.until_status("loud", "Completed")
    folder, names = log_files(node, "loud")
    assert len(names) <= 3
    older = sorted((name for name in names if name != "0.log"), key=lambda name: name.removesuffix(".gz"))
    kept = [line for name in (*older, "0.log") for line in text_lines(folder / name)]
    assert kept == followed[-len(kept) :]
    assert "container log not rotated" not in node.stderr()


@pytest.mark.timeout(180)
def test_logs_of_dead_instances_and_links_to_them_are_removed(node):
    node.put("again", f"echo here; {FOREVER}", grace=1)
    node.start()
    node.until_running("again")
    for _ in range(2):
        (was,) = node.mains("again").values()
        os.kill(was[0], 9)
        node.until(
            lambda gone=was: (m := node.mains("again")) and m["main"] != gone, "its successor runs", 40.0
        )
    node.until(lambda: log_files(node, "again")[1] == ["1.log", "2.log"], "the eldest log is gone", 30.0)
    identities = set(node.runtime.link.containers())

    def linked():
        links = node.links()
        shown = {path.stem.rpartition("-")[2] for path in links}
        return shown == identities and all(path.resolve().exists() for path in links)

    node.until(linked, "each instance that is kept has its link, and no other", 30.0)
    assert all(path.name.startswith(f"again-{NODE}_default_main-") for path in node.links())
    node.drop("again")
    node.until_gone("again")
    node.until_empty()
    node.until(lambda: not list(node.logs.glob("*")), "no log is left")
    # Links that lead nowhere are looked for once a minute.
    node.until(lambda: not node.links(), "no link is left", 80.0)


@pytest.mark.parametrize(
    ("script", "fields", "message"),
    [
        ("echo noise; printf bye >/dev/termination-log; exit 3", {}, "bye"),
        ("echo noise; exit 3", {}, ""),
        ("printf own >/tmp/words; exit 3", {"terminationMessagePath": "/tmp/words"}, "own"),
        ("echo one; echo two; exit 3", {"terminationMessagePolicy": "FallbackToLogsOnError"}, "one\ntwo\n"),
        ("echo one; exit 0", {"terminationMessagePolicy": "FallbackToLogsOnError"}, ""),
    ],
)
def test_last_words_are_told(node, script, fields, message):
    node.put_pod("ends", container("main", script, **fields), restartPolicy="Never")
    node.start()
    node.until(
        lambda: (state := node.state("ends"))[0] == "terminated" and state[1].get("message", "") == message,
        f"it ended with the words {message!r}",
    )


def test_the_downward_api_reaches_the_environment(node):
    paths = {
        "NAME": "metadata.name",
        "SPACE": "metadata.namespace",
        "ID": "metadata.uid",
        "NODE": "spec.nodeName",
        "ADDRESS": "status.podIP",
        "HOST": "status.hostIP",
        "TIER": "metadata.labels['tier']",
    }
    env = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in paths.items()]
    limit = {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}
    env.append({"name": "LIMIT", "valueFrom": limit})
    script = "".join(f"echo ${one['name']};" for one in env) + FOREVER
    made = container("main", script, env=env, resources={"limits": {"memory": "64Mi"}})
    spec = {"terminationGracePeriodSeconds": 1, "containers": [made]}
    metadata = {"name": "down", "labels": {"tier": "back"}}
    node.write_pod("down", metadata, spec)
    node.start()
    node.until(lambda: len(next(iter(node.printed("down")), [])) == len(env), "it spoke")
    status, uid = node.pod("down")["status"], node.row("down")["uid"]
    assert node.printed("down")[0] == [
        f"down-{NODE}", "default", uid, NODE, status["podIP"], status["hostIP"], "back", "64",
    ]  # fmt: skip


def test_the_pods_cgroup_goes_with_the_pod(node):
    node.put("web", FOREVER, grace=1)
    node.start()
    node.until_running("web")
    uid = node.row("web")["uid"]

    def cgroups():
        root = node.runtime.cgroup_root.strip("/")
        return [p for at in Path("/sys/fs/cgroup").glob(f"*/{root}") for p in at.rglob(f"*{uid}*")]

    assert cgroups()
    node.drop("web")
    node.until_gone("web")
    node.until_empty()
    node.until(lambda: not cgroups(), "no cgroup of it is left")


def test_a_command_has_the_input_and_the_outputs_of_the_verb(node):
    node.put("web", FOREVER, grace=1)
    node.start()
    node.until_running("web")
    data = os.urandom(300_000)
    ran = subprocess.run(
        exec_words(node, "-i", "web", "--", "sh", "-c", "cat; echo err >&2; exit 5"),
        input=data,
        capture_output=True,
        cwd=REPOSITORY,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (5, b"err\n")
    assert ran.stdout == data


def test_a_shell_on_a_terminal_in_a_pod(node):
    node.put("web", FOREVER, grace=1)
    node.start()
    node.until_running("web")
    shell = Terminal(exec_words(node, "-it", "web", "--", "sh"), columns=90, lines=20)
    try:
        shell.sees(b"/ # ")
        shell.type(b"stty size; hostname\r")
        shell.sees(b"20 90\r\n" + f"web-{NODE}".encode())
        shell.type(b"exit 7\r")
        assert shell.process.wait(20) == 7
    finally:
        shell.close()
