"""The steps of a pod's life, each as `explain` tells it, on either runtime: what it waits for, who stopped it, what is left.

What a step does is asserted by the tests of that subject; here each step is held at a gate and asked about.
"""

import os
import re

import pytest

from tests.harness.agent.house import FOREVER
from tests.harness.wait import until

SIDECAR = {"restartPolicy": "Always"}
CPUS = os.cpu_count() or 1


def gated(diary, word, gate):
    """Return a script that writes a word and ends once a file is there."""
    return f"echo {word} >>{diary}; until [ -e {gate} ]; do sleep 0.05; done"


def slow_end(diary, word, gate):
    """Return a script that runs until it is told to stop, and ends once a file is there."""
    end = f"echo {word} >>{diary}; until [ -e {gate} ]; do sleep 0.05; done; exit 0"
    return f"trap '{end}' TERM; sleep 1000000 & wait"


def when(path, period=1, **more):
    """Return a probe that succeeds while a file is there."""
    return {"exec": {"command": ["test", "-e", str(path)]}, "periodSeconds": period, **more}


# ---------------------------------------------------------------- 1. init containers and sidecars


def test_each_step_before_the_own_containers_is_explained(house):
    diary = house.gate("diary")
    first, up, last = (house.gate(name) for name in ("first", "up", "last"))
    house.put(
        "web",
        house.container("main", f"echo main >>{diary}; {FOREVER}"),
        initContainers=[
            house.container("first", gated(diary, "first", first)),
            house.container("side", FOREVER, startupProbe=when(up, failureThreshold=1000), **SIDECAR),
            house.container("last", f"echo last >>{diary}; [ -e {last} ] || exit 3"),
        ],
    )
    told = house.until_waits("web", "init container first to exit")
    assert told["since_s"] is not None
    assert told["containers"][0].startswith("first (init): running for")
    assert told["containers"][1].startswith("side (sidecar): waiting: PodInitializing")
    assert told["containers"][3].startswith("main: waiting: PodInitializing")
    first.touch()
    told = house.until_waits("web", "startup probe of container side to succeed")
    assert "first (init): ended with exit code 0" in told["containers"][0]
    assert house.conditions("web")["Initialized"] == ("False", "ContainersNotInitialized")
    up.touch()
    told = house.until_waits("web", "back-off of container last (exit code 3)")
    assert told["containers"][2].startswith("last (init): waiting: CrashLoopBackOff")
    assert told["next"][0]["in_s"] > 0
    assert house.diary()[0] == "first"
    assert "main" not in house.diary()
    last.touch()
    told = house.until_content("web", 60.0)
    assert house.conditions("web")["Initialized"][0] == "True"
    assert house.diary()[-2:] == ["last", "main"]
    assert "(init): ended with exit code 0" in told["containers"][2]
    house.kill("web", "side")
    line = house.until_line("web", "side", "running for", "last ended with exit code 137")
    assert "1 restart" in line


def test_sidecars_that_wait_for_their_turn_to_be_stopped_say_for_whom(house):
    diary = house.gate("diary")
    gates = {name: house.gate(f"end-{name}") for name in ("one", "two", "main")}
    house.put(
        "web",
        house.container("main", slow_end(diary, "main", gates["main"])),
        initContainers=[
            house.container(name, slow_end(diary, name, gates[name]), **SIDECAR) for name in ("one", "two")
        ],
        terminationGracePeriodSeconds=60,
    )
    house.until_content("web")
    house.agent.drop("web")
    told = house.until_waits(
        "web",
        "container main to exit",
        "container one, after containers main, two",
        "container two, after container main",
    )
    assert told["kill"].startswith("removed from its source, ")
    assert "grace period 60 s" in told["kill"]
    house.agent.until(lambda: house.diary() == ["main"], "only the main was told to stop")
    gates["main"].touch()
    told = house.until_waits("web", "container one, after container two")
    assert house.line("web", "main").startswith("main: ended with exit code 0")
    house.agent.until(lambda: house.diary() == ["main", "two"], "then the last sidecar")
    gates["two"].touch()
    house.agent.until(lambda: house.diary() == ["main", "two", "one"], "then the first one")
    gates["one"].touch()
    house.agent.until_gone("web")


def test_what_a_restart_rule_does_is_explained(house):
    tried = house.gate("tried")
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}
    once = f"until [ -e {house.gate('go')} ]; do sleep 0.05; done; [ -e {tried} ] || {{ touch {tried}; exit 88; }}; {FOREVER}"
    house.put(
        "web",
        house.container("main", FOREVER),
        house.container("asks", once, restartPolicy="Never", restartPolicyRules=[rule]),
        restartPolicy="Never",
    )
    house.until_content("web")
    house.gate("go").touch()
    for name in ("main", "asks"):
        line = house.until_line("web", name, "running for", "RestartingAllContainers")
        assert "1 restart" in line
    tried.unlink()


