"""Kills the agent at every operation of a scenario, before and after its effect: enumerated, not sampled.

The scenario runs once and every point is recorded: port, call, how many of that call had come before, which side. Then it
runs again for each point, with the process killed there and started again. Whatever was running runs on, nothing is
started twice, restart counts and back-off are kept, an exit that happened while the agent was down is reported with its
code, and the end is the same.
"""

from collections import Counter
from dataclasses import replace

import pytest

from actors.pod.state import Finished, PodState
from api.faults import FaultPlan, KillProcess, When
from api.ids import Path
from runtime.drivers.memory.history import Cause, Happening
from tests.harness.check.check import Checker
from tests.harness.world.coverage import Coverage
from tests.harness.world.fault import Seam
from tests.harness.world.workload import Wish
from tests.harness.world.world import World

PODS = Path("/node/pods")
IMAGE = "memory.local/any:1"
STEP_S = 0.25


def wish(name, policy, *scripts, grace_s=5):
    return Wish(name=name, policy=policy, grace_s=grace_s, scripts=scripts, images=(IMAGE,) * len(scripts))


STAYS = wish("stays", "Always", ("run",), ("slow-term", "2"))
CRASHES = wish("crashes", "Always", ("sleep", "4", "exit", "9"))
ENDS = wish("ends", "Never", ("sleep", "20", "exit", "37"))
REPLACED = wish("replaced", "Always", ("ignore-term", "run"))
REMOVED = replace(
    wish("removed", "OnFailure", ("slow-term", "1", "code", "3")),
    volumes=("memory", "disk", "node"),
    hooks=((1, 1),),
)
RESTART_AFTER_S = 3.0
END_S = 110.0


class Scenario:
    """Start, crash with back-off, complete, replace, remove; with a kill of the agent at one point, or without."""

    def __init__(self, kill=None):
        self.checker = Checker(Coverage())
        plan = FaultPlan(faults=(kill,) if kill else ())
        self.killed_at = None
        self.alive_then = ()
        self.seam = Seam(plan, self.on_kill, self.checker.see)
        self.seam.keeps_points = True
        self.world = World(
            1,
            with_url=False,
            see=self.checker.see,
            on_step=self.checker.on_step,
            forgotten=self.checker.forgotten,
        )
        self.world.seam = self.seam
        self.checker.world = self.world

    def on_kill(self):
        self.killed_at = self.world.time.now()
        self.alive_then = self.world.runtime.running()
        self.world.kill()

    def go_on(self, until):
        while self.world.time.now() < until:
            self.world.run_until(until)
            if not self.world.alive:
                self.world.idle_until(self.world.time.now() + RESTART_AFTER_S)
                self.check_survivors()
                self.checker.agent_started()
                self.world.start()

    def check_survivors(self):
        """Killing the agent ended nothing: what does not run any more ended by itself, or by a stop begun before."""
        running = set(self.world.runtime.running())
        for uid, container in self.alive_then:
            if (uid, container) in running:
                continue
            rows = [row for row in self.world.runtime.history if row.container_id == container]
            ended = next(row for row in rows if row.what is Happening.EXITED)
            asked = any(row.what is Happening.TERM_SENT and row.at <= self.killed_at + 1 for row in rows)
            assert ended.cause is Cause.ITSELF or asked

    def run(self):
        world = self.world
        for one in (STAYS, CRASHES, ENDS, REPLACED, REMOVED):
            world.manifests.put(one.path, one.document())
        self.checker.agent_started()
        world.start()
        self.go_on(30.0)
        world.manifests.put(REPLACED.path, REPLACED.revised().document())
        world.manifests.remove(REMOVED.path)
        self.go_on(END_S)
        self.checker.check_whole()
        return self

    def states(self):
        children = self.world.system.committed_children(PODS)
        return {state.uid: state for _, state in children if isinstance(state, PodState)}

    def end(self):
        """What must be equal, wherever the agent was killed: who is there, phases, exit codes of what completed."""
        found = []
        for state in self.states().values():
            assert state.desired is not None
            name = state.desired.metadata.name
            codes = [
                s.state.terminated.exit_code if s.state.terminated else None
                for s in state.base.container_statuses
            ]
            found.append(
                (
                    name,
                    state.uid,
                    type(state.life).__name__,
                    state.base.phase,
                    codes if "ends" in name else [],
                )
            )
        return sorted(found)

    def starts(self):
        rows = self.world.runtime.history
        return Counter((row.uid, row.name) for row in rows if row.what is Happening.STARTED)


