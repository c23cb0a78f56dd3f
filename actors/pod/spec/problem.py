"""What keeps a configuration from being made, and what is worth a warning.

Inside this package a part that cannot be made raises `Unfit`. The two functions that actors call, `sandbox_spec` and
`container_spec`, catch it and return a `ConfigProblem` instead of a spec, so that nobody can forget to look.
"""

from typing import NoReturn

import msgspec

CONTAINER = "CreateContainerConfigError"
SANDBOX = "CreatePodSandboxError"


class ConfigProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a sandbox or container cannot be configured. Nothing was asked of the runtime."""

    reason: str
    """To publish: the container's waiting reason, or the pod's reason for a sandbox."""
    message: str


class ConfigWarning(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was cut or fell back: reason and message of a Warning event of the pod."""

    reason: str
    message: str


class Unfit(Exception):  # noqa: N818  # not an error of ours: the pod asks for what cannot be
    """Raised inside the package for a configuration that cannot be; carries the problem."""

    def __init__(self, problem: ConfigProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def refuse(message: str, reason: str = CONTAINER) -> NoReturn:
    """Raise `Unfit`."""
    raise Unfit(ConfigProblem(reason=reason, message=message))
