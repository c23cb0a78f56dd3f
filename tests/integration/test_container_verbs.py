"""``logs``, ``exec`` and ``images`` against containers of a real agent."""

import subprocess
import sys

from tests.harness.agent.agent import REPOSITORY, until

FOREVER = "exec sleep 1000000"


def test_logs_follow_until_the_container_ends(agent):
    gate = agent.folder / "gate"
    agent.put(
        "job",
        f"echo one; while ! test -e {gate}; do sleep 0.05; done; echo two; echo three >&2",
        restart="Never",
    )
    agent.start()
    agent.until_status("job", "Running")
    words = (sys.executable, "-m", "actors.agent.main", "logs", "-f", "job", "--root-dir", str(agent.root))
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=REPOSITORY) as following:
        assert following.stdout.readline() == b"one\n"
        assert following.poll() is None
        gate.touch()
        assert sorted(following.stdout.read().splitlines()) == [b"three", b"two"]
        assert following.wait(10) == 0
    assert agent.verb("logs", "job", "--tail", "0").stdout == ""
    assert len(agent.verb("logs", "job", "--tail", "2").stdout.splitlines()) == 2
    assert sorted(agent.verb("logs", "job").stdout.splitlines()) == ["one", "three", "two"]


def test_following_ends_with_the_agent_and_does_not_hold_it_up(agent):
    agent.put("web", f"echo one; {FOREVER}")
    agent.start()
    agent.until_status("web", "Running")
    words = (sys.executable, "-m", "actors.agent.main", "logs", "-f", "web", "--root-dir", str(agent.root))
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=REPOSITORY) as following:
        assert following.stdout.readline() == b"one\n"
        code, took_s = agent.stop()
        assert (code, took_s < 2.0) == (0, True), took_s
        following.wait(10)
        assert b"Traceback" not in following.stderr.read()


def test_logs_of_the_previous_run_are_its_own(agent):
    count = agent.folder / "count"
    agent.put(
        "crash",
        f"echo x >>{count}; echo run $(wc -l <{count}); test $(wc -l <{count}) -ge 2 && {FOREVER}; exit 1",
    )
    agent.start()
    agent.until(
        lambda: agent.row("crash")["restarts"] == 1 and agent.row("crash")["status"] == "Running",
        "it runs again",
    )
    until(lambda: agent.verb("logs", "crash").stdout == "run 2\n", "the second run spoke")
    assert agent.verb("logs", "crash", "--previous").stdout == "run 1\n"


def test_logs_of_a_container_that_had_no_run_before_say_so(agent):
    agent.put("web", FOREVER)
    agent.start()
    agent.until_status("web", "Running")
    ended = agent.verb("logs", "web", "--previous")
    assert ended.returncode == 1
    assert 'previous terminated container "main"' in ended.stderr


def test_exec_returns_the_commands_own_code_and_output(agent):
    agent.put("web", FOREVER, env={"COLOUR": "blue"})
    agent.start()
    agent.until_status("web", "Running")
    ended = agent.verb("exec", "web", "--", "sh", "-c", "echo $COLOUR; echo oops >&2; exit 42")
    assert (ended.returncode, ended.stdout, ended.stderr) == (42, "blue\n", "oops\n")
    slow = agent.verb("exec", "web", "--timeout", "1s", "--", "sleep", "60")
    assert slow.returncode == 1
    assert "timed out" in slow.stderr
    missing = agent.verb("exec", "web", "--", "no-such-program")
    assert missing.returncode != 0
    assert "no-such-program" in missing.stderr
    assert agent.row("web")["restarts"] == 0


def test_exec_in_a_container_that_does_not_run_says_what_it_does(agent):
    agent.put("job", "exit 37", restart="Never")
    agent.start()
    agent.until_status("job", "Error")
    ended = agent.verb("exec", "job", "--", "true")
    assert ended.returncode == 1
    [line] = ended.stderr.splitlines()
    assert "not running" in line
    assert "37" in line


def test_images_lists_the_built_in_one(agent):
    agent.start()
    ended = agent.verb("images", "ls")
    assert ended.returncode == 0
    assert "nodeagent.local/host" in ended.stdout


def test_streams_that_the_runtime_does_not_have_or_nobody_could_have_are_one_clear_line(agent):
    agent.put("web", FOREVER)
    agent.put("job", "exit 37", restart="Never")
    agent.start()
    agent.until_status("web", "Running")
    agent.until_status("job", "Error")
    for pod, why in (
        ("web", "the embedded runtime does not support streaming yet; remove -i and -t"),
        ("job", "not running"),
        ("nowhere", 'no pod "nowhere"'),
    ):
        ended = agent.verb("exec", "-i", pod, "--", "cat")
        assert (ended.returncode, ended.stdout) == (1, "")
        [line] = ended.stderr.splitlines()
        assert why in line
