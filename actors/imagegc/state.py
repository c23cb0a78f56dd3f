"""What ImageGCManager knows: when each image was seen and used, the round under way, and what the last rounds did.

```text
            .---------- one more inspection before each removal ----------.
            v                                                             |
due --> Inspecting --image to remove--> Dropping --removed--> Settling ---+  (space is the goal: wait until it is free)
            |                               '---------------- refused, failed, or space is not the goal --> Inspecting
            '--nothing (more) to remove, or the inspection failed--> over
```
"""

from collections.abc import Mapping

import msgspec

from actors.imagegc.inspection import ImageInspection, InspectionCall
from actors.rules.nodeevent import NodeEvent
from api.ids import Instant, OpId, Path
from api.ports.images import ImageFs, ImageRow
from api.shown.introspection import Collection, ImageVerdict

RUNS = 64
"""Runs that may wait; of more the newest are kept."""


class ImageGCPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When which images go."""

    high_percent: int = 85
    """Usage of the image file system from which on space is made; 100: never."""
    low_percent: int = 80
    min_age_s: float = 120.0
    max_age_s: float = 0.0
    """Unused for longer: gone whatever the usage; 0: never."""
    period_s: float = 300.0
    sandbox_image: str = ""
    """Kept, for runtimes that do not pin it themselves."""


class ImageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one image's past."""

    first_detected: Instant
    last_used: Instant | None = None


class Inspecting(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Asking the runtime; nothing is removed before every answer is there."""

    inspection: ImageInspection
    since: Instant
    """When it began: what was used after that may not show in it."""
    asked: Mapping[OpId, InspectionCall] = {}


class Dropping(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The image puller was asked to remove one image."""

    image: ImageRow
    why: str
    until: Instant
    lost: str = ""
    """Why no answer will come, empty while one may."""


class Settling(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An image is gone; its space may show later."""

    expect_bytes: int
    available_before: int
    until: Instant
    next_at: Instant
    wait_s: float
    asked: OpId | None = None


Step = Inspecting | Dropping | Settling


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One round under way."""

    runs: tuple[str, ...] = ()
    everything: bool = False
    since: Instant
    step: Step
    inspections: int = 0
    space: bool = False
    """Space is to be made, down to the low threshold."""
    settled: bool = False
    """All removals of a round for everything have had the time to show."""
    before: ImageFs | None = None
    after: ImageFs | None = None
    unmeasured: str = ""
    trouble: str = ""
    """What makes the round a failure though it goes on."""
    absurd: str = ""
    """What cannot be about the file system's figures: no space is made by them."""
    gone: tuple[ImageVerdict, ...] = ()
    """Removed, in order."""
    spared: Mapping[str, ImageVerdict] = {}
    """By id: refused or failed, not tried again in this round."""
    verdicts: tuple[ImageVerdict, ...] = ()
    """Of the last inspection."""


class ImageGCState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that ImageGCManager knows."""

    policy: ImageGCPolicy = ImageGCPolicy()
    node_name: str = ""
    deadline_s: float = 120.0
    """Of one call of the runtime."""

    records: Mapping[str, ImageRecord] = {}
    mounts: Mapping[str, tuple[str, ...]] = {}
    round: Round | None = None
    waiting: tuple[str, ...] = ()
    """Runs asked for, not begun."""
    askers: Mapping[str, Path] = {}
    """By run: the actor that gets its end. Users read it in the state."""
    puller: str = ""
    """Why the image puller is known not to run in this round, empty otherwise."""
    next_round_at: Instant = float("-inf")
    failures: int = 0
    """Rounds in a row that failed."""
    note: str = ""
    """Why the space of images is not managed."""
    last: Collection | None = None
    collected: tuple[Collection, ...] = ()
    """The last requested rounds, oldest first."""
    node_events: tuple[NodeEvent, ...] = ()
    """The last node events, oldest first; a repeated one counts up and moves to the end."""
    rounds: int = 0
    removed: int = 0
