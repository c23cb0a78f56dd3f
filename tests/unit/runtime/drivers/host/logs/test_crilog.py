"""The CRI log format: however records interleave and bytes are cut, each stream's lines come out as written."""

import io
import itertools
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.errors import DeniedError, NotFoundError
from api.shown.introspection import LogQuery, LogTarget
from runtime.drivers.host.logs.containerlog import find_tail, open_log
from runtime.drivers.host.logs.crilog import (
    LINE_LIMIT_BYTES,
    Joiner,
    Splitter,
    nanoseconds,
    nine_digits,
    parse,
)

STAMP = b"2026-05-01T12:00:00.123456789Z"
TEXT = st.binary(max_size=12).map(lambda raw: raw.replace(b"\n", b"."))


@st.composite
def logs(draw):
    """Draw records of two streams whose lines are whole at the end: (file bytes, lines by when they ended)."""
    open_ = {b"stdout": b"", b"stderr": b""}
    unfinished = set()
    records, ended = [], []
    for _ in range(draw(st.integers(0, 14))):
        stream = draw(st.sampled_from(sorted(open_)))
        tag = draw(st.sampled_from([b"P", b"F", b"F:x"]))
        text = draw(TEXT)
        records.append(STAMP + b" " + stream + b" " + tag + b" " + text + b"\n")
        open_[stream] += text
        unfinished.add(stream)
        if tag != b"P":
            ended.append((stream, open_[stream]))
            open_[stream] = b""
            unfinished.discard(stream)
    for stream in sorted(unfinished):
        records.append(STAMP + b" " + stream + b" F \n")
        ended.append((stream, open_[stream]))
    return b"".join(records), ended


def joined(data: bytes, cuts=(), *, timestamps=False) -> bytes:
    splitter, joiner = Splitter(), Joiner(timestamps=timestamps)
    edges = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    out = []
    for start, end in itertools.pairwise(edges):
        out += [piece for record in splitter.feed(data[start:end]) for piece in joiner.feed(record)]
    out += [piece for record in splitter.end() for piece in joiner.feed(record)]
    return b"".join([*out, *joiner.end()])


@given(logs(), st.lists(st.integers(0, 400), max_size=6))
def test_every_line_comes_out_whole_and_in_its_streams_order(log, cuts):
    data, ended = log
    lines = joined(data, cuts).split(b"\n")[:-1]
    assert sorted(lines) == sorted(text for _, text in ended)
    for stream in (b"stdout", b"stderr"):
        mine = [text for of, text in ended if of == stream]
        remaining = iter(lines)
        assert all(text in remaining for text in mine)


@given(logs())
def test_timestamps_stand_once_before_each_line(log):
    data, ended = log
    lines = joined(data, timestamps=True).split(b"\n")[:-1]
    assert sorted(lines) == sorted(STAMP + b" " + text for _, text in ended)


@given(logs(), st.integers(0, 6))
def test_a_tail_is_the_lines_that_ended_last_each_of_them_whole(log, wanted):
    data, ended = log
    out = joined_tail(data, wanted)
    expected = [text for _, text in ended][-wanted:] if wanted else []
    assert sorted(out.split(b"\n")[:-1]) == sorted(expected)


def joined_tail(data: bytes, wanted: int) -> bytes:
    file = os.memfd_create("log")
    try:
        os.write(file, data)
        start, skip = find_tail(file, wanted)
    finally:
        os.close(file)
    splitter, joiner = Splitter(), Joiner(timestamps=False)
    out = []
    for record in splitter.feed(data[start:]):
        if skip.get(record.stream, 0):
            skip[record.stream] -= record.whole
        else:
            out += joiner.feed(record)
    return b"".join(out)


def test_a_tail_crosses_blocks_and_does_not_count_an_unterminated_end():
    line = STAMP + b" stdout F " + b"x" * 16000 + b"\n"
    data = line * 40 + STAMP + b" stdout F killed while wri"
    assert joined_tail(data, 12).count(b"\n") == 12


