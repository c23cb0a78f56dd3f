"""An agent that stops, is killed, or dies in the middle of a call: its pods do not notice."""

import json
import os
import signal
import stat

import msgspec
import pytest

from api.faults import FaultPlan, KillProcess, When
from tests.harness.agent.agent import pod, processes, until

FOREVER = "exec sleep 1000000"


def marked(marker, then=FOREVER):
    """Return a script that leaves a line for each start, and one when it is told to stop."""
    return f"echo start >>{marker}; trap 'echo stop >>{marker}; exit 0' TERM; {then} & wait"


def starts(marker):
    """Return how often a marked container was started."""
    return marker.read_text().count("start") if marker.exists() else 0


# ---------------------------------------------------------------- the end


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_agent_within_two_seconds_and_leaves_pods_running(agent, number):
    agent.put("web", FOREVER)
    agent.put("twin", FOREVER)
    agent.start()
    agent.until_status("web", "Running")
    agent.until_status("twin", "Running")
    before = {name: agent.mains(name) for name in ("web", "twin")}
    code, took_s = agent.stop(number)
    assert code == 0
    assert took_s < 2.0
    assert "agent stopped, pods keep running" in agent.stderr()
    assert all(processes.is_alive(*main) for mains in before.values() for main in mains.values())
    agent.start()
    agent.until(
        lambda: {name: agent.mains(name) for name in before} == before, "the same processes are shown"
    )


def test_ctrl_c_ends_the_agent_within_two_seconds_although_a_keeper_hangs(agent):
    agent.put("web", FOREVER)
    agent.start()
    agent.until_status("web", "Running")
    stopped = agent.keepers()
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    agent.drop("web")
    agent.put("late", FOREVER)
    hung = agent.until(lambda: flights(agent), "an operation hangs")
    assert hung
    code, took_s = agent.stop(signal.SIGINT)
    assert (code, took_s < 2.0) == (0, True), took_s
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)


def test_ctrl_c_ends_the_agent_within_two_seconds_although_a_url_hangs(agent, silent_server):
    agent.put("web", FOREVER)
    agent.start("--manifest-url", silent_server, ready=False)
    agent.until(lambda: any(call == "FetchManifests" for call in flights(agent)), "the URL is being fetched")
    code, took_s = agent.stop(signal.SIGINT)
    assert (code, took_s < 2.0) == (0, True), took_s


def test_ctrl_c_ends_the_agent_within_two_seconds_although_a_stop_waits_for_its_grace(agent):
    agent.put("slow", "trap '' TERM; while :; do sleep 1; done", grace=60)
    agent.start()
    agent.until_status("slow", "Running")
    agent.drop("slow")
    agent.until_status("slow", "Terminating")
    code, took_s = agent.stop(signal.SIGINT)
    assert (code, took_s < 2.0) == (0, True), took_s


# ---------------------------------------------------------------- the next start


@pytest.mark.slow
def test_a_restart_changes_no_restart_count_and_keeps_the_back_off(agent):
    marker = agent.folder / "marker"
    agent.put("crash", f"echo start >>{marker}; exit 37")
    agent.put("web", FOREVER)
    agent.start()
    agent.until(lambda: agent.row("crash")["restarts"] == 1, "crash was restarted once")
    agent.until_status("crash", "CrashLoopBackOff")
    agent.until_status("web", "Running")
    due_s = agent.until_next_in("crash")
    web = agent.status("web")
    assert agent.stop()[0] == 0
    agent.start()
    row = agent.until_status("crash", "CrashLoopBackOff", 5)
    assert row["restarts"] == 1
    assert starts(marker) == 2
    after_s = agent.until_next_in("crash")
    assert after_s < due_s
    status = agent.status("crash")
    assert status["lastState"]["terminated"]["exitCode"] == 37
    agent.until_status("web", "Running")
    assert agent.status("web") == web
    agent.until(lambda: agent.row("crash")["restarts"] == 2, "the back-off ends when it would have ended")
    agent.until(lambda: starts(marker) == 3, "it was started a third time")


def test_a_container_that_ends_while_the_agent_is_dead_is_reported_with_its_code(agent):
    gate, markers = agent.folder / "gate", [agent.folder / "m1", agent.folder / "m2"]
    agent.put(
        "ends",
        f"echo start >>{markers[0]}; while ! test -e {gate}; do sleep 0.05; done; exit 37",
        restart="Never",
    )
    agent.put("stays", marked(markers[1]))
    agent.start()
    agent.until_status("ends", "Running")
    agent.until_status("stays", "Running")
    stays = agent.mains("stays")
    [main] = agent.mains("ends").values()
    agent.kill9()
    gate.touch()
    until(lambda: not processes.is_alive(*main), "the container has ended")
    agent.start()
    agent.until_status("ends", "Error")
    assert agent.status("ends")["state"]["terminated"]["exitCode"] == 37
    agent.until(lambda: agent.mains("stays") == stays, "the other process runs on")
    assert [starts(marker) for marker in markers] == [1, 1]
    assert agent.row("stays")["restarts"] == 0
    assert "exit code 37" in agent.explain("ends")["containers"][0]


