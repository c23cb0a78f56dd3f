"""A real kubelet as the judge: the same node of the same control plane, one after the other with our agent."""

import json
import os
import signal
import subprocess
from pathlib import Path

from runtime.drivers.host.volumes import mount
from tests.harness.agent.agent import NODE
from tests.harness.cluster.controlplane import ControlPlane
from tests.harness.cri.containerd import Containerd
from tests.harness.wait import until

CGROUPS = Path("/sys/fs/cgroup")


class Kubelet:
    """One kubelet and its folder."""

    def __init__(self, folder: Path, runtime: Containerd, plane: ControlPlane, **config) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.runtime, self.plane = folder, runtime, plane
        self.root, self.log = folder / "root", folder / "stderr"
        self.config = folder / "config.yaml"
        self.group = f"{runtime.cgroup_root}k"
        self.process: subprocess.Popen | None = None
        document = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": runtime.endpoint,
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "failCgroupV1": False,
            "podLogsDir": str(folder / "logs"),
            "healthzPort": 0,
            "address": "127.0.0.1",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
            "imageGCHighThresholdPercent": 100,
            **config,
        }
        self.config.write_text(json.dumps(document))

    def start(self) -> "Kubelet":
        """Start it."""
        command = [
            self.plane.program("kubelet"), "--config", str(self.config), "--root-dir", str(self.root),
            "--hostname-override", NODE, "--kubeconfig", str(self.plane.node_kubeconfig(NODE)),
            "--cert-dir", str(self.folder / "pki"),
        ]  # fmt: skip
        with self.log.open("ab") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, cwd=self.folder, start_new_session=True
            )  # fmt: skip
        return self

    def scene(self) -> str:
        """Return its last words."""
        return self.log.read_text(errors="replace")[-3000:]

    def cpu_s(self) -> float:
        """Return the CPU time that it has used."""
        assert self.process is not None
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def clean_up(self) -> None:
        """End it and remove its pods and folders."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20.0)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.runtime.remove_pods()
        # It binds its root folder to itself, so that mounts below it are shared.
        for point in mount.mounts_below(os.path.realpath(self.folder)):
            mount.unmount(point)
        until(lambda: not self.runtime.link.sandboxes(), "no sandbox is left", 20.0)
