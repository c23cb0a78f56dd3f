"""Which files of a manifest folder are read: all of them as a kubelet does, but for what an editor leaves for a moment or for good."""

import re

BACKUP_ENDS = (
    "~",
    "#",
    ".bak",
    ".old",
    ".orig",
    ".rej",
    ".save",
    ".swo",
    ".swp",
    ".swx",
    ".tmp",
    "___jb_old___",
    "___jb_tmp___",
)
BACKUP_PARTS = (".dpkg-", ".rpm", ".ucf-")
PROBES = re.compile(r"4913|sed[A-Za-z0-9]{6}")
"""What vim makes to see whether it may write, and what ``sed -i`` writes before it renames it."""


def why_ignored(name: str) -> str:
    """Return why a file of this name is not read, empty for one that is."""
    if name.startswith("."):
        return "its name begins with a dot"
    named_so = name.endswith(BACKUP_ENDS) or any(part in name for part in BACKUP_PARTS)
    if named_so or PROBES.fullmatch(name):
        return "the name is that of a backup file of an editor or package manager"
    return ""
