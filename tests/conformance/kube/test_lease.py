"""A node's own lease: made, renewed, and what happens when somebody else wrote or removed it."""

from api.errors import AlreadyExistsError, ConflictError, DeniedError, NotFoundError, RejectedError
from tests.conformance.kube.asking import create, delete, get, lease_path, refused, replace, uid, version

EARLIER, LATER = "2026-01-02T03:04:05.000006Z", "2026-01-02T03:04:15.100000Z"


def body(bench, renewed=EARLIER, **metadata):
    spec = {"holderIdentity": bench.node, "leaseDurationSeconds": 40, "renewTime": renewed}
    return {"metadata": {"name": bench.node, **metadata}, "spec": spec}


def made(bench):
    return create(bench, lease_path(), body(bench))


def test_a_lease_is_made_and_read(bench):
    lease = made(bench)
    assert (lease["kind"], lease["apiVersion"]) == ("Lease", "coordination.k8s.io/v1")
    assert lease["spec"] == body(bench)["spec"]
    assert lease["metadata"]["namespace"] == "kube-node-lease"
    assert get(bench, lease_path(bench.node)) == lease
    refused(AlreadyExistsError, "AlreadyExists", create, bench, lease_path(), body(bench))


def test_a_lease_is_renewed_from_what_the_last_renewal_returned(bench):
    lease = made(bench)
    for renewed in (LATER, EARLIER):
        lease["spec"]["renewTime"] = renewed
        before, lease = version(lease), replace(bench, lease_path(bench.node), lease)
        assert lease["spec"]["renewTime"] == renewed
        assert version(lease) != before
    assert get(bench, lease_path(bench.node)) == lease


def test_a_renewal_from_an_old_version_is_a_conflict_and_changes_nothing(bench):
    old = made(bench)
    current = replace(bench, lease_path(bench.node), {**old, "spec": body(bench, LATER)["spec"]})
    refused(ConflictError, "Conflict", replace, bench, lease_path(bench.node), old)
    assert get(bench, lease_path(bench.node)) == current


def test_a_renewal_without_a_version_is_refused(bench):
    lease = made(bench)
    refused(
        RejectedError, "Invalid", replace, bench, lease_path(bench.node), body(bench, LATER, uid=uid(lease))
    )


def test_a_lease_that_was_removed_is_not_renewed_but_made_again(bench):
    lease = made(bench)
    bench.admin.delete(lease_path(bench.node))
    refused(NotFoundError, "NotFound", get, bench, lease_path(bench.node))
    # Not NotFound: a PUT makes a lease that is absent, but not one that has the UID of another.
    refused(ConflictError, "Conflict", replace, bench, lease_path(bench.node), lease)
    again = replace(bench, lease_path(bench.node), body(bench, LATER))
    assert uid(again) != uid(lease)
    refused(ConflictError, "Conflict", replace, bench, lease_path(bench.node), lease)
    delete(bench, lease_path(bench.node), uid=uid(again))
    refused(NotFoundError, "NotFound", delete, bench, lease_path(bench.node))


def test_leases_of_others_are_none_of_its_business(bench):
    other = f"{bench.node}-other"
    refused(DeniedError, "Forbidden", get, bench, lease_path(other))
    refused(DeniedError, "Forbidden", get, bench, lease_path(bench.node, "default"))
    refused(DeniedError, "Forbidden", create, bench, lease_path(), {"metadata": {"name": other}})
    refused(DeniedError, "Forbidden", replace, bench, lease_path(other), {"metadata": {"name": other}})
    refused(DeniedError, "Forbidden", delete, bench, lease_path(other))


def test_owners_are_kept(bench):
    owner = {"apiVersion": "v1", "kind": "Node", "name": bench.node, "uid": "some-uid"}
    lease = create(bench, lease_path(), body(bench, ownerReferences=[owner]))
    assert lease["metadata"]["ownerReferences"] == [owner]
    assert replace(bench, lease_path(bench.node), lease)["metadata"]["ownerReferences"] == [owner]
