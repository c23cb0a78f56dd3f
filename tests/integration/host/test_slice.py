"""Slices are asked for over a real message bus, which checks every message; who answers as systemd stands in for it."""

import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from api.errors import TimedOutError, UnavailableError
from api.ports.cgroups import (
    UNLIMITED,
    CgroupLimits,
    EnsureNodeCgroups,
    EnsurePodCgroup,
    NodeCgroup,
    PodCgroupMade,
    PodCgroupRemoved,
    RemovePodCgroup,
)
from api.ports.node import CgroupDriver
from runtime.drivers.host.cgroups.cgroup import PodCgroups
from runtime.drivers.host.cgroups.dbus import BUS, CALL, MEMBER, SIGNATURE, Bus, DbusError
from runtime.drivers.host.cgroups.slice import EXISTS, INFINITY, MANAGER, NONE, Slices
from tests.harness.cgroups import value, version_1, version_2

SENDER = 7
UNIT = "kubepods-burstable-podu_1.slice"
PATH = f"/kubepods.slice/kubepods-burstable.slice/{UNIT}"
LIMITS = CgroupLimits(
    cpu_shares=512,
    cpu_weight=20,
    cpu_quota_us=50_000,
    cpu_period_us=100_000,
    memory_bytes=UNLIMITED,
    pids=40,
)
CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path={path}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow own="*"/><allow receive_sender="*"/></policy>
</busconfig>"""


@pytest.fixture
def bus(tmp_path_factory):
    """Start a message bus of the test's own and return the path of its socket."""
    if shutil.which("dbus-daemon") is None:
        pytest.skip("needs dbus-daemon, of Debian's package dbus-daemon")
    folder = tmp_path_factory.mktemp("bus")
    socket, config = folder / "s", folder / "config"
    config.write_text(CONFIG.format(path=socket))
    words = ["dbus-daemon", f"--config-file={config}", "--nofork", "--print-address"]
    daemon = subprocess.Popen(words, stdout=subprocess.PIPE)
    try:
        # It says its address once it listens.
        assert daemon.stdout.readline()
        yield str(socket)
    finally:
        daemon.stdout.close()
        daemon.kill()
        daemon.wait()


class Systemd:
    """Answers as systemd does, and makes the folders of slices."""

    def __init__(self, bus, hierarchies):
        self.hierarchies, self.units, self.calls = hierarchies, {}, []
        self.refuses, self.makes = "", True
        self._bus = Bus(bus, 30.0)
        self._bus.call(BUS, "RequestName", "su", MANAGER[0], 4)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            try:
                kind, serial, header, body = self._bus.receive()
            except OSError:
                return
            if kind != CALL:
                continue
            self.calls.append((header[MEMBER], header[SIGNATURE], body))
            error = self.refuses or self._carry_out(header[MEMBER], body)
            if error:
                self._bus.answer(header[SENDER], serial, "s", "no", error=error)
            elif header[MEMBER] == "SetUnitProperties":
                self._bus.answer(header[SENDER], serial)
            else:
                self._bus.answer(header[SENDER], serial, "o", "/org/freedesktop/systemd1/job/1")

    def _carry_out(self, member, body):
        name = body[0]
        match member:
            case "StartTransientUnit":
                if name in self.units:
                    return EXISTS
                self.units[name] = {key: given for key, (_, given) in body[2]}
                if self.makes:
                    self._make(name)
            case "SetUnitProperties":
                self.units[name] |= {key: given for key, (_, given) in body[2]}
            case "StopUnit":
                if name not in self.units:
                    return NONE
                del self.units[name]
        return ""

    def _make(self, name):
        parts = name.removesuffix(".slice").split("-")
        for one in self.hierarchies:
            if not (one.unified or "name=systemd" in one.controllers):
                continue
            above = ""
            for depth in range(len(parts)):
                if one.unified:
                    control = Path(one.folder(above or "/")) / "cgroup.subtree_control"
                    control.write_text(" ".join(f"+{c}" for c in one.controllers))
                above += "/" + "-".join(parts[: depth + 1]) + ".slice"
                if not one.has(above):
                    one.make(one.folder(above))

    def close(self):
        self._bus._sock.shutdown(2)
        self._thread.join(10)
        self._bus.close()


@pytest.fixture(params=[version_1, version_2], ids=["version-1", "version-2"])
def world(request, bus, tmp_path):
    """Return a driver on folders, and who answers as systemd."""
    hierarchies = request.param(tmp_path)
    systemd = Systemd(bus, hierarchies)
    yield PodCgroups(hierarchies, slices=Slices(bus)), systemd
    systemd.close()


