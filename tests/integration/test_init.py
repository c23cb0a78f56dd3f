"""Init containers and sidecars of a real agent: their order, their retries, their end, and an agent that dies in between."""

import json
import os

from tests.harness.agent.agent import IMAGE, MARK, main_of, processes

FOREVER = "exec sleep 1000000"


def put(agent, name, inits, main, **spec):
    """Write a pod whose containers are shell scripts: of each init container (name, script, its own fields)."""

    def container(title, script, fields=None):
        mark = [{"name": MARK, "value": str(agent.folder)}]
        return {"name": title, "image": IMAGE, "command": ["sh", "-c", script], "env": mark, **(fields or {})}

    whole = {
        "terminationGracePeriodSeconds": 5,
        "initContainers": [container(*one) for one in inits],
        "containers": [container("main", main)],
        **spec,
    }
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole}
    agent.write(f"{name}.yaml", json.dumps(document))


SIDECAR = {"restartPolicy": "Always"}


def beside(diary):
    """Return a sidecar's script: it writes down when it begins and when it is told to stop."""
    return f"echo up >>{diary}; trap 'echo down >>{diary}; exit 0' TERM; sleep 1000000 & wait"


def gated(diary, word, gate):
    """Return a script that writes a word and ends once a file is there."""
    return f"echo {word} >>{diary}; while ! test -e {gate}; do sleep 0.05; done"


def lines(diary):
    """Return what was written down."""
    return diary.read_text().split() if diary.exists() else []


def test_init_containers_run_in_turn_and_one_that_fails_is_tried_again(agent):
    diary, tried = agent.folder / "diary", agent.folder / "tried"
    second = f"echo second >>{diary}; echo run; test -e {tried} || {{ touch {tried}; exit 3; }}"
    put(
        agent,
        "web",
        [("first", f"echo first >>{diary}"), ("second", second)],
        f"echo main >>{diary}; echo hello; {FOREVER}",
    )
    checked = agent.verb_alone("validate", str(agent.manifests / "web.yaml"))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    agent.start()
    agent.until_status("web", "Running")
    assert lines(diary) == ["first", "second", "second", "main"]
    statuses = agent.init_statuses("web")
    assert {name: (s["ready"], s.get("restartCount", 0)) for name, s in statuses.items()} == {
        "first": (True, 0),
        "second": (True, 1),
    }
    assert statuses["second"]["lastState"]["terminated"]["exitCode"] == 3
    assert (agent.row("web")["ready"], agent.row("web")["restarts"]) == ("1/1", 0)
    agent.until(lambda: agent.verb("logs", "web").stdout == "hello\n", "the only regular one is meant")
    assert agent.verb("logs", "web", "-c", "second", "--previous").stdout == "run\n"
    events = json.loads(agent.verb("events", "web", "-o", "json").stdout)["items"]
    assert {e["involvedObject"]["fieldPath"] for e in events if e["reason"] == "Started"} == {
        "spec.initContainers{first}",
        "spec.initContainers{second}",
        "spec.containers{main}",
    }


def test_an_init_container_that_keeps_failing_backs_off_and_says_so(agent):
    put(agent, "web", [("first", "true"), ("bad", "exit 9")], FOREVER)
    agent.start()
    agent.until_status("web", "Init:CrashLoopBackOff")
    told = agent.explain("web")
    assert "back-off of container bad (exit code 9)" in told["waits_for"]
    assert told["containers"][1].startswith("bad (init): waiting: CrashLoopBackOff")
    assert agent.status("web")["state"]["waiting"]["reason"] == "PodInitializing"
    assert agent.row("web")["ready"] == "0/1"


