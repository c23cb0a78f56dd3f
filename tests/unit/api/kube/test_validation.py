"""The rules of a Pod, one row each: what is changed in a good pod, and the problem that follows."""

import copy

import msgspec
import pytest

from api.kube.objects.pod import Pod
from api.kube.poddefault import default_pod
from api.kube.shape import fit
from api.kube.validation import static_pod_problems, validate_pod

GOOD = {
    "metadata": {"name": "web", "namespace": "shop", "labels": {"app.kubernetes.io/name": "web"}},
    "spec": {
        "initContainers": [
            {"name": "setup", "image": "tool:1"},
            {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always", "readinessProbe": {"tcpSocket": {"port": 1}}},
        ],
        "containers": [
            {
                "name": "app",
                "image": "web:1",
                "ports": [{"containerPort": 8080, "name": "http"}],
                "env": [
                    {"name": "A", "value": "1"},
                    {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                    {"name": "L", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app.kubernetes.io/name']"}}},
                    {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                ],
                "resources": {"limits": {"cpu": "1", "memory": "64Mi", "example.com/gpu": "1"}, "requests": {"cpu": "500m"}},
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
                "livenessProbe": {"httpGet": {"port": "http", "httpHeaders": [{"name": "X-A", "value": "b"}]}},
                "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
                "restartPolicy": "OnFailure",
                "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}],
                "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}, "runAsUser": 1000},
            },
            {"name": "side", "image": "side@sha256:00"},
        ],
        "volumes": [
            {"name": "tmp"},
            {"name": "host", "hostPath": {"path": "/srv", "type": "Directory"}},
            {"name": "facts", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        ],
        "tolerations": [{"operator": "Exists", "effect": "NoExecute"}, {"key": "a", "value": "b"}],
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["db.local"]}],
        "securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "1"}]},
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["1.1.1.1", "::1"], "searches": ["_tcp.shop.local.", "."]},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
                }
            }
        },
    },
}  # fmt: skip

C = "spec.containers[0]"
V = "spec.volumes[0]"


def at(raw, path):
    """Return the place and the last step of a path such as ``spec.containers[0].name``."""
    steps = [
        int(step) if step.isdigit() else step for step in path.replace("[", ".").replace("]", "").split(".")
    ]
    for step in steps[:-1]:
        raw = raw.setdefault(step, {}) if isinstance(raw, dict) else raw[step]
    return raw, steps[-1]


def pod_with(path, value):
    """Return the good pod with one place changed, as plain data."""
    raw = copy.deepcopy(GOOD)
    place, last = at(raw, path)
    if isinstance(place, list) and last == len(place):
        place.append(value)
    else:
        place[last] = value
    return raw


def read(raw):
    """Return a pod with its defaults."""
    fitted = fit(raw, Pod)
    assert fitted.problems == ()
    assert fitted.unknown == ()
    return default_pod(msgspec.convert(fitted.value, Pod))


