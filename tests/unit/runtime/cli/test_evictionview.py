"""``explain eviction`` in a terminal: no wider than it is, equal rankings once."""

from api.shown.evictionrow import EvictionRow, RankingRow, StandRow, ThresholdRow, VictimRow
from runtime.cli.evictionview import explanation
from runtime.cli.table import Screen

MESSAGE = (
    "The node was low on resource: memory. Threshold quantity: 100Mi, available: 79096Ki. Container main was using"
    " 167852Ki, request is 16Mi, has larger consumption of memory."
)
HOG = StandRow(pod="default/hog-n1", used=160 << 20, requested=16 << 20, priority=0, verdict="next")
SMALL = StandRow(
    pod="default/small-n1", used=7 << 20, requested=0, priority=0, verdict="number 2 in the order"
)
ROW = EvictionRow(
    conditions=("MemoryPressure, felt last 13 s ago; it is over in 2 s",),
    doing="pod default/hog-n1 has to go, with 1 s of grace; its end is waited for, 29 s more at most, and no longer",
    usage_age_s=1.0,
    thresholds=(
        ThresholdRow(
            signal="allocatableMemory.available", condition="MemoryPressure", is_bytes=True, value="100Mi",
            least=100 << 20, enough=100 << 20, available=79 << 20, capacity=300 << 20, age_s=1.0, met_s=12.0,
        ),
    ),
    short_of=(
        RankingRow(signal="memory.available", is_bytes=True, pods=(HOG, SMALL)),
        RankingRow(signal="allocatableMemory.available", is_bytes=True, pods=(HOG, SMALL)),
    ),
    if_short=(
        RankingRow(signal="nodefs.available", is_bytes=True, pods=(SMALL, HOG)),
        RankingRow(signal="nodefs.inodesFree", is_bytes=False, pods=(SMALL, HOG)),
        RankingRow(signal="imagefs.available", is_bytes=True, pods=(SMALL, HOG)),
    ),
    victims=(
        VictimRow(
            pod="default/hog-n1", signal="allocatableMemory.available", message=MESSAGE, ago_s=12.0,
            outcome="nothing of it is left",
        ),
    ),
)  # fmt: skip


def test_it_is_no_wider_than_the_terminal_and_breaks_at_words():
    lines = explanation(ROW, Screen(width=100), dry_run=True).splitlines()
    assert max(map(len, lines)) <= 100
    at = next(at for at, line in enumerate(lines) if line.startswith("Evicted:"))
    assert all(line.startswith(" " * 12) for line in lines[at + 1 :])
    assert " ".join(line.strip() for line in lines[at:]).endswith(f"{MESSAGE} -> nothing of it is left")


def test_piped_each_is_one_line():
    text = explanation(ROW, Screen(), dry_run=False)
    assert f"12s ago: {MESSAGE} -> nothing of it is left\n" in text


def test_equal_rankings_are_shown_once():
    lines = explanation(ROW, Screen(width=100), dry_run=True).splitlines()
    assert [line for line in lines if line.endswith(":") and "short of" in line] == [
        "short of memory.available and allocatableMemory.available, first to go first:",
        "if it were short of nodefs.available or imagefs.available:",
        "if it were short of nodefs.inodesFree:",
    ]
