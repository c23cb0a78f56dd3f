"""The file source: what counts at once, what waits, what is kept, and what is told of it."""

import json

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from actors.sources.file.core import CHANGES, LEDGER, MANIFESTS, begin, decide
from actors.sources.file.listing import GONE_S, SETTLE_S
from actors.sources.file.state import SECTION, change_readings, rows
from api.errors import Failure, FailureKind
from api.ids import OpId, Path
from api.lifecycle import Listen, Start, Tell
from api.messages.events import LedgerDamaged
from api.messages.kernel import Alarm, Heard, Outcome, Restarted, StreamEnded
from api.messages.podconfig import PodsSeen
from api.ports.call import Done
from api.ports.ledger import Forget, RecallAll, RecalledAll, Remember, not_ours
from api.ports.manifests import FileSettled, ManifestFile, ManifestListing, Problem, ReadManifests
from api.shown.introspection import SourceRow

CONFIG, EVENTS = Path("/node/config"), Path("/node/events")
LOST = Failure(kind=FailureKind.UNAVAILABLE, message="the disk is gone")


def manifest(name, image="i", uid=""):
    meta = {"name": name, **({"uid": uid} if uid else {})}
    spec = {"containers": [{"name": "c", "image": image}]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}).encode()


BROKEN = b"broken"
NOTHING = (SourceRow(source="file", where="/m", status="accepted", problems=("holds no manifest",)),)
"""What is told of a folder without manifests."""


class World:
    """A folder, a ledger and a clock around the core; operations complete when the test says so."""

    def __init__(self, *, ledger=None, files=(), start=True, remembers=True):
        self.now = 100.0
        self.files = dict(files)
        self.ledger = {} if ledger is None else ledger
        self.remembers = remembers
        self.fail = self.fail_ledger = False
        self.missing = False
        self.place = "a folder on device 0:1"
        self.sent = []
        self.damaged = []
        self.readings = 0
        self.listens = 0
        self.ops = 0
        self.flying = {}
        if start:
            self.start()
            self.settle()

    def start(self):
        self.flying = {}
        self.take(begin("/m", "n", CONFIG, self.now, self.new_op, remembers=self.remembers))

    def new_op(self):
        self.ops += 1
        return OpId(self.ops)

    def take(self, decision):
        self.state, self.wake_at = decision.state, decision.wake_at
        for action in decision.actions:
            match action:
                case Start(op=op, port=port, call=call):
                    assert port == (MANIFESTS if isinstance(call, ReadManifests) else LEDGER)
                    self.flying[op] = (call, self.now)
                case Tell(to=to, message=message) if to == EVENTS:
                    self.damaged.append(message)
                case Tell(to=to, message=message):
                    assert to == CONFIG
                    self.sent.append(message)
                case Listen(stream=stream):
                    assert stream == CHANGES
                    self.listens += 1

    def send(self, message):
        self.take(decide(self.state, message, self.now, self.new_op))

    def next_period(self):
        """Let the period of the readings be over now."""
        self.state = change_readings(self.state, next_at=self.now)
        self.send(Alarm(at=self.now))

    def perform(self, call):
        match call:
            case ReadManifests():
                self.readings += 1
                return None if self.fail else self.listing()
            case RecallAll(section=section):
                assert section == SECTION
                return None if self.fail_ledger else RecalledAll(entries=tuple(sorted(self.ledger.items())))
            case Remember(key=key, data=data):
                if self.fail_ledger:
                    return None
                self.ledger[key] = data
            case Forget(key=key):
                self.ledger.pop(key, None)
        return Done()

    def listing(self):
        files = []
        for name, content in sorted(self.files.items()):
            digest = str(hash(content))
            if content == BROKEN:
                wrong = (Problem(where=f"{name}:1", message="not valid YAML"),)
                files.append(ManifestFile(path=f"/m/{name}", digest=digest, problems=wrong))
            else:
                files.append(ManifestFile(path=f"/m/{name}", digest=digest, document=content))
        return ManifestListing(files=tuple(files), missing=self.missing, place=self.place)

    def complete_one(self):
        op, (call, at) = next(iter(self.flying.items()))
        del self.flying[op]
        result = self.perform(call)
        failure = None if result else LOST
        self.send(Outcome(op=op, call="x", result=result, failure=failure, started_at=at, ended_at=self.now))

    def settle(self):
        while self.flying:
            self.complete_one()

    def wait(self, seconds):
        """Let time pass, alarm by alarm."""
        until = self.now + seconds
        self.settle()
        while self.wake_at is not None and self.wake_at <= until:
            self.now = max(self.now, self.wake_at)
            self.send(Alarm(at=self.now))
            self.settle()
        self.now = until

    def announce(self, *names):
        for name in names:
            self.send(Heard(stream=CHANGES, item=FileSettled(path=f"/m/{name}")))
        self.settle()

    def write(self, name, content, *, announced=True):
        self.files[name] = content
        if announced:
            self.announce(name)

    def remove(self, name, *, announced=True):
        del self.files[name]
        if announced:
            self.announce(name)

    def pods(self):
        """Return the pods last told, as name to image."""
        return {p.metadata.name: p.spec.containers[0].image for p in self.sent[-1].pods}

    def row(self, name):
        return next(row for row in rows(self.state) if row.where == f"/m/{name}")


