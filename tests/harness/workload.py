"""What the world wants and does: pods drawn from a seed, and the hands that meddle with manifests and containers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random

import msgspec

from actors.sources.manifest import FILE, HTTP, Origin, read_pod
from api.containers import HOST_IMAGE
from api.images import ImageRow

NODE = "sim"
FOLDER = "/etc/manifests"
URL = "http://manifests.sim/pods"

REGISTRY = tuple(
    ImageRow(id=f"sha256:{number:064x}", names=(f"registry.sim/app:{number}",), size_bytes=1 << 20)
    for number in range(0x20, 0x26)
)
"""What can be fetched."""

ENDLESS: tuple[tuple[str, ...], ...] = (
    ("run",),
    ("run",),
    ("run",),
    ("ignore-term", "run"),
    ("slow-term", "3"),
    ("slow-term", "12", "code", "7"),
    ("slow-term", "90"),
    ("print", "hello", "stdout", "run"),
)
ENDING: tuple[tuple[str, ...], ...] = (
    ("sleep", "2", "exit", "0"),
    ("sleep", "40", "exit", "0"),
    ("sleep", "200", "exit", "0"),
    ("sleep", "3", "exit", "37"),
    ("sleep", "1", "crash", "11"),
    ("sleep", "25", "oom"),
    ("exit", "3"),
    ("missing",),
    ("sleep", "650", "exit", "1"),
)


@dataclass(frozen=True)
class Wish:
    """One pod as somebody wrote it down."""

    name: str
    policy: str
    grace_s: int | None
    scripts: tuple[tuple[str, ...], ...]
    images: tuple[str, ...]
    revision: int = 0
    unsupported: bool = False
    fixed_uid: str = ""

    def document(self) -> bytes:
        """Return the manifest."""
        spec: dict[str, object] = {
            "restartPolicy": self.policy,
            "containers": [
                {"name": f"c{index}", "image": image, "command": list(script)}
                for index, (script, image) in enumerate(zip(self.scripts, self.images, strict=True))
            ],
        }
        if self.grace_s is not None:
            spec["terminationGracePeriodSeconds"] = self.grace_s
        if self.unsupported:
            spec["initContainers"] = [{"name": "first", "image": HOST_IMAGE, "command": ["exit", "0"]}]
        meta: dict[str, object] = {
            "name": self.name,
            "namespace": "default",
            "annotations": {"revision": str(self.revision)},
        }
        if self.fixed_uid:
            meta["uid"] = self.fixed_uid
        return msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    def revised(self) -> Wish:
        """Return the next version, which is another UID unless that is fixed."""
        return replace(self, revision=self.revision + 1)

    def uid(self, source: str, where: str) -> str:
        """Return the UID that this wish has from this place."""
        return uid_of(self, source, where)

    def file_uid(self) -> str:
        """Return the UID that this wish has from its own file."""
        return self.uid(FILE, self.path)

    def http_uid(self) -> str:
        """Return the UID that this wish has from the URL."""
        return self.uid(HTTP, URL)

    @property
    def path(self) -> str:
        """Return the file that it is written to."""
        return f"{FOLDER}/{self.name}.json"


@lru_cache(maxsize=1024)
def uid_of(wish: Wish, source: str, where: str) -> str:
    """Return the UID that a wish has from a place: read once, for it is asked after each act of the world's hands."""
    origin = Origin(source=source, where=where, shown=where, node_name=NODE)
    pod = read_pod(wish.document(), origin).pod
    assert pod is not None, f"the workload wrote a manifest that is no pod: {wish.document()!r}"
    return pod.metadata.uid


def draw_wish(random: Random, name: str) -> Wish:
    """Draw a pod."""
    policy = random.choice(("Always", "Always", "OnFailure", "Never"))
    count = random.choice((1, 1, 1, 2, 2, 3))
    likely_to_end = 0.3 if policy == "Always" else 0.6
    scripts = tuple(
        random.choice(ENDING if random.random() < likely_to_end else ENDLESS) for _ in range(count)
    )
    images = tuple(
        "nowhere.local/none:1"
        if random.random() < 0.02
        else random.choice((HOST_IMAGE, "memory.local/any:1", random.choice(REGISTRY).names[0]))
        for _ in range(count)
    )
    return Wish(
        name=name,
        policy=policy,
        grace_s=random.choice((None, 1, 2, 5, 10, 10, 30, 45)),
        scripts=scripts,
        images=images,
        unsupported=random.random() < 0.03,
    )
