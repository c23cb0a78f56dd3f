"""A real folder through real threads: from a written manifest to the merge's subscriber."""

import threading
import time

import pytest

from actors.sources.file.actor import FileSource
from actors.sources.merge.actor import PodConfig
from api.ids import Path
from api.messages.podconfig import SnapshotWanted
from api.messages.supervisor import PodsSnapshot
from runtime.drivers.host.ledger import FileLedger
from runtime.drivers.host.manifests.inotify import ManifestChanges
from runtime.drivers.host.manifests.manifest import FileManifests
from runtime.kernel.actor import Actor
from runtime.kernel.pooled import PooledSystem

DEADLINE_S = 10.0
CONFIG, WATCHER = Path("/node/config"), Path("/node/watcher")

MANIFEST = """
apiVersion: v1
kind: Pod
metadata:
  name: {name}
spec:
  containers:
  - name: c
    image: {image}
"""


class Watcher(Actor):
    """Asks for the whole after each change, and keeps what it was sent."""

    def __init__(self, seen, changed):
        self.seen, self.changed = seen, changed

    def receive(self, message, ctx):
        if not isinstance(message, PodsSnapshot):
            ctx.handle(CONFIG).tell(SnapshotWanted(asked_by=WATCHER))
            return
        with self.changed:
            self.seen.append({s.pod.metadata.name: s.pod.spec.containers[0].image for s in message.pods})
            self.changed.notify_all()


@pytest.fixture
def node(tmp_path):
    folder = tmp_path / "manifests"
    folder.mkdir()
    seen, changed = [], threading.Condition()
    system = PooledSystem()
    system.spawn(Watcher.options(name="watcher").bind(seen, changed))
    system.spawn(PodConfig.options(name="config").bind(subscribers=(WATCHER,)))
    system.spawn(
        FileSource.options(name="files").bind(
            path=str(folder),
            node_name="n",
            config=CONFIG,
            manifests=FileManifests(),
            changes=ManifestChanges(str(folder)),
            ledger=FileLedger(tmp_path),
        )
    )

    def wait_for(pods):
        with changed:
            assert changed.wait_for(lambda: seen and seen[-1] == pods, DEADLINE_S), seen

    wait_for({})
    yield folder, wait_for
    system.shutdown(5.0)


def test_manifests_come_change_break_and_go(node):
    folder, wait_for = node
    (folder / "a.yaml").write_text(MANIFEST.format(name="a", image="i"))
    wait_for({"a-n": "i"})
    (folder / "a.yaml").write_text("kind: [")
    (folder / "b.yaml").write_text(MANIFEST.format(name="b", image="i"))
    wait_for({"a-n": "i", "b-n": "i"})
    (folder / "a.yaml").write_text(MANIFEST.format(name="a", image="j"))
    wait_for({"a-n": "j", "b-n": "i"})
    (folder / "a.yaml").unlink()
    wait_for({"b-n": "i"})


def test_a_manifest_is_seen_in_far_less_than_a_second(node):
    folder, wait_for = node
    took = []
    for number in range(5):
        wanted = {f"p{n}-n": "i" for n in range(number + 1)}
        started_at = time.monotonic()
        (folder / f"p{number}.yaml").write_text(MANIFEST.format(name=f"p{number}", image="i"))
        wait_for(wanted)
        took.append(time.monotonic() - started_at)
    # Some milliseconds on an idle machine; the bound only has to tell an announcement from a rescan.
    assert min(took) < 0.9, took


def test_a_hundred_manifests_at_once_all_arrive(node):
    folder, wait_for = node
    for number in range(100):
        (folder / f"p{number}.yaml").write_text(MANIFEST.format(name=f"p{number}", image="i"))
    wait_for({f"p{n}-n": "i" for n in range(100)})
