"""What differs between production and simulation: the clock, and how cells and operations are run."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from api.ids import Instant
from runtime.kernel.cell import Cell
from runtime.kernel.operations import Operation


class Executor(ABC):
    """Runs cells and operations. One cell is never run by two threads at once."""

    clock: Callable[[], Instant]

    @abstractmethod
    def ready(self, cell: Cell) -> None:
        """Run `cell` soon. Called once until the cell has found its mailbox empty."""

    @abstractmethod
    def launch(self, operation: Operation) -> None:
        """Carry out `operation` soon, off the thread of the actor if it may hold its thread."""

    @abstractmethod
    def after_effect(self, then: Callable[[], None]) -> None:
        """Call `then`, which settles an operation, as soon as that is due."""

    @abstractmethod
    def draw_seed(self) -> int:
        """Return a new random number of 63 bits."""

    @abstractmethod
    def await_until(self, condition: Callable[[], bool], deadline_s: float) -> bool:
        """Wait from outside the tree for a `condition` over deaths and answers; return whether it holds."""

    @abstractmethod
    def changed(self) -> None:
        """Take note that a condition of `await_until` may hold now."""

    @abstractmethod
    def close(self) -> None:
        """End the executor: nothing runs any more."""

    @abstractmethod
    def jump_wall(self, by_s: float) -> None:
        """Move the wall clock."""

    @property
    def threads(self) -> int:
        """Return how many threads the executor has now."""
        return 1

    def unresponsive(self, cell: Cell) -> str:  # noqa: ARG002  # an executor that can be held up overrides this
        """Return in one sentence why `cell` counts as stuck, empty when it does not."""
        return ""
