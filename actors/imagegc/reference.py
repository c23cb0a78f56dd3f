"""Which image a text means: ids, digests and names brought to one form, for comparison only.

Everything that matches counts (trap T21): an image taken for used by mistake costs space, the other mistake costs a pod.
"""

import re
from collections.abc import Iterable, Mapping

from actors.rules.imagename import forms, split_tag
from api.ports.images import ImageRow

_ID = re.compile(r"(?:[a-z0-9]+:)?(?P<hex>[0-9a-f]{64,})")
_SHORT = re.compile(r"(?:sha256:)?(?P<hex>[0-9a-f]{7,63})")
"""An id cut short, as people quote it; the shortest that `git` would write."""
SANDBOX_NAME = "pause"
"""Last word of the repository that every runtime takes the process of a sandbox from, unless told otherwise."""


def is_sandbox_image(image: ImageRow, configured: str) -> bool:
    """Return whether sandboxes are made from an image: it is the configured one, or of the name that runtimes use."""
    wanted = set(forms(configured))
    for name in image.names:
        if wanted & set(forms(name)) or split_tag(name.partition("@")[0])[0].endswith(f"/{SANDBOX_NAME}"):
            return True
    return bool(wanted & set(forms(image.id)))


class ImageIndex:
    """Finds images by any of their names. Built from one listing; never part of a state."""

    def __init__(self, images: Iterable[ImageRow]) -> None:
        self._rows: Mapping[str, ImageRow] = {image.id: image for image in images}
        self._ids: dict[str, set[str]] = {}
        self._hexes: list[tuple[str, str]] = []
        for image in self._rows.values():
            for text in (image.id, *image.names):
                for form in forms(text):
                    self._ids.setdefault(form, set()).add(image.id)
            found = _ID.fullmatch(image.id)
            if found:
                self._hexes.append((found["hex"], image.id))

    def find(self, text: str) -> tuple[ImageRow, ...]:
        """Return every image that `text` may mean, by id: the exact ones, else those whose id begins so."""
        ids = {found for form in forms(text) for found in self._ids.get(form, ())}
        short = _SHORT.fullmatch(text)
        if not ids and short:
            ids = {image_id for digits, image_id in self._hexes if digits.startswith(short["hex"])}
        return tuple(self._rows[found] for found in sorted(ids))
