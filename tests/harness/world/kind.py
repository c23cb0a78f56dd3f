"""The kinds of seeds: what node it is that runs in the virtual world."""

from enum import StrEnum


class Kind(StrEnum):
    """A kind of seeds, by the flag of `bin/simulate` that asks for it."""

    PLAIN = ""
    EVICTION = "eviction"
    CLUSTER = "cluster"

    @property
    def flag(self) -> str:
        """Return the flag with a space after it, empty for plain seeds."""
        return f"--{self.value} " if self.value else ""

    @property
    def words(self) -> str:
        """Return what a summary says of the seeds."""
        match self:
            case Kind.PLAIN:
                return ""
            case Kind.EVICTION:
                return " of a node that runs short"
            case Kind.CLUSTER:
                return " of a node of a cluster"
