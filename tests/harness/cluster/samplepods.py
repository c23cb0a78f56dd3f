"""Pods to run through two node agents, each with when its state is one that stays."""

from dataclasses import dataclass, field

from tests.harness.agent.agent import NODE
from tests.harness.agent.house import FOREVER
from tests.harness.cluster.clusteradmin import pod_body
from tests.harness.cri.image import BUSYBOX_NAME

READY = "ready"


@dataclass(frozen=True)
class Sample:
    """One pod, and the state to wait for: a phase, `READY`, or the reason of a waiting container."""

    name: str
    state: str
    spec: dict
    metadata: dict = field(default_factory=dict)

    def body(self) -> dict:
        """Return the pod, bound to the node."""
        body = pod_body(self.name, NODE, **{"terminationGracePeriodSeconds": 1, **self.spec})
        body["metadata"] |= self.metadata
        return body

    def is_settled(self, pod: dict) -> bool:
        """Return whether a pod is in that state."""
        status = pod.get("status", {})
        rows = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
        if self.state in ("Succeeded", "Failed"):
            return status.get("phase") == self.state
        if self.state == READY:
            return any(
                one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", ())
            )
        if self.state == "Running":
            return status.get("phase") == "Running"
        return any(one["state"].get("waiting", {}).get("reason") == self.state for one in rows)


def box(name="main", script=FOREVER, **more):
    """Return a container with a shell script."""
    return {"name": name, "image": BUSYBOX_NAME, "command": ["sh", "-c", script], **more}