def test_an_init_container_that_fails_for_good_fails_its_pod(agent):
    diary = agent.folder / "diary"
    put(
        agent,
        "job",
        [("bad", f"echo bad >>{diary}; exit 9"), ("next", f"echo next >>{diary}")],
        f"echo main >>{diary}",
        restartPolicy="Never",
    )
    agent.start()
    agent.until_status("job", "Init:Error")
    agent.until(lambda: agent.phase("job") == "Failed", "its phase is final")
    assert lines(diary) == ["bad"]
    assert agent.init_statuses("job")["bad"]["state"]["terminated"]["exitCode"] == 9
    assert "waiting" in agent.init_statuses("job")["next"]["state"]


def test_an_init_container_that_never_ends_is_named_and_can_be_removed(agent):
    put(agent, "web", [("first", "true"), ("stuck", FOREVER)], FOREVER)
    agent.start()
    agent.until_status("web", "Init:1/2")
    agent.until(
        lambda: agent.explain("web")["waits_for"] == "init container stuck to exit", "it is waited for"
    )
    told = agent.explain("web")
    assert told["since_s"] is not None
    assert told["containers"][1].startswith("stuck (init): running for")
    spoken = agent.verb("explain", "web").stdout
    assert "init container stuck to exit (for " in spoken
    agent.drop("web")
    agent.until_gone("web")


def test_a_sidecar_runs_beside_a_job_and_ends_with_it(agent):
    diary = agent.folder / "diary"
    put(
        agent,
        "job",
        [("side", beside(diary), SIDECAR), ("prepare", f"while ! test -e {diary}; do sleep 0.05; done")],
        f"echo main >>{diary}",
        restartPolicy="Never",
    )
    agent.start()
    agent.until_status("job", "Completed")
    assert lines(diary) == ["up", "main", "down"]
    assert agent.phase("job") == "Succeeded"
    assert "terminated" in agent.init_statuses("job")["side"]["state"]


def test_a_sidecar_that_dies_is_started_again_under_a_running_main(agent):
    diary, gate = agent.folder / "diary", agent.folder / "gate"
    put(
        agent,
        "job",
        [("side", beside(diary), SIDECAR)],
        gated(diary, "main", gate),
        restartPolicy="Never",
    )
    agent.start()
    agent.until_status("job", "Running")
    agent.until(lambda: agent.row("job")["ready"] == "2/2", "both are ready")
    main = agent.mains("job")
    identity = agent.init_statuses("job")["side"]["containerID"].rpartition("/")[2]
    pid, _ = main_of(identity)
    os.kill(pid, 9)
    agent.until(lambda: lines(diary).count("up") == 2, "it was started again")
    agent.until(lambda: agent.row("job")["ready"] == "2/2", "both are ready again")
    assert agent.mains("job") == main
    assert agent.row("job")["restarts"] == 1
    gate.touch()
    agent.until_status("job", "Completed")
    assert lines(diary)[-1] == "down"


def test_an_ill_sidecar_is_stopped_and_started_again_while_its_main_runs(agent):
    diary, well = agent.folder / "diary", agent.folder / "well"
    well.touch()
    watched = {"exec": {"command": ["test", "-e", str(well)]}, "periodSeconds": 1, "failureThreshold": 1}
    put(agent, "web", [("side", beside(diary), SIDECAR | {"livenessProbe": watched})], FOREVER)
    agent.start()
    agent.until_status("web", "Running")
    agent.until(lambda: agent.row("web")["ready"] == "2/2", "both are ready")
    main = agent.mains("web")
    well.unlink()
    agent.until(lambda: lines(diary)[:2] == ["up", "down"], "it was stopped")
    well.touch()
    agent.until(lambda: lines(diary)[-1] == "up", "it was started again")
    agent.until(lambda: agent.row("web")["ready"] == "2/2", "both are ready again")
    assert agent.mains("web") == main
    told = json.loads(agent.verb("events", "web", "-o", "json").stdout)["items"]
    killed = [e["message"] for e in told if e["reason"] == "Killing"]
    assert set(killed) == {"Init container side failed liveness probe, will be restarted"}


