"""Kills the agent at the operations of pods with init containers, before and after their effect.

A pod that is prepared, loses its sandbox and is prepared again; a job with a sidecar; a pod all of whose containers are
restarted by a rule. Wherever the agent is killed: the order holds, no number is used twice, the end is the same.
"""

import pytest

from tests.harness.world.workload import Wish
from tests.sim.test_crash_points import END_S, IMAGE, Scenario, points_of

QUICK, LONG, BESIDE = ("sleep", "1", "exit", "0"), ("sleep", "3", "exit", "0"), ("run",)


def wish(name, policy, script, *inits, again=False):
    return Wish(
        name=name,
        policy=policy,
        grace_s=5,
        scripts=(script,),
        images=(IMAGE,),
        inits=tuple((sidecar, words, IMAGE) for sidecar, words in inits),
        all_again=again,
    )


STAGED = wish("staged", "Always", ("run",), (False, LONG), (True, BESIDE), (False, QUICK))
JOB = wish("job", "Never", ("sleep", "8", "exit", "0"), (True, BESIDE), (False, QUICK))
AGAIN = wish("again", "Always", ("sleep", "6", "exit", "37"), (False, QUICK), again=True)
SANDBOX_DIES_S = 15.0
SETTLING_S = 12.0
"""After a kill, until all is as it was: nothing else is due in so long after the end."""


class Staged(Scenario):
    """Prepare, run, lose a sandbox, prepare again; with a kill of the agent at one point, or without."""

    def run(self):
        world = self.world
        for one in (STAGED, JOB, AGAIN):
            world.manifests.put(one.path, one.document())
        self.checker.agent_started()
        world.start()
        self.go_on(SANDBOX_DIES_S)
        world.runtime.kill_sandbox(STAGED.file_uid())
        self.go_on(END_S)
        if self.killed_at is not None and self.killed_at > END_S - SETTLING_S:
            self.go_on(END_S + SETTLING_S)
        self.checker.check_whole()
        return self

    def check_survivors(self):
        """What runs on is looked at by the checker; a sandbox that dies takes its containers along."""

    def end(self):
        """Return what must be equal, wherever the agent was killed."""
        found = []
        for state in self.states().values():
            inits = [(s.name, s.ready, bool(s.state.running)) for s in state.base.init_container_statuses]
            name = state.desired.metadata.name
            # One that is restarted over and over is at another place of its round after a kill.
            rests = () if name == "again-sim" else (state.base.phase, *inits)
            found.append((name, type(state.life).__name__, *rests))
        return sorted(found)

    def most(self, name):
        """Return the highest number that a container of the staged pod was started with."""
        rows = (row for row in self.world.runtime.history if row.uid == STAGED.file_uid())
        return max(row.attempt for row in rows if row.name == name and row.what == "started")


@pytest.fixture(scope="module")
def unharmed():
    return Staged().run()


def test_the_scenario_itself_ends_as_written(unharmed):
    ready, runs, done = (True, False), (True, True), (False, False)
    assert unharmed.end() == [
        ("again-sim", "Syncing"),
        ("job-sim", "Finished", "Succeeded", ("i0", *done), ("i1", *ready)),
        ("staged-sim", "Syncing", "Running", ("i0", *ready), ("i1", *runs), ("i2", *ready)),
    ]
    assert [unharmed.most(name) for name in ("i0", "i1", "i2", "c0")] == [1, 1, 1, 1]


LOOKS = ("InspectPod", "ListPods", "ListImages", "ImageStatus", "FindLogs", "FindDeadLinks", "ImageFsUsage")


def changing(unharmed):
    """Return the points at calls that change something, and at the first few that only look."""
    return [point for point in points_of(unharmed) if point.call not in LOOKS or point.after < 10]


def hold_at(unharmed, point):
    hurt = Staged(point).run()
    assert hurt.killed_at is not None, "the point was not reached"
    assert hurt.end() == unharmed.end()
    calm, starts = unharmed.starts(), hurt.starts()
    assert set(starts) == set(calm)
    for key, count in starts.items():
        assert count <= calm[key], f"{key} was started {count} times, {calm[key]} without the kill"


@pytest.mark.timeout(1200)
def test_a_kill_at_some_points_lets_nothing_overtake(unharmed):
    hold_at_each(unharmed, changing(unharmed)[::59])


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_kill_at_every_point_lets_nothing_overtake(unharmed):
    hold_at_each(unharmed, changing(unharmed))


def hold_at_each(unharmed, points):
    for point in points:
        try:
            hold_at(unharmed, point)
        except AssertionError as broken:
            raise AssertionError(f"killed at {point}: {broken}") from broken
