"""``images ls``, ``pull``, ``rm`` and ``gc``."""

import argparse
import sys
import time
from collections.abc import Callable

import msgspec

from api.shown.introspection import Collection, HeldImage, ImageDecision, ImageGCRow, ImageVerdict
from runtime.cli.client import Client, VerbError, decoded
from runtime.cli.podview import print_json
from runtime.cli.table import Column, Screen, TableCell, age, clean, columns_of, cut, screen_of, size, table

TICK_S = 0.25
STYLES = {
    ImageDecision.KEEP: "",
    ImageDecision.REMOVE: "warn",
    ImageDecision.REMOVED: "good",
    ImageDecision.FAILED: "bad",
}
SHORT = 12
"""Digits of an id that people quote."""


class Images(msgspec.Struct, frozen=True, kw_only=True):
    """What ``GET /images`` returns."""

    images: tuple[HeldImage, ...]


class Pulled(msgspec.Struct, frozen=True, kw_only=True):
    """What ``POST /images/pull`` returns."""

    pulled: HeldImage


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """What ``DELETE /images`` returns."""

    removed: HeldImage


def images(args: argparse.Namespace, client: Client) -> int:
    """Carry out ``nodeagent images``."""
    if args.dry_run and args.action != "gc":
        args.refuse(f"--dry-run is only for gc, not for {args.action}")
    if args.action in {"pull", "rm"} and not args.reference.strip():
        args.refuse(f"{args.action} needs the image: nodeagent images {args.action} REF")
    if args.action in {"ls", "gc"} and args.reference:
        args.refuse(f"{args.action} takes no image: {args.reference!r}")
    match args.action:
        case "pull":
            return pull(args, client)
        case "rm":
            return remove(args, client)
        case "gc":
            return collect(args, client)
        case _:
            return listing(args, client)


def listing(args: argparse.Namespace, client: Client) -> int:
    """Carry out ``nodeagent images ls``."""
    found, raw = client.get(Images, ("images",))
    if args.output == "json":
        return print_json(raw)
    if not found.images:
        print("no images")
        return 0
    sys.stdout.write(image_table(found.images, screen_of()))
    return 0


def image_table(held: tuple[HeldImage, ...], screen: Screen) -> str:
    """Return one line for each name of each image; what is the image's own stands on its first."""
    rows: list[tuple[TableCell | str, ...]] = []
    for image in sorted(held, key=lambda image: (image.names[:1] or ("~",), image.id)):
        own = (
            short(image.id),
            size(image.size_bytes),
            str(len(image.containers)) if image.containers else "-",
            age(image.seen_ago_s),
            used(image),
            "pinned" if image.pinned else "wanted" if image.wanted_by and not image.containers else "",
        )
        for at, name in enumerate(image.names or ("<none>",)):
            rows.append((tidy(name), *(own if at == 0 else ("",) * len(own))))
    columns = (
        Column("IMAGE", least=24),
        Column("ID"),
        Column("SIZE", right=True),
        Column("CONTAINERS", right=True),
        Column("SEEN", right=True, optional=True),
        Column("USED", right=True, optional=True),
        Column("KEPT"),
    )
    return table(columns, rows, screen)


def used(image: HeldImage) -> str:
    """Return when an image was last used, in a word or two."""
    if image.containers:
        return "now"
    if image.used_ago_s is not None:
        return f"{age(image.used_ago_s)} ago"
    return "-" if image.seen_ago_s is None else "never"


def pull(args: argparse.Namespace, client: Client) -> int:
    """Carry out ``nodeagent images pull``."""
    body = msgspec.json.encode({"image": args.reference})
    raw = patiently(client, "POST", ("images", "pull"), (), body, lambda _: f"pulling {args.reference}")
    if args.output == "json":
        return print_json(raw)
    image = decoded(raw, Pulled).pulled
    print(f"pulled {clean(args.reference)}: {short(image.id)}, {size(image.size_bytes)}")
    return 0


def remove(args: argparse.Namespace, client: Client) -> int:
    """Carry out ``nodeagent images rm``."""
    query = (("ref", args.reference),)
    raw = patiently(client, "DELETE", ("images",), query, b"", lambda _: f"removing {args.reference}")
    if args.output == "json":
        return print_json(raw)
    image = decoded(raw, Removed).removed
    names = ", ".join(image.names)
    print(f"removed {short(image.id)}, {size(image.size_bytes)}{': ' + clean(names) if names else ''}")
    return 0


