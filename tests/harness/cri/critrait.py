"""In what container runtimes differ, as far as an agent can see it: the table that personalities are made from."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Traits:
    """In what runtimes differ."""

    name: str
    version: str
    bare_ids: bool = False
    """Whether image ids come without ``sha256:``."""
    listed_ref_is_digest: bool = False
    pull_gives_digest: bool = False
    has_image_id: bool = False
    events: str = "stream"
    """``stream``: to every subscriber; ``ends``: the stream ends at once, as where it is switched off."""
    status_has_containers: bool = False
    repeat_returns_the_first: bool = False
    """Whether asking again for what exists waits for it and returns its id, instead of failing."""
    unknown_code: int = 255
    start_failure_is_shown: bool = True
    """Whether a container that could not be started is shown with 128, StartError and why."""
    exec_timeout_is_an_answer: bool = False
    short_stop_shortens: bool = False
    """Whether a stop goes on without its caller, and a later one may only shorten it."""
    systemd: bool = False
    sandbox_resources: str = "works"
    """``works``, or how ``UpdatePodSandboxResources`` fails: UNKNOWN with this text."""
    host_address: str = ""
    """What a sandbox on the host's network shows as its address."""
    lag_s: float = 0.04
    """How long after a process's end the runtime notices: until then it says RUNNING."""
    bare_exit_s: float = 0.0
    """How long an exit is shown without its time and code."""


CONTAINERD_2 = Traits(name="containerd", version="v2.2.0", sandbox_resources="not implemented yet")
CRIO = Traits(
    name="cri-o",
    version="1.34.0",
    bare_ids=True,
    listed_ref_is_digest=True,
    pull_gives_digest=True,
    has_image_id=True,
    events="ends",
    repeat_returns_the_first=True,
    unknown_code=-1,
    start_failure_is_shown=False,
    exec_timeout_is_an_answer=True,
    short_stop_shortens=True,
    systemd=True,
    host_address="192.0.2.1",
    bare_exit_s=0.02,
)
CRIO_WITH_EVENTS = replace(CRIO, events="stream", status_has_containers=True)
"""CRI-O with ``enable_pod_events``."""
