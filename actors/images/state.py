"""What ImagePuller knows: the wants of pods and the progress of each, look-ups, pulls and removals in flight.

```text
a want:  Due --look-up--> LookingUp --present----------------------> Ready
          |                  '--absent--> (Never) Waiting --alarm--> Due
          '--Always------------> Fetching --pulled, looked up------> Ready
                                    '--failed--> Waiting --alarm---> Due
a pull:  Queued --slot, token--> Reading (the node's credentials) --> Pulling (one credential after the other) --> Checking
```
"""

from collections.abc import Mapping

import msgspec

from actors.images.keyring import CredentialCandidate
from actors.rules.retry import Retry
from api.errors import Failure
from api.ids import Instant, OpId, Path, Uid
from api.messages.images import Credential, ImageWant
from api.messages.pod import ImageReport
from api.ports.confinement import Pairs
from api.ports.images import PULL_LIMIT_S, ImageRow

Place = tuple[Uid, str]
"""A container of a pod."""


class PullerPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How many images are pulled, how often."""

    at_once: int | None = 1
    """Pulls side by side; None: as many as are wanted."""
    per_second: float = 5.0
    """Pulls that may begin per second in the long run; 0: as many as are wanted."""
    burst: int = 10
    """Pulls that may begin at once after a quiet time."""


# ---------------------------------------------------------------- wants


class StepDue(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The next step is taken now, or as soon as a removal of the image is over."""


class LookingUp(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Waits for a look-up."""

    op: OpId


class Fetching(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Waits for a pull."""

    pull: int


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The image is there."""

    names: tuple[str, ...]
    """Its reference, id and names: what may not be removed."""


class Retrying(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something is wrong; it is tried again at `retry_at`."""

    reason: str
    message: str
    since: Instant
    retry_at: Instant | None
    """None: only another want changes anything."""
    back_off_at: Instant | None = None
    """From then on it is shown as ImagePullBackOff."""


Step = StepDue | LookingUp | Fetching | Ready | Retrying


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One container's want."""

    uid: Uid
    want: ImageWant
    image: str
    """With its default tag; empty when the name is none."""
    annotations: Pairs = ()
    credentials: tuple[Credential, ...] = ()
    since: Instant
    step: Step
    retry: Retry = Retry()
    """Of what fails before a pull: a look-up, or the search for an image that is not pulled."""
    told: ImageReport | None = None
    """The current report."""


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """Keeps an image after the want for it ended: its container may be too new to be listed."""

    uid: Uid
    names: tuple[str, ...]
    ended_at: Instant


class PullBackoff(msgspec.Struct, frozen=True, kw_only=True):
    """The failed pulls of one image for one pod."""

    uid: Uid
    image: str
    retry: Retry
    failed_at: Instant
    reason: str
    message: str


# ---------------------------------------------------------------- what is under way


class ImageLookup(msgspec.Struct, frozen=True, kw_only=True):
    """A look-up."""

    image: str
    since: Instant


class Queued(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Waits for a slot and a token."""


class ReadingCredentials(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Reads the node's credentials."""

    op: OpId


class Pulling(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The runtime pulls."""

    op: OpId
    offers: tuple[CredentialCandidate, ...]
    """All that fit, in the order in which they are tried; none: it is tried without."""
    failures: tuple[Failure, ...] = ()
    """Of those that were tried."""


class Checking(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Pulled; the image is looked up."""

    op: OpId
    ref: str


PullStep = Queued | ReadingCredentials | Pulling | Checking


class Pull(msgspec.Struct, frozen=True, kw_only=True):
    """One pull, for all who want this image with these credentials."""

    image: str
    credentials: tuple[Credential, ...]
    """The pods' that fit the image."""
    annotations: Pairs = ()
    """Of the pod that asked first."""
    asked_at: Instant
    begun_at: Instant = 0.0
    ended_at: Instant = 0.0
    step: PullStep = Queued()
    problems: tuple[str, ...] = ()
    """Why credentials of the node could not be read."""
    abandoned: bool = False
    """No pod wants it any more; it was cancelled and has not ended."""


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """A removal under way."""

    id: str
    names: tuple[str, ...]
    asked_by: tuple[Path, ...]
    since: Instant


class PullFinished(msgspec.Struct, frozen=True, kw_only=True):
    """A pull that ended."""

    pull: int
    image: str
    at: Instant
    took_s: float
    waited_s: float
    size_bytes: int = 0
    failure: str = ""
    problems: tuple[str, ...] = ()


class ImagesState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that ImagePuller knows."""

    policy: PullerPolicy = PullerPolicy()
    deadline_s: float = 120.0
    """Of one call of the runtime other than a pull."""
    pull_deadline_s: float = PULL_LIMIT_S
    """Of one pull: one that hangs keeps its place among those at once, and all that wait behind it, no longer."""

    entries: Mapping[Place, Entry] = {}
    leases: tuple[Lease, ...] = ()
    backoffs: Mapping[tuple[Uid, str], PullBackoff] = {}
    lookups: Mapping[OpId, ImageLookup] = {}
    pulls: Mapping[int, Pull] = {}
    """By number, in the order in which they were asked for."""
    removals: Mapping[OpId, Removal] = {}
    leftover: frozenset[OpId] = frozenset()
    """Operations of an earlier incarnation that have not ended: their effect is unknown."""
    restarted_at: Instant | None = None
    """When this incarnation began, None for the first one."""
    watched: frozenset[Uid] = frozenset()
    tokens: float = 0.0
    """Pulls that may begin now, as of `counted_at`."""
    counted_at: Instant | None = None
    """None: no pull has begun yet."""
    next_pull: int = 1
    finished: tuple[PullFinished, ...] = ()
    """The last pulls, oldest first."""

    @property
    def at_work(self) -> tuple[Pull, ...]:
        """Return the pulls that take a place: those that read credentials or that the runtime works on."""
        return tuple(
            pull for pull in self.pulls.values() if isinstance(pull.step, ReadingCredentials | Pulling)
        )


def row_names(row: ImageRow, *more: str) -> tuple[str, ...]:
    """Return every name of an image: its id, its names and `more`."""
    return tuple(dict.fromkeys((row.id, *row.names, *more)))