def samples() -> tuple[Sample, ...]:
    """Return all samples."""
    made: list[Sample] = []

    def add(name: str, state: str, *containers, metadata=None, **spec) -> None:
        made.append(Sample(name, state, {"containers": list(containers) or [box()], **spec}, metadata or {}))

    def http(path="/", port=8080):
        return {"httpGet": {"path": path, "port": port}}

    quick = {"periodSeconds": 1, "failureThreshold": 1}
    for policy in ("Always", "OnFailure", "Never"):
        add(f"runs-{policy.lower()}", READY, restartPolicy=policy)
    for code in (0, 1, 42, 137, 255):
        state = "Succeeded" if code == 0 else "Failed"
        add(f"never-{code}", state, box(script=f"exit {code}"), restartPolicy="Never")
    add("onfailure-0", "Succeeded", box(script="exit 0"), restartPolicy="OnFailure")
    add("onfailure-3", "CrashLoopBackOff", box(script="exit 3"), restartPolicy="OnFailure")
    add("always-0", "CrashLoopBackOff", box(script="exit 0"))
    add("always-1", "CrashLoopBackOff", box(script="exit 1"))
    add("two-end", "Succeeded", box("a", "exit 0"), box("b", "exit 0"), restartPolicy="Never")
    add("two-one-fails", "Failed", box("a", "exit 0"), box("b", "exit 9"), restartPolicy="Never")
    add("one-runs-one-ended", "Running", box("a", "exit 0"), box("b"), restartPolicy="Never")
    add(
        "command-missing",
        "Failed",
        {"name": "main", "image": BUSYBOX_NAME, "command": ["/nothing"]},
        restartPolicy="Never",
    )
    add(
        "image-never",
        "ErrImageNeverPull",
        {"name": "main", "image": "localhost/none:1", "imagePullPolicy": "Never"},
    )
    add("image-name", "InvalidImageName", {"name": "main", "image": "UPPER/Case:1"})
    add(
        "message-file",
        "Failed",
        box(script="echo -n because >/dev/termination-log; exit 1"),
        restartPolicy="Never",
    )
    add(
        "message-log",
        "Failed",
        box(script="echo last words; exit 1", terminationMessagePolicy="FallbackToLogsOnError"),
        restartPolicy="Never",
    )
    add("init-ok", READY, initContainers=[box("first", "exit 0"), box("second", "exit 0")])
    add("init-fails", "Failed", initContainers=[box("first", "exit 4")], restartPolicy="Never")
    add("init-crashes", "CrashLoopBackOff", initContainers=[box("first", "exit 4")])
    add("init-runs", "PodInitializing", initContainers=[box("first")])
    add("sidecar", READY, initContainers=[box("side", restartPolicy="Always")])
    add(
        "sidecar-job",
        "Succeeded",
        box(script="exit 0"),
        initContainers=[box("side", restartPolicy="Always")],
        restartPolicy="Never",
    )
    add("ready-exec", READY, box(readinessProbe={"exec": {"command": ["true"]}, **quick}))
    add("unready-exec", "Running", box(readinessProbe={"exec": {"command": ["false"]}, **quick}))
    add("unready-http", "Running", box(readinessProbe={**http(), **quick}))
    add("unready-tcp", "Running", box(readinessProbe={"tcpSocket": {"port": 9}, **quick}))
    add("startup-exec", READY, box(startupProbe={"exec": {"command": ["true"]}, "periodSeconds": 1}))
    add(
        "startup-waits",
        "Running",
        box(startupProbe={"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 600}),
    )
    add("live-exec", READY, box(livenessProbe={"exec": {"command": ["true"]}, "periodSeconds": 1}))
    add("gate", "Running", readinessGates=[{"conditionType": "example.com/gate"}])
    add("host-network", READY, hostNetwork=True)
    add("host-pid", READY, hostPID=True)
    add("share-pid", READY, shareProcessNamespace=True)
    add("hostname", READY, hostname="custom", subdomain="sub")
    add("host-alias", READY, hostAliases=[{"ip": "10.9.9.9", "hostnames": ["alias"]}])
    add("user", READY, securityContext={"runAsUser": 1234, "runAsGroup": 2345, "supplementalGroups": [7]})
    add("non-root", "CreateContainerConfigError", securityContext={"runAsNonRoot": True})
    add("non-root-user", READY, securityContext={"runAsNonRoot": True, "runAsUser": 1000})
    add("read-only", READY, box(securityContext={"readOnlyRootFilesystem": True}))
    add("capabilities", READY, box(securityContext={"capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}}))
    add("privileged", READY, box(securityContext={"privileged": True}))
    add(
        "burstable",
        READY,
        box(resources={"requests": {"cpu": "50m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}}),
    )
    add("guaranteed", READY, box(resources={"limits": {"cpu": "100m", "memory": "64Mi"}}))
    add(
        "oom",
        "Failed",
        box(script="x=a; while :; do x=$x$x; done", resources={"limits": {"memory": "16Mi"}}),
        restartPolicy="Never",
    )
    add("too-big", "Failed", box(resources={"requests": {"cpu": "900"}}))
    add("selector", "Failed", nodeSelector={"no": "such"})
    add(
        "empty-dir",
        READY,
        box(volumeMounts=[{"name": "v", "mountPath": "/v"}]),
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    add(
        "memory-dir",
        READY,
        box(volumeMounts=[{"name": "v", "mountPath": "/v"}]),
        volumes=[{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}],
    )
    add(
        "host-path",
        READY,
        box(volumeMounts=[{"name": "v", "mountPath": "/v", "readOnly": True}]),
        volumes=[{"name": "v", "hostPath": {"path": "/etc", "type": "Directory"}}],
    )
    add(
        "host-path-missing",
        "ContainerCreating",
        box(volumeMounts=[{"name": "v", "mountPath": "/v"}]),
        volumes=[{"name": "v", "hostPath": {"path": "/does/not/exist", "type": "Directory"}}],
    )
    add(
        "sub-path",
        READY,
        box(volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "a/b"}]),
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    add(
        "environment",
        READY,
        box(
            env=[
                {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            ]
        ),
    )
    add("deadline", "Failed", activeDeadlineSeconds=25)
    add("post-start", READY, box(lifecycle={"postStart": {"exec": {"command": ["true"]}}}))
    add(
        "post-start-fails",
        "CrashLoopBackOff",
        box(lifecycle={"postStart": {"exec": {"command": ["sh", "-c", "exit 5"]}}}),
    )
    add("ports", READY, box(ports=[{"containerPort": 80, "name": "web"}]))
    add("two-containers", READY, box("a"), box("b"))
    add(
        "dns-none",
        READY,
        dnsPolicy="None",
        dnsConfig={"nameservers": ["10.8.8.8"], "searches": ["example.com"]},
    )
    add("labels", READY, metadata={"labels": {"app": "x"}, "annotations": {"note": "y"}})
    return tuple(made)
