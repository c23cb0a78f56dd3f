"""Mounts of plain processes: what is refused before anything starts, and in which order they are made."""

import os

import pytest

from api.errors import RejectedError
from api.ports.confinement import Mount, MountPropagation
from api.ports.runtime import ContainerSpec
from runtime.drivers.embedded import volume
from runtime.drivers.embedded.keeper.mount import binds_of


def spec(*mounts):
    return ContainerSpec(name="c", attempt=0, image="x", log_path="c/0.log", mounts=mounts)


@pytest.fixture
def rooted(monkeypatch):
    monkeypatch.setattr(volume, "may_mount", lambda: True)


@pytest.fixture
def host(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    return tmp_path


def refusal(*mounts):
    with pytest.raises(RejectedError) as told:
        volume.require_mountable(spec(*mounts))
    assert told.value.reason == "CreateContainerError"
    return str(told.value)


@pytest.mark.usefixtures("rooted")
def test_each_mount_that_cannot_be_made_is_told_with_what_to_do(host):
    folder, file = str(host / "folder"), str(host / "file")
    assert "make that folder" in refusal(Mount(container_path=f"{host}/none", host_path=folder))
    assert "make that file" in refusal(Mount(container_path=f"{host}/none", host_path=file))
    assert "no folder on this host" in refusal(Mount(container_path=file, host_path=folder))
    assert "a folder on this host" in refusal(Mount(container_path=folder, host_path=file))
    (host / "link").symlink_to(folder)
    assert f'link "{host}/link" could have been made by a container' in refusal(
        Mount(container_path=f"{host}/link", host_path=folder)
    )
    assert "is not followed" in refusal(Mount(container_path=folder, host_path=f"{host}/link"))
    assert "is the root of the host" in refusal(Mount(container_path="/.", host_path=folder))
    both = MountPropagation.BIDIRECTIONAL
    assert "Bidirectional" in refusal(Mount(container_path=folder, host_path=folder, propagation=both))


@pytest.mark.usefixtures("rooted")
def test_what_can_be_mounted_is_not_refused_nor_what_lies_in_a_volume_around_it(host):
    folder = str(host / "folder")
    volume.require_mountable(spec(Mount(container_path=folder, host_path=folder)))
    inner = Mount(container_path=f"{folder}/in/the/volume", host_path=folder)
    volume.require_mountable(spec(inner, Mount(container_path=f"{folder}/", host_path=folder)))
    assert "does not exist" in refusal(inner)


def test_without_the_right_to_mount_the_field_is_named_and_no_mounts_need_none(monkeypatch):
    monkeypatch.setattr(volume, "may_mount", lambda: False)
    assert "volumeMounts" in refusal(Mount(container_path="/tmp", host_path="/tmp"))
    volume.require_mountable(spec())


def test_the_right_to_mount_is_read_from_the_kernel():
    if os.geteuid() != 0:
        assert not volume.may_mount()
    else:
        assert isinstance(volume.may_mount(), bool)


def test_outer_paths_are_mounted_before_those_inside_them():
    sent = [{"container_path": path, "host_path": "/h"} for path in ("/a/b/c", "/a", "/a/b/", "/z")]
    assert [one.target for one in binds_of(sent)] == ["/a", "/z", "/a/b/", "/a/b/c"]
    (one,) = binds_of([{"container_path": "/a", "host_path": "/h", "propagation": "host-to-container"}])
    assert (one.read_only, one.follows) == (False, True)