ROWS = [
    # path of the change, its value, path of the problem, a part of what is expected
    ("metadata.name", "", "metadata.name", "a DNS name"),
    ("metadata.name", "Web", "metadata.name", "lower case"),
    ("metadata.name", "a" * 254, "metadata.name", "253"),
    ("metadata.name", "a..b", "metadata.name", "a DNS name"),
    ("metadata.namespace", "a.b", "metadata.namespace", "a DNS label"),
    ("metadata.labels", {"-a": "b"}, "metadata.labels.-a", "63 letters"),
    ("metadata.labels", {"a": "b c"}, "metadata.labels.a", "63 letters"),
    ("metadata.labels", {"a": "b" * 64}, "metadata.labels.a", "63 letters"),
    ("metadata.labels", {"A.b/c": "d"}, "metadata.labels[A.b/c]", "DNS name"),
    ("metadata.annotations", {"a b": "c"}, "metadata.annotations[a b]", "63 letters"),
    ("metadata.annotations", {"a": "x" * (256 << 10)}, "metadata.annotations", "at most 262144 bytes"),
    ("spec.containers", [], "spec.containers", "at least one container"),
    (f"{C}.name", "", f"{C}.name", "a DNS label"),
    (f"{C}.name", "a" * 64, f"{C}.name", "at most 63"),
    (f"{C}.name", "side", "spec.containers[1].name", "spec.containers[0] has the same"),
    ("spec.initContainers[0].name", "app", f"{C}.name", "spec.initContainers[0] has the same"),
    (f"{C}.image", "", f"{C}.image", "the name of an image"),
    (f"{C}.image", " ", f"{C}.image", "the name of an image"),
    (f"{C}.image", "web ", f"{C}.image", "without spaces"),
    (f"{C}.imagePullPolicy", "Sometimes", f"{C}.imagePullPolicy", "Always, IfNotPresent, Never"),
    (f"{C}.terminationMessagePolicy", "x", f"{C}.terminationMessagePolicy", "FallbackToLogsOnError"),
    (f"{C}.ports", [{"containerPort": 0}], f"{C}.ports[0].containerPort", "between 1 and 65535"),
    (f"{C}.ports", [{"containerPort": 65536}], f"{C}.ports[0].containerPort", "between 1 and 65535"),
    (f"{C}.ports", [{"containerPort": 1, "hostPort": -1}], f"{C}.ports[0].hostPort", "between 0 and 65535"),
    (f"{C}.ports", [{"containerPort": 1, "protocol": "tcp"}], f"{C}.ports[0].protocol", "TCP, UDP, SCTP"),
    (f"{C}.ports", [{"containerPort": 1, "name": "A"}], f"{C}.ports[0].name", "15 lower case"),
    (f"{C}.ports", [{"containerPort": 1, "name": "1"}], f"{C}.ports[0].name", "with a letter"),
    (f"{C}.ports", [{"containerPort": 1, "name": "a--b"}], f"{C}.ports[0].name", "single '-'"),
    (f"{C}.ports", [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}], f"{C}.ports[1].name", "unique in this list"),
    (f"{C}.ports", [{"containerPort": 1, "hostIP": "x"}], f"{C}.ports[0].hostIP", "an IP address"),
    (f"{C}.ports", [{"containerPort": n, "hostPort": 5} for n in (1, 2)], f"{C}.ports[1].hostPort", "free"),
    (f"{C}.env", [{"name": ""}], f"{C}.env[0].name", "a name"),
    (f"{C}.env", [{"name": "a=b"}], f"{C}.env[0].name", "without '='"),
    (f"{C}.env", [{"name": "a", "valueFrom": {}}], f"{C}.env[0].valueFrom", "exactly one source"),
    (f"{C}.env", [{"name": "a", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}], f"{C}.env[0].valueFrom", "either"),
    (f"{C}.env", [{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}], f"{C}.env[0].valueFrom.fieldRef.fieldPath", "status.podIP"),
    (f"{C}.env", [{"name": "a", "valueFrom": {"resourceFieldRef": {"resource": "x"}}}], f"{C}.env[0].valueFrom.resourceFieldRef.resource", "limits.cpu"),
    (f"{C}.env", [{"name": "a", "valueFrom": {"fileKeyRef": {"key": "K", "path": "p", "volumeName": "no"}}}], f"{C}.env[0].valueFrom.fileKeyRef.volumeName", "volumes"),
    (f"{C}.envFrom", [{}], f"{C}.envFrom[0]", "exactly one source"),
    (f"{C}.envFrom", [{"configMapRef": {}}], f"{C}.envFrom[0].configMapRef.name", "a name"),
    (f"{C}.volumeMounts", [{"name": "no", "mountPath": "/a"}], f"{C}.volumeMounts[0].name", "(facts, host, tmp)"),
    (f"{C}.volumeMounts", [{"name": "tmp"}], f"{C}.volumeMounts[0].mountPath", "a path"),
    (f"{C}.volumeMounts", [{"name": n, "mountPath": "/a"} for n in ("tmp", "host")], f"{C}.volumeMounts[1].mountPath", "unique in this list"),
    (f"{C}.volumeMounts", [{"name": "tmp", "mountPath": "/a", "subPath": "/b"}], f"{C}.volumeMounts[0].subPath", "relative"),
    (f"{C}.volumeMounts", [{"name": "tmp", "mountPath": "/a", "subPath": "b/../../c"}], f"{C}.volumeMounts[0].subPath", 'without ".."'),
    (f"{C}.volumeMounts", [{"name": "tmp", "mountPath": "/a", "subPath": "b", "subPathExpr": "c"}], f"{C}.volumeMounts[0].subPathExpr", "either"),
    (f"{C}.volumeMounts", [{"name": "tmp", "mountPath": "/a", "mountPropagation": "Bidirectional"}], f"{C}.volumeMounts[0].mountPropagation", "privileged"),
    (f"{C}.volumeMounts", [{"name": "tmp", "mountPath": "/a", "recursiveReadOnly": "Enabled"}], f"{C}.volumeMounts[0].recursiveReadOnly", "readOnly is true"),
    (f"{C}.volumeDevices", [{"name": "tmp", "devicePath": "/d"}], f"{C}.volumeDevices[0].name", "not also in volumeMounts"),
    (f"{C}.resources", {"limits": {"cpu": "1"}, "requests": {"cpu": "1001m"}}, f"{C}.resources.requests.cpu", "at most the limit"),
    (f"{C}.resources", {"limits": {"cpu": "-1"}}, f"{C}.resources.limits.cpu", "not negative"),
    (f"{C}.resources", {"limits": {"disk": "1"}}, f"{C}.resources.limits.disk", "ephemeral-storage"),
    (f"{C}.resources", {"limits": {"example.com/gpu": "500m"}}, f"{C}.resources.limits[example.com/gpu]", "an integer"),
    (f"{C}.resources", {"requests": {"example.com/gpu": "1"}}, f"{C}.resources.requests[example.com/gpu]", "equal to the limit"),
    (f"{C}.resources", {"claims": [{"name": "no"}]}, f"{C}.resources.claims[0].name", "resourceClaims"),
    (f"{C}.livenessProbe", {}, f"{C}.livenessProbe", "exactly one handler"),
    (f"{C}.livenessProbe", {"exec": {"command": ["a"]}, "grpc": {"port": 1}}, f"{C}.livenessProbe", "exactly one handler"),
    (f"{C}.livenessProbe", {"exec": {}}, f"{C}.livenessProbe.exec.command", "a command"),
    (f"{C}.livenessProbe", {"httpGet": {"port": 0}}, f"{C}.livenessProbe.httpGet.port", "1 to 65535"),
    (f"{C}.livenessProbe", {"httpGet": {"port": "8080"}}, f"{C}.livenessProbe.httpGet.port", "without quotes"),
    (f"{C}.livenessProbe", {"httpGet": {"port": 1, "scheme": "ftp"}}, f"{C}.livenessProbe.httpGet.scheme", "HTTP, HTTPS"),
    (f"{C}.livenessProbe", {"httpGet": {"port": 1, "httpHeaders": [{"name": "a b"}]}}, f"{C}.livenessProbe.httpGet.httpHeaders[0].name", "header name"),
    (f"{C}.livenessProbe", {"grpc": {"port": 0}}, f"{C}.livenessProbe.grpc.port", "between 1 and 65535"),
    (f"{C}.livenessProbe", {"grpc": {"port": 1}, "successThreshold": 2}, f"{C}.livenessProbe.successThreshold", "1 for a"),
    (f"{C}.livenessProbe", {"grpc": {"port": 1}, "periodSeconds": -1}, f"{C}.livenessProbe.periodSeconds", "at least 0"),
    (f"{C}.livenessProbe", {"grpc": {"port": 1}, "terminationGracePeriodSeconds": 0}, f"{C}.livenessProbe.terminationGracePeriodSeconds", "at least 1"),
    (f"{C}.startupProbe", {"grpc": {"port": 1}, "successThreshold": 2}, f"{C}.startupProbe.successThreshold", "1 for a"),
    (f"{C}.readinessProbe", {"grpc": {"port": 1}, "terminationGracePeriodSeconds": 5}, f"{C}.readinessProbe.terminationGracePeriodSeconds", "nothing"),
    (f"{C}.lifecycle", {"postStart": {}}, f"{C}.lifecycle.postStart", "exactly one handler"),
    (f"{C}.lifecycle", {"preStop": {"sleep": {"seconds": 31}}}, f"{C}.lifecycle.preStop.sleep.seconds", "between 0 and 30"),
    (f"{C}.lifecycle", {"stopSignal": "TERM"}, f"{C}.lifecycle.stopSignal", "SIGTERM"),
    (f"{C}.restartPolicy", "Sometimes", f"{C}.restartPolicy", "Always, OnFailure, Never"),
    (f"{C}.restartPolicy", "", f"{C}.restartPolicy", "restartPolicyRules"),
    (f"{C}.restartPolicyRules", [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}] * 21, f"{C}.restartPolicyRules", "at most 20"),
    (f"{C}.restartPolicyRules", [{"action": "Stop", "exitCodes": {"operator": "In", "values": [1]}}], f"{C}.restartPolicyRules[0].action", "RestartAllContainers"),
    (f"{C}.restartPolicyRules", [{"action": "Restart"}], f"{C}.restartPolicyRules[0].exitCodes", "the exit codes of the rule"),
    (f"{C}.restartPolicyRules", [{"action": "Restart", "exitCodes": {"operator": "In", "values": [256]}}], f"{C}.restartPolicyRules[0].exitCodes.values[0]", "between 0 and 255"),
    (f"{C}.restartPolicyRules", [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1, 1]}}], f"{C}.restartPolicyRules[0].exitCodes.values[1]", "unique in this list"),
    (f"{C}.restartPolicyRules", [{"action": "Restart", "exitCodes": {"operator": "In", "values": list(range(256))}}], f"{C}.restartPolicyRules[0].exitCodes.values", "at most 255"),
    (f"{C}.securityContext", {"privileged": True, "allowPrivilegeEscalation": False}, f"{C}.securityContext.allowPrivilegeEscalation", "privileged"),
    (f"{C}.securityContext", {"capabilities": {"add": ["SYS_ADMIN"]}, "allowPrivilegeEscalation": False}, f"{C}.securityContext.allowPrivilegeEscalation", "SYS_ADMIN"),
    (f"{C}.securityContext", {"runAsUser": -1}, f"{C}.securityContext.runAsUser", "between 0 and 2147483647"),
    (f"{C}.securityContext", {"procMount": "Unmasked"}, f"{C}.securityContext.procMount", "hostUsers is false"),
    (f"{C}.securityContext", {"seccompProfile": {"type": "Localhost"}}, f"{C}.securityContext.seccompProfile.localhostProfile", "a profile"),
    (f"{C}.securityContext", {"appArmorProfile": {"type": "Unconfined", "localhostProfile": "x"}}, f"{C}.securityContext.appArmorProfile.localhostProfile", "nothing"),
    (f"{C}.resizePolicy", [{"resourceName": "disk", "restartPolicy": "NotRequired"}], f"{C}.resizePolicy[0].resourceName", "cpu, memory"),
    ("spec.initContainers[0].livenessProbe", {"grpc": {"port": 1}}, "spec.initContainers[0].livenessProbe", "restartPolicy Always"),
    ("spec.initContainers[0].lifecycle", {"preStop": {"sleep": {"seconds": 1}}}, "spec.initContainers[0].lifecycle", "restartPolicy Always"),
    ("spec.initContainers[1].readinessProbe", {}, "spec.initContainers[1].readinessProbe", "exactly one handler"),
    ("spec.ephemeralContainers", [{"name": "d", "image": "i", "targetContainerName": "no"}], "spec.ephemeralContainers[0].targetContainerName", "containers"),
    ("spec.ephemeralContainers", [{"name": "d", "image": "i", "ports": [{"containerPort": 1}]}], "spec.ephemeralContainers[0].ports", "nothing"),
    (f"{V}.name", "", f"{V}.name", "a DNS label"),
    (f"{V}.name", "host", "spec.volumes[1].name", "unique in this list"),
    (V, {"name": "tmp", "emptyDir": {}, "hostPath": {"path": "/"}}, V, "one volume source"),
    (V, {"name": "tmp", "emptyDir": {"medium": "Disk"}}, f"{V}.emptyDir.medium", "Memory"),
    (V, {"name": "tmp", "emptyDir": {"sizeLimit": "-1"}}, f"{V}.emptyDir.sizeLimit", "not negative"),
    (V, {"name": "tmp", "hostPath": {}}, f"{V}.hostPath.path", "absolute path"),
    (V, {"name": "tmp", "hostPath": {"path": "/a/../b"}}, f"{V}.hostPath.path", '".."'),
    (V, {"name": "tmp", "hostPath": {"path": "/a", "type": "Dir"}}, f"{V}.hostPath.type", "DirectoryOrCreate"),
    (V, {"name": "tmp", "secret": {}}, f"{V}.secret.secretName", "secret"),
    (V, {"name": "tmp", "configMap": {"name": "a", "defaultMode": 0o1000}}, f"{V}.configMap.defaultMode", "between 0 and 511"),
    (V, {"name": "tmp", "configMap": {"name": "a", "items": [{"key": "k", "path": "../x"}]}}, f"{V}.configMap.items[0].path", '".."'),
    (V, {"name": "tmp", "downwardAPI": {"items": [{"path": "a"}]}}, f"{V}.downwardAPI.items[0]", "exactly one source"),
    (V, {"name": "tmp", "projected": {"sources": [{}]}}, f"{V}.projected.sources[0]", "exactly one source"),
    (V, {"name": "tmp", "projected": {"sources": [{"serviceAccountToken": {"path": "a", "expirationSeconds": 1}}]}}, f"{V}.projected.sources[0].serviceAccountToken.expirationSeconds", "600"),
    (V, {"name": "tmp", "projected": {"sources": [{"configMap": {"name": n, "items": [{"key": "k", "path": "p"}]}} for n in "ab"]}}, f"{V}.projected.sources", "different path"),
    (V, {"name": "tmp", "image": {}}, f"{V}.image.reference", "image"),
    (V, {"name": "tmp", "nfs": {"server": "s", "path": "p"}}, f"{V}.nfs.path", "absolute"),
    (V, {"name": "tmp", "csi": {}}, f"{V}.csi.driver", "driver"),
    ("spec.restartPolicy", "Sometimes", "spec.restartPolicy", "Always, OnFailure, Never"),
    ("spec.terminationGracePeriodSeconds", -1, "spec.terminationGracePeriodSeconds", "at least 0"),
    ("spec.activeDeadlineSeconds", 0, "spec.activeDeadlineSeconds", "between 1 and"),
    ("spec.dnsPolicy", "Cluster", "spec.dnsPolicy", "ClusterFirst"),
    ("spec.dnsConfig", {}, "spec.dnsConfig.nameservers", "dnsPolicy is None"),
    ("spec.dnsConfig.nameservers", ["1.1.1.1"] * 4, "spec.dnsConfig.nameservers", "at most 3"),
    ("spec.dnsConfig.nameservers", ["dns"], "spec.dnsConfig.nameservers[0]", "an IP address"),
    ("spec.dnsConfig.searches", ["a"] * 33, "spec.dnsConfig.searches", "at most 32"),
    ("spec.dnsConfig.searches", ["A"], "spec.dnsConfig.searches[0]", "lower case"),
    ("spec.dnsConfig.options", [{"value": "1"}], "spec.dnsConfig.options[0].name", "option"),
    ("spec.hostname", "a.b", "spec.hostname", "a DNS label"),
    ("spec.hostAliases", [{"ip": "10.0.0"}], "spec.hostAliases[0].ip", "an IP address"),
    ("spec.hostAliases", [{"ip": "::1", "hostnames": ["a_b"]}], "spec.hostAliases[0].hostnames[0]", "a DNS name"),
    ("spec.hostNetwork", True, "spec.securityContext.sysctls[0].name", "under hostNetwork"),
    ("spec.hostnameOverride", "a" * 65, "spec.hostnameOverride", "at most"),
    ("spec.securityContext", {"sysctls": [{"name": "kernel/shmmax", "value": "1"}, {"name": "kernel.shmmax", "value": "1"}]}, "spec.securityContext.sysctls[1].name", "unique in this list"),
    ("spec.securityContext", {"sysctls": [{"name": "A", "value": "1"}]}, "spec.securityContext.sysctls[0].name", "a sysctl such as"),
    ("spec.securityContext", {"fsGroup": -1}, "spec.securityContext.fsGroup", "between 0 and"),
    ("spec.securityContext", {"supplementalGroups": [1, -1]}, "spec.securityContext.supplementalGroups[1]", "between 0 and"),
    ("spec.tolerations", [{"effect": "No"}], "spec.tolerations[0].effect", "NoExecute"),
    ("spec.tolerations", [{"value": "a"}], "spec.tolerations[0].operator", "key is unset"),
    ("spec.tolerations", [{"key": "a", "operator": "Exists", "value": "b"}], "spec.tolerations[0].value", "nothing"),
    ("spec.tolerations", [{"key": "a", "tolerationSeconds": 1, "effect": "NoSchedule"}], "spec.tolerations[0].effect", "NoExecute"),
    ("spec.topologySpreadConstraints[0].maxSkew", 0, "spec.topologySpreadConstraints[0].maxSkew", "at least 1"),
    ("spec.topologySpreadConstraints[0].whenUnsatisfiable", "", "spec.topologySpreadConstraints[0].whenUnsatisfiable", "DoNotSchedule"),
    ("spec.nodeSelector", {"a": "b c"}, "spec.nodeSelector.a", "63 letters"),
    ("spec.affinity", {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}, "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms", "at least one"),
    ("spec.affinity", {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 101, "podAffinityTerm": {"topologyKey": "a"}}]}}, "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight", "between 1 and 100"),
    ("spec.resourceClaims", [{"name": "a"}], "spec.resourceClaims[0]", "exactly one source"),
    ("spec.readinessGates", [{}], "spec.readinessGates[0].conditionType", "63 letters"),
    ("spec.os", {"name": "beos"}, "spec.os.name", "linux, windows"),
    ("spec.preemptionPolicy", "x", "spec.preemptionPolicy", "Never"),
    ("spec.overhead", {"cpu": "-1"}, "spec.overhead.cpu", "not negative"),
    ("spec", {"containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": "300m"}}}, {"name": "b", "image": "i", "resources": {"requests": {"cpu": "200m"}}}], "resources": {"requests": {"cpu": "400m"}}}, "spec.resources.requests.cpu", "at least 500m"),
    ("spec", {"containers": [{"name": "a", "image": "i", "resources": {"requests": {"memory": "1Mi"}, "limits": {"memory": "2Gi"}}}], "resources": {"limits": {"memory": "1Gi"}}}, "spec.containers[0].resources.limits.memory", "at most the limit of the pod"),
    ("spec.resources", {"limits": {"ephemeral-storage": "1"}}, "spec.resources.limits.ephemeral-storage", "cpu, memory"),
    ("spec.serviceAccountName", "A", "spec.serviceAccountName", "a DNS name"),
]  # fmt: skip


