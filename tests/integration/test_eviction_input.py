"""Bad input of eviction, each a clear message and the rest works: thresholds, sources of numbers, pods without any."""

import json

import msgspec
import pytest

from api.faults import FaultPlan, HangOperation
from tests.harness.agent.agent import pod
from tests.harness.agent.reading import metrics
from tests.harness.eviction.pressure import evicted, explained, first_to_go, until_evicted

pytestmark = pytest.mark.real
FOREVER = "exec sleep 1000000"

# Each: fields of the configuration, and every word that the message must have: where, what, why.
BROKEN = {
    "no amount": (
        {"evictionHard": {"memory.available": "banana"}},
        ("evictionHard.memory.available", '"banana"', "between 0% and 100%"),
    ),
    "above 100 %": (
        {"evictionHard": {"nodefs.available": "150%"}},
        ("evictionHard.nodefs.available", '"150%"', "between 0% and 100%"),
    ),
    "an amount of nothing": (
        {"evictionHard": {"memory.available": "0"}},
        ("evictionHard.memory.available", '"0"', "0% switches a threshold off"),
    ),
    "an unknown signal": (
        {"evictionHard": {"memory.free": "1Gi"}},
        ("evictionHard.memory.free", "the signal memory.free", "must be one of memory.available"),
    ),
    "a soft one without grace": (
        {"evictionSoft": {"memory.available": "1Gi"}},
        ("evictionSoftGracePeriod.memory.available", "required: a duration", "evictionSoft has this signal"),
    ),
    "a negative grace": (
        {"evictionSoft": {"memory.available": "1Gi"}, "evictionSoftGracePeriod": {"memory.available": "-5s"}},
        ("evictionSoftGracePeriod.memory.available", '"-5s"', "not negative"),
    ),
    "a negative grace for pods": (
        {"evictionMaxPodGracePeriod": -1},
        ("evictionMaxPodGracePeriod", "-1"),
    ),
    "a negative transition": (
        {"evictionPressureTransitionPeriod": "-1m"},
        ("evictionPressureTransitionPeriod", '"-1m"', "must be at least 0s"),
    ),
    "a minimum reclaim that is none": (
        {"evictionMinimumReclaim": {"memory.available": "much"}},
        ("evictionMinimumReclaim.memory.available", '"much"'),
    ),
}  # fmt: skip


def test_each_that_cannot_be_is_told_with_where_and_why(agent):
    files = {}
    for number, (fields, words) in enumerate(BROKEN.values()):
        agent.configure(**fields)
        files[agent.config.rename(agent.folder / f"{number}.yaml")] = words
    checked = agent.verb_alone("validate", *map(str, files))
    assert checked.returncode == 1
    for file, words in files.items():
        told = [line for line in checked.stdout.splitlines() if line.startswith(f"{file}: ")]
        assert any(all(word in line for word in words) for line in told), (words, told)


@pytest.mark.parametrize("case", ["no amount", "a soft one without grace"])
def test_an_agent_does_not_start_with_it_and_says_so_in_one_line(agent, case):
    fields, words = BROKEN[case]
    agent.configure(**fields)
    ended = agent.run()
    assert (ended.returncode, ended.stdout) == (1, ""), ended
    [line] = ended.stderr.splitlines()
    assert line.startswith("nodeagent: "), line
    assert all(word in line for word in (str(agent.config), *words)), line


def put_filler(agent, name, limit):
    """Write a pod with more in its emptyDir than it may have."""
    place = agent.folder / name
    place.mkdir()
    volume = {"name": "data", "emptyDir": {"sizeLimit": limit}}
    script = f"head -c 3000000 /dev/zero >{place}/data; {FOREVER}"
    made = pod(name, script, folder=agent.folder, volumes=[volume])
    made["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": str(place)}]
    agent.write(f"{name}.yaml", json.dumps(made))


def put_blind(agent):
    """Write a pod that never runs: nobody will know what it uses."""
    agent.put("blind", FOREVER, image="docker.io/library/nginx:1.27")


def start_broken(agent, *faults):
    """Start the agent with these faults."""
    plan = agent.folder / "plan.json"
    plan.write_bytes(msgspec.json.encode(FaultPlan(faults=faults)))
    agent.start(env={"NODEAGENT_FAULTS": str(plan)})


def test_a_file_system_that_hangs_is_named_and_limits_of_volumes_hold_all_the_same(agent):
    agent.configure(evictionHard={"nodefs.available": "1%", "memory.available": "1Mi"})
    put_filler(agent, "hog", "1Mi")
    start_broken(agent, HangOperation(port="usage", call="MeasureDisks", times=1000))
    status = until_evicted(agent, "hog")
    assert status["message"] == 'Usage of EmptyDir volume "data" exceeds the limit "1Mi". '
    named = "nodefs.available cannot be read: it neither starts nor ends pressure"
    agent.until(lambda: named in explained(agent), "the signal that cannot be read is named", 60.0)
    rows = {row["signal"]: row for row in agent.json("/eviction")["thresholds"]}
    assert rows["nodefs.available"]["available"] is None
    assert rows["memory.available"]["available"] > 0
    assert "Pressure:   none" in explained(agent)


def test_a_pod_without_stats_is_kept_and_named_and_the_others_are_ranked(agent):
    agent.configure(evictionHard={"memory.available": "1Mi"})
    put_blind(agent)
    agent.put("plain", FOREVER)
    agent.start()
    agent.until_status("plain", "Running")

    def ranked():
        found = first_to_go(agent, "memory.available")
        return found if [name for name, _ in found] == ["plain", "blind"] and found[0][1] == "next" else None

    [_, (_, why)] = agent.until(ranked, "who is known is first, who is not is last", 60.0)
    assert why.startswith("usage unknown"), why
    assert "usage unknown" in explained(agent, "--dry-run")
    assert evicted(agent) == []
    assert metrics(agent.ask("/metrics")[1])["kubelet_running_pods"] == {(): 1}
