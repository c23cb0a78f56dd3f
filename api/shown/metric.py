"""Metrics as data, and their text for Prometheus (exposition format 0.0.4)."""

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


class MetricKind(StrEnum):
    """What a metric is."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Sample(msgspec.Struct, frozen=True):
    """One value of a metric. `at_ms`: the time of the sample, where it is older than the answer."""

    value: float
    labels: Labels = ()
    at_ms: int | None = None
    suffix: str = ""
    """``_bucket``, ``_sum`` and ``_count`` of a histogram."""


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """All samples of one metric; a family without samples is left out."""

    name: str
    kind: MetricKind
    help: str
    samples: tuple[Sample, ...] = ()


def histogram(labels: Labels, bounds: Sequence[float], counts: Sequence[int], total: float) -> list[Sample]:
    """Return the samples of one histogram; `counts` has one bucket more than there are `bounds`."""
    samples, so_far = [], 0
    for bound, count in zip((*map(repr, bounds), "+Inf"), counts, strict=True):
        so_far += count
        samples.append(Sample(so_far, (*labels, ("le", bound)), suffix="_bucket"))
    samples.append(Sample(total, labels, suffix="_sum"))
    samples.append(Sample(so_far, labels, suffix="_count"))
    return samples


def render(families: Iterable[Family]) -> bytes:
    """Return these metrics as text, in their order."""
    lines: list[str] = []
    for family in families:
        if not family.samples:
            continue
        lines.append(f"# HELP {family.name} {_plain(family.help)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        lines += [_line(family.name, sample) for sample in family.samples]
    return ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace") if lines else b""


def _line(name: str, sample: Sample) -> str:
    labels = ",".join(f'{key}="{_quoted(value)}"' for key, value in sample.labels)
    at = "" if sample.at_ms is None else f" {sample.at_ms}"
    return f"{name}{sample.suffix}{f'{{{labels}}}' if labels else ''} {_number(sample.value)}{at}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) or not value.is_integer() else str(int(value))


def _plain(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _plain(text).replace('"', '\\"')