def test_a_good_pod_has_no_problem():
    assert validate_pod(read(GOOD)) == ()
    assert static_pod_problems(read(GOOD)) == ()


@pytest.mark.parametrize(
    ("path", "value", "where", "expected"), ROWS, ids=[f"{n}-{row[0]}" for n, row in enumerate(ROWS)]
)
def test_a_broken_rule_is_told_with_its_field(path, value, where, expected):
    found = validate_pod(read(pod_with(path, value)))
    assert [problem for problem in found if problem.path == where and expected in problem.expected], [
        str(one) for one in found
    ]


def test_host_namespaces_exclude_a_user_namespace_and_a_shared_process_namespace():
    raw = pod_with("spec.hostUsers", False)
    raw["spec"] |= {"hostPID": True, "hostIPC": True, "shareProcessNamespace": True, "securityContext": {}}
    paths = [problem.path for problem in validate_pod(read(raw))]
    assert paths == ["spec.shareProcessNamespace", "spec.hostUsers", "spec.hostUsers"]


def test_a_host_port_under_host_network_is_the_container_port():
    raw = pod_with(f"{C}.ports", [{"containerPort": 80, "hostPort": 81}])
    raw["spec"] |= {"hostNetwork": True, "securityContext": {}}
    assert [str(problem) for problem in validate_pod(read(raw))] == [
        f"{C}.ports[0].hostPort: must be equal to containerPort (80) under hostNetwork, not 81"
    ]


