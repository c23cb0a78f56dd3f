"""What a call over gRPC is: its path, what goes out, what comes back."""

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar


class Wired(Protocol):
    """A generated message."""

    def SerializeToString(self) -> bytes:  # noqa: N802 the library's name
        """Return its bytes."""
        ...


Q = TypeVar("Q", bound=Wired)
R = TypeVar("R")


@dataclass(frozen=True)
class Rpc(Generic[Q, R]):
    """One method of a service: `Q` goes out, `R` (one, or many when `streams`) comes back."""

    path: str
    request: type[Q]
    reply: type[R]
    streams: bool = False

    @property
    def name(self) -> str:
        """Return the method's name alone."""
        return self.path.rpartition("/")[2]

    def decode(self, data: bytes) -> R:
        """Return the reply that these bytes are."""
        parse: Any = self.reply
        reply: R = parse.FromString(data)
        return reply
