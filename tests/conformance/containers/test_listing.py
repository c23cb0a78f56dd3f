"""Listings and inspections: complete, sorted, and the same truth as an outcome's."""

from api.ports.call import Done
from api.ports.images import ListImages
from api.ports.runtime import RuntimeContainerState, RuntimeStatus, SetPodCidr, StartContainer, StopSandbox
from tests.conformance.containers.script import ExitWith, Run


def test_an_unknown_pod_is_shown_empty(bench):
    uid = bench.new_uid()
    pod = bench.inspect(uid)
    assert (pod.uid, pod.sandboxes, pod.containers) == (uid, (), ())


def test_an_empty_runtime_lists_nothing(bench):
    assert bench.listing().pods == ()


def test_a_listing_holds_every_pod_by_uid_with_all_its_containers(bench):
    uids = [bench.new_uid() for _ in range(4)]
    for uid in reversed(uids):
        sandbox = bench.run_sandbox(uid)
        bench.run(sandbox, Run(), "runs")
        bench.exited(sandbox, bench.run(sandbox, ExitWith(5), "ended"))
        bench.create(sandbox, Run(), "created")
    listing = bench.listing()
    assert [p.uid for p in listing.pods] == uids
    for pod in listing.pods:
        states = [(c.name, c.state) for c in pod.containers]
        assert states == [
            ("created", RuntimeContainerState.CREATED),
            ("ended", RuntimeContainerState.EXITED),
            ("runs", RuntimeContainerState.RUNNING),
        ]
        if listing.complete:
            assert pod == bench.inspect(pod.uid)


def test_a_pod_of_several_attempts_is_listed_once(bench):
    old = bench.run_sandbox()
    bench.run(old, Run(), "main")
    bench.call(StopSandbox(uid=old.uid, sandbox_id=old.id))
    new = bench.run_sandbox(old.uid, attempt=1)
    bench.run(new, Run(), "main", attempt=1)
    (pod,) = bench.listing().pods
    assert [s.attempt for s in pod.sandboxes] == [1, 0]
    assert [(c.sandbox_id, c.attempt) for c in pod.containers] == [(new.id, 1), (old.id, 0)]


def test_pods_without_our_annotation_are_shown_as_foreign(bench):
    ours, foreign = bench.run_sandbox(), bench.run_sandbox(ours=False)
    assert {p.uid: p.ours for p in bench.listing().pods} == {ours.uid: True, foreign.uid: False}
    assert bench.inspect(foreign.uid).ours is False


def test_an_outcome_shows_what_an_inspection_shows_right_after(bench):
    sandbox = bench.run_sandbox()
    spec = bench.container_spec(Run())
    pod = bench.call(bench.creation(sandbox, spec))
    assert pod == bench.inspect(sandbox.uid)
    pod = bench.call(StartContainer(uid=sandbox.uid, container_id=pod.containers[0].id))
    assert pod == bench.inspect(sandbox.uid)
    pod = bench.wait(bench.stop(sandbox, pod.containers[0], grace_s=10))
    assert pod == bench.inspect(sandbox.uid)
    pod = bench.call(StopSandbox(uid=sandbox.uid, sandbox_id=sandbox.id))
    assert pod == bench.inspect(sandbox.uid)


def test_the_runtime_says_who_it_is(bench):
    info = bench.call(RuntimeStatus())
    assert info.name
    assert info.version
    assert info.ready is True


def test_the_runtime_takes_the_range_of_pod_addresses(bench):
    for cidr in ("10.244.3.0/24", "10.244.3.0/24,fd00:3::/64"):
        assert bench.call(SetPodCidr(pod_cidr=cidr)) == Done()


def test_the_image_that_it_runs_is_among_its_images(bench):
    images = bench.call(ListImages()).images
    assert bench.driver.image in [name for row in images for name in row.names]