# ---------------------------------------------------------------- 2. probes


def test_each_state_of_a_containers_probes_is_explained(house):
    up, ready, ill = (house.gate(name) for name in ("up", "ready", "ill"))
    liveness = {
        # It is ill once: a second check of the same kind would restart the successor too.
        "exec": {"command": ["sh", "-c", f"test ! -e {ill} || {{ rm {ill}; echo feels ill; exit 1; }}"]},
        "periodSeconds": 1,
        # A machine that is busy with other tests must not make it ill.
        "timeoutSeconds": 20,
        "failureThreshold": 1,
    }
    house.put(
        "web",
        house.container(
            "main",
            FOREVER,
            startupProbe=when(up, failureThreshold=1000),
            readinessProbe=when(ready, failureThreshold=1),
            livenessProbe=liveness,
        ),
    )

    def probes(told):
        return {row["what"].split(" ", 1)[0]: row for row in told.get("probes", ())}

    told = house.until_said("web", lambda t: t["probes"], "'failures': 2")
    assert "startup probe of container main to succeed" in told["waits_for"]
    rows = probes(told)
    assert rows["startup"]["failing_s"] > 0
    assert rows["startup"]["next_in_s"] is None or rows["startup"]["next_in_s"] <= 1
    for kind in ("liveness", "readiness"):
        assert rows[kind]["waits"] == "waiting until the container has started"
        assert rows[kind]["checked"] == 0
    up.touch()
    told = house.until_waits("web", "readiness probe of container main to succeed")
    told = house.until_said("web", lambda t: probes(t).get("readiness", {}).get("failures", 0) or "", "")
    assert probes(told)["startup"]["waits"] == "done: the container has started"
    until(lambda: probes(house.explained("web"))["readiness"]["failing_s"], "it fails since", 20.0)
    assert house.agent.row("web")["why"].startswith("the readiness probe of container main to succeed")
    ready.touch()
    told = house.until_content("web")
    assert probes(told)["readiness"]["result"] == "success"
    assert house.conditions("web")["Ready"][0] == "True"
    ill.touch()
    until(lambda: house.agent.status("web").get("restartCount") == 1, "it is restarted", 30.0)
    house.until_line("web", "main", "running for", "last ended with exit code 0 (Completed)", "1 restart")
    assert "Container main failed liveness probe, will be restarted" in house.events("web", "Killing")
    assert any(
        text.startswith("Liveness probe failed: feels ill") for text in house.events("web", "Unhealthy")
    )


# ---------------------------------------------------------------- 3. hooks and termination


def test_hooks_are_explained_while_they_run_and_so_is_the_grace_that_is_left(house):
    start, stop, end = (house.gate(name) for name in ("start", "stop", "end"))
    diary = house.gate("diary")
    lifecycle = {
        "postStart": {"exec": {"command": ["sh", "-c", gated(diary, "hook", start)]}},
        "preStop": {"exec": {"command": ["sh", "-c", gated(diary, "stop", stop)]}},
    }
    house.put(
        "web",
        house.container("main", slow_end(diary, "term", end), lifecycle=lifecycle),
        house.container("second", FOREVER),
        terminationGracePeriodSeconds=40,
    )
    told = house.until_waits("web", "the postStart hook of container main: exec sh -c")
    assert told["since_s"] is not None
    later = until(
        lambda: (
            (now := house.explained("web")) and now["since_s"] and now["since_s"] > told["since_s"] and now
        ),
        "it waits longer",
    )
    assert "postStart hook" in later["waits_for"]
    assert "second: waiting: ContainerCreating" in later["containers"][1]
    start.touch()
    told = house.until_content("web")
    assert any("postStart hook of container main" in step["what"] for step in told["tried"])
    house.agent.drop("web")
    told = house.until_waits("web", "the preStop hook of container main: exec sh -c", "timeout in ")
    left = re.search(r"main: exec .*; timeout in (\d+) s", told["waits_for"], re.DOTALL)
    assert 20 <= int(left[1]) <= 40
    assert told["kill"].startswith("removed from its source, ")
    assert told["kill"].endswith("grace period 40 s")
    assert told["state"] == "terminating: removed from its source"
    house.until_waits("web", "the preStop hook of container main")
    # The other container was not held up by the hook.
    house.until_line("web", "second", "ended with exit code")
    stop.touch()
    told = house.until_waits("web", "container main to exit")
    assert any(
        "preStop hook of container main" in step["what"] and step["result"].startswith("ok")
        for step in told["tried"]
    )
    house.agent.until(lambda: house.diary()[-1] == "term", "it was told to stop")
    end.touch()
    house.agent.until_gone("web")


