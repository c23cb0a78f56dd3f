"""The world's hands: what people, kernels and disks do to a node while its agent works."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import replace
from random import Random

import msgspec

from api.ids import Uid
from api.ports.runtime import RuntimeContainerState
from tests.harness.check.check import Checker
from tests.harness.world.resize import resizable, resized
from tests.harness.world.workload import FOLDER, REGISTRY, URL, Wish, draw_wish
from tests.harness.world.world import World

ACTS = 45
FIRST_ACT_S = 8.0


class Hands:
    """Does things to the world at drawn instants, and knows which pods the sources want."""

    many = ACTS

    def __init__(self, world: World, checker: Checker, random: Random) -> None:
        self.world, self.checker, self.random = world, checker, random
        self.asks = Random(f"{world.seed}/asks")
        self.resizes = Random(f"{world.seed}/resizes")
        self.files: dict[str, Wish] = {}
        """By path: the last right content."""
        self.broken: set[str] = set()
        self.listed: list[Wish] = []
        """What the URL lists."""
        self.url_fine = True
        self.story: list[str] = []
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._made = 0
        whims = Random(random.random())
        world.runtime.vanishes = lambda: not (world.seam and world.seam.healed) and whims.random() < 0.04

    # ------------------------------------------------------------ time

    def at(self, instant: float, act: Callable[[], None]) -> None:
        """Plan an act."""
        self._number += 1
        heapq.heappush(self._due, (instant, self._number, act))

    def next_at(self) -> float:
        """Return when the next act is due."""
        return self._due[0][0] if self._due else float("inf")

    def act_due(self) -> None:
        """Do what is due."""
        while self._due and self._due[0][0] <= self.world.time.now():
            heapq.heappop(self._due)[2]()

    def tell(self, text: str) -> None:
        """Remember an act."""
        self.story.append(f"{self.world.time.now():.3f} {text}")
        if self.world.trace is not None:
            self.world.trace(f"{self.world.time.now():.6f} world: {text}")

    def draw_acts(self, until: float) -> None:
        """Plan the whole run."""
        random = self.random
        weights = [weight for _, weight in self.acts()]
        acts = [act for act, _ in self.acts()]
        for _ in range(self.many):
            self.at(random.uniform(FIRST_ACT_S, until - 20), random.choices(acts, weights)[0])
        self.at(random.uniform(60, until - 60), self.kill_agent)
        if random.random() < 0.5:
            self.at(random.uniform(40, until - 60), self.stop_agent)
        if random.random() < 0.12:
            self.at(random.uniform(100, until - 60), self.reboot)
        for _ in range(self.resizes.randint(4, 14)):
            self.at(self.resizes.uniform(40, until - 20), self.resize_one)
        for second in range(25, int(until), 30):
            self.at(float(second), self.world.ledger.write_back)

    def acts(self) -> tuple[tuple[Callable[[], None], int], ...]:
        """Return what may be done, with weights."""
        return (
            (self.add_one, 6),
            (self.remove_one, 6),
            (self.revise_one, 6),
            (self.break_one, 3),
            (self.mend_one, 3),
            (self.rewrite_one, 2),
            (self.double_one, 2),
            (self.restore_one, 2),
            (self.change_url, 4),
            (self.spoil_url, 2),
            (self.kill_container, 8),
            (self.kill_sandbox, 3),
            (self.remove_container, 3),
            (self.remove_sandbox, 2),
            (self.lose_track, 1),
            (self.remove_image, 4),
            (self.add_foreign, 1),
            (self.fill_disk, 2),
            (self.damage_ledger, 1),
            (self.jump_clock, 1),
            (self.cut_streams, 2),
        )

    # ------------------------------------------------------------ what is wanted

    def wanted(self) -> frozenset[Uid]:
        """Return the UIDs that the sources want, once nothing is broken or doubled."""
        assert not self.broken
        files = {Uid(wish.uid("file", path)) for path, wish in self.files.items()}
        urls = {Uid(wish.http_uid()) for wish in self.listed} if self.world.settings.manifest_url else set()
        return frozenset(files | urls)

    def account(self) -> None:
        """Note since when each pod is wanted without doubt."""
        names: dict[str, int] = {}
        for wish in self.files.values():
            names[wish.name] = names.get(wish.name, 0) + 1
        sure = {
            Uid(wish.uid("file", path))
            for path, wish in self.files.items()
            if path not in self.broken and names[wish.name] == 1
        }
        if self.url_fine and self.world.settings.manifest_url:
            sure |= {Uid(wish.http_uid()) for wish in self.listed}
        since = self.checker.wanted_since
        for uid in list(since):
            if uid not in sure:
                del since[uid]
        for uid in sure:
            since.setdefault(uid, self.world.time.now())

    def put(self, path: str, wish: Wish) -> None:
        """Write a manifest."""
        self.files[path] = wish
        self.broken.discard(path)
        self.world.manifests.put(path, wish.document())
        self.account()

    def add(self, wish: Wish) -> None:
        """Want a pod, from a file or, when there is one, sometimes from the URL."""
        if self.world.settings.manifest_url and self.random.random() < 0.25:
            self.listed.append(wish)
            self.publish()
        else:
            if self.random.random() < 0.1:
                wish = replace(wish, fixed_uid=f"fixed-{wish.name}")
            wish = resizable(self.world.seed, wish)
            self.put(wish.path, wish)
        self.tell(f"want {wish}")

    def publish(self) -> None:
        """Let the URL answer with what it lists."""
        items = [msgspec.json.decode(wish.document()) for wish in self.listed]
        body = msgspec.json.encode({"apiVersion": "v1", "kind": "PodList", "items": items})
        self.url_fine = True
        self.world.urls.put(URL, body)
        self.account()

    # ------------------------------------------------------------ acts on sources

    def pick_path(self) -> str | None:
        """Draw a file."""
        return self.random.choice(sorted(self.files)) if self.files else None

    def add_one(self) -> None:
        """Add a pod, unless there are many."""
        if len(self.files) + len(self.listed) < 40:
            self._made += 1
            self.add(draw_wish(self.random, f"q{self._made:02}", self.asks))

    def remove_one(self) -> None:
        """Remove a manifest."""
        path = self.pick_path()
        if path is not None and len(self.files) > 5:
            wish = self.files.pop(path)
            self.broken.discard(path)
            self.world.manifests.remove(path)
            self.account()
            self.tell(f"remove {path}")
            if self.random.random() < 0.3:
                # The same content comes back under the same UID, perhaps before its first life is over.
                self.at(
                    self.world.time.now() + self.random.choice((0.05, 2.0, 30.0)),
                    lambda: self.bring_back(path, wish),
                )

    def bring_back(self, path: str, wish: Wish) -> None:
        """Put a removed manifest back."""
        if path not in self.files:
            self.put(path, wish)
            self.tell(f"bring back {path}")

    def revise_one(self) -> None:
        """Change a manifest: another UID of the same name, or a change in place when the UID is fixed."""
        path = self.pick_path()
        if path is not None:
            wish = self.files[path].revised()
            if wish.fixed_uid and self.random.random() < 0.5:
                wish = replace(wish, images=tuple("memory.local/any:1" for _ in wish.images))
            self.put(path, wish)
            self.tell(f"revise {path} to {wish.revision}")

    def resize_one(self) -> None:
        """Let a pod ask for other amounts in place."""
        paths = sorted(p for p, wish in self.files.items() if wish.fixed_uid and wish.cpu)
        if paths:
            path = self.resizes.choice(paths)
            before = self.files[path]
            wish = resized(self.resizes, before)
            self.put(path, wish)
            self.checker.coverage.note("world", "resize asked")
            self.tell(
                f"resize {path}: {before.cpu} {before.memory or '-'} -> {wish.cpu} {wish.memory or '-'}"
            )

    def break_one(self) -> None:
        """Break a manifest: its pod is to be kept."""
        path = self.pick_path()
        if path is not None:
            self.broken.add(path)
            text = self.random.choice((b"{", b"", b'{"kind": "Pod"}', b"[]"))
            self.world.manifests.put(path, text)
            self.account()
            self.tell(f"break {path}")

    def mend_one(self) -> None:
        """Mend a broken manifest."""
        if self.broken:
            path = self.random.choice(sorted(self.broken))
            self.put(path, self.files[path])
            self.tell(f"mend {path}")

    def rewrite_one(self) -> None:
        """Write the same content once more."""
        path = self.pick_path()
        if path is not None and path not in self.broken:
            self.put(path, self.files[path])
            self.tell(f"rewrite {path}")

    def double_one(self) -> None:
        """Write a second file with the name of another's pod."""
        path = self.pick_path()
        if path is not None:
            wish = self.files[path]
            self.put(f"{FOLDER}/zz-{wish.name}.json", replace(wish.revised(), fixed_uid=""))
            self.tell(f"double {path}")

    def restore_one(self) -> None:
        """Put a file with a name that is no manifest, as editors do."""
        self.world.manifests.put(f"{FOLDER}/.p00.json.swp", b"droppings")
        self.tell("drop an editor's file")

    def change_url(self) -> None:
        """Add, change or remove a pod of the URL."""
        if not self.world.settings.manifest_url:
            return
        roll = self.random.random()
        if roll < 0.4 and len(self.listed) + len(self.files) < 40:
            self._made += 1
            self.listed.append(draw_wish(self.random, f"u{self._made:02}", self.asks))
        elif self.listed:
            index = self.random.randrange(len(self.listed))
            if roll < 0.7:
                self.listed[index] = self.listed[index].revised()
            else:
                del self.listed[index]
        self.publish()
        self.tell(f"the URL lists {[wish.name for wish in self.listed]}")

    def spoil_url(self) -> None:
        """Let the URL be down, refuse, or answer nonsense: its last pods are to be kept."""
        if not self.world.settings.manifest_url:
            return
        self.url_fine = False
        match self.random.randrange(4):
            case 0:
                self.world.urls.remove(URL)
            case 1:
                self.world.urls.put(URL, b"", status=500)
            case 2:
                self.world.urls.put(URL, b"", status=403)
            case _:
                self.world.urls.put(URL, b'{"kind": "PodList"')
        self.account()
        self.tell("spoil the URL")

    def remove_all(self) -> None:
        """Want nothing any more."""
        for path in sorted(self.files):
            self.world.manifests.remove(path)
        self.files.clear()
        self.listed.clear()
        self.publish()
        self.tell("remove everything")

    # ------------------------------------------------------------ acts on containers

    def ours(self, *states: RuntimeContainerState) -> list[str]:
        """Return the ids of our containers in these states."""
        return [
            c.id
            for pod in self.world.runtime.snapshot().pods
            if pod.ours
            for c in pod.containers
            if c.state in states
        ]

    def kill_container(self) -> None:
        """Send a signal to a running container."""
        running = self.ours(RuntimeContainerState.RUNNING)
        if running:
            container, signal = self.random.choice(running), self.random.choice((9, 11, 15))
            self.world.runtime.kill_container(container, signal)
            self.tell(f"signal {signal} to {container}")

    def kill_sandbox(self) -> None:
        """Kill a pod's sandbox with all in it."""
        pods = [pod for pod in self.world.runtime.snapshot().pods if pod.ours]
        if pods:
            uid = self.random.choice(pods).uid
            self.world.runtime.kill_sandbox(uid)
            self.tell(f"kill the sandbox of {uid}")

    def remove_container(self) -> None:
        """Remove a container with another tool."""
        there = self.ours(RuntimeContainerState.RUNNING, RuntimeContainerState.EXITED)
        if there:
            container = self.random.choice(there)
            self.world.runtime.remove_behind_our_back(container)
            self.tell(f"remove {container} behind the agent's back")

    def remove_sandbox(self) -> None:
        """Remove a sandbox with another tool."""
        sandboxes = [s.id for pod in self.world.runtime.snapshot().pods if pod.ours for s in pod.sandboxes]
        if sandboxes:
            sandbox = self.random.choice(sandboxes)
            self.world.runtime.remove_behind_our_back(sandbox)
            self.tell(f"remove sandbox {sandbox} behind the agent's back")

    def lose_track(self) -> None:
        """Let the runtime lose track of a container."""
        running = self.ours(RuntimeContainerState.RUNNING)
        if running:
            container = self.random.choice(running)
            self.world.runtime.lose_track(container)
            self.tell(f"lose track of {container}")

    def remove_image(self) -> None:
        """Remove a fetched image with another tool, whoever needs it."""
        fetched = [row.id for row in self.world.runtime._world.images if row in REGISTRY]
        if fetched:
            image = self.random.choice(fetched)
            self.world.runtime.remove_image(image)
            self.tell(f"remove image {image} behind the agent's back")

    def add_foreign(self) -> None:
        """Add a pod of another agent."""
        self.world.runtime.add_foreign_pod("kube-system", "other")
        self.tell("add a foreign pod")

    # ------------------------------------------------------------ acts on the machine

    def fill_disk(self) -> None:
        """Fill the disk for a while."""
        self.world.ledger.full = True
        self.at(self.world.time.now() + self.random.uniform(2, 60), self.free_disk)
        self.tell("fill the disk")

    def free_disk(self) -> None:
        """Free the disk."""
        self.world.ledger.full = False
        self.tell("free the disk")

    def damage_ledger(self) -> None:
        """Damage a page of the ledger."""
        section = self.random.choice(("pods", "status"))
        keys = sorted(self.world.ledger.read(section))
        if keys:
            key = self.random.choice(keys)
            self.world.ledger.damage(section, key)
            self.world.damaged.add(key)
            self.tell(f"damage {section}/{key}")

    def jump_clock(self) -> None:
        """Set the wall clock."""
        by_s = self.random.choice((-3600.0, -5.0, 7.0, 900.0))
        self.world.time.jump_wall(by_s)
        self.checker.wall_jumped()
        self.tell(f"wall clock {by_s:+g} s")

    def cut_streams(self) -> None:
        """End all streams, as a restart of the runtime does."""
        self.world.runtime.events.cut()
        self.world.manifests.changes.cut()
        self.tell("cut the streams")

    def kill_agent(self) -> None:
        """Kill the agent."""
        self.checker.coverage.note("kill", "SIGKILL")
        self.world.kill()
        self.tell("kill the agent")

    def stop_agent(self) -> None:
        """Stop the agent in good order."""
        if self.world.alive:
            self.checker.coverage.note("kill", "SIGTERM")
            before = self.world.runtime.running()
            overdue = self.world.stop()
            if overdue:
                self.checker.fail("a clean stop ends every actor in time", f"{overdue}")
            if before and not self.world.runtime.running():
                self.checker.fail("stopping the agent changes no pod", "everything stopped with it")
            self.tell("stop the agent")

    def reboot(self) -> None:
        """Cut the power."""
        self.checker.coverage.note("kill", "power")
        self.world.reboot()
        self.tell("cut the power")

    def heal(self) -> None:
        """Make everything whole and quiet."""
        self._due.clear()
        self.free_disk()
        for path in sorted(self.broken):
            self.put(path, self.files[path])
        for path in sorted(p for p in self.files if p.startswith(f"{FOLDER}/zz-")):
            del self.files[path]
            self.world.manifests.remove(path)
        self.publish()
        self.account()
        self.tell("heal")
