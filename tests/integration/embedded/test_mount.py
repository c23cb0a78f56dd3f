"""What a container plants in a volume leads no mount out of it, and what it runs gains no rights when that was asked for."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from api.ports.confinement import Mount, Security
from api.ports.runtime import ExecInContainer, RuntimeContainerState
from runtime.drivers.embedded.keeper import mount
from tests.conformance.containers.script import Run
from tests.integration.embedded.world import shell

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount: run the tests as root"),
]
PLAIN = 12345


@pytest.fixture
def house():
    """Return a folder in which only root makes files: `etc` stands for the host's own, `place` is where things are mounted."""
    made = Path(tempfile.mkdtemp(prefix="mounts-", dir="/var/lib"))
    made.chmod(0o755)
    for name in ("etc", "place", "outer", "inner", "place/own"):
        (made / name).mkdir()
    (made / "etc" / "passwd").write_text("root\n")
    for name in ("outer", "inner"):
        # As an emptyDir is.
        (made / name).chmod(0o777)
    yield made
    shutil.rmtree(made)


def planted(bench, sandbox, script, *mounts):
    """Run an init container without root that ends well."""
    planter = bench.run(sandbox, Run(), "plant", user=PLAIN, group=PLAIN, mounts=mounts, **shell(script))
    bench.exited(sandbox, planter)
    assert bench.look(sandbox, planter).exit_code == 0


def tried(bench, sandbox, script, *mounts):
    """Run a container without root that ends by itself, and return how it ended."""
    fields = {"user": PLAIN, "group": PLAIN, "mounts": mounts}
    container = bench.run(sandbox, Run(), "main", **fields, **shell(script))
    bench.exited(sandbox, container)
    return bench.look(sandbox, container)


def test_a_link_that_an_init_container_made_in_a_volume_leads_no_mount_to_the_hosts_files(bench, house):
    outer = Mount(container_path=str(house / "place"), host_path=str(house / "outer"))
    inner = Mount(container_path=str(house / "place" / "sub"), host_path=str(house / "inner"))
    sandbox = bench.run_sandbox()
    planted(bench, sandbox, f"ln -s {house}/etc {house}/place/sub", outer)
    ended = tried(bench, sandbox, f"echo mine >{house}/etc/passwd", outer, inner)
    assert not (house / "inner" / "passwd").exists(), "the container owned the host's folder"
    assert (ended.exit_code, ended.reason) == (128, "StartError")
    assert f'link "{house}/place/sub"' in ended.message
    assert (house / "etc" / "passwd").read_text() == "root\n"


def test_a_link_in_the_middle_of_a_path_beneath_a_volume_is_not_followed_either(bench, house):
    (house / "etc" / "deep").mkdir()
    outer = Mount(container_path=str(house / "place"), host_path=str(house / "outer"))
    inner = Mount(container_path=str(house / "place" / "sub" / "deep"), host_path=str(house / "inner"))
    sandbox = bench.run_sandbox()
    planted(bench, sandbox, f"ln -s {house}/etc {house}/place/sub", outer)
    ended = tried(bench, sandbox, f"echo mine >{house}/etc/deep/f", outer, inner)
    assert (ended.exit_code, ended.reason) == (128, "StartError")
    assert not (house / "inner" / "f").exists()


def test_a_volume_that_covers_the_source_of_another_gives_it_none_of_its_own_files(bench, house):
    (house / "place" / "data").mkdir()
    (house / "place" / "data" / "who").write_text("the host's\n")
    outer = Mount(container_path=str(house / "place"), host_path=str(house / "outer"))
    data = Mount(container_path=str(house / "inner" / "deeper"), host_path=str(house / "place" / "data"))
    (house / "inner" / "deeper").mkdir()
    sandbox = bench.run_sandbox()
    planted(bench, sandbox, f"ln -s {house}/etc {house}/place/data", outer)
    out = house / "outer" / "out"
    ended = tried(bench, sandbox, f"cat {house}/inner/deeper/who >{house}/place/out", outer, data)
    assert (ended.exit_code, out.read_text()) == (0, "the host's\n")


