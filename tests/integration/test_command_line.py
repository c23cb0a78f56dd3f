"""The command line at its edges: one run and out, checking files, verbs without an agent, flags and fields not known."""

import json
import os

import pytest

from tests.harness.agent.agent import NODE, REPOSITORY, pod

FOREVER = "exec sleep 1000000"


# ---------------------------------------------------------------- runonce


def test_runonce_ends_well_when_all_pods_run_or_finished(agent):
    agent.put("web", FOREVER)
    agent.put("job", "echo done", restart="Never")
    ended = agent.run("--runonce")
    assert ended.returncode == 0, ended
    lines = sorted(line.split() for line in ended.stdout.splitlines())
    assert lines == [[f"job-{NODE}", "0/1", "Completed"], [f"web-{NODE}", "1/1", "Running"]]
    # The pods are there for the next agent.
    agent.start()
    agent.until_status("web", "Running")
    assert agent.row("web")["restarts"] == 0


def test_runonce_fails_when_one_pod_failed_and_says_which_and_why(agent):
    agent.put("web", FOREVER)
    agent.put("job", "exit 37", restart="Never")
    agent.put("noimage", FOREVER, image="example.org/x:1")
    ended = agent.run("--runonce")
    assert ended.returncode == 1, ended
    lines = {line.split()[0]: line for line in ended.stdout.splitlines()}
    assert set(lines) == {f"{name}-{NODE}" for name in ("web", "job", "noimage")}
    assert lines[f"web-{NODE}"].split()[1:] == ["1/1", "Running"]
    assert "exit code 37" in lines[f"job-{NODE}"]
    assert "example.org/x:1" in lines[f"noimage-{NODE}"]


def test_runonce_names_a_broken_manifest_and_fails(agent):
    agent.put("web", FOREVER)
    agent.write("bad.yaml", "apiVersion: apps/v1\nkind: Deployment\n")
    ended = agent.run("--runonce")
    assert ended.returncode == 1, ended
    lines = ended.stdout.splitlines()
    assert any(line.startswith(f"web-{NODE}") and line.endswith("Running") for line in lines), lines
    [bad] = [line for line in lines if "bad.yaml" in line]
    assert "broken" in bad
    assert "Deployment" in bad
    assert "Pod" in bad


def test_runonce_with_nothing_to_run_ends(agent):
    ended = agent.run("--runonce")
    assert (ended.returncode, ended.stdout) == (0, ""), ended


# ---------------------------------------------------------------- validate


def test_validate_accepts_the_examples_and_a_configuration(agent):
    files = sorted(str(path) for path in (REPOSITORY / "docs" / "examples").glob("*.yaml"))
    ended = agent.verb_alone("validate", *files, str(agent.config))
    assert ended.returncode == 0, ended
    assert ended.stdout.splitlines() == [f"{path}: ok" for path in (*files, str(agent.config))]


def test_validate_tells_everything_that_is_wrong_and_runs_nothing(agent):
    whole = pod("bad", FOREVER)
    whole["spec"] |= {"restartPolicy": "Sometimes", "terminationGracePeriodSeconds": -1}
    bad = agent.folder / "bad.yaml"
    bad.write_text(json.dumps(whole))
    good = agent.folder / "good.yaml"
    good.write_text(json.dumps(pod("good", FOREVER)))
    ended = agent.verb_alone("validate", str(bad), str(good))
    assert ended.returncode == 1, ended
    lines = ended.stdout.splitlines()
    assert any("spec.restartPolicy" in line and "Sometimes" in line for line in lines), lines
    assert any("spec.terminationGracePeriodSeconds" in line for line in lines), lines
    assert f"{good}: ok" in lines
    as_json = json.loads(agent.verb_alone("validate", "-o", "json", str(bad), str(good)).stdout)
    assert [one["ok"] for one in as_json["files"]] == [False, True]
    assert not agent.root.exists()


def test_validate_tells_of_a_file_that_is_not_there_in_one_line(agent):
    ended = agent.verb_alone("validate", str(agent.folder / "missing.yaml"))
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    [line] = (ended.stdout + ended.stderr).splitlines()
    assert "missing.yaml" in line
    assert "no such file" in line


def test_validate_goes_on_after_a_file_that_cannot_be_read(agent):
    good = agent.folder / "good.yaml"
    good.write_text(json.dumps(pod("good", FOREVER)))
    ended = agent.verb_alone("validate", str(agent.folder / "missing.yaml"), str(good))
    assert ended.returncode == 1
    assert f"{good}: ok" in ended.stdout.splitlines(), ended