@pytest.fixture(scope="module")
def unharmed():
    return Scenario().run()


def points_of(scenario):
    return [
        KillProcess(port=port, call=call, when=when, after=number)
        for _, port, call, when, number in scenario.seam.started
        if call not in ("ListPods", "ReadManifests") or number < 4
    ]


def test_the_scenario_itself_ends_as_written(unharmed):
    states = {state.desired.metadata.name: state for state in unharmed.states().values()}
    assert sorted(states) == ["crashes-sim", "ends-sim", "replaced-sim", "stays-sim"]
    assert isinstance(states["ends-sim"].life, Finished)
    assert states["ends-sim"].base.phase == "Failed"
    assert states["ends-sim"].base.container_statuses[0].state.terminated.exit_code == 37
    assert states["crashes-sim"].base.container_statuses[0].restart_count == 4


def test_the_points_cover_every_call_of_the_runtime_the_ledger_and_the_folders(unharmed):
    reached = {(port, call) for _, port, call, _, _ in unharmed.seam.started}
    runtime = (
        "RunSandbox",
        "StopSandbox",
        "RemoveSandbox",
        "CreateContainer",
        "StartContainer",
        "StopContainer",
    )
    more = ("RemoveContainer", "InspectPod", "ListPods", "ExecInContainer")
    assert {("runtime", call) for call in (*runtime, *more)} <= reached
    assert {("ledger", call) for call in ("Remember", "Forget", "Recall", "RecallAll")} <= reached
    assert {("volumes", c) for c in ("PrepareVolume", "PrepareSubPath", "RemoveVolumes")} <= reached
    assert {("podfiles", c) for c in ("MakePodFolders", "RemovePodFolders", "ListPodFolders")} <= reached
    assert {when for _, _, _, when, _ in unharmed.seam.started} == set(When)


def hold_at(unharmed, point):
    hurt = Scenario(point).run()
    assert hurt.killed_at is not None, "the point was not reached"
    assert hurt.world.lives == 2
    assert hurt.end() == unharmed.end()
    calm, starts = unharmed.starts(), hurt.starts()
    assert set(starts) == set(calm)
    for key, count in starts.items():
        # What runs on is not started again; what crashes again and again may lose a start to the pause, never gain one.
        assert count <= calm[key], f"{key} was started {count} times, {calm[key]} without the kill"
        if calm[key] == 1:
            assert count == 1
    crashing = next(s for s in hurt.states().values() if s.desired.metadata.name == "crashes-sim")
    (status,) = crashing.base.container_statuses
    started = starts[crashing.uid, "c0"]
    assert status.restart_count == started - 1, "the restart count is what really happened"
    check_back_off(hurt, crashing.uid)


def check_back_off(hurt, uid):
    """The waits between an end and the next start grow 0, 10, 20, 40: a kill between them forgets none."""
    rows = [row for row in hurt.world.runtime.history if row.uid == uid]
    starts = {row.attempt: row.at for row in rows if row.what is Happening.STARTED}
    ends = {row.attempt: row.at for row in rows if row.what is Happening.EXITED}
    for attempt, least_s in ((2, 10.0), (3, 20.0), (4, 40.0)):
        if attempt in starts:
            assert starts[attempt] - ends[attempt - 1] >= least_s - 0.01, f"attempt {attempt} came too early"


@pytest.mark.timeout(1200)
def test_a_kill_at_some_points_changes_no_pod(unharmed):
    for point in points_of(unharmed)[::47]:
        try:
            hold_at(unharmed, point)
        except AssertionError as broken:
            raise AssertionError(f"killed at {point}: {broken}") from broken


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_kill_at_every_point_changes_no_pod(unharmed):
    for point in points_of(unharmed):
        try:
            hold_at(unharmed, point)
        except AssertionError as broken:
            raise AssertionError(f"killed at {point}: {broken}") from broken
