"""Services and RuntimeClasses that the driver of the port ``kube`` answers from memory: listed with the first read, and followed."""

import pytest

from api.errors import NotFoundError, OperatingError
from api.ports.kube import ReadRuntimeClass, ReadServices, RuntimeClassRead, ServicesRead
from runtime.drivers.kube import objectcache, reflector
from runtime.edge import perform
from tests.harness.kubebench import Collection, event, page, status
from tests.harness.wait import until


def service(name, namespace="default", version="1", **spec):
    metadata = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": version}
    return {"kind": "Service", "metadata": metadata, "spec": {"clusterIP": "10.0.0.1", **spec}}


def names(bench, namespace="default", deadline_s=5.0, **more):
    answer = perform(bench.driver, ReadServices(namespace=namespace, **more), deadline_s)
    assert type(answer) is ServicesRead
    return [f"{one.namespace}/{one.name}" for one in answer.services]


def test_one_list_answers_all_reads_and_a_watch_keeps_them_true(make):
    served = Collection(page(service("b"), service("a"), service("far", "other"), service("kubernetes")))
    bench = make(served)
    assert names(bench) == ["default/a", "default/b", "default/kubernetes"]
    assert names(bench, "other") == ["default/kubernetes", "other/far"]
    assert len(served.lists) == 1
    watch = served.watch()
    watch.say(event("DELETED", service("b", version="11")))
    watch.say(event("ADDED", service("c", version="12")))
    until(lambda: names(bench) == ["default/a", "default/c", "default/kubernetes"], "the watch is followed")
    assert len(served.lists) == 1


def test_a_read_before_the_first_list_waits_for_it_unless_it_must_not(make):
    asked = []
    bench = make(asked.append)
    assert names(bench, at_once=True) == []
    with pytest.raises(OperatingError, match="services have not yet been read at least once"):
        names(bench, deadline_s=0.5)
    until(lambda: asked, "the list was asked for")


def test_why_there_is_no_list_is_said_and_the_next_read_has_it(make, monkeypatch):
    monkeypatch.setattr(reflector, "FIRST_S", 0.05)
    refused = (403, status(403, "Forbidden", "services is forbidden"))
    bench = make(Collection(refused, page(service("a"))))
    with pytest.raises(OperatingError, match=r"at least once: .*services is forbidden"):
        names(bench)
    until(lambda: names(bench) == ["default/a"], "it is listed after all")


def test_what_cannot_be_read_is_left_out_and_named(make):
    broken = service("bad", ports=[{"port": "eighty"}])
    bench = make(Collection(page(broken, service("a"))))
    assert names(bench) == ["default/a"]
    assert any("bad" in problem for problem in bench.problems)


def test_no_more_objects_are_kept_than_there_is_room_for(make, monkeypatch):
    monkeypatch.setattr(objectcache, "LIMIT", 2)
    bench = make(Collection(page(service("a"), service("b"), service("c"))))
    assert names(bench) == ["default/a", "default/b"]


def test_a_runtime_class_is_its_handler_and_one_that_is_not_there_is_not_found(make):
    made = {"metadata": {"name": "kata", "resourceVersion": "1"}, "handler": "kata-fc"}
    bench = make(Collection(page(made)))
    answer = perform(bench.driver, ReadRuntimeClass(name="kata"), 5.0)
    assert answer == RuntimeClassRead(handler="kata-fc")
    with pytest.raises(NotFoundError, match='"other" not found'):
        perform(bench.driver, ReadRuntimeClass(name="other"), 5.0)


def test_what_ran_before_gets_none_where_the_server_cannot_be_reached(make):
    bench = make(lambda asked: None)
    assert names(bench, deadline_s=0.5, in_outage=True) == []
    away = make(lambda asked: None)
    away.peer.close()
    assert names(away, in_outage=True) == []
    with pytest.raises(OperatingError, match="at least once"):
        names(away, deadline_s=0.5)


def test_a_server_that_refuses_the_list_can_be_reached(make):
    bench = make(Collection((403, status(403, "Forbidden", "services is forbidden"))))
    with pytest.raises(OperatingError, match="services is forbidden"):
        names(bench, in_outage=True)