def test_it_listens_before_it_reads_and_tells_the_whole_list():
    world = World(start=False, files={"a.yaml": manifest("a"), "b.yaml": manifest("b")})
    decision = begin("/m", "n", CONFIG, 1.0, world.new_op)
    assert [type(action) for action in decision.actions] == [Listen, Start]
    world.start()
    assert world.sent == []
    world.settle()
    assert world.pods() == {"a-n": "i", "b-n": "i"}
    assert world.row("a.yaml").status == "accepted"
    assert world.row("a.yaml").pod == "default/a-n"


def test_a_missing_path_is_an_empty_list_and_says_so():
    world = World(start=False)
    world.missing, world.place = True, ""
    world.start()
    world.settle()
    assert world.sent == [PodsSeen(source="file")]
    (row,) = rows(world.state)
    assert (row.where, row.status) == ("/m", "waiting")


def test_an_announced_change_counts_at_once():
    world = World(files={"a.yaml": manifest("a")})
    world.write("a.yaml", manifest("a", image="j"))
    assert world.pods() == {"a-n": "j"}
    world.write("b.yaml", manifest("b"))
    assert world.pods() == {"a-n": "j", "b-n": "i"}


def test_a_change_that_only_a_reading_shows_waits_for_a_second_equal_one():
    world = World(files={"a.yaml": manifest("a")})
    world.write("a.yaml", manifest("a", image="j"), announced=False)
    world.write("b.yaml", manifest("b"), announced=False)
    world.next_period()
    world.settle()
    assert world.pods() == {"a-n": "i"}
    assert world.row("b.yaml").status == "waiting"
    world.wait(SETTLE_S / 2)
    assert world.pods() == {"a-n": "i"}
    world.wait(SETTLE_S)
    assert world.pods() == {"a-n": "j", "b-n": "i"}


def test_a_file_that_goes_on_changing_is_not_taken_in():
    world = World()
    for step in range(5):
        world.write("a.yaml", manifest("a", image=f"i{step}"), announced=False)
        world.next_period()
        world.settle()
        world.now += SETTLE_S
        assert world.sent[-1].pods == ()
    world.wait(2 * SETTLE_S)
    assert world.pods() == {"a-n": "i4"}


def test_an_announcement_counts_for_its_file_only():
    world = World()
    world.write("half.yaml", manifest("half"), announced=False)
    world.write("whole.yaml", manifest("whole"))
    assert world.pods() == {"whole-n": "i"}


def test_a_second_reading_too_soon_confirms_nothing():
    world = World()
    world.write("half.yaml", manifest("half"), announced=False)
    world.write("a.yaml", manifest("a"))
    world.now += 0.01
    world.write("b.yaml", manifest("b"))
    assert set(world.pods()) == {"a-n", "b-n"}