def test_a_deadline_is_explained_before_and_after(house):
    house.put("job", house.container("main", FOREVER), activeDeadlineSeconds=8)
    told = house.until_said("job", lambda t: t["next"], "active deadline")
    [step] = [step for step in told["next"] if "active deadline" in step["what"]]
    assert 0 < step["in_s"] <= 8
    house.agent.until_status("job", "DeadlineExceeded")
    told = house.explained("job")
    assert told["kill"].startswith("active deadline exceeded")
    assert "Pod was active on the node longer than the specified deadline" in told["problems"]
    assert house.status("job")["phase"] == "Failed"


# ---------------------------------------------------------------- 4. admission


def test_each_refusal_is_explained_with_what_to_do(house):
    asks = {"requests": {"cpu": str(CPUS + 1)}}
    port = house.free_port()
    house.put("has", house.container("main", FOREVER, ports=[{"containerPort": 80, "hostPort": port}]))
    house.until_content("has")
    refusals = {
        # Name: spec, container, reason, what explain says.
        "large": ({}, {"resources": asks}, "OutOfcpu", "requests "),
        "picky": (
            {"nodeSelector": {"disk": "ssd"}},
            {},
            "NodeAffinity",
            "requires disk=ssd; the node has the labels",
        ),
        "same": (
            {},
            {"ports": [{"containerPort": 80, "hostPort": port}]},
            "NodePorts",
            f"port {port}/TCP is taken by default/has",
        ),
        "alien": ({"os": {"name": "windows"}}, {}, "PodOSNotSupported", "OS field doesn't match node OS"),
    }
    for name, (spec, fields, _, _) in refusals.items():
        house.put(name, house.container("main", FOREVER, **fields), **spec)
    for name, (_, _, reason, text) in refusals.items():
        house.agent.until_status(name, reason)
        told = house.until_said(name, lambda t: t["problems"], text)
        told = house.until_waits(name, "changed manifest")
        assert told["kill"].startswith("not admitted to this node"), told["kill"]
        assert house.events(name, reason), name
        status = house.status(name)
        assert (status["phase"], status["reason"]) == ("Failed", reason)
    assert house.agent.row("has")["restarts"] == 0


def test_a_critical_pod_and_the_one_that_makes_room_for_it_name_each_other(house):
    diary, end = house.gate("diary"), house.gate("end")
    asks = {"resources": {"requests": {"cpu": str(CPUS)}}}
    house.put(
        "lesser",
        house.container("main", slow_end(diary, "term", end), **asks),
        terminationGracePeriodSeconds=60,
    )
    house.until_content("lesser")
    house.put("top", house.container("main", FOREVER, **asks), priority=2_000_001_000)
    told = house.until_waits("top", "room on the node", "default/lesser-")
    assert told["state"].startswith("no actor")
    told = house.until_waits("lesser", "container main to exit")
    assert told["kill"].startswith("pre-empted, ")
    assert told["state"] == "terminating: pre-empted"
    assert house.events("lesser", "Preempting") == ["Preempted in order to admit critical pod"]
    house.agent.until(lambda: house.diary() == ["term"], "it was told to stop")
    end.touch()
    house.until_content("top")
    house.agent.until_status("lesser", "Preempting")
    assert house.conditions("lesser")["DisruptionTarget"] == ("True", "TerminationByKubelet")
    assert "Preempted in order to admit critical pod" in house.explained("lesser")["problems"]


# ---------------------------------------------------------------- 5. status


def test_a_readiness_gate_that_nobody_opened_is_what_a_pod_waits_for(house):
    house.put(
        "web", house.container("main", FOREVER), readinessGates=[{"conditionType": "example.org/ready"}]
    )
    house.until_waits("web", "readiness gate", "example.org/ready")
    found = house.conditions("web")
    assert found["ContainersReady"][0] == "True"
    assert found["Ready"] == ("False", "ReadinessGatesNotReady")
    assert found["PodReadyToStartContainers"][0] == "True"
    assert house.agent.row("web")["status"] == "Running"