def test_a_mount_point_that_a_volume_lacks_is_made_in_it_and_nowhere_else(bench, house):
    file = house / "file"
    file.write_text("a file\n")
    mounts = (
        Mount(container_path=str(house / "place"), host_path=str(house / "outer")),
        Mount(container_path=str(house / "place" / "a" / "b"), host_path=str(house / "inner")),
        Mount(container_path=str(house / "place" / "c" / "d"), host_path=str(file), read_only=True),
    )
    ended = tried(
        bench,
        bench.run_sandbox(),
        f"cat {house}/place/c/d >{house}/place/a/b/copy && ! touch {house}/place/c/d",
        *mounts,
    )
    assert ended.exit_code == 0, ended.message
    assert (house / "inner" / "copy").read_text() == "a file\n"
    assert (house / "outer" / "a" / "b").is_dir()
    assert (house / "outer" / "c" / "d").read_text() == "", "a place to mount at, not the file itself"
    assert sorted(path.name for path in (house / "place").iterdir()) == ["own"]


def test_a_link_of_the_host_is_followed_where_only_root_could_have_made_it(bench, house):
    (house / "alias").symlink_to("place/../place")
    mounts = (Mount(container_path=str(house / "alias" / "own"), host_path=str(house / "alias/../inner")),)
    ended = tried(bench, bench.run_sandbox(), f"echo mine >{house}/place/own/f", *mounts)
    assert ended.exit_code == 0, ended.message
    assert (house / "inner" / "f").read_text() == "mine\n"


def test_only_links_that_no_other_user_could_have_made_are_followed(house):
    """Also where they lie in no volume: a container without root can write what every user can."""
    (house / "alias").symlink_to(house / "etc")
    os.close(mount.find(str(house / "alias")))
    for name, mode, owner in (
        ("open", 0o777, 0),
        ("sticky", 0o1777, 0),
        ("shared", 0o775, 0),
        ("home", 0o755, PLAIN),
    ):
        folder = house / name
        (folder / "below").mkdir(parents=True)
        folder.chmod(mode)
        os.chown(folder, owner, -1)
        (folder / "link").symlink_to(house / "etc")
        (folder / "below" / "link").symlink_to(house / "etc")
        os.close(mount.find(str(folder / "below")))
        for link in ("link", "link/passwd", "below/link"):
            with pytest.raises(OSError, match="is not followed"):
                mount.find(str(folder / link))
    (house / "one").symlink_to("two")
    (house / "two").symlink_to("one")
    with pytest.raises(OSError, match="Too many"):
        mount.find(str(house / "one"))
    assert open_below(house) == []


def open_below(folder):
    """Return what this process has open below a folder."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        # The one that reads this folder is gone by now.
        with contextlib.suppress(FileNotFoundError):
            found.append(descriptor.readlink())
    return [path for path in found if path.is_relative_to(folder)]


def test_a_setuid_program_gives_no_rights_where_privilege_escalation_is_forbidden(bench, house):
    copy = house / "inner" / "id"
    subprocess.run(["cp", shutil.which("id"), copy], check=True)
    copy.chmod(0o4755)
    sandbox = bench.run_sandbox()
    seen = {}
    for name, forbidden in (("may", False), ("not", True)):
        script = f"{copy} -u; exec sleep 1000000"
        container = bench.run(
            sandbox,
            Run(),
            name,
            user=PLAIN,
            group=PLAIN,
            security=Security(no_new_privileges=forbidden),
            **shell(script),
        )
        bench.until(lambda container=container: bench.driver.log_lines(container), "what it runs as")
        ran = bench.call(
            ExecInContainer(
                uid=sandbox.uid, container_id=container.id, command=(str(copy), "-u"), timeout_s=5
            )
        )
        seen[name] = (bench.driver.log_lines(container)[0][1], ran.stdout.decode().strip())
        assert bench.look(sandbox, container).state is RuntimeContainerState.RUNNING
    assert seen == {"may": ("0", "0"), "not": (str(PLAIN), str(PLAIN))}