def test_what_settles_while_a_reading_is_under_way_is_read_again():
    world = World()
    world.next_period()
    listing = world.listing()
    world.files["a.yaml"] = manifest("a")
    world.send(Heard(stream=CHANGES, item=FileSettled(path="/m/a.yaml")))
    (op,) = world.flying
    world.flying = {}
    world.send(Outcome(op=op, call="x", result=listing, started_at=world.now, ended_at=world.now))
    world.settle()
    assert world.pods() == {"a-n": "i"}


def test_a_period_without_any_announcement_still_finds_changes():
    world = World()
    world.write("a.yaml", manifest("a"), announced=False)
    world.wait(20 + 2 * SETTLE_S)
    assert world.pods() == {"a-n": "i"}


def test_a_broken_file_keeps_its_previous_pod_and_says_where_it_is_broken():
    world = World(files={"a.yaml": manifest("a")})
    before = world.sent[-1].pods
    world.write("a.yaml", BROKEN)
    assert world.sent[-1].pods == before
    row = world.row("a.yaml")
    assert (row.status, row.pod) == ("broken", "default/a-n")
    assert row.problems[0] == "a.yaml:1: not valid YAML"
    world.write("a.yaml", manifest("a", image=""))
    assert world.sent[-1].pods == before
    world.write("a.yaml", manifest("a"))
    assert world.row("a.yaml").status == "accepted"
    assert world.sent[-1].pods == before


def test_a_file_that_was_never_right_has_no_pod():
    world = World(files={"a.yaml": BROKEN})
    assert world.sent == [PodsSeen(source="file")]
    assert world.row("a.yaml").status == "broken"


def test_a_removed_file_removes_its_pod_after_a_second_look():
    world = World(files={"a.yaml": manifest("a")})
    world.remove("a.yaml")
    assert world.pods() == {"a-n": "i"}
    world.wait(2 * GONE_S)
    assert world.pods() == {}
    assert rows(world.state) == NOTHING


def test_an_editor_that_renames_the_old_file_away_first_does_not_kill_the_pod():
    world = World(files={"a.yaml": manifest("a")})
    world.remove("a.yaml")
    world.now += GONE_S / 2
    world.write("a.yaml", manifest("a"))
    world.wait(60)
    assert all(seen.pods == world.sent[0].pods for seen in world.sent)


def test_a_broken_file_that_is_removed_takes_its_kept_pod_with_it():
    world = World(files={"a.yaml": manifest("a")})
    world.write("a.yaml", BROKEN)
    world.remove("a.yaml")
    world.wait(1)
    assert world.pods() == {}


def test_a_removal_that_nobody_announced_waits_as_long_as_a_change():
    world = World(files={"a.yaml": manifest("a")})
    world.remove("a.yaml", announced=False)
    world.next_period()
    world.settle()
    world.wait(SETTLE_S / 2)
    assert world.pods() == {"a-n": "i"}
    world.wait(SETTLE_S)
    assert world.pods() == {}


def test_the_same_bytes_again_are_told_to_nobody():
    world = World(files={"a.yaml": manifest("a")})
    world.write("a.yaml", manifest("a"))
    assert len(world.sent) == 1


def test_of_two_files_with_one_pod_name_the_running_one_is_kept_and_both_are_flagged():
    world = World(files={"b.yaml": manifest("x", image="old")})
    world.write("a.yaml", manifest("x", image="new"))
    assert world.pods() == {"x-n": "old"}
    assert world.row("a.yaml").status == "duplicate"
    assert world.row("b.yaml").status == "duplicate"
    assert "/m/b.yaml: this one is not run" in world.row("a.yaml").problems[0]
    assert "/m/a.yaml: this one is kept" in world.row("b.yaml").problems[0]
    world.remove("b.yaml")
    world.wait(1)
    assert world.pods() == {"x-n": "new"}
    assert world.row("a.yaml").status == "accepted"


