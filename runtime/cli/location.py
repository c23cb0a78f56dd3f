"""Default root directory of the agent and of the verbs."""

import os

SOCKET_NAME = "nodeagent.sock"


def default_root_dir() -> str:
    """Return ``/var/lib/nodeagent`` for root, else ``$XDG_STATE_HOME/nodeagent``."""
    if os.geteuid() == 0:
        return "/var/lib/nodeagent"
    state = os.environ.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):  # the specification ignores a relative one
        state = os.path.expanduser("~/.local/state")  # noqa: PTH111 - pathlib costs each verb its import
    return state + "/nodeagent"


def socket_path(root_dir: str) -> str:
    """Return the admin socket of an agent with this root folder."""
    return f"{root_dir.rstrip('/')}/{SOCKET_NAME}"
