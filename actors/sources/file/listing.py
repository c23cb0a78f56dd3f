"""Takes in what one reading of the manifest path showed: what counts at once, what waits, what is kept.

| a reading shows | and | then |
|---|---|---|
| other bytes | it is the first, or the file was announced as settled | they count |
| other bytes | not announced | they count when a reading a second later shows the same |
| no file any more | it is the first | it is gone |
| no file any more | announced, or not | it is gone when a reading a moment later misses it too |
| nothing, for it failed | | nothing is gone before two more readings miss it |
| another file system, or a path below a file | | it counts as failed; what a reading a second later shows counts |
| bytes that are no pod | | the previous pod stays |

The first reading counts at once: what it shows was nearly always written long before, a file that is being written just
then is announced when its writer is done, and waiting would delay every pod of a node that boots.

A folder on another file system than before was most often unmounted; its emptiness is not a removal of manifests.

A file that is gone waits even when it was announced, because editors save by renaming the old file away and writing a
new one: in between, the pod must not be killed.
"""

from msgspec.structs import replace

from actors.sources.file.state import FileEntry, FileState, Found, Good, Pending, Reading, change_readings
from actors.sources.manifest import FILE, Origin, read_pod
from api.ids import Instant
from api.kube.objects.pod import Pod
from api.ports.manifests import ManifestFile, ManifestListing

SETTLE_S = 1.0
"""Between two equal readings of an unannounced change."""
GONE_S = 0.1
"""Between two readings that miss a file whose removal was announced."""


def doubt_of(state: FileState, listing: ManifestListing, reading: Reading, now: Instant) -> Pending | None:
    """Return that a reading found another place than was there before, None for what can be taken in."""
    known, doubt = state.found.place if state.found is not None else "", state.readings.doubt
    expected = known or ("" if listing.missing else listing.place)
    if listing.place in ("", expected) or confirmed(doubt, listing.place, reading):
        return None
    if doubt is not None and doubt.digest == listing.place:
        return doubt
    return Pending(digest=listing.place, due_at=now + SETTLE_S)


def keep_all(state: FileState) -> FileState:
    """Return the state after a reading that showed nothing: whatever was missed before must be missed twice again."""
    files = tuple(
        replace(entry, pending=None) if entry.pending is not None and not entry.pending.digest else entry
        for entry in state.files
    )
    return change_readings(replace(state, files=files), doubt=None)


def take_listing(state: FileState, listing: ManifestListing, reading: Reading, now: Instant) -> FileState:
    """Return the state after a complete reading."""
    before, known = state.found, {entry.path: entry for entry in state.files}
    first = before is None
    files: list[FileEntry] = []
    for file in listing.files:
        entry = known.pop(file.path, None)
        taken = take_file(entry, file, origin_of(state, file.path), reading, now, first=first)
        files.append(taken)
    for entry in known.values():
        left = take_absence(entry, reading, now, first=first)
        if left is not None:
            files.append(left)
    resolved, pods = resolve(files)
    found = Found(
        pods=pods,
        ignored=listing.ignored,
        missing=listing.missing,
        place=listing.place or (before.place if before is not None else ""),
        # A periodic reading repeats the list even when it is the same: that repairs a lost one.
        sent=before is not None and before.sent and bool(reading.announced) and pods == before.pods,
    )
    return change_readings(replace(state, files=resolved, found=found), doubt=None, failure=None, failures=0)


def origin_of(state: FileState, path: str) -> Origin:
    """Return where the documents of a file come from."""
    return Origin(source=FILE, where=path, shown=path.rpartition("/")[2], node_name=state.node_name)


def take_file(
    entry: FileEntry | None,
    file: ManifestFile,
    origin: Origin,
    reading: Reading,
    now: Instant,
    *,
    first: bool,
) -> FileEntry:
    """Take in one file that a reading showed."""
    old = entry or FileEntry(path=file.path)
    if file.digest == old.digest:
        return replace(old, pending=None) if old.pending else old
    if first or file.path in reading.announced or confirmed(old.pending, file.digest, reading):
        return accept(old, file, origin)
    if old.pending is not None and old.pending.digest == file.digest:
        return old
    return replace(old, pending=Pending(digest=file.digest, due_at=now + SETTLE_S))


def take_absence(entry: FileEntry, reading: Reading, now: Instant, *, first: bool) -> FileEntry | None:
    """Take in that a known file is not there; None when that is final."""
    if first or confirmed(entry.pending, "", reading):
        return None
    due_at = now + (GONE_S if entry.path in reading.announced else SETTLE_S)
    if entry.pending is not None and not entry.pending.digest:
        due_at = min(due_at, entry.pending.due_at)
    return replace(entry, pending=Pending(digest="", due_at=due_at))


def confirmed(pending: Pending | None, digest: str, reading: Reading) -> bool:
    """Return whether this is the second reading, late enough, that shows the same."""
    return pending is not None and pending.digest == digest and reading.started_at >= pending.due_at


def accept(entry: FileEntry, file: ManifestFile, origin: Origin) -> FileEntry:
    """Absorb a file's content: its pod, or its problems while the previous pod stays."""
    taken = replace(entry, digest=file.digest, pending=None, problems=file.problems, warnings=())
    if file.document is None:
        return taken
    read = read_pod(file.document, origin)
    if read.pod is None:
        return replace(taken, problems=read.problems, warnings=read.warnings)
    good = Good(digest=file.digest, document=file.document, pod=read.pod)
    return replace(taken, good=good, warnings=read.warnings)


def resolve(files: list[FileEntry]) -> tuple[tuple[FileEntry, ...], tuple[Pod, ...]]:
    """Choose between files with one pod name or UID: who held it keeps it, else the first by path has it.

    Returns the files by path, each with its rival, and the pods that the source wants.
    """
    by_path = sorted(files, key=lambda entry: entry.path)
    owners: dict[str, str] = {}
    rivals: dict[str, str] = {}
    for entry in sorted(by_path, key=lambda entry: not keeps_name(entry)):
        if entry.good is None:
            continue
        claims = claims_of(entry.good.pod)
        owner = next((owners[claim] for claim in claims if claim in owners), None)
        if owner is None:
            owners.update(dict.fromkeys(claims, entry.path))
        else:
            rivals[entry.path] = owner
            rivals.setdefault(owner, entry.path)
    winners = frozenset(owners.values())
    resolved = tuple(
        replace(
            entry,
            held=full_name(entry.good.pod) if entry.good and entry.path in winners else "",
            rival=rivals.get(entry.path, ""),
        )
        for entry in by_path
    )
    return resolved, tuple(entry.good.pod for entry in resolved if entry.held and entry.good)


def keeps_name(entry: FileEntry) -> bool:
    """Return whether a file's pod has the name that the file already had; a file that took another name has not."""
    return entry.good is not None and entry.held == full_name(entry.good.pod)


def full_name(pod: Pod) -> str:
    """Return ``<name>_<namespace>``."""
    return f"{pod.metadata.name}_{pod.metadata.namespace}"


def claims_of(pod: Pod) -> tuple[str, str]:
    """Return what only one pod of the node may have: its full name, its UID."""
    return f"name:{full_name(pod)}", f"uid:{pod.metadata.uid}"
