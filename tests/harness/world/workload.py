"""What the world wants and does: pods drawn from a seed, and the hands that meddle with manifests and containers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random
from typing import Any

import msgspec

from actors.sources.manifest import FILE, HTTP, Origin, read_pod
from api.ports.images import ImageRow
from api.ports.runtime import HOST_IMAGE
from tests.harness.world.probescript import Probe, document, draw_probes

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

STARTS: tuple[dict[str, object], ...] = (
    {"exec": {"command": ["exit", "0"]}},
    {"exec": {"command": ["sleep", "2", "exit", "0"]}},
    {"exec": {"command": ["sleep", "1", "exit", "3"]}},
    {"exec": {"command": ["missing"]}},
    {"exec": {"command": ["run"]}},
    {"sleep": {"seconds": 1}},
    {"httpGet": {"path": "/up", "port": 8080}},
)
"""postStart hooks: well, slow, failing, of a program that does not exist, hanging, a pause, a GET that nobody answers."""
STOPS: tuple[dict[str, object], ...] = (
    {"exec": {"command": ["exit", "0"]}},
    {"exec": {"command": ["sleep", "3", "exit", "0"]}},
    {"exec": {"command": ["sleep", "9", "exit", "0"]}},
    {"exec": {"command": ["exit", "1"]}},
    {"exec": {"command": ["run"]}},
    {"sleep": {"seconds": 1}},
    {"httpGet": {"path": "/down", "port": 8080}},
)
"""preStop hooks, in the same way. A pause is never longer than the shortest grace."""


PREPARING: tuple[tuple[str, ...], ...] = (
    ("sleep", "2", "exit", "0"),
    ("sleep", "2", "exit", "0"),
    ("exit", "0"),
    ("sleep", "30", "exit", "0"),
    ("slow-term", "12", "sleep", "90", "exit", "0"),
    ("sleep", "1", "exit", "4"),
    ("sleep", "5", "oom"),
    ("run",),
)
BESIDE: tuple[tuple[str, ...], ...] = (
    ("run",),
    ("run",),
    ("slow-term", "12", "code", "7"),
    ("sleep", "40", "exit", "0"),
    ("sleep", "3", "exit", "37"),
    ("sleep", "650", "exit", "1"),
)
VOLUMES: dict[str, dict[str, object]] = {
    "disk": {"emptyDir": {}},
    "memory": {"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
    "node": {"hostPath": {"path": "/srv/data", "type": "DirectoryOrCreate"}},
}


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
    hooks: tuple[tuple[int | None, int | None], ...] = ()
    """Per container: which of `STARTS` and of `STOPS` it has, None for none."""
    deadline_s: int | None = None
    cpu: str = ""
    """What its first container requests."""
    priority: int | None = None
    host_port: int = 0
    inits: tuple[tuple[bool, tuple[str, ...], str], ...] = ()
    """Of each init container: whether it is a sidecar, its script, its image."""
    all_again: bool = False
    """Whether some ends of the first container restart all of them."""
    volumes: tuple[str, ...] = ()
    """Names of `VOLUMES`, each mounted by every container."""
    probes: tuple[tuple[Probe, ...], ...] = ()
    """Of each container, or none at all."""
    memory: str = field(default="", repr=False)
    """What its first container may take, when it requests CPU. What draws from the text of a pod does not see it."""
    restarts_for_cpu: bool = field(default=False, repr=False)
    """Whether its first container asks to be restarted when its CPU changes."""

    def document(self) -> bytes:
        """Return the manifest."""
        containers: list[dict[str, Any]] = [
            {"name": f"c{index}", "image": image, "command": list(script), **self.mounts()}
            for index, (script, image) in enumerate(zip(self.scripts, self.images, strict=True))
        ]
        for container, probes in zip(containers, self.probes, strict=False):
            container.update(document(probes))
        if self.all_again:
            rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [3, 37, 139]}}
            containers[0] |= {"restartPolicy": self.policy, "restartPolicyRules": [rule]}
        for container, (start, stop) in zip(containers, self.hooks, strict=False):
            hooks = {"postStart": STARTS[start]} if start is not None else {}
            container["lifecycle"] = hooks | ({"preStop": STOPS[stop]} if stop is not None else {})
        if self.cpu:
            limits = {"limits": {"memory": self.memory}} if self.memory else {}
            containers[0]["resources"] = {"requests": {"cpu": self.cpu}} | limits
        if self.restarts_for_cpu:
            containers[0]["resizePolicy"] = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
        if self.host_port:
            containers[0]["ports"] = [{"containerPort": self.host_port, "hostPort": self.host_port}]
        spec: dict[str, Any] = {"restartPolicy": self.policy, "containers": containers}
        if self.priority is not None:
            spec["priority"] = self.priority
        if self.deadline_s is not None:
            spec["activeDeadlineSeconds"] = self.deadline_s
        if self.grace_s is not None:
            spec["terminationGracePeriodSeconds"] = self.grace_s
        if self.inits:
            spec["initContainers"] = [
                {"name": f"i{index}", "image": image, "command": list(script), **self.mounts()}
                | ({"restartPolicy": "Always"} if sidecar else {})
                for index, (sidecar, script, image) in enumerate(self.inits)
            ]
        if self.unsupported:
            spec["hostUsers"] = False
        if self.volumes:
            spec["volumes"] = [{"name": name, **VOLUMES[name]} for name in self.volumes]
        meta: dict[str, object] = {
            "name": self.name,
            "namespace": "default",
            "annotations": {"revision": str(self.revision)},
        }
        if self.fixed_uid:
            meta["uid"] = self.fixed_uid
        return msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    def mounts(self) -> dict[str, object]:
        """Return how each container mounts the volumes: the first whole, of the others a part."""
        parts = [{"subPath": "part"} if number else {} for number in range(len(self.volumes))]
        mounts = [
            {"name": name, "mountPath": f"/{name}", **part}
            for name, part in zip(self.volumes, parts, strict=True)
        ]
        return {"volumeMounts": mounts} if mounts else {}

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


def draw_wish(random: Random, name: str, asks: Random) -> Wish:
    """Draw a pod; `asks` is for what it asks of the node."""
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
    wish = Wish(
        name=name,
        policy=policy,
        grace_s=random.choice((None, 1, 2, 5, 10, 10, 30, 45)),
        scripts=scripts,
        images=images,
        unsupported=random.random() < 0.03,
        cpu=asks.choice(("100m", "250m", "800m", "1500m", "5")) if asks.random() < 0.5 else "",
        priority=asks.choice((2_000_000_000, 2_000_001_000, -5)) if asks.random() < 0.25 else None,
        host_port=asks.choice((8080, 9090)) if asks.random() < 0.1 else 0,
    )
    volumes = draw_volumes(Random(f"volumes {wish}"))
    again = Random(f"{wish}/again").random() < 0.15
    wish = replace(wish, volumes=volumes, inits=draw_inits(Random(f"{wish}/inits")), all_again=again)
    return with_hooks(wish)


def draw_inits(random: Random) -> tuple[tuple[bool, tuple[str, ...], str], ...]:
    """Draw the init containers of a pod, of which most have none; from a source of its own, which changes no other draw."""
    if random.random() < 0.7:
        return ()
    drawn = []
    for _ in range(random.choice((1, 1, 2, 2, 3))):
        sidecar = random.random() < 0.4
        image = random.choice((HOST_IMAGE, "memory.local/any:1", random.choice(REGISTRY).names[0]))
        drawn.append((sidecar, random.choice(BESIDE if sidecar else PREPARING), image))
    return tuple(drawn)


def with_hooks(wish: Wish) -> Wish:
    """Return the pod, perhaps with hooks and a deadline: drawn from what it is, so that no other draw shifts."""
    random = Random(f"hooks/{wish}")
    if random.random() < 0.25:
        pairs = tuple(
            (
                random.randrange(len(STARTS)) if random.random() < 0.5 else None,
                random.randrange(len(STOPS)) if random.random() < 0.7 else None,
            )
            for _ in wish.scripts
        )
        wish = replace(wish, hooks=pairs)
    if random.random() < 0.12:
        wish = replace(wish, deadline_s=random.choice((40, 120, 300)))
    return wish


def draw_volumes(random: Random) -> tuple[str, ...]:
    """Draw the volumes of a pod; most have none."""
    if random.random() < 0.7:
        return ()
    return tuple(random.sample(sorted(VOLUMES), random.choice((1, 1, 2, 3))))


def probed(random: Random, wish: Wish) -> Wish:
    """Return a pod with probes, for some."""
    if random.random() < 0.65:
        return wish
    return replace(wish, probes=tuple(draw_probes(random) for _ in wish.scripts))
