"""``explain eviction`` in a terminal: no wider than it is, equal rankings once."""

from api.shown.evictionrow import EvictionRow, RankingRow, StandRow, ThresholdRow, VictimRow
from runtime.cli.evictionview import explanation
from runtime.cli.table import Screen

MESSAGE = (
    "The node was low on resource: memory. Threshold quantity: 100Mi, available: 79096Ki. Container main was using"
    " 167852Ki, request is 16Mi, has larger consumption of memory."
)
HOG = StandRow(pod="default/hog-n1", used=160 << 20, requested=16 << 20, priority=0, verdict="next")
SMALL = StandRow(pod="default/small-n1", used=7 << 20, requested=0, priority=0, verdict="number 2")
ROW = EvictionRow(
    conditions=("MemoryPressure, last observed 13 s ago; ends in 2 s",),
    doing="evicting pod default/hog-n1, grace period 1 s: terminating; timeout in 29 s, and then the next reading decides",
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
            outcome="removed",
        ),
    ),
)  # fmt: skip


def test_it_is_no_wider_than_the_terminal_and_breaks_at_words():
    lines = explanation(ROW, Screen(width=100), dry_run=True).splitlines()
    assert max(map(len, lines)) <= 100
    at = next(at for at, line in enumerate(lines) if line.startswith("Evicted:"))
    assert all(line.startswith(" " * 12) for line in lines[at + 1 :])
    assert " ".join(line.strip() for line in lines[at:]).endswith(f"{MESSAGE} -> removed")


def test_piped_each_is_one_line():
    text = explanation(ROW, Screen(), dry_run=False)
    assert f"12s ago: {MESSAGE} -> removed\n" in text


def test_equal_rankings_are_shown_once():
    lines = explanation(ROW, Screen(width=100), dry_run=True).splitlines()
    assert [line for line in lines if line.endswith(":") and "order of eviction" in line] == [
        "order of eviction for memory.available and allocatableMemory.available:",
        "order of eviction if nodefs.available or imagefs.available were short:",
        "order of eviction if nodefs.inodesFree were short:",
    ]
