"""Volumes on a real kernel: file systems in memory, parts bound against whoever swaps paths, removal that is proven."""

import contextlib
import ctypes
import functools
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from api.errors import ConflictError, OperatingError, RejectedError, UnavailableError
from api.ports.volumes import EmptyDir, HostPath, Medium, PrepareSubPath, PrepareVolume, RemoveVolumes
from runtime.drivers.host.podfiles.emptytree import LEVELS, empty_tree
from runtime.drivers.host.podfiles.podfolder import PodFolderDriver
from runtime.drivers.host.volumes import mount, volume
from runtime.drivers.host.volumes.volume import Volumes
from tests.harness.part import need
from tests.harness.wait import until

pytestmark = pytest.mark.real
UID = "uid-1"


@pytest.fixture
def port(tmp_path):
    need("root")
    made = Volumes(tmp_path / "pods")
    yield made
    for point in mount.mounts_below(str(tmp_path)):
        mount.unmount(point)


@pytest.fixture
def pod(tmp_path):
    return tmp_path / "pods" / UID


def prepare(port, plan=None, name="v"):
    return Path(port.perform(PrepareVolume(uid=UID, volume=name, plan=plan or EmptyDir()), 5.0).host_path)


def bind(port, volume, sub_path, index=0, name="v"):
    call = PrepareSubPath(
        uid=UID,
        volume=name,
        host_path=str(volume),
        sub_path=sub_path,
        container="c",
        attempt=0,
        index=index,
    )
    return Path(port.perform(call, 5.0).host_path)


def remove(port):
    return port.perform(RemoveVolumes(uid=UID), 5.0)


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_an_empty_dir_is_open_to_everybody_whatever_the_umask(port, pod):
    before = os.umask(0o077)
    try:
        folder = prepare(port)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o777
    assert (pod / "plugins" / "kubernetes.io~empty-dir" / "v" / "ready").exists()
    (folder / "kept").write_text("x")
    assert prepare(port) == folder
    assert tree(folder) == ["kept"], "preparing again takes nothing away"


def test_a_group_owns_the_volume_and_what_is_made_in_it(port):
    folder = prepare(port, EmptyDir(group=4242))
    status = folder.stat()
    assert (status.st_gid, stat.S_IMODE(status.st_mode)) == (4242, 0o2777)
    (folder / "file").touch()
    assert (folder / "file").stat().st_gid == 4242


def test_a_file_system_in_memory_has_the_size_that_was_asked_for(port):
    folder = prepare(port, EmptyDir(medium=Medium.MEMORY, size_bytes=1 << 20))
    assert str(folder) in mount.mounts_below(str(folder.parent))
    figures = os.statvfs(folder)
    assert figures.f_blocks * figures.f_frsize == 1 << 20
    with pytest.raises(OSError, match="No space left"):
        (folder / "big").write_bytes(b"x" * (2 << 20))
    assert prepare(port, EmptyDir(medium=Medium.MEMORY, size_bytes=1 << 20)) == folder
    assert len(mount.mounts_below(str(folder.parent))) == 1, "it is mounted once"


def test_a_file_system_in_memory_that_a_reboot_took_away_is_made_again(port):
    plan = EmptyDir(medium=Medium.MEMORY)
    folder = prepare(port, plan)
    mount.unmount(str(folder))
    prepare(port, plan)
    assert mount.mounts_below(str(folder.parent)) == [str(folder)]


def test_a_volume_that_was_half_made_is_made_whole(port, pod):
    folder = prepare(port)
    folder.rmdir()
    assert prepare(port) == folder
    assert folder.is_dir()


def test_mounts_below_a_shared_volume_are_seen_in_its_parts(port):
    folder = prepare(port, EmptyDir(shared=True))
    part = bind(port, folder, "a")
    (folder / "a" / "m").mkdir()
    mount.attach("tmpfs", str(folder / "a" / "m"), "tmpfs")
    assert str(part / "m") in mount.mounts_below(str(part))
    removed = remove(port)
    assert str(folder / "a" / "m") in removed.unmounted or str(part / "m") in removed.unmounted


def test_parts_are_a_folder_that_is_made_or_a_file_that_is_there(port):
    folder = prepare(port)
    folder.chmod(0o1770)
    (folder / "file").write_text("content")
    made = bind(port, folder, "new/deep", 0)
    assert made.is_dir()
    assert stat.S_IMODE((folder / "new" / "deep").stat().st_mode) == 0o1770, "the mode of the volume's folder"
    (made / "x").touch()
    assert (folder / "new" / "deep" / "x").exists()
    assert bind(port, folder, "file", 1).read_text() == "content"
    whole = bind(port, folder, "./", 2)
    assert whole.stat().st_ino == folder.stat().st_ino


