"""What people are told of the puller's work: nothing that waits or hangs is silent."""

from actors.images.explain import image_work
from tests.unit.actors.images.hand import ALWAYS, APP, NEVER, Puller, want


def rows(puller):
    return {row.image: row for row in image_work(puller.state, puller.now)}


def test_a_stuck_pull_and_those_behind_it_say_since_when():
    puller = Puller()
    puller.want(want("r.local/a:1", ALWAYS, container="a"), want("r.local/b:1", ALWAYS, container="b"))
    puller.read()
    puller.now += 300
    found = rows(puller)
    assert found["r.local/a:1"].doing == ("being pulled for 300 s",)
    assert found["r.local/b:1"].doing == (
        "waits for its turn for 300 s; r.local/a:1 has been pulled for 300 s",
    )
    assert found["r.local/a:1"].wanted_by == (("u1", "a"),)
    puller.want()
    puller.now += 5
    assert rows(puller)["r.local/a:1"].doing == ("a cancelled pull has not ended; it began 305 s ago",)


def test_failures_and_the_next_try_are_told():
    puller = Puller()
    puller.want(want(policy=ALWAYS))
    puller.fail_pull()
    puller.now += 4
    row = rows(puller)[APP]
    assert (row.failures, row.last_failure, round(row.next_try_s)) == (1, "ErrImagePull: no such host", 6)
    assert row.doing == ("ErrImagePull for 4 s",)


def test_looks_waits_removals_and_bad_names_are_told():
    puller = Puller()
    puller.want(want(policy=NEVER), want("Bad", container="b"))
    puller.now += 2
    assert rows(puller)[APP].doing == ("looking it up for 2 s",)
    assert rows(puller)["Bad"].next_try_s is None
    assert "InvalidImageName" in rows(puller)["Bad"].doing[0]
    puller.drop("sha256:" + "f" * 64, ("r.local/other:1",))
    puller.want(want("r.local/other:1"), uid="u2")
    assert rows(puller)["r.local/other:1"].doing == ("waits for the end of a removal",)
    assert rows(puller)["sha256:" + "f" * 64].doing == ("removing it for 0 s",)
