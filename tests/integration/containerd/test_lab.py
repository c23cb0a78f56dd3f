"""What the tests of this folder stand on: the private containerd and the private registry themselves."""

import socket

import grpc
import pytest

from tests.harness import part
from tests.harness.cri import crilink
from tests.harness.cri.crilink import field, text
from tests.harness.cri.image import make_image
from tests.harness.wait import until

pytestmark = pytest.mark.real


def pull(runtime, name, user="", password=""):
    login = field(1, user.encode()) + field(2, password.encode()) if user else b""
    request = field(1, field(1, name.encode())) + (field(2, login) if login else b"")
    return text(runtime.link.call(f"{crilink.IMAGE}PullImage", request), 1)


def test_a_pod_outlives_its_containerd_and_nothing_outlives_the_clean_up(make_containerd):
    runtime = make_containerd().start()
    sandbox = runtime.link.run_sandbox("one", str(runtime.folder / "logs"))
    assert runtime.link.address(sandbox).startswith("198.1")
    [shim] = runtime.shims()
    runtime.kill9()
    assert runtime.shims() == [shim]
    runtime.start()
    assert runtime.link.sandboxes() == [sandbox]
    assert any(line.startswith("mount ") for line in runtime.remains())
    runtime.kill9()
    runtime.clean_up()
    assert runtime.remains() == []


def test_a_clean_up_that_cannot_be_orderly_says_so_and_leaves_nothing_either(make_containerd):
    runtime = make_containerd().start()
    runtime.link.run_sandbox("one", str(runtime.folder / "logs"))
    runtime.kill9()
    good = (runtime.folder / "config.toml").read_text()
    (runtime.folder / "config.toml").write_text("this is no configuration")
    with pytest.raises(AssertionError, match="the pods could not be removed"):
        runtime.clean_up()
    assert runtime.remains() == []
    (runtime.folder / "config.toml").write_text(good)


def test_two_containerds_know_nothing_of_each_other(make_containerd):
    one, two = make_containerd().start(), make_containerd().start()
    sandbox = one.link.run_sandbox("same", str(one.folder / "logs"))
    two.link.run_sandbox("same", str(two.folder / "logs"))
    assert one.subnet != two.subnet
    two.clean_up()
    assert one.link.sandboxes() == [sandbox]
    # The node reaches the pod, in which nobody listens.
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((one.link.address(sandbox), 9), 5.0)


def test_throw_away_images_differ_and_go(containerd):
    images = [make_image(f"localhost/junk-{n}:1", size_mb=0.1) for n in range(2)]
    assert images[0].id != images[1].id
    containerd.add_images(*images)
    shown = containerd.link.images()
    assert shown[images[0].id] == ("localhost/junk-0:1",)
    for image in images:
        containerd.link.remove_image(image.name)
    until(lambda: not {i.id for i in images} & set(containerd.link.images()), "the images are gone")


def test_a_registry_is_pulled_from_with_and_without_a_login(containerd, make_registry):
    image = make_image("x", cmd=("true",), files=(("/marker", b"registry"),))
    open_one, locked = make_registry(), make_registry(users={"puller": "se:cret"})
    name = open_one.push(image, "team/app:1")
    assert pull(containerd, name) == image.id
    assert open_one.pulls("team/app") > 0
    containerd.link.remove_image(name)
    open_one.delete("team/app:1")
    with pytest.raises(grpc.RpcError) as gone:
        pull(containerd, name)
    assert gone.value.code() is grpc.StatusCode.NOT_FOUND
    name = locked.push(image, "team/app:1")
    for wrong in ({}, {"user": "puller", "password": "other"}):
        with pytest.raises(grpc.RpcError, match=r"(?i)authori[sz]"):
            pull(containerd, name, **wrong)
    assert pull(containerd, name, user="puller", password="se:cret") == image.id
    containerd.link.remove_image(name)


def test_a_missing_part_is_named_with_its_package(monkeypatch):
    monkeypatch.setitem(part.PARTS, "ip", ("iproute2", lambda: False))
    monkeypatch.setitem(part.PARTS, "containerd", ("containerd", lambda: True))
    assert part.missing("containerd", "ip") == ["ip (Debian package iproute2)"]
    monkeypatch.setenv("NODEAGENT_REQUIRE", "1")
    with pytest.raises(pytest.fail.Exception, match=r"mandatory part is missing.*iproute2"):
        part.need("ip")
    monkeypatch.delenv("NODEAGENT_REQUIRE")
    with pytest.raises(pytest.skip.Exception, match="iproute2"):
        part.need("ip")