def test_validate_reads_files_as_the_file_source_does(agent):
    pipe, large, good = (agent.folder / name for name in ("pipe.yaml", "large.yaml", "good.yaml"))
    os.mkfifo(pipe)
    large.write_bytes(b"#" * ((1 << 20) + 1))
    good.write_text(json.dumps(pod("good", FOREVER)))
    link = agent.folder / "link.yaml"
    link.symlink_to("nowhere")
    ended = agent.verb_alone(
        "validate", *map(str, (pipe, "/dev/zero", agent.folder, large, link, good)), deadline_s=20
    )
    assert ended.returncode == 1
    assert ended.stdout.splitlines() == [
        f"{pipe}: is a pipe; a manifest is a regular file",
        "/dev/zero: is a device; a manifest is a regular file",
        f"{agent.folder}: is a folder; a manifest is a regular file",
        f"{large}: has 1048577 bytes; a manifest over 1 MiB is not read: keep large data in files of its own",
        f"{link}: is a symbolic link to nothing",
        f"{good}: ok",
    ]


# ---------------------------------------------------------------- verbs without an agent

VERBS = (
    ("pods",),
    ("actors",),
    ("explain", "web"),
    ("events",),
    ("sources",),
    ("logs", "web"),
    ("exec", "web", "--", "true"),
    ("images", "ls"),
    ("trace", "/node"),
)


@pytest.mark.parametrize("words", VERBS, ids=lambda words: words[0])
def test_a_verb_without_an_agent_is_one_clear_line(agent, words):
    ended = agent.verb(*words)
    assert (ended.returncode, ended.stdout) == (1, "")
    [line] = ended.stderr.splitlines()
    assert line.startswith("nodeagent: cannot connect to the agent:")
    assert str(agent.root / "nodeagent.sock") in line
    assert "nodeagent run" in line
    assert "--root-dir" in line


def test_a_verb_after_a_killed_agent_is_one_clear_line(agent):
    agent.start()
    agent.kill9()
    ended = agent.verb("pods")
    assert ended.returncode == 1
    [line] = ended.stderr.splitlines()
    assert "no process listens" in line


def test_a_pod_that_is_not_there_is_one_clear_line(agent):
    agent.start()
    for words in (("explain", "nope"), ("logs", "nope"), ("exec", "nope", "--", "true"), ("events", "nope")):
        ended = agent.verb(*words)
        assert ended.returncode == 1, words
        [line] = ended.stderr.splitlines()
        assert "nope" in line
        assert "nodeagent pods" in line


# ---------------------------------------------------------------- configuration and flags


def refused(ended, *words):
    """Hold a start that was refused to one line with all the words."""
    assert (ended.returncode, ended.stdout) == (1, ""), ended
    [line] = ended.stderr.splitlines()
    assert line.startswith("nodeagent: ")
    assert all(word in line for word in words), line


def test_a_field_of_the_configuration_that_does_not_exist_is_an_error_with_its_path(agent):
    agent.configure(crashLoopBackOff={"maxContainerRestartPeriods": "10s"})
    refused(
        agent.run(),
        str(agent.config),
        "crashLoopBackOff.maxContainerRestartPeriods",
        "maxContainerRestartPeriod'",
    )


def test_a_field_of_the_configuration_that_is_not_supported_is_a_warning_with_its_path(agent):
    agent.configure(readOnlyPort=10255)
    agent.start()
    [line] = [line for line in agent.stderr().splitlines() if "not supported yet" in line]
    assert "readOnlyPort" in line
    assert "WARN" in line


def test_a_value_out_of_its_range_is_an_error_with_its_path(agent):
    agent.configure(healthzPort=70000)
    refused(agent.run(), str(agent.config), "healthzPort", "70000", "65535")


def test_a_configuration_that_is_no_yaml_is_an_error_with_its_line(agent):
    agent.config.write_text("kind: KubeletConfiguration\n\tbad: x\n")
    refused(agent.run(), f"{agent.config}:2", "tab")


def test_a_bootstrap_without_a_kubeconfig_to_write_is_refused_in_one_line(agent):
    flag = ("--bootstrap-kubeconfig", "/etc/bootstrap")
    refused(agent.run(*flag), *flag, "--kubeconfig as well")


def test_a_cluster_is_no_place_to_run_pods_once(agent):
    refused(agent.run("--kubeconfig", "/etc/kubeconfig", "--runonce"), "--runonce", "--kubeconfig")


def test_an_endpoint_that_is_none_is_refused_in_one_line(agent):
    refused(agent.run("--container-runtime-endpoint", "tcp://127.0.0.1:1"), "tcp://127.0.0.1:1", "embedded")