def test_all_problems_are_told_at_once():
    raw = pod_with("metadata.name", "A")
    raw["spec"]["restartPolicy"] = "x"
    raw["spec"]["containers"][0]["image"] = ""
    raw["spec"]["containers"][1]["name"] = "B"
    paths = [problem.path for problem in validate_pod(read(raw))]
    assert paths == ["metadata.name", f"{C}.image", "spec.containers[1].name", "spec.restartPolicy"]


def test_no_problem_repeats_the_value_of_a_variable():
    raw = pod_with(f"{C}.env", [{"name": "PASSWORD=hunter2"}, {"name": "", "value": "hunter2"}])
    found = validate_pod(read(raw))
    assert len(found) == 2
    assert "hunter2" not in str(found)


REFERENCES = [
    ("spec.serviceAccountName", "a", "spec.serviceAccountName", "serviceaccounts"),
    ("spec.serviceAccount", "a", "spec.serviceAccountName", "serviceaccounts"),
    ("spec.imagePullSecrets", [{"name": "a"}], "spec.imagePullSecrets[0]", "secrets"),
    ("spec.resourceClaims", [{"name": "a", "resourceClaimName": "b"}], "spec.resourceClaims[0]", "resourceclaims"),
    ("spec.ephemeralContainers", [{"name": "d", "image": "i"}], "spec.ephemeralContainers", "ephemeralcontainers"),
    (f"{C}.envFrom", [{"secretRef": {"name": "a"}}], f"{C}.envFrom[0].secretRef", "secrets"),
    (f"{C}.envFrom", [{"configMapRef": {"name": "a"}}], f"{C}.envFrom[0].configMapRef", "configmaps"),
    ("spec.initContainers[0].env", [{"name": "a", "valueFrom": {"secretKeyRef": {"name": "a", "key": "k"}}}], "spec.initContainers[0].env[0].valueFrom.secretKeyRef", "secrets"),
    (f"{C}.env", [{"name": "a", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "k"}}}], f"{C}.env[0].valueFrom.configMapKeyRef", "configmaps"),
    (V, {"name": "tmp", "secret": {"secretName": "a"}}, f"{V}.secret", "secrets"),
    (V, {"name": "tmp", "configMap": {"name": "a"}}, f"{V}.configMap", "configmaps"),
    (V, {"name": "tmp", "persistentVolumeClaim": {"claimName": "a"}}, f"{V}.persistentVolumeClaim", "persistentvolumeclaims"),
    (V, {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}, f"{V}.ephemeral", "persistentvolumeclaims"),
    (V, {"name": "tmp", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "a"}}}, f"{V}.csi.nodePublishSecretRef", "secrets"),
    (V, {"name": "tmp", "rbd": {"image": "i", "secretRef": {"name": "a"}}}, f"{V}.rbd.secretRef", "secrets"),
    (V, {"name": "tmp", "projected": {"sources": [{"secret": {"name": "a"}}]}}, f"{V}.projected.sources[0].secret", "secrets"),
    (V, {"name": "tmp", "projected": {"sources": [{"configMap": {"name": "a"}}]}}, f"{V}.projected.sources[0].configMap", "configmaps"),
    (V, {"name": "tmp", "projected": {"sources": [{"serviceAccountToken": {"path": "a"}}]}}, f"{V}.projected.sources[0].serviceAccountToken", "serviceaccounts"),
    (V, {"name": "tmp", "projected": {"sources": [{"clusterTrustBundle": {"path": "a", "name": "b"}}]}}, f"{V}.projected.sources[0].clusterTrustBundle", "clustertrustbundles"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "value", "where", "resource"), REFERENCES, ids=[row[2] for row in REFERENCES]
)
def test_a_static_pod_may_not_refer_to_what_only_an_api_server_knows(path, value, where, resource):
    found = static_pod_problems(read(pod_with(path, value)))
    assert [(one.path, one.expected) for one in found] == [
        (where, f"nothing: static pods may not reference {resource}")
    ]
