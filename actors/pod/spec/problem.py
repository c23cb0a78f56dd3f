"""Errors and warnings of a configuration.

Inside this package an invalid part raises `Unfit`. The two functions that actors call, `sandbox_spec` and
`container_spec`, catch it and return a `ConfigProblem` instead of a spec, so that no caller can forget to check.
"""

from typing import NoReturn

import msgspec

CONTAINER = "CreateContainerConfigError"
SANDBOX = "CreatePodSandboxError"


class ConfigProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a sandbox or container cannot be configured. The runtime was not called."""

    reason: str
    """To publish: the container's waiting reason, or the pod's reason for a sandbox."""
    message: str


class ConfigWarning(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was cut or fell back: reason and message of a Warning event of the pod."""

    reason: str
    message: str


class Unfit(Exception):  # noqa: N818  # an invalid pod, no error of ours
    """Raised inside the package for an invalid configuration; has the problem."""

    def __init__(self, problem: ConfigProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def refuse(message: str, reason: str = CONTAINER) -> NoReturn:
    """Raise `Unfit`."""
    raise Unfit(ConfigProblem(reason=reason, message=message))