def test_the_running_one_of_two_is_kept_also_when_it_changes():
    world = World(files={"b.yaml": manifest("x", image="old")})
    world.write("a.yaml", manifest("x", image="new"))
    world.write("b.yaml", manifest("x", image="newer"))
    assert world.pods() == {"x-n": "newer"}


def test_a_file_that_takes_over_anothers_name_does_not_win_by_its_path():
    world = World(files={"a.yaml": manifest("y"), "b.yaml": manifest("x", image="b")})
    world.write("a.yaml", manifest("x", image="a"))
    assert world.pods() == {"x-n": "b"}


def test_at_the_first_reading_the_first_by_path_has_the_name():
    world = World(files={"b.yaml": manifest("x", image="b"), "a.yaml": manifest("x", image="a")})
    assert world.pods() == {"x-n": "a"}


def test_two_files_with_one_uid_are_duplicates_too():
    world = World(files={"a.yaml": manifest("a", uid="same"), "b.yaml": manifest("b", uid="same")})
    assert world.pods() == {"a-n": "i"}
    assert world.row("b.yaml").status == "duplicate"


def test_a_renamed_file_replaces_its_pod_when_the_old_path_is_gone():
    world = World(files={"a.yaml": manifest("x")})
    (old,) = world.sent[-1].pods
    world.files["b.yaml"] = world.files.pop("a.yaml")
    world.announce("a.yaml", "b.yaml")
    world.wait(1)
    (new,) = world.sent[-1].pods
    assert new.metadata.name == old.metadata.name
    assert new.metadata.uid != old.metadata.uid


def test_a_failed_reading_keeps_everything_says_so_and_is_repeated():
    world = World(files={"a.yaml": manifest("a")})
    world.fail = True
    world.remove("a.yaml")
    world.wait(5)
    assert world.pods() == {"a-n": "i"}
    top = rows(world.state)[0]
    assert (top.where, top.status) == ("/m", "unreachable")
    assert "the disk is gone" in top.problems[0]
    assert world.readings == 4
    world.fail = False
    world.wait(30)
    assert world.pods() == {}


def test_a_failed_reading_between_two_that_miss_a_file_makes_the_second_of_them_the_first():
    world = World(files={"a.yaml": manifest("a")})
    for _ in range(3):
        kept = world.files.pop("a.yaml")
        world.next_period()
        world.settle()
        world.fail, world.files["a.yaml"] = True, kept
        world.wait(2 * SETTLE_S)
        world.fail = False
        del world.files["a.yaml"]
        world.next_period()
        world.settle()
        world.files["a.yaml"] = kept
        world.wait(2 * SETTLE_S)
    assert all(seen.pods == world.sent[0].pods for seen in world.sent)
    assert world.row("a.yaml").status == "accepted"


OTHER = ("a folder on device 0:2", "below a path that is no folder")


@pytest.mark.parametrize("place", OTHER)
def test_a_folder_that_became_another_place_counts_as_not_read_until_it_is_seen_twice(place):
    world = World(files={"a.yaml": manifest("a")})
    files, world.files = world.files, {}
    world.place, world.missing = place, place == OTHER[1]
    world.next_period()
    world.settle()
    world.next_period()
    world.settle()
    top = rows(world.state)[0]
    assert top.status == "unreachable"
    assert (
        f"is {place} now, and was a folder on device 0:1: the next reading decides; the pods of the last"
        in top.problems[0]
    )
    world.place, world.missing, world.files = "a folder on device 0:1", False, files
    world.wait(60)
    assert all(seen.pods == world.sent[0].pods for seen in world.sent)
    assert {row.status for row in rows(world.state)} == {"accepted"}


@pytest.mark.parametrize("place", OTHER)
def test_a_folder_that_stays_another_place_is_taken_in(place):
    world = World(files={"a.yaml": manifest("a")})
    world.missing = place == OTHER[1]
    world.files, world.place = {} if world.missing else {"b.yaml": manifest("b")}, place
    world.wait(60)
    assert world.pods() == ({} if world.missing else {"b-n": "i"})
    assert {row.status for row in rows(world.state)} == {"waiting" if world.missing else "accepted"}


