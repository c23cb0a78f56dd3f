"""The ledger on files: modes, atomic writes, leftovers, damage of every shape, many writers."""

import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from api.errors import DeniedError, UnavailableError
from api.ports.ledger import Forget, Recall, RecallAll, Recalled, Remember
from runtime.drivers.host.ledger import SET_ASIDE_LIMIT, FileLedger

REPOSITORY = Path(__file__).parents[5]


@pytest.fixture
def ledger(tmp_path):
    return FileLedger(tmp_path)


def remember(ledger, key, data=b"x", section="pods", *, durable=False):
    return ledger.perform(Remember(section=section, key=key, data=data, durable=durable), 5.0)


def names(root):
    return sorted(path.name for path in (root / "ledger/pods").iterdir())


def recall_all(ledger, section="pods"):
    return ledger.perform(RecallAll(section=section), 5.0)


def test_files_are_for_the_agents_user_alone(ledger, tmp_path):
    old = os.umask(0)
    try:
        remember(ledger, "a")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "ledger").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "ledger/pods").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "ledger/pods/a").stat().st_mode) == 0o600


def test_a_write_that_fails_leaves_nothing_behind(ledger, tmp_path, monkeypatch):
    remember(ledger, "a", b"old")

    def fsync(fd):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("runtime.drivers.host.ledger.os.fsync", fsync)
    with pytest.raises(UnavailableError, match="Input/output error"):
        remember(ledger, "a", b"new", durable=True)
    assert names(tmp_path) == ["a"]
    assert recall_all(ledger).entries == (("a", b"old"),)


def test_only_a_durable_write_waits_for_the_disk_and_then_for_file_and_folder(ledger, tmp_path, monkeypatch):
    remember(ledger, "first")
    synced = []
    real = os.fsync

    def fsync(fd):
        synced.append(stat.S_ISDIR(os.fstat(fd).st_mode))
        real(fd)

    monkeypatch.setattr("runtime.drivers.host.ledger.os.fsync", fsync)
    remember(ledger, "a")
    assert synced == []
    remember(ledger, "a", durable=True)
    assert synced == [False, True]
    ledger.perform(Forget(section="pods", key="first"), 5.0)
    assert synced == [False, True]
    ledger.perform(Forget(section="pods", key="a", durable=True), 5.0)
    assert synced == [False, True, True]
    ledger.perform(Forget(section="nothing", key="here", durable=True), 5.0)
    assert synced == [False, True, True]


def test_a_write_cut_short_by_a_crash_is_cleaned_up_and_hurts_nobody(ledger, tmp_path):
    remember(ledger, "a", b"old")
    leftover = tmp_path / "ledger/pods/.new-1-0"
    leftover.write_bytes(b"half")
    assert recall_all(ledger).entries == (("a", b"old"),)
    assert not leftover.exists()


@pytest.mark.parametrize(
    "breakage",
    [
        pytest.param(lambda p: p.write_bytes(b""), id="empty"),
        pytest.param(lambda p: p.write_bytes(p.read_bytes()[:-1]), id="cut"),
        pytest.param(lambda p: p.write_bytes(b"{}"), id="foreign"),
        pytest.param(lambda p: (p.unlink(), p.mkdir()), id="folder"),
        pytest.param(lambda p: (p.unlink(), p.symlink_to("/etc/hostname")), id="symlink"),
        pytest.param(lambda p: (p.unlink(), os.mkfifo(p)), id="pipe"),
        pytest.param(lambda p: (p.parent / "b").replace(p), id="another entry's content"),
        pytest.param(lambda p: os.truncate(p, 1 << 30), id="huge"),
    ],
)
def test_damage_of_every_shape_is_set_aside_with_a_reason(ledger, tmp_path, breakage):
    remember(ledger, "a")
    remember(ledger, "b")
    path = tmp_path / "ledger/pods/a"
    breakage(path)
    ((_, sentence),) = recall_all(ledger).damaged
    assert str(path) in sentence
    assert "set aside as a.damaged-1" in sentence
    assert os.path.lexists(f"{path}.damaged-1")
    assert not os.path.lexists(path)
    assert recall_all(ledger).damaged == ()
    remember(ledger, "a", b"again")
    assert ledger.perform(Recall(section="pods", key="a"), 5.0) == Recalled(data=b"again")


def test_copies_of_damaged_entries_are_bounded(ledger, tmp_path):
    for _ in range(SET_ASIDE_LIMIT + 3):
        remember(ledger, "a")
        (tmp_path / "ledger/pods/a").write_bytes(b"damage")
        assert len(recall_all(ledger).damaged) == 1
    kept = [name for name in names(tmp_path) if "damaged" in name]
    assert len(kept) == SET_ASIDE_LIMIT


def test_a_newer_agents_entry_is_kept_aside_and_named(ledger, tmp_path):
    remember(ledger, "a")
    path = tmp_path / "ledger/pods/a"
    content = bytearray(path.read_bytes())
    content[len(b"nodeagent")] = 2
    path.write_bytes(content)
    ((_, sentence),) = recall_all(ledger).damaged
    assert "format version 2" in sentence