def test_a_line_without_end_is_passed_on_in_parts_of_bounded_size():
    data = STAMP + b" stdout F " + b"y" * (5 * LINE_LIMIT_BYTES) + b"\n" + STAMP + b" stdout F next\n"
    splitter, joiner = Splitter(), Joiner(timestamps=True)
    pieces = []
    stream = io.BytesIO(data)
    while chunk := stream.read(8192):
        pieces += [piece for record in splitter.feed(chunk) for piece in joiner.feed(record)]
    assert max(map(len, pieces)) < 2 * LINE_LIMIT_BYTES
    assert b"".join(pieces) == STAMP + b" " + b"y" * (5 * LINE_LIMIT_BYTES) + b"\n" + STAMP + b" next\n"


def test_one_streams_endless_line_does_not_hold_back_the_other_for_ever():
    joiner = Joiner(timestamps=False)
    out = list(joiner.feed(parse(STAMP + b" stdout P progress")))
    for at in range(400):
        out += joiner.feed(parse(STAMP + b" stderr F " + b"%d " % at + b"z" * 1000))
    assert b"".join(out).count(b"\n") > 250


def test_a_line_in_no_known_format_is_shown_as_it_is():
    assert joined(b"panic: not a CRI line\n", timestamps=True) == b"panic: not a CRI line\n"


@pytest.mark.parametrize(
    ("stamp", "nine"),
    [
        (b"2026-05-01T12:00:00Z", b"2026-05-01T12:00:00.000000000Z"),
        (b"2026-05-01T12:00:00.5+01:00", b"2026-05-01T12:00:00.500000000+01:00"),
        (b"2026-05-01T12:00:00.123456789-07:00", b"2026-05-01T12:00:00.123456789-07:00"),
    ],
)
def test_a_time_always_has_nine_digits(stamp, nine):
    assert nine_digits(stamp) == nine


def test_times_are_compared_to_the_nanosecond_and_across_zones():
    assert nanoseconds(b"2026-05-01T13:00:00.000000001+01:00") == nanoseconds(b"2026-05-01T12:00:00Z") + 1
    assert nanoseconds(b"yesterday") is None


def written(tmp_path, data: bytes, *, running=False) -> LogTarget:
    folder = tmp_path / "pod" / "app"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "0.log").write_bytes(data)
    return LogTarget(path=str(folder / "0.log"), root=str(tmp_path / "pod"), running=running)


def read(target: LogTarget, **query) -> bytes:
    log = open_log(target, LogQuery(**query), running=lambda: False)
    try:
        return b"".join(log)
    finally:
        log.close()


LINES = b"".join(b"2026-05-01T12:00:%02d.0Z stdout F line %d\n" % (at, at) for at in range(10))


def test_since_leaves_out_older_lines_and_the_limit_cuts_in_the_middle(tmp_path):
    target = written(tmp_path, LINES)
    since = nanoseconds(b"2026-05-01T12:00:08Z")
    assert read(target, since_ns=since) == b"line 8\nline 9\n"
    assert read(target, tail=1, since_ns=since) == b"line 9\n"
    assert read(target, tail=0) == b""
    assert read(target, limit_bytes=9) == b"line 0\nli"


def test_an_ended_container_ends_the_following(tmp_path):
    assert read(written(tmp_path, LINES), follow=True, tail=2) == b"line 8\nline 9\n"


@pytest.mark.parametrize("where", ["pod", "pod/app", "pod/app/0.log"])
def test_no_symbolic_link_below_the_log_root_is_followed(tmp_path, where):
    target = written(tmp_path, LINES)
    planted = tmp_path / where
    planted.rename(tmp_path / "elsewhere")
    planted.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DeniedError, match="symbolic link"):
        read(target)


def test_a_pipe_in_place_of_the_log_is_refused_at_once(tmp_path):
    target = written(tmp_path, LINES)
    (tmp_path / "pod/app/0.log").unlink()
    os.mkfifo(tmp_path / "pod/app/0.log")
    with pytest.raises(DeniedError, match="regular file"):
        read(target)


@pytest.mark.parametrize("path", ["/etc/passwd", "{root}/../x", "{root}", "{root}2/app/0.log"])
def test_a_path_that_leaves_the_pods_folder_is_refused(tmp_path, path):
    root = str(tmp_path / "pod")
    with pytest.raises(DeniedError, match="not inside"):
        read(LogTarget(path=path.format(root=root), root=root, running=False))


def test_a_missing_log_says_so_and_leaks_no_descriptor(tmp_path):
    target = written(tmp_path, LINES)
    (tmp_path / "pod/app/0.log").unlink()
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(NotFoundError, match="wrote none yet"):
        read(target)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