def test_a_path_below_none_that_is_a_folder_is_no_empty_folder_at_a_start():
    world = World(files={"a.yaml": manifest("a")})
    world.files["a.yaml"] = BROKEN
    later = World(ledger=world.ledger, start=False)
    later.place, later.missing = OTHER[1], True
    later.start()
    later.settle()
    assert later.sent == []
    later.place, later.missing, later.files = "a folder on device 0:1", False, world.files
    later.wait(60)
    assert later.pods() == {"a-n": "i"}


def test_files_announced_before_a_failed_reading_still_count_at_once():
    world = World()
    world.fail = True
    world.write("a.yaml", manifest("a"))
    world.fail = False
    world.wait(1)
    assert world.pods() == {"a-n": "i"}


def test_nothing_is_told_before_the_first_complete_reading():
    world = World(start=False, files={"a.yaml": manifest("a")})
    world.fail = True
    world.start()
    world.settle()
    world.send(Restarted(path=CONFIG, incarnation=1, cause="x"))
    world.wait(10)
    assert world.sent == []
    world.fail = False
    world.wait(20)
    assert world.pods() == {"a-n": "i"}


def test_a_restarted_merge_is_told_again_and_each_period_repeats_the_list():
    world = World(files={"a.yaml": manifest("a")})
    world.send(Restarted(path=CONFIG, incarnation=1, cause="x"))
    assert len(world.sent) == 2
    world.wait(41)
    assert len(world.sent) == 4
    assert all(seen == world.sent[0] for seen in world.sent)


def test_a_dead_stream_is_opened_again_more_and_more_slowly_and_shown():
    world = World()
    for _ in range(3):
        world.send(StreamEnded(stream=CHANGES, failure=LOST))
        assert "looking every 20 s" in rows(world.state)[0].problems[0]
        world.wait(8)
    assert world.listens == 4
    assert rows(world.state) == NOTHING


def test_a_change_that_was_announced_begins_the_waits_of_a_stream_again():
    for announced, open_after_s in ((False, 4.0), (True, 1.0)):
        world = World()
        for _ in range(2):
            world.send(StreamEnded(stream=CHANGES, failure=LOST))
            world.wait(8)
        if announced:
            world.write("a.yaml", manifest("a"))
        world.send(StreamEnded(stream=CHANGES, failure=LOST))
        assert world.state.subscription.retry.at - world.state.subscription.since == open_after_s


def test_what_changed_while_nobody_listened_is_looked_for():
    world = World()
    world.send(StreamEnded(stream=CHANGES))
    assert "the stream was closed; changes are found by looking every 20 s" in str(rows(world.state))
    world.write("a.yaml", manifest("a"), announced=False)
    world.wait(4)
    assert world.pods() == {"a-n": "i"}


def test_a_file_that_broke_while_the_agent_was_down_keeps_its_previous_pod():
    world = World(files={"a.yaml": manifest("a")})
    before = world.sent[-1].pods
    again = World(ledger=world.ledger, files={"a.yaml": BROKEN})
    assert again.sent[-1].pods == before
    assert (again.row("a.yaml").status, again.row("a.yaml").pod) == ("broken", "default/a-n")


def test_who_held_a_name_holds_it_after_a_restart():
    world = World(files={"b.yaml": manifest("x", image="old")})
    world.write("a.yaml", manifest("x", image="new"))
    again = World(ledger=world.ledger, files=world.files)
    assert again.pods() == {"x-n": "old"}


def test_a_file_that_was_removed_while_the_agent_was_down_is_forgotten():
    world = World(files={"a.yaml": manifest("a")})
    again = World(ledger=world.ledger)
    assert again.sent == [PodsSeen(source="file")]
    assert world.ledger == {}


