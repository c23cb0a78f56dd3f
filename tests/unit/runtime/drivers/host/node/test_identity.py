"""Which machine this is, from files that may be missing, huge or hostile."""

import os

import pytest

from api.ports.node import MachineIdentity
from runtime.drivers.host.node.identity import TEXT_LIMIT, architecture, identity_of


class Files:
    def __init__(self, root):
        self.root = root

    def put(self, path, content):
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)

    def identity(self):
        return identity_of(self.root / "proc", self.root / "sys", self.root)


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def test_a_machine_says_who_it_is(files):
    files.put("etc/machine-id", b"abc\n")
    files.put("sys/class/dmi/id/product_uuid", b"4C4C-4544\n")
    files.put("proc/sys/kernel/random/boot_id", b"b-1\n")
    files.put("proc/sys/kernel/osrelease", b"6.1.0-13-amd64\n")
    files.put("etc/os-release", b'ID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')
    assert files.identity() == MachineIdentity(
        machine_id="abc",
        system_uuid="4C4C-4544",
        boot_id="b-1",
        kernel_version="6.1.0-13-amd64",
        os_image="Debian GNU/Linux 12 (bookworm)",
        architecture=architecture(),
    )


def test_what_is_missing_is_looked_for_elsewhere(files):
    files.put("etc/machine-id", b"\n")
    files.put("var/lib/dbus/machine-id", b"dbus")
    files.put("sys/firmware/devicetree/base/vm,uuid", b"vm-1\0")
    files.put("usr/lib/os-release", b"PRETTY_NAME='X 1'\n")
    found = files.identity()
    assert (found.machine_id, found.system_uuid, found.os_image) == ("dbus", "vm-1", "X 1")


def test_what_is_nowhere_is_empty(files):
    assert files.identity() == MachineIdentity(os_image="Unknown", architecture=architecture())
    files.put("etc/os-release", b"ID=x\n")
    assert files.identity().os_image == "Linux"


def test_hostile_files_are_cut_and_cleaned_and_stop_nothing(files):
    files.put("etc/machine-id", b"a\x1b[31m\x00b" + b"c" * (1 << 20))
    files.put("proc/sys/kernel/random/boot_id", b"\xff\xfe")
    os.mkfifo(files.root / "proc/sys/kernel/osrelease")
    (files.root / "sys").mkdir()
    (files.root / "sys/class").write_text("no folder")
    (files.root / "etc/os-release").mkdir()
    found = files.identity()
    assert found.machine_id.startswith("a[31mbccc")
    assert len(found.machine_id) == TEXT_LIMIT
    assert (found.system_uuid, found.kernel_version, found.os_image) == ("", "", "Unknown")
    assert found.boot_id.isprintable()
