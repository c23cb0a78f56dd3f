"""Folders of pods on the real file system: modes, and what a removal must never touch."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from api.errors import ConflictError
from api.ports.podfiles import ListPodFolders, MakePodFolders, RemovePodFolders
from runtime.drivers.host.podfiles.podfolder import PodFolderDriver
from runtime.process import UMASK

REPOSITORY = Path(__file__).parents[6]


@pytest.fixture
def roots(tmp_path):
    return tmp_path / "pods", tmp_path / "logs"


@pytest.fixture
def driver(roots):
    return PodFolderDriver(*roots)


def make(driver, uid="uid-1"):
    driver.perform(MakePodFolders(uid=uid), 5.0)


def remove(driver, uid="uid-1", logs=""):
    driver.perform(RemovePodFolders(uid=uid, log_directory=logs), 5.0)


def test_folders_have_their_mode_under_the_umask_that_the_agent_sets_itself(driver, roots):
    old = os.umask(UMASK)
    try:
        make(driver)
    finally:
        os.umask(old)
    pod = roots[0] / "uid-1"
    for folder in (pod, pod / "volumes", pod / "plugins", pod / "containers"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o750


def test_making_folders_again_changes_nothing_in_them(driver, roots):
    make(driver)
    (roots[0] / "uid-1/etc-hosts").write_text("127.0.0.1 localhost\n")
    make(driver)
    assert (roots[0] / "uid-1/etc-hosts").read_text() == "127.0.0.1 localhost\n"


def test_a_file_in_the_place_of_a_folder_is_named(driver, roots):
    roots[0].mkdir()
    (roots[0] / "uid-1").write_text("in the way")
    with pytest.raises(ConflictError, match="pods/uid-1"):
        make(driver)


def test_files_and_folders_go_but_not_where_a_link_points(driver, roots, tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("keep")
    make(driver)
    pod = roots[0] / "uid-1"
    (pod / "containers/main").mkdir()
    (pod / "containers/main/0a1b2c3d").write_text("last words")
    (pod / "containers/main/link").symlink_to(precious)
    (pod / "plugins/link").symlink_to(precious / "data")
    (pod / "etc-hosts").write_text("x")
    remove(driver)
    assert not pod.exists()
    assert (precious / "data").read_text() == "keep"


def test_a_pod_folder_that_is_a_link_goes_without_what_it_points_to(driver, roots, tmp_path):
    precious = tmp_path / "precious"
    (precious / "volumes").mkdir(parents=True)
    roots[0].mkdir()
    (roots[0] / "uid-1").symlink_to(precious)
    remove(driver)
    assert not (roots[0] / "uid-1").is_symlink()
    assert (precious / "volumes").is_dir()


def test_a_log_folder_that_is_a_link_goes_without_what_it_points_to(driver, roots, tmp_path):
    precious = tmp_path / "precious"
    (precious / "main").mkdir(parents=True)
    roots[1].mkdir()
    link = roots[1] / "default_web_uid-1"
    link.symlink_to(precious)
    remove(driver, logs=str(link))
    assert not link.is_symlink()
    assert (precious / "main").is_dir()


def test_empty_volumes_go_but_content_of_a_volume_keeps_the_whole_pod(driver, roots):
    make(driver)
    pod = roots[0] / "uid-1"
    cache = pod / "volumes/kubernetes.io~empty-dir/cache"
    cache.mkdir(parents=True)
    (cache / "data").write_text("keep")
    (pod / "etc-hosts").write_text("x")
    with pytest.raises(ConflictError, match=r"empty-dir/cache/data is still in a volume"):
        remove(driver)
    assert (cache / "data").read_text() == "keep"
    assert (pod / "etc-hosts").exists()
    (cache / "data").unlink()
    remove(driver)
    assert not pod.exists()


def test_a_link_in_volumes_is_content_too(driver, roots):
    make(driver)
    (roots[0] / "uid-1/volumes/link").symlink_to("/")
    with pytest.raises(ConflictError, match="volumes/link"):
        remove(driver)


def test_a_tree_without_end_is_left_alone(driver, roots):
    make(driver)
    deep = roots[0] / "uid-1/containers" / "/".join(["d"] * 120)
    deep.mkdir(parents=True)
    with pytest.raises(ConflictError, match="deeper than 100 folders"):
        remove(driver)
    assert deep.is_dir()


def test_links_and_files_are_not_listed_as_pods(driver, roots, tmp_path):
    make(driver)
    (roots[0] / "file").write_text("x")
    (roots[0] / "link").symlink_to(tmp_path)
    (roots[0] / "not_a_uid").mkdir()
    assert driver.perform(ListPodFolders(), 5.0).uids == ("uid-1",)


IN_NAMESPACE = """
import subprocess, sys
from pathlib import Path
from api.errors import ConflictError
from api.ports.podfiles import MakePodFolders, RemovePodFolders
from runtime.drivers.host.podfiles.podfolder import PodFolderDriver

root, inside = Path(sys.argv[1]), sys.argv[2]
precious = root / "precious"
(precious / "below").mkdir(parents=True)
(precious / "data").write_text("keep")
driver = PodFolderDriver(root / "pods", root / "logs")
driver.perform(MakePodFolders(uid="uid-1"), 5)
target = root / "pods/uid-1" / inside
target.mkdir(parents=True, exist_ok=True)
how = ["mount", "--bind", str(precious), str(target)] if sys.argv[3] == "bind" else \
    ["mount", "-t", "tmpfs", "tmpfs", str(target)]
subprocess.run(how, check=True)
try:
    driver.perform(RemovePodFolders(uid="uid-1"), 5)
except ConflictError as error:
    print("refused:", error)
print("mounted:", f" {target} " in Path("/proc/self/mountinfo").read_text())
subprocess.run(["umount", str(target)], check=True)
print("kept:", sorted(p.name for p in precious.iterdir()))
driver.perform(RemovePodFolders(uid="uid-1"), 5)
print("gone:", not (root / "pods/uid-1").exists())
"""


@pytest.mark.real
@pytest.mark.parametrize("how", ["bind", "tmpfs"])
@pytest.mark.parametrize("inside", ["", "containers/main", "volumes/kubernetes.io~empty-dir/cache"])
def test_a_mount_is_never_entered(tmp_path, inside, how):
    unshare = ["unshare", "--mount", "--propagation", "private"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no right to make a mount namespace here; run this test as root with CAP_SYS_ADMIN")
    done = subprocess.run(
        [*unshare, sys.executable, "-c", IN_NAMESPACE, str(tmp_path), inside, how],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("refused:")
    assert "is a mount" in lines[0]
    assert lines[1:] == ["mounted: True", "kept: ['below', 'data']", "gone: True"]