def test_a_root_that_is_a_file_fails_with_a_clear_line(tmp_path):
    (tmp_path / "ledger").write_text("in the way")
    ledger = FileLedger(tmp_path)
    with pytest.raises(
        Exception, match=r"could not write ledger entry .*ledger/pods/a: File exists|Not a directory"
    ):
        remember(ledger, "a")
    assert recall_all(ledger).entries == ()


@pytest.mark.real
def test_a_ledger_without_permission_starts_and_says_so(tmp_path):
    script = f"""
import os
from pathlib import Path
from api.errors import DeniedError
from api.ports.ledger import *
from runtime.drivers.host.ledger import FileLedger
root = Path({str(tmp_path)!r})
FileLedger(root).perform(Remember(section="pods", key="a", data=b"x"), 5)
os.chmod(root, 0o755)
if os.geteuid() == 0:
    os.setuid(65534)
else:
    os.chmod(root / "ledger", 0)
ledger = FileLedger(root)
print(ledger.perform(RecallAll(section="pods"), 5).damaged)
try:
    ledger.perform(Remember(section="pods", key="a", data=b"x"), 5)
except DeniedError as error:
    print("denied", error)
"""
    # Only those that pytest made: what is above them is everybody's.
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=20, cwd=REPOSITORY
    )
    assert "counts as" in done.stdout
    assert "denied could not write ledger entry" in done.stdout
    assert DeniedError.kind.value == "Denied"


def test_pods_that_start_at_once_share_the_folders_fsync_and_all_are_kept(tmp_path, monkeypatch):
    folders = []
    release = threading.Event()
    real = os.fsync

    def fsync(fd):
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            folders.append(fd)
            assert release.wait(20)
        real(fd)

    ledger = FileLedger(tmp_path)
    remember(ledger, "first", durable=True)
    monkeypatch.setattr("runtime.drivers.host.ledger.os.fsync", fsync)
    threads = [
        threading.Thread(target=lambda n=n: remember(ledger, f"k{n}", b"x" * 500, durable=True))
        for n in range(10)
    ]
    for thread in threads:
        thread.start()
    waiting = ledger._folders["pods"]._condition._waiters
    ends_at = time.monotonic() + 20
    while len(waiting) < 9 and time.monotonic() < ends_at:
        threading.Event().wait(0.005)
    assert (len(waiting), len(folders)) == (9, 1)
    release.set()
    for thread in threads:
        thread.join(20)
    assert len(folders) == 2
    assert len(recall_all(ledger).entries) == 11


def test_writers_of_one_entry_leave_one_of_their_values_whole(tmp_path):
    ledger = FileLedger(tmp_path)
    values = [bytes([n]) * 5000 for n in range(4)]
    threads = [
        threading.Thread(target=lambda v=v: [remember(ledger, "a", v) for _ in range(20)]) for v in values
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    recalled = ledger.perform(Recall(section="pods", key="a"), 5.0)
    assert recalled.data in values
    assert recalled.damaged == ""
    assert names(tmp_path) == ["a"]


KEYS = st.sampled_from(["a", "b", "c.d", "e-f_g"])
SECTIONS = st.sampled_from(["pods", "node"])


class LedgerMachine(RuleBasedStateMachine):
    """The ledger against a mapping, through writes, damage and new drivers."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        self.ledger = FileLedger(self.root)
        self.model = {}

    def teardown(self):
        self.folder.cleanup()

    @rule(section=SECTIONS, key=KEYS, data=st.binary(max_size=50))
    def remember(self, section, key, data):
        self.ledger.perform(Remember(section=section, key=key, data=data), 5.0)
        self.model[section, key] = data

    @rule(section=SECTIONS, key=KEYS)
    def forget(self, section, key):
        self.ledger.perform(Forget(section=section, key=key), 5.0)
        self.model.pop((section, key), None)

    @rule(section=SECTIONS, key=KEYS, position=st.integers(0, 10_000), flip=st.integers(1, 255))
    def damage(self, section, key, position, flip):
        if (section, key) not in self.model:
            return
        path = self.root / "ledger" / section / key
        content = bytearray(path.read_bytes())
        content[position % len(content)] ^= flip
        path.write_bytes(content)
        recalled = self.ledger.perform(Recall(section=section, key=key), 5.0)
        assert recalled.data is None
        assert recalled.damaged
        del self.model[section, key]

    @rule()
    def reopen(self):
        self.ledger = FileLedger(self.root)

    @invariant()
    def what_is_recalled_is_what_was_remembered(self):
        for section in ("pods", "node"):
            recalled = self.ledger.perform(RecallAll(section=section), 5.0)
            assert dict(recalled.entries) == {k: v for (s, k), v in self.model.items() if s == section}
            assert recalled.damaged == ()


LedgerMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=20)
TestLedgerMachine = LedgerMachine.TestCase