def test_a_part_that_is_bound_stays_and_one_that_was_exchanged_is_bound_anew(port):
    folder = prepare(port)
    (folder / "a").mkdir()
    place = bind(port, folder, "a")
    first = place.stat().st_ino
    assert bind(port, folder, "a") == place
    assert len(mount.mounts_below(str(place.parent))) == 1
    (folder / "a").rename(folder / "old")
    (folder / "a").write_text("now a file")
    assert bind(port, folder, "a").read_text() == "now a file"
    assert place.stat().st_ino != first
    assert len(mount.mounts_below(str(place.parent))) == 1


@pytest.mark.parametrize(
    ("link", "asked"),
    [("/etc", "out"), ("../../../../..", "out"), ("/etc", "out/deeper"), ("/", "out/etc/hostname")],
)
def test_a_link_that_leads_out_of_the_volume_is_refused(port, pod, link, asked):
    folder = prepare(port)
    (folder / "out").symlink_to(link)
    with pytest.raises(OperatingError):
        bind(port, folder, asked)
    assert mount.mounts_below(str(pod)) == []


def test_a_link_inside_the_volume_is_followed(port):
    folder = prepare(port)
    (folder / "real").mkdir()
    (folder / "link").symlink_to("real")
    assert bind(port, folder, "link").stat().st_ino == (folder / "real").stat().st_ino


