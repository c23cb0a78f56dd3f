"""Hooks, deadlines and last words of pods on a private containerd."""

import time

import pytest

from tests.harness.agent.node import container, fetch

pytestmark = pytest.mark.real
FOREVER = "exec sleep 1000000"
TO_LOG = ">/proc/1/fd/1"
"""Where a hook writes that wants to be seen between the lines of its container."""


def shell(script):
    return {"exec": {"command": ["sh", "-c", script]}}


def hooked(script, *, start=None, stop=None):
    lifecycle = {kind: hook for kind, hook in (("postStart", start), ("preStop", stop)) if hook}
    return container("main", script, lifecycle=lifecycle)


def reasons(node, name):
    return [(e["reason"], e["message"]) for e in node.json("/events")["events"] if name in e["pod"]]


def test_a_failed_post_start_hook_ends_the_container_and_is_published(node):
    node.put_pod("web", hooked(FOREVER, start=shell("echo out; exit 3")), terminationGracePeriodSeconds=2)
    node.start()
    node.until(lambda: node.status("web").get("restartCount", 0) >= 1, "it was tried again", 40.0)
    events = reasons(node, "web")
    assert ("FailedPostStartHook", "PostStartHook failed") in events
    assert ("Killing", "FailedPostStartHook") in events
    node.until(
        lambda: node.state("web")[1].get("reason") in ("PostStartHookError", "CrashLoopBackOff"),
        "it waits",
        40.0,
    )
    assert not node.status("web")["ready"]


def test_a_hanging_post_start_hook_holds_up_the_next_container_and_no_removal(node):
    first = hooked(FOREVER, start=shell(f"echo hook {TO_LOG}; sleep 1000000"))
    node.put_pod("web", first, container("second", FOREVER), terminationGracePeriodSeconds=2)
    node.start()
    node.until(lambda: node.printed("web") == [["hook"]], "the hook runs")
    node.until(lambda: "postStart hook" in node.explain("web")["waits_for"], "that is what it waits for")
    assert len(node.runtime.link.containers()) == 1
    node.drop("web")
    node.until_gone("web")
    node.until_empty()


def test_probing_begins_when_a_post_start_hook_of_some_seconds_is_over(node):
    main = hooked(FOREVER, start=shell(f"sleep 4; echo hook {TO_LOG}"))
    asks = {"readinessProbe": {**shell(f"echo probe {TO_LOG}"), "periodSeconds": 1}}
    node.put_pod("web", main | asks, terminationGracePeriodSeconds=2)
    node.start()
    node.until(lambda: "postStart hook" in node.explain("web")["waits_for"], "the hook runs")
    node.until(lambda: node.status("web").get("ready"), "it is ready soon after the hook", 15.0)
    assert node.printed("web")[0][:2] == ["hook", "probe"]


def test_a_pre_stop_hook_is_over_before_the_stop(node):
    script = "trap 'echo term; sleep 5; exit 0' TERM; echo on; sleep 1000000 & wait"
    hook = shell(f"echo hook {TO_LOG}; sleep 1; echo done {TO_LOG}")
    node.put_pod("web", hooked(script, stop=hook), terminationGracePeriodSeconds=20)
    node.start()
    node.until(lambda: node.printed("web") == [["on"]], "it began")
    node.until_running("web")
    node.drop("web")
    node.until(lambda: node.printed("web") == [["on", "hook", "done", "term"]], "the hook, then the stop")
    node.until_gone("web", deadline_s=30.0)


def test_a_pre_stop_hook_gets_the_grace_and_no_more(node):
    slow = hooked(FOREVER, stop=shell("sleep 1000000"))
    node.put_pod("web", slow, terminationGracePeriodSeconds=3)
    node.start()
    node.until_running("web")
    begun = time.monotonic()
    node.drop("web")
    node.until(
        lambda: "preStop hook of container main" in node.explain("web")["waits_for"], "it waits for the hook"
    )
    node.until_gone("web", deadline_s=30.0)
    assert 3.0 <= time.monotonic() - begun < 20.0
    node.until_empty()


def test_a_slow_hook_keeps_no_other_container_from_being_stopped(node):
    slow = hooked(FOREVER, stop=shell("sleep 1000000"))
    quick = container("quick", "trap 'echo term; exit 0' TERM; echo on; sleep 1000000 & wait")
    node.put_pod("web", slow, quick, terminationGracePeriodSeconds=15)
    node.start()
    node.until(lambda: node.printed("web", "quick") == [["on"]], "it began")
    node.until_running("web")
    begun = time.monotonic()
    node.drop("web")
    node.until(lambda: set(node.mains("web")) == {"main"}, "the other ended", 12.0)
    assert time.monotonic() - begun < 14.0
    node.until_gone("web", deadline_s=40.0)


def test_a_hook_asks_a_container_of_its_own_pod_over_http(node):
    server = container(
        "server",
        "mkdir /www; echo yes >/www/hook; exec httpd -f -vv -p 8080 -h /www 2>&1",
        ports=[{"name": "web", "containerPort": 8080}],
        lifecycle={"preStop": {"httpGet": {"path": "/hook", "port": "web"}}},
    )
    node.put_pod("web", server, terminationGracePeriodSeconds=10)
    node.start()
    node.until_running("web")
    assert fetch(node.address("web"), 8080, "/hook") == "yes\n"
    node.drop("web")
    node.until(
        lambda: str(node.printed("web", "server")).count("url:/hook") > 1,
        "it was asked once more",
    )
    node.until_gone("web", deadline_s=30.0)


def test_a_pod_fails_at_its_deadline(node):
    node.put_pod("job", container("main", FOREVER), activeDeadlineSeconds=5)
    node.start()
    node.until_status("job", "DeadlineExceeded", 40.0)
    status = node.pod("job")["status"]
    assert (status["phase"], status["message"]) == (
        "Failed",
        "Pod was active on the node longer than the specified deadline",
    )


def test_the_last_words_of_a_container_that_left_a_gigabyte_are_its_end(node):
    script = "dd if=/dev/zero of=/dev/termination-log bs=1 count=0 seek=1073741824 && echo words >>/dev/termination-log; exit 7"
    node.put_pod("job", container("main", script), restartPolicy="Never")
    node.start()
    node.until_status("job", "Error", 40.0)
    node.until(lambda: node.state("job")[1].get("message", "").endswith("words\n"), "its last words are read")
    assert len(node.state("job")[1]["message"].encode()) <= 4096
    assert node.is_alive()