@pytest.mark.parametrize(("code", "phase", "word"), [(0, "Succeeded", "Completed"), (7, "Failed", "Error")])
def test_the_end_of_a_pod_is_explained_and_stays(house, code, phase, word):
    house.put("job", house.container("main", f"exit {code}"), restartPolicy="Never")
    house.agent.until_status("job", word)
    told = house.until_said("job", lambda t: t["state"], phase)
    assert told["state"] == f"{phase}, no container will be started again"
    assert told["kill"].startswith("ran to its end")
    assert f"ended with exit code {code}" in told["containers"][0]
    assert "will not be started again" in told["containers"][0]
    assert told["waits_for"] == "finished; kept until it is removed from its source"
    found = house.conditions("job")
    assert found["Ready"] == ("False", "PodCompleted" if code == 0 else "PodFailed")


# ---------------------------------------------------------------- 6. mounts


def test_a_volume_that_is_not_there_yet_is_what_a_pod_waits_for(house):
    missing = house.agent.folder / "missing"
    place = house.place("place")
    house.put(
        "web",
        house.container("main", FOREVER, volumeMounts=[{"name": "v", "mountPath": str(place)}]),
        volumes=[{"name": "v", "hostPath": {"path": str(missing), "type": "Directory"}}],
    )
    told = house.until_waits("web", f"{missing} is not a directory")
    assert told["next"][0]["in_s"] > 0
    assert "main: waiting: ContainerCreating" in told["containers"][0]
    assert any("hostPath type check failed" in text for text in house.events("web", "FailedMount"))
    missing.mkdir()
    told = house.until_content("web", 60.0)
    assert any("PrepareVolume" in step["what"] for step in told["tried"])
    missing.rmdir()


# ---------------------------------------------------------------- 7. resize


def put_growing(house, milli):
    """Write the pod that keeps its UID, with so much CPU."""
    asks = {"resources": {"requests": {"cpu": f"{milli}m"}}}
    house.put("grows", house.container("main", FOREVER, **asks), uid="fixed-grows")


def allocated(house):
    """Return the CPU that is allocated to the pod that grows."""
    return house.agent.status("grows").get("allocatedResources", {}).get("cpu")


def test_a_resize_that_waits_or_can_never_be_is_explained_and_given_once_there_is_room(house):
    asks = {"resources": {"requests": {"cpu": f"{CPUS * 1000 - 300}m"}}}
    house.put("holds", house.container("main", FOREVER, **asks))
    put_growing(house, 100)
    house.until_content("holds")
    house.until_content("grows")
    before = house.agent.mains("grows")
    put_growing(house, 600)
    told = house.until_waits("grows", "free resources for its resize", "resource: cpu, requested: 600")
    assert told["since_s"] is not None
    assert any(text.startswith("resize Deferred: ") for text in told["problems"])
    assert any("cpu is used by: default/holds-" in text for text in told["problems"])
    assert house.conditions("grows")["PodResizePending"] == ("True", "Deferred")
    assert house.events("grows", "ResizeDeferred")
    assert allocated(house) == "100m"
    put_growing(house, (CPUS + 1) * 1000)
    told = house.until_said(
        "grows", lambda t: t["problems"], "resize Infeasible: ", "will never have that much"
    )
    assert house.conditions("grows")["PodResizePending"] == ("True", "Infeasible")
    assert not told["waits_for"]
    put_growing(house, 600)
    house.until_waits("grows", "free resources for its resize")
    house.agent.drop("holds")
    told = house.until_content("grows")
    assert not told["problems"]
    until(lambda: allocated(house) == "600m", "it has what it asks for")
    assert "PodResizePending" not in house.conditions("grows")
    assert house.agent.mains("grows") == before


# ---------------------------------------------------------------- 8. what cannot be carried out


def test_what_cannot_be_carried_out_is_explained_with_the_standard_reason(house):
    source = {"resourceFieldRef": {"containerName": "other", "resource": "limits.cpu"}}
    house.put("env", house.container("main", FOREVER, env=[{"name": "N", "valueFrom": source}]))
    house.put("image", {**house.container("main", FOREVER), "image": "Not//An:Image"})
    house.put("program", {**house.container("main", FOREVER), "command": ["no-such-program"]})
    house.agent.until_status("env", "CreateContainerConfigError")
    told = house.until_waits("env", "container other not found")
    assert "main: waiting: CreateContainerConfigError: container other not found" in told["containers"][0]
    house.agent.until_status("image", "InvalidImageName")
    house.until_line("image", "main", "waiting: InvalidImageName", "Not//An:Image")
    house.until_line("program", "main", "exit code 128 (StartError)", "no-such-program")
    house.agent.until_status("program", "CrashLoopBackOff")
    house.until_waits("program", "back-off of container main (exit code 128)")
