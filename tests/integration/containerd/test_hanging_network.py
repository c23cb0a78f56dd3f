"""A network plugin that hangs for some pods of a real containerd: the others start as if it did not."""

import json
import time

import pytest

from tests.harness.part import CNI_PLUGINS

pytestmark = pytest.mark.real
FOREVER = "exec sleep 1000000"
WELL = tuple(f"well-{number}" for number in range(10))
STUCK = tuple(f"stuck-{number}" for number in range(10))
TOGETHER = tuple(name for both in zip(STUCK, WELL, strict=True) for name in both)
ROUNDS = 3
"""In each both are measured one after the other, and the best counts: the machine is shared, and not as fast all the time."""

PLUGIN = """\
#!/bin/sh
# It comes before the bridge, and hangs for pods called stuck-... until the file that it waits for is there.
case "$CNI_COMMAND $CNI_ARGS" in
"ADD "*K8S_POD_NAME=stuck*)
	until [ -e "{go}" ]; do sleep 0.5; done ;;
VERSION*)
	echo '{{"cniVersion": "0.4.0", "supportedVersions": ["0.3.1", "0.4.0"]}}'
	exit ;;
esac
echo '{{"cniVersion": "0.4.0"}}'
"""


@pytest.fixture
def go(tmp_path):
    """Return the file that ends the hanging."""
    return tmp_path / "go"


@pytest.fixture
def hanging_node(make_containerd, make_node, tmp_path, go):
    """Return an agent on a containerd whose network hangs for some pods."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    for plugin in CNI_PLUGINS.iterdir():
        (folder / plugin.name).symlink_to(plugin)
    (folder / "stall").write_text(PLUGIN.format(go=go))
    (folder / "stall").chmod(0o755)
    runtime = make_containerd()
    configuration = runtime.folder / "config.toml"
    configuration.write_text(configuration.read_text().replace(f'"{CNI_PLUGINS}"', json.dumps(str(folder))))
    [network] = (runtime.folder / "network").iterdir()
    document = json.loads(network.read_text())
    document["plugins"].insert(0, {"type": "stall"})
    network.write_text(json.dumps(document))
    yield make_node(runtime.start())
    go.touch()


def seconds_until_running(node, *names):
    """Write the manifests of pods and return how long the well ones took until all ran."""
    begun = time.monotonic()
    for name in names:
        node.put(name, FOREVER, grace=1)
    node.until_running(*WELL, deadline_s=60.0)
    return time.monotonic() - begun


def drop(node, *names):
    for name in names:
        node.drop(name)
    node.until_gone(*names, deadline_s=60.0)


@pytest.mark.timeout(280)
def test_ten_pods_start_while_the_network_plugin_hangs_for_ten_others(hanging_node, go):
    node = hanging_node
    node.start()
    ratios = []
    for _ in range(ROUNDS):
        alone = seconds_until_running(node, *WELL)
        drop(node, *WELL)
        ratios.append(seconds_until_running(node, *TOGETHER) / alone)
        assert {node.pod(name)["status"]["phase"] for name in STUCK} == {"Pending"}
        # Those that hang are seen through once the plugin goes on.
        go.touch()
        node.until_running(*STUCK, deadline_s=60.0)
        go.unlink()
        drop(node, *TOGETHER)
    assert min(ratios) <= 1.5, ratios