def test_an_agent_that_dies_in_mid_sequence_goes_on_where_it_was(agent):
    diary, gate = agent.folder / "diary", agent.folder / "gate"
    put(
        agent,
        "web",
        [("first", f"echo first >>{diary}"), ("second", gated(diary, "second", gate))],
        f"echo main >>{diary}; {FOREVER}",
    )
    agent.start()
    agent.until_status("web", "Init:1/2")
    agent.until(lambda: lines(diary) == ["first", "second"], "the second one runs")
    agent.kill9()
    agent.start()
    agent.until_status("web", "Init:1/2")
    agent.kill9()
    gate.touch()
    agent.start()
    agent.until_status("web", "Running")
    assert lines(diary) == ["first", "second", "main"]
    [main] = agent.mains("web").values()
    agent.kill9()
    agent.start()
    agent.until_status("web", "Running")
    assert processes.is_alive(*main)
    assert lines(diary) == ["first", "second", "main"]


def test_a_restart_rule_of_a_container_comes_before_the_pods_policy(agent):
    diary, tried = agent.folder / "diary", agent.folder / "tried"
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
    script = f"echo first >>{diary}; test -e {tried} && exit 0; touch {tried}; exit 42"
    put(
        agent,
        "job",
        [("first", script, {"restartPolicy": "Never", "restartPolicyRules": [rule]})],
        f"echo main >>{diary}; exit 5",
        restartPolicy="Never",
    )
    agent.start()
    agent.until_status("job", "Error")
    assert lines(diary) == ["first", "first", "main"]


def test_a_rule_restarts_all_containers_and_keeps_the_sandbox(agent):
    diary, tried = agent.folder / "diary", agent.folder / "tried"
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}
    once = f"echo second >>{diary}; test -e {tried} && {FOREVER}; touch {tried}; exit 88"
    put(
        agent,
        "web",
        [("first", f"echo first >>{diary}")],
        f"echo main >>{diary}; {FOREVER}",
        restartPolicy="Never",
    )
    document = json.loads((agent.manifests / "web.yaml").read_text())
    second = document["spec"]["containers"][0] | {
        "name": "second",
        "command": ["sh", "-c", once],
        "restartPolicy": "Never",
        "restartPolicyRules": [rule],
    }
    document["spec"]["containers"].append(second)
    agent.write("web.yaml", json.dumps(document))
    agent.start()
    agent.until(lambda: lines(diary).count("second") == 2, "all of it began again")
    agent.until(lambda: agent.row("web")["ready"] == "2/2", "all of it runs")
    assert sorted(lines(diary)[:3]) == sorted(lines(diary)[3:]) == ["first", "main", "second"]
    assert lines(diary)[3] == "first"
    for status in agent.statuses("web").values():
        assert status["restartCount"] == 1
        assert status["lastState"]["terminated"]["reason"] == "RestartingAllContainers"
    assert len(agent.pod_keepers()) == 1


def test_a_sidecar_whose_startup_probe_fails_holds_up_what_comes_after_it(agent):
    diary, gate = agent.folder / "diary", agent.folder / "gate"
    probe = {"exec": {"command": ["test", "-e", str(gate)]}, "periodSeconds": 1, "failureThreshold": 100}
    put(
        agent,
        "web",
        [("side", beside(diary), {**SIDECAR, "startupProbe": probe}), ("next", f"echo next >>{diary}")],
        f"echo main >>{diary}; {FOREVER}",
    )
    agent.start()
    agent.until_status("web", "Init:0/2")
    agent.until(lambda: "startup probe of container side" in agent.explain("web")["waits_for"], "it is named")
    agent.until(lambda: lines(diary) == ["up"], "it runs")
    assert agent.init_statuses("web")["side"]["started"] is False
    gate.touch()
    agent.until_status("web", "Running")
    agent.until(lambda: agent.row("web")["ready"] == "2/2", "both are ready")
    agent.until(lambda: lines(diary) == ["up", "next", "main"], "they began in their order")
    agent.kill9()
    agent.start()
    agent.until(lambda: agent.row("web")["ready"] == "2/2", "both are ready again")
    assert lines(diary) == ["up", "next", "main"]
