"""Errors of the actor system itself, in Ray's words."""

from api.errors import NotFoundError, UnavailableError
from api.ids import Path


class ActorDiedError(NotFoundError):
    """Final: the actor is gone; `cause` says of what, empty when it was stopped or never there."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(f"actor {path} is dead: {cause or 'stopped, or never started'}")
        self.path = path
        self.cause = cause


class ActorUnavailableError(UnavailableError):
    """It may come back: the actor is being restarted, or does not answer; `cause` says why."""

    def __init__(self, path: Path, cause: str) -> None:
        super().__init__(f"actor {path} is unavailable: {cause}; try again later")
        self.path = path
        self.cause = cause