def test_a_link_to_nothing_is_refused_and_nothing_is_made_through_it(port, tmp_path):
    folder = prepare(port)
    (folder / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(OperatingError):
        bind(port, folder, "link/new")
    assert not (tmp_path / "outside").exists()


def test_whoever_swaps_a_folder_for_a_link_never_gets_out_of_the_volume(port, tmp_path):
    folder = prepare(port)
    secret = tmp_path / "secret"
    (secret / "below").mkdir(parents=True)
    inside = folder / "in"
    (inside / "below").mkdir(parents=True)
    (folder / "link").symlink_to(secret)
    good = (inside / "below").stat().st_ino
    over = threading.Event()

    def swap():
        # RENAME_EXCHANGE: at each instant one of the two is there, never nothing.
        libc = ctypes.CDLL(None, use_errno=True)
        one, two = os.fsencode(inside), os.fsencode(folder / "link")
        while not over.is_set():
            assert libc.renameat2(-100, one, -100, two, 2) == 0

    thread = threading.Thread(target=swap)
    thread.start()
    refused = bound = 0
    try:
        for _ in range(1500):
            try:
                place = bind(port, folder, "in/below")
            except OperatingError:
                refused += 1
            else:
                bound += 1
                assert place.stat().st_ino == good, "something outside of the volume was bound"
                mount.unmount(str(place))
    finally:
        over.set()
        thread.join()
    assert refused
    assert bound
    assert not any((secret / "below").iterdir())


def test_folders_are_never_made_outside_while_links_are_swapped(port, tmp_path):
    folder = prepare(port)
    secret = tmp_path / "secret"
    secret.mkdir()
    (folder / "in").mkdir()
    (folder / "link").symlink_to(secret)
    over = threading.Event()

    def swap():
        libc = ctypes.CDLL(None, use_errno=True)
        one, two = os.fsencode(folder / "in"), os.fsencode(folder / "link")
        while not over.is_set():
            assert libc.renameat2(-100, one, -100, two, 2) == 0

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for number in range(500):
            try:
                mount.unmount(str(bind(port, folder, f"in/new{number}/deep")))
            except OperatingError:
                continue
    finally:
        over.set()
        thread.join()
    assert tree(secret) == []


def test_a_link_to_nothing_on_the_node_is_refused_and_nothing_is_made_through_it(port, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    for kind in ("DirectoryOrCreate", "FileOrCreate"):
        with pytest.raises(RejectedError, match="link is a symbolic link to nothing"):
            prepare(port, HostPath(path=str(tmp_path / "link"), kind=kind))
    with pytest.raises(OperatingError):
        prepare(port, HostPath(path=str(tmp_path / "link" / "below"), kind="DirectoryOrCreate"))
    assert not (tmp_path / "outside").exists()


def test_a_path_of_the_node_is_made_below_links_that_lead_somewhere(port, tmp_path):
    (tmp_path / "disk").mkdir(mode=0o700)
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    before = os.umask(0o077)
    try:
        prepare(port, HostPath(path=str(tmp_path / "data" / "a" / "b"), kind="DirectoryOrCreate"))
        prepare(port, HostPath(path=str(tmp_path / "data" / "file"), kind="FileOrCreate"))
    finally:
        os.umask(before)
    modes = {
        str(path.relative_to(tmp_path)): stat.S_IMODE(path.lstat().st_mode)
        for path in tmp_path.rglob("disk*/**")
        if path.name != "data"
    }
    assert modes["disk/a"] == modes["disk/a/b"] == 0o755
    assert stat.S_IMODE((tmp_path / "disk" / "file").stat().st_mode) == 0o644
    assert modes["disk"] == 0o700, "what was there keeps its mode"


AMBUSH = []
"""A path and what is to take its place as soon as something is there: before the next call that Python's audit hooks see."""


@functools.cache
def lay_in_wait():
    def strike(_event, _arguments):
        if AMBUSH and os.path.lexists(AMBUSH[0][0]):
            wanted, swap = AMBUSH.pop()
            wanted.rename(f"{wanted}-aside")
            swap()

    sys.addaudithook(strike)


@pytest.fixture
def ambush():
    lay_in_wait()
    yield lambda wanted, swap: AMBUSH.append((wanted, swap))
    AMBUSH.clear()


@pytest.fixture
def secret(tmp_path):
    made = tmp_path / "pods" / "secret"
    made.mkdir(mode=0o700, parents=True)
    (made / "key").touch()
    return made


@pytest.mark.parametrize("kind", ["DirectoryOrCreate", "FileOrCreate"])
def test_what_is_swapped_while_it_is_made_on_the_node_keeps_its_mode(port, tmp_path, secret, ambush, kind):
    wanted = tmp_path / "data"
    ambush(wanted, lambda: wanted.symlink_to(secret))
    with contextlib.suppress(OperatingError):
        prepare(port, HostPath(path=str(wanted), kind=kind))
    assert wanted.is_symlink()
    assert stat.S_IMODE(secret.stat().st_mode) == 0o700


def test_a_folder_that_is_swapped_while_a_part_is_made_keeps_its_mode(port, secret, ambush):
    folder = prepare(port)
    ambush(folder / "new", lambda: secret.rename(folder / "new"))
    with contextlib.suppress(OperatingError):
        bind(port, folder, "new/deep")
    assert stat.S_IMODE((folder / "new" / "key").parent.stat().st_mode) == 0o700


def test_removal_leaves_nothing_mounted_and_nothing_there(port, pod):
    disk, memory = prepare(port), prepare(port, EmptyDir(medium=Medium.MEMORY), "m")
    bind(port, disk, "a/b"), bind(port, memory, "c", 1, name="m")
    (disk / "file").write_text("x")
    (disk / "link").symlink_to("/etc")
    os.mkfifo(disk / "fifo")
    assert len(remove(port).unmounted) == 3
    assert mount.mounts_below(str(pod)) == []
    assert tree(pod) == ["plugins", "volumes"]
    assert Path("/etc/hostname").exists() or Path("/etc").is_dir()


def test_removal_unmounts_what_a_container_left_below_deepest_first(port, pod, tmp_path):
    folder = prepare(port, EmptyDir(shared=True))
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    (folder / "one").mkdir()
    mount.attach("tmpfs", str(folder / "one"), "tmpfs")
    (folder / "one" / "two").mkdir()
    mount.bind(str(outside), str(folder / "one" / "two"))
    removed = remove(port).unmounted
    assert removed == (str(folder / "one" / "two"), str(folder / "one"), str(folder))
    assert (outside / "kept").read_text() == "x", "nothing is deleted through a mount"


def test_nothing_is_deleted_through_a_mount_that_cannot_be_unmounted(port, pod):
    folder = prepare(port, EmptyDir(medium=Medium.MEMORY))
    (folder / "kept").write_text("x")
    held = os.open(folder / "kept", os.O_RDONLY)
    try:
        with pytest.raises(ConflictError):
            remove(port)
        assert (folder / "kept").read_text() == "x"
        with pytest.raises(ConflictError):
            PodFolderDriver(pod.parent, pod.parent / "logs").perform(pod_removal(), 5.0)
    finally:
        os.close(held)
    assert remove(port).unmounted == (str(folder),)
    PodFolderDriver(pod.parent, pod.parent / "logs").perform(pod_removal(), 5.0)
    assert not pod.exists()


def pod_removal():
    from api.ports.podfiles import RemovePodFolders  # noqa: PLC0415

    return RemovePodFolders(uid=UID)


def test_a_volume_that_somebody_else_mounted_is_left_alone(port, pod):
    theirs = pod / "volumes" / "kubernetes.io~csi" / "disk" / "mount"
    theirs.mkdir(parents=True)
    mount.attach("tmpfs", str(theirs), "tmpfs")
    (theirs / "data").write_text("x")
    with pytest.raises(ConflictError, match="did not make"):
        remove(port)
    assert (theirs / "data").read_text() == "x"


def test_a_tree_deeper_than_any_path_is_emptied_with_few_files_open(tmp_path):
    top = tmp_path / "top"
    top.mkdir()
    fd = os.open(top, os.O_RDONLY)
    for _ in range(3 * LEVELS + 7):
        os.mkdir("d" * 40, dir_fd=fd)
        below = os.open("d" * 40, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    (top / "deep-1").write_text("a name that the emptying would take")
    empty_tree(top)
    assert tree(top) == []


def test_calls_on_one_pod_take_turns_and_one_that_hangs_is_told(port):
    with port._exclusive_pod(UID, 1.0):
        with pytest.raises(UnavailableError, match="still under way"):
            port.perform(RemoveVolumes(uid=UID), 0.05)
        node = HostPath(path="/", kind="Directory")
        assert port.perform(PrepareVolume(uid=UID, volume="h", plan=node), 0.05)
    ended = []
    with port._exclusive_pod(UID, 1.0):
        thread = threading.Thread(target=lambda: ended.append(remove(port)))
        thread.start()
    until(lambda: ended, "the one that waited had its turn")
    thread.join()


def test_a_file_system_that_is_away_holds_one_thread_and_no_other_path(tmp_path, port):
    entered, answer = threading.Event(), threading.Event()
    real = volume.kind_of

    def hang(path):
        if path == "/away":
            entered.set()
            answer.wait(20)
        return real(path)

    away = PrepareVolume(uid=UID, volume="h", plan=HostPath(path="/away", kind="Directory"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(volume, "kind_of", hang)

        def look():
            with pytest.raises(RejectedError):
                port.perform(away, 5.0)

        thread = threading.Thread(target=look)
        thread.start()
        assert entered.wait(20)
        with pytest.raises(UnavailableError, match="an earlier look at /away is still under way"):
            port.perform(away, 0.05)
        here = HostPath(path=str(tmp_path), kind="Directory")
        assert port.perform(PrepareVolume(uid=UID, volume="x", plan=here), 5.0)
        answer.set()
        thread.join()


def test_a_folder_that_its_owner_closed_is_emptied_all_the_same(tmp_path):
    (tmp_path / "top" / "closed").mkdir(parents=True)
    (tmp_path / "top" / "closed" / "file").touch()
    (tmp_path / "top" / "closed").chmod(0o500)
    empty_tree(tmp_path / "top")
    assert tree(tmp_path / "top") == []


def test_a_link_in_place_of_a_volume_is_refused(port, pod, tmp_path):
    folder = prepare(port)
    (pod / "plugins" / "kubernetes.io~empty-dir" / "v" / "ready").unlink()
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(OperatingError):
        prepare(port)


def test_a_type_check_that_fails_makes_nothing(port, tmp_path):
    with pytest.raises(RejectedError):
        prepare(port, HostPath(path=str(tmp_path / "none"), kind="Directory"))
    assert not (tmp_path / "none").exists()


NOT_ROOT = """
import os, sys
from pathlib import Path
from api.errors import DeniedError
from api.ports.volumes import *
from runtime.drivers.host.volumes.volume import Volumes
os.setgroups([]); os.setgid(12345); os.setuid(12345)
port = Volumes(Path(sys.argv[1]))
for plan in (EmptyDir(medium=Medium.MEMORY), EmptyDir(shared=True)):
    try:
        port.perform(PrepareVolume(uid="u", volume="m", plan=plan), 5.0)
    except DeniedError as denied:
        print(denied)
folder = Path(port.perform(PrepareVolume(uid="u", volume="v", plan=EmptyDir(group=54321)), 5.0).host_path)
part = PrepareSubPath(uid="u", volume="v", host_path=str(folder), sub_path="p", container="c", attempt=0, index=0)
try:
    port.perform(part, 5.0)
except DeniedError as denied:
    print(denied.reason, denied)
(folder / "closed").mkdir()
(folder / "closed" / "file").touch()
(folder / "closed").chmod(0)
port.perform(RemoveVolumes(uid="u"), 5.0)
print(folder.exists())
"""


def test_without_root_a_folder_on_disk_works_and_what_needs_a_mount_names_its_field(tmp_path):
    need("root")
    root = Path("/tmp") / f"nodeagent-volumes-{os.getpid()}"
    root.mkdir()
    os.chown(root, 12345, 12345)
    try:
        ran = subprocess.run(
            [sys.executable, "-c", NOT_ROOT, str(root / "pods")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        memory, shared, part, left = ran.stdout.splitlines()
        assert part.startswith("CreateContainerConfigError volumeMounts.subPath needs the right to mount")
        assert memory.startswith("emptyDir.medium: Memory needs the right to mount")
        assert shared.startswith("mountPropagation needs the right to mount")
        assert left == "False"
    finally:
        shutil.rmtree(root)
