"""There are pairs enough, and for each part of a pod's life some."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
WHOLE = [path for path in HERE.rglob("*.yaml") if not path.name.endswith(".out.yaml")]
SECTIONS = {
    "init containers and sidecars": ("6.2", "6.4", "6.5"),
    "probes": ("9.2", "9.3", "9.4"),
    "hooks and termination": ("6.8", "8", "13.2"),
    "admission": ("12",),
    "status": ("10.1", "10.2", "10.3", "10.4", "10.5"),
    "resize": ("14.3", "14.5", "14.6"),
    "steps of a start": ("6.3", "6.7"),
}
"""Sections of the reference of a pod's life, of which each has pairs."""


def test_there_are_at_least_a_hundred_and_twenty():
    assert len(WHOLE) >= 120


@pytest.mark.parametrize("part", sorted(SECTIONS))
def test_each_section_of_a_part_is_cited(part):
    rules = [path.read_text().partition("\n")[0] for path in WHOLE]
    for section in SECTIONS[part]:
        assert any(cites(rule, section) for rule in rules), section


def cites(rule, section):
    """Tell whether a pair's first line names a section of the reference of a pod's life."""
    _, named, rest = rule.partition(f"pod-lifecycle {section}")
    return bool(named) and not rest[:1].isdigit() and rest[:2] not in {f".{digit}" for digit in range(10)}
