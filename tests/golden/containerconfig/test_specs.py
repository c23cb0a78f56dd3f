"""Golden pairs: a pod and facts of the node in (YAML), what the runtime is asked for out (JSON).

Each pair is written by hand from the rules that it names. The first, the smallest, is shown whole, without fields at
their default. Of the others only what differs from it: from a pod of the same name whose containers have their names and
images and nothing more, on the node that the first is on. What that has and this one lacks is null.
"""

import json
from pathlib import Path

import msgspec
import pytest
import yaml

from actors.pod.spec.containerconfig import (
    container_files,
    container_spec,
    container_sub_paths,
    sandbox_spec,
    sandbox_warnings,
)
from actors.pod.spec.mount import SubPath
from actors.pod.spec.problem import ConfigProblem
from actors.pod.spec.security import RunImage
from actors.pod.spec.support import unsupported_paths
from actors.pod.spec.volume import volume_path, volume_plans
from api.kube.objects.pod import Pod
from api.kube.poddefault import default_pod
from api.kube.validation.pod import validate_pod
from api.ports.node import NodeFacts, NodeFiles, ResolverFile

PAIRS = sorted(Path(__file__).parent.glob("*.yaml"))
UID = "b5b6a5c0-1111-2222-3333-444455556666"
NODE = {
    "name": "node-1",
    "ips": ["192.0.2.10"],
    "confined": True,
    "memory_bytes": 16 << 30,
    "allocatable_cpu_milli": 4000,
    "allocatable_memory_bytes": 16 << 30,
    "cluster_dns": ["10.96.0.10"],
    "cluster_domain": "cluster.local",
    "cgroup_version": 2,
    "swap_controller": True,
    "group_oom_kill": True,
    "huge_page_sizes": [2 << 20, 1 << 30],
}
FILES = NodeFiles(
    resolver=ResolverFile(servers=("192.0.2.53",), searches=("example.org",), options=("timeout:1",)),
    hosts="127.0.0.1\tlocalhost\n192.0.2.10\tnode-1\n",
)


def bare(value):
    """Return a struct as plain data, without the fields that are at their default."""
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        found = {}
        for field in fields:
            part = getattr(value, field.name)
            default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            if part != default or default is msgspec.NODEFAULT:
                found[field.name] = bare(part)
        return found
    if isinstance(value, tuple):
        if value and all(isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) for p in value):
            return {name: bare(part) for name, part in value}
        return [bare(part) for part in value]
    return value


def pod_of(raw):
    """Return a defaulted pod."""
    meta = {"name": "web", "namespace": "shop", "uid": UID, **raw.get("metadata", {})}
    containers = [{"image": "example/app:1", **one} for one in raw["spec"]["containers"]]
    return default_pod(
        msgspec.convert({"metadata": meta, "spec": {**raw["spec"], "containers": containers}}, Pod)
    )


def bare_pod(pod):
    """Return a pod of the same name whose containers have nothing but names and images."""
    meta = {name: getattr(pod.metadata, name) for name in ("name", "namespace", "uid")}
    containers = [
        {"name": one.name, "image": one.image} for one in (*pod.spec.init_containers, *pod.spec.containers)
    ]
    return pod_of({"metadata": meta, "spec": {"containers": containers}})


def asked(pod, pair):
    """Return everything that is asked for, for one pod."""
    node = msgspec.convert({**NODE, **pair.get("node", {})}, NodeFacts)
    image = msgspec.convert({"ref": "sha256:0123", **pair.get("image", {})}, RunImage)
    ips = tuple(pair.get("ips", ["10.0.0.7"]))
    attempt = pair.get("attempt", 0)
    found = {
        "sandbox": shown(sandbox_spec(pod, attempt, node, FILES)),
        "warnings": [f"{one.reason}: {one.message}" for one in sandbox_warnings(pod, node, FILES)],
        "containers": {},
        "unsupported": list(unsupported_paths(pod, confined=node.confined)),
    }
    plans = dict(volume_plans(pod, node))
    if plans:
        found["volumes"] = {name: {"plan": type(plan).__name__, **bare(plan)} for name, plan in plans.items()}
    paths = pair.get("volumes", {})
    volumes = tuple(volume_path(name, plan, paths[name]) for name, plan in plans.items() if name in paths)
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        parts = container_sub_paths(pod, container, attempt, node, ips, volumes)
        bound = () if isinstance(parts, ConfigProblem) else parts
        made = container_spec(
            pod,
            container,
            attempt,
            node,
            image=image,
            ips=ips,
            volumes=volumes,
            sub_paths=tuple(SubPath(index=one.index, host_path=f"/bound/{one.index}") for one in bound),
        )
        files = container_files(pod, container, attempt, node, FILES, ips)
        found["containers"][container.name] = {**shown(made), "files": bare(files)}
        if parts:
            problem = isinstance(parts, ConfigProblem)
            found["containers"][container.name]["sub_paths"] = (
                shown(parts) if problem else [one.brief() for one in parts]
            )
    return found


def difference(found, plain):
    """Return what of `found` is not in `plain`, and null for what is missing."""
    if not (isinstance(found, dict) and isinstance(plain, dict)) or "problem" in found:
        return found
    changed = {
        name: difference(value, plain.get(name)) for name, value in found.items() if value != plain.get(name)
    }
    return changed | {name: None for name in plain if name not in found}


def outcome_of(pair):
    """Return what a pair's JSON holds."""
    pod = pod_of(pair["pod"])
    assert [str(problem) for problem in validate_pod(pod)] == []
    found = asked(pod, pair)
    if pair.get("whole"):
        return found
    plain = asked(bare_pod(pod), {"attempt": pair.get("attempt", 0)})
    return difference(found, plain)


def shown(made):
    """Return a spec, or the problem that stands in its place, as plain data."""
    return {"problem": bare(made)} if isinstance(made, ConfigProblem) else bare(made)


@pytest.mark.parametrize("path", PAIRS, ids=lambda path: path.stem)
def test_a_pod_is_configured_as_its_rules_say(path, request):
    pair = yaml.safe_load(path.read_text())
    assert pair["rule"], "a pair names the rules that it is written from"
    found = outcome_of(pair)
    expected = path.with_suffix(".json")
    if request.config.getoption("--update", default=False) and expected.exists():
        expected.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
        return
    assert found == json.loads(expected.read_text())


def test_there_are_enough_pairs():
    assert len(PAIRS) >= 15
    assert {path.stem for path in Path(__file__).parent.glob("*.json")} == {path.stem for path in PAIRS}