def test_a_finished_pod_does_not_run_again_after_a_restart(agent):
    marker = agent.folder / "marker"
    agent.put("job", f"echo start >>{marker}", restart="Never")
    agent.start()
    agent.until_status("job", "Completed")
    before = agent.status("job")
    agent.kill9()
    agent.start()
    agent.until_status("job", "Completed")
    assert agent.status("job") == before
    assert starts(marker) == 1


def test_a_pod_removed_while_the_agent_is_down_is_stopped_with_its_grace(agent):
    marker = agent.folder / "marker"
    agent.put("web", marked(marker), grace=20)
    agent.start()
    agent.until_status("web", "Running")
    agent.stop()
    agent.drop("web")
    agent.start()
    agent.until_gone("web")
    assert marker.read_text() == "start\nstop\n"


# ---------------------------------------------------------------- killed at a call

START = ("RunSandbox", "CreateContainer", "StartContainer")
SIDES = (When.BEFORE, When.AFTER)


def plan(agent, *faults):
    """Return the environment that plans faults for an agent."""
    path = agent.folder / "faults.json"
    path.write_bytes(msgspec.json.encode(FaultPlan(faults=faults)))
    return {"NODEAGENT_FAULTS": str(path)}


def dies(agent):
    """Wait until the agent killed itself."""
    agent.process.wait(20)
    assert agent.process.returncode == -signal.SIGKILL, agent.stderr()


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("call", START)
def test_an_agent_killed_at_a_start_starts_everything_once_when_it_is_back(agent, call, side):
    markers = [agent.folder / name for name in ("m1", "m2")]
    agent.put("one", marked(markers[0]))
    agent.put("two", f"echo start >>{markers[1]}; exit 37", restart="Never")
    agent.start(env=plan(agent, KillProcess(port="runtime", call=call, when=side)), ready=False)
    dies(agent)
    agent.start()
    agent.until_status("one", "Running")
    agent.until_status("two", "Error")
    assert agent.status("two")["state"]["terminated"]["exitCode"] == 37
    assert [starts(marker) for marker in markers] == [1, 1]
    assert agent.row("one")["restarts"] == agent.row("two")["restarts"] == 0


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("call", ["StopContainer", "StopSandbox", "RemoveSandbox"])
def test_an_agent_killed_at_a_stop_finishes_it_when_it_is_back(agent, call, side):
    marker, other = agent.folder / "marker", agent.folder / "other"
    agent.put("goes", marked(marker))
    agent.put("stays", marked(other))
    agent.start(env=plan(agent, KillProcess(port="runtime", call=call, when=side)))
    agent.until_status("goes", "Running")
    agent.until_status("stays", "Running")
    stays = agent.mains("stays")
    agent.drop("goes")
    dies(agent)
    agent.start()
    agent.until_gone("goes")
    agent.until(lambda: agent.mains("stays") == stays, "the other process runs on")
    assert marker.read_text() == "start\nstop\n"
    assert starts(other) == 1


@pytest.mark.slow
@pytest.mark.parametrize("after", range(0, 8, 2))
@pytest.mark.parametrize("side", SIDES)
def test_an_agent_killed_at_any_writing_of_the_ledger_loses_nothing(agent, side, after):
    markers = [agent.folder / name for name in ("m1", "m2")]
    agent.put("one", marked(markers[0]))
    agent.put("two", f"echo start >>{markers[1]}; exit 37", restart="Never")
    agent.start(
        env=plan(agent, KillProcess(port="ledger", call="Remember", when=side, after=after)), ready=False
    )
    dies(agent)
    agent.start()
    agent.until_status("one", "Running")
    agent.until_status("two", "Error")
    assert agent.status("two")["state"]["terminated"]["exitCode"] == 37
    assert [starts(marker) for marker in markers] == [1, 1]


