"""Termination messages: where to read them and how they are published (reference ``runtime-cri`` section 10.3)."""

from api.ids import Uid
from api.ports.podfiles import ReadEnding
from api.ports.runtime import (
    ANNOTATION_TERMINATION_PATH,
    ANNOTATION_TERMINATION_POLICY,
    RuntimeContainer,
    RuntimeContainerState,
)

ALL_MESSAGES_BYTES = 12_288
"""Limit of all termination messages of a pod together."""
CANNOT_RUN = "ContainerCannotRun"


def termination_message_call(uid: Uid, instance: RuntimeContainer) -> ReadEnding | None:
    """Return the call that reads an ended instance's termination message, None when there is nothing to read.

    Path and fallback policy are in the instance's own annotations: its pod may have changed since.
    """
    if instance.state is not RuntimeContainerState.EXITED:
        return None
    annotations = dict(instance.annotations)
    path = instance.termination_log if annotations.get(ANNOTATION_TERMINATION_PATH) else ""
    falls_back = (
        annotations.get(ANNOTATION_TERMINATION_POLICY) == "FallbackToLogsOnError"
        and instance.exit_code != 0
        and instance.reason != CANNOT_RUN
        and bool(instance.log_path)
    )
    if not path and not falls_back:
        return None
    return ReadEnding(
        uid=uid,
        container=instance.name,
        termination_log=path,
        log_path=instance.log_path if falls_back else "",
        fall_back=falls_back,
    )


def termination_message(runtime: str, left: str) -> str:
    """Return the runtime's message and the container's own, joined."""
    return ": ".join(text for text in (runtime, left) if text)


def cut_message(message: str, containers: int) -> str:
    """Return a message cut to its share of `ALL_MESSAGES_BYTES`."""
    limit = ALL_MESSAGES_BYTES // max(containers, 1)
    return message.encode()[:limit].decode(errors="ignore")