def collect(args: argparse.Namespace, client: Client) -> int:
    """Carry out ``nodeagent images gc``; 1 when the collection failed."""
    query = (("dry_run", "true"),) if args.dry_run else ()
    raw = patiently(client, "POST", ("images", "gc"), query, b"", doing)
    ended = decoded(raw, Collection)
    if args.output == "json":
        print_json(raw)
    else:
        sys.stdout.write(collection_text(ended, screen_of()))
    if ended.failure:
        raise VerbError(f"garbage collection failed: {clean(ended.failure)}")
    return 0


def doing(client: Client) -> str:
    """Return what the agent is collecting right now."""
    try:
        now = client.get(ImageGCRow, ("images", "gc"))[0].under_way
    except VerbError:
        now = None  # Progress is optional; the answer to the request itself is still awaited.
    if now is None:
        return "collecting unused images"
    gone = sum(row.decision is ImageDecision.REMOVED for row in now.images)
    left = sum(row.decision is ImageDecision.REMOVE for row in now.images)
    return f"{gone} removed, {left} left: {now.doing}"


def collection_text(ended: Collection, screen: Screen) -> str:
    """Return a collection as a table and what it came to in a sentence."""
    columns = (
        Column("IMAGE", least=24),
        Column("ID"),
        Column("SIZE", right=True),
        Column("WHAT"),
        Column("WHY", least=24),
    )
    out = table(columns, [collection_row(row) for row in ended.images], screen) + "\n" if ended.images else ""
    note = f"note: {clean(ended.note)}\n" if ended.note else ""
    return out + outcome(ended) + "\n" + note


def collection_row(row: ImageVerdict) -> tuple[TableCell | str, ...]:
    """Return one image of a collection as a row."""
    name = tidy(row.names[0]) if row.names else "<none>"
    what = TableCell(row.decision.value, STYLES[row.decision])
    return (name, short(row.id), size(row.size_bytes), what, row.reason)


def outcome(ended: Collection) -> str:
    """Return what a collection came to."""
    wanted = ImageDecision.REMOVE if ended.dry_run else ImageDecision.REMOVED
    count = sum(row.decision is wanted for row in ended.images)
    images_ = "1 image" if count == 1 else f"{count} images"
    if not count:
        return "nothing would be removed" if ended.dry_run else "nothing was removed"
    if ended.dry_run:
        return f"{images_} would be removed, {size(ended.removed_bytes)} as the runtime counts"
    text = f"{images_} removed, {size(ended.removed_bytes)} as the runtime counts"
    if ended.freed_bytes is None:
        return text
    free = f"; {size(ended.after.available_bytes)} free now" if ended.after else ""
    freed = "no space was freed yet" if ended.freed_bytes <= 0 else f"{size(ended.freed_bytes)} freed"
    return f"{text}; {freed}{free}"


# ---------------------------------------------------------------- waiting


def patiently(
    client: Client,
    method: str,
    parts: tuple[str, ...],
    query: tuple[tuple[str, str], ...],
    body: bytes,
    what: Callable[[Client], str],
) -> bytes:
    """Make a long request; on a terminal, one line shows its progress and duration."""
    screen = screen_of(sys.stderr)
    if screen.width is None:
        with client.ask(method, parts, query, body=body, wait_s=None) as answer:
            return answer.body()
    began = time.monotonic()
    line = ProgressLine(screen)

    def tick() -> None:
        line.show(f"{what(client)} ({age(time.monotonic() - began)})")

    try:
        with client.ask(method, parts, query, body=body, wait_s=TICK_S, tick=tick) as answer:
            return answer.body()
    finally:
        line.clear()


class ProgressLine:
    """One line on a terminal that is written over and over."""

    def __init__(self, screen: Screen) -> None:
        self._screen, self._shown = screen, ""

    def show(self, text: str) -> None:
        """Replace the line; a terminal that cannot move back prints each new text once."""
        text = cut(clean(text), max(1, (self._screen.width or 80) - 1))
        if text != self._shown:
            pad = " " * max(0, columns_of(self._shown) - columns_of(text))
            sys.stderr.write(f"\r{text}{pad}")
            sys.stderr.flush()
            self._shown = text

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write(f"\r{' ' * columns_of(self._shown)}\r")
            sys.stderr.flush()
            self._shown = ""


def short(image_id: str) -> str:
    """Return an id as people quote it; one that is no digest whole."""
    digits = image_id.removeprefix("sha256:")
    return digits[:SHORT] if len(digits) == 64 and set(digits) <= set("0123456789abcdef") else image_id


def tidy(name: str) -> str:
    """Return a name with its digest cut short."""
    repository, at, digest = name.partition("@sha256:")
    return f"{repository}@{digest[:SHORT]}…" if at and len(digest) > SHORT and screen_of().width else name
