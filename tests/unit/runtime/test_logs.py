"""The agent's own log: levels by path, facts as fields, no secrets, one line for each thing."""

import io
import logging

import msgspec
import pytest

from api.errors import RejectedError
from api.ports.runtime import EnvironmentVariable
from api.ports.urls import FetchManifests
from runtime.logs import LEVELS, log_factory, setup


@pytest.fixture
def lines():
    """Give a function that sets the log up and returns what it wrote since."""
    stream = io.StringIO()

    def begin(form="text", level="INFO"):
        setup(form=form, level=level, stream=stream)
        return lambda: stream.getvalue().splitlines()

    yield begin
    for row in LEVELS.levels():
        LEVELS.set_level(row.path, "" if row.path else "INFO")
    setup(stream=io.StringIO())


def test_a_line_of_text_has_level_path_text_and_facts(lines):
    written = lines()
    log_factory("/node/pods/u1").info(
        "pod evicted", reason="MemoryPressure", freed_bytes=1048576, note="two words"
    )
    line = written()[0]
    assert (
        line[12:]
        == ' INFO  /node/pods/u1  pod evicted  reason=MemoryPressure freed_bytes=1048576 note="two words"'
    )


def test_a_line_of_json_is_one_object_with_the_facts_as_fields(lines):
    written = lines("json")
    log_factory("/node").warning("look at this", level="x", ages=(1, 2.5))
    line = msgspec.json.decode(written()[0])
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "WARNING",
        "actor": "/node",
        "text": "look at this",
        "fact_level": "x",
        "ages": [1, 2.5],
    }


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_and_unknown_objects_are_not_written(lines, form):
    written = lines(form)
    log_factory("/node").error(
        "cannot fetch",
        call=FetchManifests(url="http://x/", headers=(("Authorization", "hunter2"),)),
        env=(EnvironmentVariable("PASSWORD", "hunter2"),),
        bearer_token="hunter2",
        headers={"Authorization": "hunter2"},
        body=b"hunter2",
    )
    assert "hunter2" not in "".join(written())
    assert "FetchManifests http://x/" in written()[0]


def test_a_value_cannot_forge_a_second_line_or_move_the_cursor(lines):
    written = lines()
    log_factory("/node").info("said", what='x\n12:00:00.000 ERROR /node  all is lost\x1b[2J {0} "')
    assert len(written()) == 1
    assert "\x1b" not in written()[0]


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_file_name_that_is_no_utf8_still_gets_its_line(lines, form):
    written = lines(form)
    log_factory("/node").warning("manifest ignored", path="/m/\udcff.yaml")
    assert "udcff.yaml" in written()[0]


def test_the_level_of_a_path_holds_for_all_below_it_and_can_change_while_running(lines):
    written = lines()
    log, other = log_factory("/node/pods/u1"), log_factory("/node/podsters")
    log.debug("one")
    LEVELS.set_level("/node/pods", "debug")
    log.debug("two")
    other.debug("three")
    LEVELS.set_level("/node/pods", "")
    log.debug("four")
    assert [line.split("  ")[-1] for line in written()] == ["two"]


def test_an_unknown_level_is_refused_by_name():
    with pytest.raises(RejectedError, match="LOUD"):
        LEVELS.set_level("/node", "LOUD")
    with pytest.raises(RejectedError):
        LEVELS.set_level("", "")


def test_libraries_come_out_here_too_from_warning_up(lines):
    written = lines()
    logging.getLogger("urllib3").warning("pool is full, %s", "discarding")
    logging.getLogger("urllib3").info("a body")
    assert len(written()) == 1
    assert "library=urllib3" in written()[0]


def test_a_closed_stream_does_not_stop_the_agent(lines, capfd):
    lines()
    stream = io.StringIO()
    setup(stream=stream)
    stream.close()
    log_factory("/node").error("nobody reads this")
    assert capfd.readouterr().err == ""