def test_a_plan_of_faults_is_announced_and_a_wrong_one_is_refused(agent):
    agent.start(env=plan(agent, KillProcess(port="runtime", call="NoSuchCall")))
    assert "fault injection is on" in agent.stderr()
    agent.stop()
    path = agent.folder / "wrong.json"
    for text in (
        '{"faults": [{"type": "Unheard"}]}',
        '{"faults": 1}',
        "nothing",
        '{"type": "FaultPlan", "faults": [{"type": "FailOperation", "port": "x", "kind": "Sad"}]}',
    ):
        path.write_text(text)
        ended = agent.run(env={"NODEAGENT_FAULTS": str(path)})
        assert ended.returncode == 1
        assert "NODEAGENT_FAULTS: cannot read the plan of faults: " in ended.stderr
        assert len(ended.stderr.splitlines()) == 1
    missing = agent.run(env={"NODEAGENT_FAULTS": str(agent.folder / "missing")})
    assert "there is no such file" in missing.stderr


def flights(agent):
    """Return the calls under way, of all actors."""
    rows = agent.json("/actors?detail=true")["actors"]
    return [flight["call"] for row in rows for flight in row["operations"]]


@pytest.mark.real
def test_a_cgroup_that_a_killed_agent_left_is_removed_by_the_next(agent):
    agent.put("web", FOREVER)
    agent.start()
    agent.until_status("web", "Running")
    groups = list(agent.corners())
    if not groups:
        pytest.skip("needs a cgroup hierarchy that may be written to, as root has one")
    main = agent.mains("web")
    agent.kill9()
    # As a keeper leaves it whose maker died before it said what to keep, and a keeper server that could not tidy up.
    strays = [group / name for group in groups for name in ("0" * 32, "nursery-999999999")]
    for stray in strays:
        (stray / "keeper").mkdir(parents=True)
    agent.start()
    agent.until(lambda: not any(stray.exists() for stray in strays), "the strays are gone")
    agent.until(lambda: agent.mains("web"), "the new agent has looked at its containers")
    assert agent.mains("web") == main
    agent.drop("web")
    agent.until_gone("web")


def test_an_agent_killed_between_a_good_end_and_the_successor_starts_the_successor(agent):
    marker, ill = agent.folder / "marker", agent.folder / "ill"
    document = pod("job", marked(marker, "sleep 1000000"), folder=agent.folder, restart="OnFailure", grace=10)
    probe = {"exec": {"command": ["sh", "-c", f"! test -e {ill}"]}, "periodSeconds": 1, "failureThreshold": 1}
    document["spec"]["containers"][0]["livenessProbe"] = probe
    agent.write("job.yaml", json.dumps(document))
    agent.start(env=plan(agent, KillProcess(port="runtime", call="StopContainer", when=When.AFTER)))
    agent.until_status("job", "Running")
    agent.until(lambda: starts(marker) == 1, "it began")
    ill.touch()
    agent.process.wait(30)
    assert agent.process.returncode == -signal.SIGKILL
    agent.until(lambda: "stop" in marker.read_text(), "it ended well")
    ill.unlink()
    agent.start()
    agent.until(lambda: starts(marker) == 2, "its successor runs", 40.0)
    agent.until_status("job", "Running")
    assert agent.row("job")["restarts"] == 1


def test_each_damaged_entry_of_the_ledger_is_told_in_the_log_and_as_an_event(agent):
    agent.put("web", FOREVER)
    agent.put("gone", FOREVER)
    agent.start()
    agent.until_status("web", "Running")
    agent.until_status("gone", "Running")
    mains = agent.mains("web")
    agent.stop()
    agent.drop("gone")
    damaged = sorted(path for path in (agent.root / "ledger").rglob("*") if path.is_file())
    assert {path.parent.name for path in damaged} == {"admission", "events", "manifests", "pods", "status"}
    for path in damaged:
        content = bytearray(path.read_bytes())
        content[-1] ^= 0x40
        path.write_bytes(content)
    agent.start()
    agent.until_gone("gone")

    def told():
        lines = [line for line in agent.stderr().splitlines() if "LedgerDamaged" in line]
        shown = [
            row["message"] for row in agent.json("/events")["events"] if row["reason"] == "LedgerDamaged"
        ]
        return all(
            any(str(path) in line for line in lines) and any(str(path) in message for message in shown)
            for path in damaged
        )

    agent.until(told, "each of them is told")
    assert agent.mains("web") == mains
    assert all(os.path.lexists(f"{path}.damaged-1") for path in damaged)


def test_modes_of_a_pods_files_do_not_depend_on_who_started_the_agent(agent):
    agent.put("web", FOREVER)
    before = os.umask(0o077)
    try:
        agent.start()
    finally:
        os.umask(before)
    agent.until_status("web", "Running")
    (folder,) = (agent.root / "pods").iterdir()
    inside = {one.name: stat.S_IMODE(one.stat().st_mode) for one in folder.iterdir() if one.is_dir()}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750
    assert inside == {"containers": 0o750, "plugins": 0o750, "volumes": 0o750}
