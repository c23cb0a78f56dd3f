"""The CRI log writer: format, parts of long lines, rotation, and a disk without room."""

import re
import resource
import stat

import pytest

from runtime.drivers.embedded.keeper.log import LogWriter

RECORD = re.compile(rb"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z) (stdout|stderr) ([PF]) (.*)$", re.DOTALL)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "web" / "0.log"


@pytest.fixture
def size_limit():
    """Have the kernel refuse files over a size, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def records(path):
    lines = path.read_bytes().split(b"\n")
    assert lines.pop() == b""
    found = [RECORD.match(line) for line in lines]
    assert all(found), lines
    return [(m[2].decode(), m[3].decode(), m[4]) for m in found]


def test_a_line_has_time_stream_and_tag(path):
    log = LogWriter(str(path))
    log.write("stdout", b"hello\nwor")
    log.write("stderr", b"oops\n")
    log.write("stdout", b"ld\n")
    assert records(path) == [("stdout", "F", b"hello"), ("stderr", "F", b"oops"), ("stdout", "F", b"world")]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    log.close()


def test_empty_lines_are_lines(path):
    log = LogWriter(str(path))
    log.write("stdout", b"\n\n")
    log.close()
    assert records(path) == [("stdout", "F", b"")] * 2


@pytest.mark.parametrize("chunk", [1000, 16384, 70000])
def test_a_long_line_is_written_in_parts_of_16_kib(path, chunk):
    text = bytes(65 + i % 26 for i in range(40000)) + b"\n"
    log = LogWriter(str(path))
    for start in range(0, len(text), chunk):
        log.write("stdout", text[start : start + chunk])
    log.close()
    found = records(path)
    assert [tag for _, tag, _ in found] == ["P", "P", "F"]
    assert [len(content) for _, _, content in found] == [16384, 16384, 40000 - 2 * 16384]
    assert b"".join(content for _, _, content in found) + b"\n" == text


def test_a_line_without_end_is_partial_when_the_log_closes(path):
    log = LogWriter(str(path))
    log.write("stdout", b"prompt> ")
    assert records(path) == [] if path.stat().st_size else True
    log.close()
    assert records(path) == [("stdout", "P", b"prompt> ")]


def test_a_rotated_file_is_left_and_a_new_one_begun(path):
    log = LogWriter(str(path))
    log.write("stdout", b"one\n")
    path.rename(path.with_suffix(".1"))
    log._look_at = 0.0
    log.write("stdout", b"two\n")
    log.close()
    assert records(path.with_suffix(".1")) == [("stdout", "F", b"one")]
    assert records(path) == [("stdout", "F", b"two")]


def test_without_room_whole_lines_are_dropped_counted_and_named_when_room_is_back(path, size_limit):
    log = LogWriter(str(path))
    log.write("stdout", b"before\n")
    size_limit(path.stat().st_size + 70)
    log.write("stdout", b"fits\ntorn apart by the limit\n")
    log.write("stderr", b"dropped\n" * 5)
    assert log.dropped == 6
    assert log.trouble
    assert [content for _, _, content in records(path)] == [b"before", b"fits"]
    size_limit(1 << 20)
    log.write("stdout", b"after\n")
    log.close()
    before, fits, said, after = records(path)
    assert (before[2], fits[2], after[2]) == (b"before", b"fits", b"after")
    assert said[0] == "stderr"
    assert b"6 log lines were dropped" in said[2]
    assert log.trouble == ""
    assert log.dropped == 6


def test_a_log_folder_that_cannot_be_made_drops_lines_and_takes_them_up_again(tmp_path):
    blocker = tmp_path / "web"
    blocker.write_text("in the way")
    log = LogWriter(str(blocker / "0.log"))
    log.write("stdout", b"lost\n")
    assert log.dropped == 1
    assert "Not a directory" in log.trouble or "File exists" in log.trouble
    blocker.unlink()
    log.write("stdout", b"kept\n")
    log.close()
    assert [content for _, _, content in records(blocker / "0.log")][-1] == b"kept"


def test_a_link_in_the_logs_place_is_not_followed(path, tmp_path):
    path.parent.mkdir()
    target = tmp_path / "precious"
    path.symlink_to(target)
    log = LogWriter(str(path))
    log.write("stdout", b"lost\n")
    log.close()
    assert not target.exists()
    assert log.dropped == 1