def ensure(port, limits=LIMITS):
    return port.perform(EnsurePodCgroup(cgroup_parent=PATH, driver=CgroupDriver.SYSTEMD, limits=limits), 20.0)


def test_a_slice_is_started_with_its_limits_and_has_them_in_its_files(world):
    port, systemd = world
    assert ensure(port).unapplied == ()
    unified = systemd.hierarchies[0].unified
    given = systemd.units[UNIT]
    assert given["Wants"] == ["kubepods-burstable.slice"]
    assert (given["DefaultDependencies"], given["TasksAccounting"]) == (0, 1)
    assert given["CPUQuotaPerSecUSec"] == 500_000
    assert given["TasksMax"] == 40
    assert given["MemoryMax" if unified else "MemoryLimit"] == INFINITY
    assert given["CPUWeight" if unified else "CPUShares"] == (20 if unified else 512)
    assert value(systemd.hierarchies, PATH, "pids.max") == "40"
    assert all(one.has(PATH) for one in systemd.hierarchies)


def test_what_has_its_values_is_not_asked_for_again_and_other_values_are(world):
    port, systemd = world
    ensure(port)
    before = len(systemd.calls)
    assert ensure(port) == PodCgroupMade()
    assert len(systemd.calls) == before
    ensure(port, CgroupLimits(pids=50))
    assert [member for member, _, _ in systemd.calls[before:]] == ["StartTransientUnit", "SetUnitProperties"]
    assert systemd.units[UNIT]["TasksMax"] == 50
    assert systemd.units[UNIT]["CPUQuotaPerSecUSec"] == 500_000
    assert value(systemd.hierarchies, PATH, "pids.max") == "50"


def test_a_pods_slice_is_stopped_and_its_folders_are_removed(world):
    port, systemd = world
    ensure(port)
    assert port.perform(RemovePodCgroup(cgroup_parent=PATH), 20.0) == PodCgroupRemoved()
    assert UNIT not in systemd.units
    assert not any(one.has(PATH) for one in systemd.hierarchies)
    calls = len(systemd.calls)
    assert port.perform(RemovePodCgroup(cgroup_parent=PATH), 20.0) == PodCgroupRemoved()
    assert len(systemd.calls) == calls


def test_the_nodes_slices_are_started_and_stay_when_the_agent_goes(world):
    port, systemd = world
    groups = tuple(
        NodeCgroup(path=path, limits=LIMITS)
        for path in ("/kubepods.slice", "/kubepods.slice/kubepods-burstable.slice")
    )
    made = port.perform(EnsureNodeCgroups(groups=groups, driver=CgroupDriver.SYSTEMD), 20.0)
    assert (made.refused, made.unapplied) == ((), ())
    assert set(systemd.units) == {"kubepods.slice", "kubepods-burstable.slice"}
    assert "Wants" not in systemd.units["kubepods.slice"]
    port.close()
    assert all(one.has("/kubepods.slice") for one in systemd.hierarchies)


def test_a_refusal_is_a_failure_with_its_words(world):
    port, systemd = world
    systemd.refuses = "org.freedesktop.DBus.Error.AccessDenied"
    with pytest.raises(UnavailableError, match=f"systemd did not make the slice {PATH}: no"):
        ensure(port)


def test_a_slice_that_never_comes_to_be_is_an_unknown_outcome(world, monkeypatch):
    port, systemd = world
    systemd.makes = False
    # Nobody waits ten seconds for what will not happen.
    monkeypatch.setattr("runtime.drivers.host.cgroups.cgroup.SLICE_DEADLINE_S", 0.05)
    with pytest.raises(TimedOutError):
        ensure(port)


def test_without_a_bus_nothing_is_made_and_that_is_said(tmp_path):
    hierarchies = version_2(tmp_path)
    port = PodCgroups(hierarchies, slices=Slices(str(tmp_path / "nothing")))
    (why,) = ensure(port).refused
    assert why.startswith(f"slice {PATH} cannot be made: systemd does not answer: ")
    assert not hierarchies[0].has("/kubepods.slice")


def test_an_error_of_the_bus_itself_has_its_name(bus):
    link = Bus(bus, 10.0)
    try:
        with pytest.raises(DbusError) as caught:
            link.call(("no.such.name", "/", "no.such.name"), "Call", "a(sv)", [("k", ("as", ["x"]))])
        assert caught.value.name == "org.freedesktop.DBus.Error.ServiceUnknown"
        # It still works: the bus drops who sends what is no message.
        assert link.call(BUS, "NameHasOwner", "s", "org.freedesktop.DBus") == (1,)
    finally:
        link.close()