@pytest.mark.parametrize("damaged", [b"", b"{}", b"\xff"])
def test_damaged_memory_is_said_and_not_fatal(damaged):
    world = World(ledger={"k": damaged}, files={"a.yaml": manifest("a")})
    assert world.pods() == {"a-n": "i"}
    assert "damaged" in rows(world.state)[0].problems[0]
    assert world.damaged == [LedgerDamaged(section=SECTION, whys=(not_ours(SECTION, "k"),))]


def test_without_a_ledger_it_reads_at_once():
    world = World(files={"a.yaml": manifest("a")}, remembers=False)
    assert world.pods() == {"a-n": "i"}
    assert world.ledger == {}


def test_a_ledger_that_fails_is_said_and_tried_again():
    world = World(start=False, files={"a.yaml": manifest("a")})
    world.fail_ledger = True
    world.start()
    world.settle()
    assert world.pods() == {"a-n": "i"}
    assert "the disk is gone" in rows(world.state)[0].problems[0]
    world.fail_ledger = False
    world.wait(21)
    assert len(world.ledger) == 1


def test_many_files_are_remembered_a_few_at_a_time():
    world = World(start=False, files={f"{n}.yaml": manifest(f"p{n}") for n in range(10)})
    world.start()
    world.complete_one()
    world.complete_one()
    assert len(world.flying) == 4
    world.settle()
    assert len(world.ledger) == 10


def test_neither_state_nor_messages_show_a_document():
    secret = json.loads(manifest("a"))
    secret["spec"]["containers"][0]["env"] = [{"name": "N", "value": "s3cr3t"}]
    world = World(files={"a.yaml": json.dumps(secret).encode()})
    assert "s3cr3t" not in repr(world.state)
    assert "s3cr3t" not in repr(world.sent)
    assert "s3cr3t" not in repr(world.listing())


NAMES = st.sampled_from(["a.yaml", "b.yaml", "c.yaml"])
CONTENTS = st.one_of(
    st.just(BROKEN), st.builds(manifest, name=st.sampled_from("xyz"), image=st.sampled_from(["1", "2"]))
)


class Folder(RuleBasedStateMachine):
    """Files come, change, break and go, announced or not; readings fail; the agent restarts."""

    @initialize(files=st.dictionaries(NAMES, CONTENTS))
    def start(self, files):
        self.world = World(files=files)

    @rule(name=NAMES, content=CONTENTS, announced=st.booleans())
    def write(self, name, content, announced):
        self.world.write(name, content, announced=announced)

    @rule(name=NAMES, announced=st.booleans())
    def remove(self, name, announced):
        if name in self.world.files:
            self.world.remove(name, announced=announced)

    @rule(fail=st.booleans())
    def disk(self, fail):
        self.world.fail = fail

    @rule(seconds=st.sampled_from([0.05, 0.5, 3.0, 25.0]))
    def time_passes(self, seconds):
        self.world.wait(seconds)

    @rule()
    def agent_restarts(self):
        self.world = World(ledger=self.world.ledger, files=self.world.files)

    @rule()
    def all_is_well_in_the_end(self):
        self.world.fail = False
        self.world.wait(45)
        names = {}
        for _, content in sorted(self.world.files.items()):
            if content != BROKEN:
                pod = json.loads(content)
                image = pod["spec"]["containers"][0]["image"]
                names.setdefault(f"{pod['metadata']['name']}-n", set()).add(image)
        sent = self.world.pods()
        for name, images in names.items():
            row_of_broken = [row for row in rows(self.world.state) if row.status in ("broken", "duplicate")]
            assert sent[name] in images or row_of_broken
        kept = {row.pod.split("/")[1] for row in rows(self.world.state) if row.status == "broken" and row.pod}
        kept |= {row.pod.split("/")[1] for row in rows(self.world.state) if row.status == "duplicate"}
        assert set(names) <= set(sent)
        assert set(sent) <= set(names) | kept
        assert not any(row.status in ("waiting", "unreachable") for row in rows(self.world.state))


TestFolder = Folder.TestCase
TestFolder.settings = settings(max_examples=50, stateful_step_count=20)
