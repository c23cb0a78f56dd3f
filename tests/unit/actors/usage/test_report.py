"""What UsageManager tells the operator's log."""

from actors.usage.report import report
from actors.usage.state import Part, PartProblem, UsageState


def failing(whys):
    return {part: PartProblem(failed=why) for part, why in whys.items()}


def told(before, after):
    lines = report(*(UsageState(problems=failing(whys)) for whys in (before, after)))
    return [(line.text, line.facts["what"], line.facts.get("why")) for line in lines]


def test_a_part_is_told_when_it_fails_and_when_it_is_read_again():
    assert told({}, {Part.NODE: "no /proc"}) == [("usage cannot be read", "machine", "no /proc")]
    assert told({Part.NODE: "no /proc"}, {Part.NODE: "still none"}) == []
    assert told({Part.NODE: "no /proc"}, {}) == [("usage is read again", "machine", None)]


def test_a_runtime_that_hangs_is_told_once_whatever_it_is_asked():
    one = {Part.STATS: "no answer"}
    both = {**one, Part.LISTING: "no answer"}
    assert told({}, one) == [("usage cannot be read", "runtime", "no answer")]
    assert told({}, both) == [("usage cannot be read", "runtime", "no answer")]
    assert told(one, both) == []
    assert told(both, one) == []
    assert told(both, {}) == [("usage is read again", "runtime", None)]


def test_the_rest_is_told_beside_a_runtime_that_hangs():
    runtime = {Part.IMAGES: "no answer"}
    assert told(runtime, {**runtime, Part.DISKS: "stale"}) == [
        ("usage cannot be read", "file systems", "stale")
    ]
