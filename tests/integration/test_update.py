"""Manifests that change, break and go while the agent runs, and while it does not."""

import json
import os
import time

import pytest

from tests.harness.agent.agent import pod

FOREVER = "exec sleep 1000000"


def diary(path, name, on_term="exit 0"):
    """Return a script that writes when it starts and when it has ended."""
    return f"echo {name} on >>{path}; trap 'echo {name} off >>{path}; {on_term}' TERM; sleep 1000000 & wait"


def test_an_updated_manifest_stops_the_old_pod_before_the_new_one_starts(agent):
    path = agent.folder / "diary"
    agent.put("web", diary(path, "old", "sleep 1; echo old gone >>" + str(path) + "; exit 0"), grace=20)
    agent.start()
    agent.until_status("web", "Running")
    agent.until(path.exists, "the old one began")
    old = agent.row("web")["uid"]
    agent.put("web", diary(path, "new"))
    agent.until(lambda: path.read_text().endswith("new on\n"), "the new one began")
    assert path.read_text() == "old on\nold off\nold gone\nnew on\n"
    row = agent.until_status("web", "Running")
    assert row["uid"] != old
    assert row["restarts"] == 0
    assert len(agent.json("/pods")["items"]) == 1


def put_with_uid(agent, name, scripts, grace=5):
    """Write a pod with a UID of its own, whose containers (name, script) can change while it stays the same pod."""
    document = pod(name, FOREVER, folder=agent.folder, grace=grace)
    (first,) = document["spec"]["containers"]
    document["spec"]["containers"] = [
        {**first, "name": one, "command": ["sh", "-c", script]} for one, script in scripts.items()
    ]
    document["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555"
    agent.write(f"{name}.yaml", json.dumps(document))


def test_a_container_that_the_spec_of_the_same_pod_lost_or_renamed_is_stopped_and_removed(agent):
    path = agent.folder / "diary"
    put_with_uid(agent, "web", {"main": FOREVER, "old": diary(path, "old"), "more": diary(path, "more")})
    agent.start()
    agent.until(lambda: agent.row("web")["ready"] == "3/3", "all are ready")
    uid, mains = agent.row("web")["uid"], agent.mains("web")
    agent.until(lambda: path.exists() and len(path.read_text().splitlines()) == 2, "both began")
    put_with_uid(agent, "web", {"main": FOREVER, "new": diary(path, "new")})
    agent.until(lambda: agent.row("web")["ready"] == "2/2", "the new ones are ready")
    agent.until(lambda: len(path.read_text().splitlines()) == 5, "the old ones ended and the new one began")
    assert sorted(path.read_text().splitlines()) == ["more off", "more on", "new on", "old off", "old on"]
    assert path.read_text().endswith("new on\n")
    assert agent.row("web")["uid"] == uid
    assert sorted(agent.statuses("web")) == ["main", "new"]
    assert agent.mains("web")["main"] == mains["main"]
    agent.until(
        lambda: not [*agent.logs.glob("*/old/*"), *agent.logs.glob("*/more/*")], "their logs are gone"
    )
    assert list(agent.logs.glob("*/new/*"))


def test_a_touched_manifest_with_the_same_content_changes_nothing(agent):
    agent.put("web", FOREVER)
    agent.start()
    agent.until_status("web", "Running")
    main, uid = agent.mains("web"), agent.row("web")["uid"]
    agent.put("web", FOREVER)
    # A second file that is read after it proves that the first was looked at.
    agent.put("other", FOREVER)
    agent.until_status("other", "Running")
    assert (agent.mains("web"), agent.row("web")["uid"]) == (main, uid)


def test_a_removed_pod_gets_its_grace_and_no_more(agent):
    path = agent.folder / "diary"
    agent.put("deaf", f"trap '' TERM; echo on >>{path}; while :; do sleep 0.1; done", grace=2)
    agent.put("slow", diary(path, "slow", "sleep 1; echo slow gone >>" + str(path) + "; exit 0"), grace=20)
    agent.start()
    agent.until(lambda: path.exists() and len(path.read_text().splitlines()) == 2, "both began")
    begun = time.monotonic()
    agent.drop("deaf")
    agent.drop("slow")
    agent.until_status("deaf", "Terminating")
    assert "grace period 2 s" in agent.explain("deaf")["kill"]
    agent.until_gone("slow")
    slow_s = time.monotonic() - begun
    assert path.read_text().endswith("slow off\nslow gone\n")
    agent.until_gone("deaf")
    deaf_s = time.monotonic() - begun
    assert 1.0 < slow_s < 5.0, slow_s
    assert 2.0 < deaf_s < 6.0, deaf_s


@pytest.mark.parametrize("content", [b"", b"kind: [", b"kind: Deployment\n", b"\0"])
def test_a_pod_whose_file_breaks_keeps_running_also_over_a_restart(agent, content):
    agent.put("web", FOREVER)
    agent.start()
    agent.until_status("web", "Running")
    main = agent.mains("web")
    # What the file said last must be remembered before the file may break for good.
    agent.until(lambda: list((agent.root / "ledger" / "manifests").iterdir()), "the manifest is remembered")
    agent.write("web.yaml", content)
    told = agent.until_source("web.yaml", "broken")
    assert "keeps running" in told or "kept" in told, told
    assert agent.mains("web") == main
    agent.kill9()
    agent.start()
    agent.until_source("web.yaml", "broken")
    agent.until(lambda: agent.mains("web") == main, "the same process runs on")
    agent.put("web", FOREVER)
    agent.until_source("web.yaml", "accepted")
    assert agent.mains("web") == main


def test_what_editors_leave_behind_is_ignored(agent):
    agent.put("web", FOREVER)
    text = json.dumps(pod("stray", FOREVER))
    for name in (".web.yaml.swp", "web.yaml~", "#web.yaml#", ".#web.yaml", "4913.tmp", "web.yaml.bak"):
        (agent.manifests / name).write_text(text)
    (agent.manifests / "folder").mkdir()
    agent.start()
    agent.until_status("web", "Running")
    accepted = {
        row["where"].rpartition("/")[2]
        for row in agent.json("/sources")["sources"]
        if row["status"] == "accepted"
    }
    assert accepted == {"web.yaml"}
    assert set(agent.rows()) == {"web"}


def test_a_manifest_folder_that_is_missing_counts_as_empty_and_is_told(agent):
    agent.put("web", FOREVER)
    agent.start()
    agent.until_status("web", "Running")
    away = agent.folder / "away"
    agent.manifests.rename(away)
    agent.until_gone("web")
    [row] = agent.json("/sources")["sources"]
    assert (row["where"], row["status"]) == (str(agent.manifests), "waiting")
    assert "does not exist" in row["problems"][0]
    away.rename(agent.manifests)
    agent.until_status("web", "Running")


def test_a_manifest_path_that_cannot_be_read_stops_no_pod(agent):
    agent.put("web", FOREVER)
    agent.start()
    agent.until_status("web", "Running")
    main = agent.mains("web")
    agent.stop()
    # A link changes what the path is in one step: without one there would be a moment with no folder at all.
    away, pipe, link = (agent.folder / name for name in ("away", "pipe", "link"))
    agent.manifests.rename(away)
    os.mkfifo(pipe)
    agent.manifests.symlink_to(pipe)
    agent.start(ready=False)
    agent.until(lambda: "a pipe" in " ".join(agent.source("manifests")["problems"]), "it is told")
    # Nobody has spoken for the pod yet: it is shown, and left alone.
    row = agent.until(lambda: agent.row("web")["why"] and agent.row("web"), "the pod is shown")
    assert row["status"] == "Waiting"
    assert "file" in row["why"]
    assert "container runtime, running" in agent.explain("web")["state"]
    link.symlink_to(away)
    link.replace(agent.manifests)
    agent.until_status("web", "Running")
    assert agent.mains("web") == main
