"""What users and controllers of a cluster do to a node's pods and to its Node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from api.errors import OperatingError
from api.ids import Uid
from api.ports.kube import LEASES, ObjectPath
from api.ports.runtime import HOST_IMAGE
from runtime.drivers.memory.kubemerge import Object
from tests.harness.check.clusterbook import ClusterBook, is_mirror
from tests.harness.world.apiserver import ApiServer
from tests.harness.world.hand import FIRST_ACT_S, Hands
from tests.harness.world.outage import OutageHands
from tests.harness.world.resize import resized
from tests.harness.world.workload import NODE, REGISTRY, Wish, draw_wish

NAMESPACE = "default"
PODS = ObjectPath(plural="pods", namespace=NAMESPACE)
NODE_PATH = ObjectPath(plural="nodes", name=NODE)
LEASE_PATH = ObjectPath(api_version=LEASES, plural="leases", namespace="kube-node-lease", name=NODE)
FINALIZER = "sim.example.com/hold"
GATE = "sim.example.com/gate"
REMARK = "sim.example.com/Remark"
"""A condition that a controller sets beside the agent's own."""
JOBS = (
    ("sleep", "2", "exit", "0"),
    ("sleep", "40", "exit", "0"),
    ("sleep", "90", "exit", "0"),
    ("exit", "3"),
)
"""What containers do that are to run once; most of them succeed."""
FIRST_PODS, MOST_PODS = 5, 14
ACTS = 44
BESIDE = 20
"""Acts on what is no matter of the cluster."""


def pod_path(name: str, subresource: str = "") -> ObjectPath:
    """Return where a pod is."""
    return ObjectPath(plural="pods", namespace=NAMESPACE, name=name, subresource=subresource)


class ClusterHands(OutageHands):
    """Does what `Hands` does to static pods and containers, and acts on the API server; the book learns what it asked for."""

    many = BESIDE

    def __init__(self, api: ApiServer, book: ClusterBook, hands: Hands) -> None:
        super().__init__(api, book, hands)
        self.pods: dict[str, Wish] = {}
        """By UID: what was asked for last, of each pod that the API server has."""
        self._names = 0

    def acts(self) -> tuple[tuple[Callable[[], None], int], ...]:
        """Return what may be done beside the acts on the cluster: nothing that loses how a container ended."""
        return (
            (self.add_one, 4),
            (self.remove_one, 5),
            (self.revise_one, 6),
            (self.break_one, 2),
            (self.mend_one, 2),
            (self.kill_container, 8),
            (self.kill_sandbox, 2),
            (self.remove_image, 2),
            (self.add_foreign, 1),
            (self.cut_streams, 2),
        )

    def cluster_acts(self) -> tuple[tuple[Callable[[], None], int], ...]:
        """Return what may be done to the cluster, with weights."""
        return (
            (self.bind_one, 10),
            (self.delete_one, 11),
            (self.change_image, 5),
            (self.add_ephemeral, 3),
            (self.resize_pod, 4),
            (self.label_one, 4),
            (self.set_condition, 5),
            (self.delete_mirror, 3),
            (self.change_node, 3),
            (self.delete_node, 2),
            (self.outage, 7),
            (self.unknown_identity, 2),
            (self.hang, 3),
            (self.compact, 2),
            (self.be_rough, 5),
            (self.cut_api_streams, 2),
            (self.boot_in_the_dark, 3),
            (self.jump_an_hour, 1),
        )

    def draw_acts(self, until: float) -> None:
        """Plan the whole run."""
        super().draw_acts(until)
        acts, weights = zip(*self.cluster_acts(), strict=True)
        for _ in range(FIRST_PODS):
            self.at(self.chance.uniform(1.0, FIRST_ACT_S), self.bind_one)
        for _ in range(ACTS):
            self.at(self.chance.uniform(FIRST_ACT_S, until - 20), self.chance.choices(acts, weights)[0])

    # ------------------------------------------------------------ what is wanted

    def wanted(self) -> frozenset[Uid]:
        """Return the UIDs that sources want: of the API server what is bound here, is no mirror, and is not being deleted."""
        bound = {
            Uid(uid)
            for uid, pod in self.api.pods().items()
            if not is_mirror(pod) and "deletionTimestamp" not in pod["metadata"]
        }
        return super().wanted() | bound

    def living(self) -> list[Object]:
        """Return the pods of users that nobody has deleted yet."""
        wanted = self.wanted_of_api()
        return [pod for uid, pod in self.api.pods().items() if uid in wanted]

    def wanted_of_api(self) -> frozenset[str]:
        """Return the UIDs of pods of users that nobody has deleted yet."""
        return frozenset(
            uid
            for uid, pod in self.api.pods().items()
            if uid in self.pods and "deletionTimestamp" not in pod["metadata"]
        )

    def pick(self) -> Object | None:
        """Draw a pod of a user that nobody has deleted yet."""
        found = self.living()
        return self.chance.choice(found) if found else None

    # ------------------------------------------------------------ pods

    def bind(self, wish: Wish, name: str) -> None:
        """Create a pod that is bound to the node, at once or a moment later."""
        body = self.document(wish, name)
        if self.chance.random() < 0.25:
            body["metadata"]["finalizers"] = [FINALIZER]
        if self.chance.random() < 0.25:
            body["spec"]["readinessGates"] = [{"conditionType": GATE}]
        at_once = self.chance.random() < 0.6
        if not at_once:
            del body["spec"]["nodeName"]
        try:
            made = self.api.admin.create(PODS, body)
        except OperatingError:
            # One of that name is there still.
            return
        uid = made["metadata"]["uid"]
        self.pods[uid] = wish
        self.book.born(Uid(uid), wish)
        self.tell(f"create pod {name} {uid}: {wish}")
        if not at_once:
            self.at(self.world.time.now() + 1.0, lambda: self.patch(name, {"spec": {"nodeName": NODE}}, uid))

    def document(self, wish: Wish, name: str) -> Any:
        """Return the object of a wish, as an API server defaults it."""
        body = msgspec.json.decode(wish.document())
        body["metadata"] = {"name": name, "namespace": NAMESPACE}
        body["spec"] |= {"nodeName": NODE, "automountServiceAccountToken": False}
        body["spec"].setdefault("terminationGracePeriodSeconds", 30)
        return body

    def bind_one(self) -> None:
        """Create a pod, unless there are many."""
        if len(self.api.pods()) < MOST_PODS:
            self._names += 1
            wish = replace(
                draw_wish(self.chance, f"a{self._names:02}", self.chance), priority=None, host_port=0
            )
            if wish.cpu not in ("", "5"):
                # Many are to fit on the node, and some are not.
                wish = replace(wish, cpu="100m")
            roll = self.chance.random()
            if roll < 0.3:
                scripts = tuple(self.chance.choice(JOBS) for _ in wish.scripts)
                wish = replace(wish, policy="Never", scripts=scripts)
            elif roll < 0.6:
                wish = Wish(wish.name, "Always", wish.grace_s, (("run",),), ("memory.local/any:1",))
            self.bind(wish, wish.name)

    def patch(self, name: str, body: Object, uid: str, subresource: str = "") -> bool:
        """Merge into the pod of this UID; tell whether it is there."""
        there = self.api.look("pods", name, NAMESPACE)
        if there is None or there["metadata"]["uid"] != uid:
            return False
        self.api.admin.patch(pod_path(name, subresource), body)
        return True

    def change_spec(self, pod: Object, wish: Wish, what: str) -> None:
        """Ask for a pod otherwise."""
        meta = pod["metadata"]
        self.pods[meta["uid"]] = wish
        self.book.changed(Uid(meta["uid"]))
        containers = self.document(wish, meta["name"])["spec"]["containers"]
        self.patch(meta["name"], {"spec": {"containers": containers}}, meta["uid"])
        self.note(what)
        self.tell(f"{what} of pod {meta['name']} {meta['uid']}")

    def change_image(self) -> None:
        """Have the containers of a pod made of another image."""
        pod = self.pick()
        if pod is not None:
            wish = self.pods[pod["metadata"]["uid"]]
            image = self.chance.choice(("memory.local/any:1", HOST_IMAGE, REGISTRY[0].names[0]))
            self.change_spec(pod, replace(wish, images=tuple(image for _ in wish.images)), "image changed")

    def resize_pod(self) -> None:
        """Have a pod ask for other amounts."""
        found = [pod for pod in self.living() if self.pods[pod["metadata"]["uid"]].cpu]
        if found:
            pod = self.chance.choice(found)
            self.change_spec(pod, resized(self.chance, self.pods[pod["metadata"]["uid"]]), "resize")

    def add_ephemeral(self) -> None:
        """Run a container for debugging in a pod."""
        pod = self.pick()
        if pod is not None:
            meta = pod["metadata"]
            before = pod["spec"].get("ephemeralContainers", [])
            more = {
                "name": f"debug{len(before)}",
                "image": "memory.local/any:1",
                "command": list(self.chance.choice((("run",), ("sleep", "5", "exit", "0"), ("exit", "3")))),
            }
            self.patch(meta["name"], {"spec": {"ephemeralContainers": [*before, more]}}, meta["uid"])
            self.note("ephemeral container")
            self.tell(f"debug pod {meta['name']} {meta['uid']}")

    def label_one(self) -> None:
        """Change labels and annotations of a pod."""
        pod = self.pick()
        if pod is not None:
            meta = pod["metadata"]
            value = str(self.chance.randrange(100))
            self.patch(
                meta["name"], {"metadata": {"labels": {"l": value}, "annotations": {"a": value}}}, meta["uid"]
            )
            self.tell(f"label pod {meta['name']}")

    def set_condition(self) -> None:
        """Set a condition that is not the agent's: a readiness gate, or a remark."""
        pod = self.pick()
        if pod is not None:
            meta = pod["metadata"]
            kind = GATE if "readinessGates" in pod["spec"] else REMARK
            status = self.chance.choice(("True", "True", "False"))
            condition = {"type": kind, "status": status, "lastTransitionTime": "2023-11-14T22:00:00Z"}
            self.patch(meta["name"], {"status": {"conditions": [condition]}}, meta["uid"], "status")
            self.book.remarked(Uid(meta["uid"]), kind, status)
            self.note("condition of others")
            self.tell(f"condition {kind} {status} of pod {meta['name']}")

    # ------------------------------------------------------------ deletion

    def delete(self, name: str, uid: str, grace_s: int | None) -> None:
        """Delete the pod of this UID, if it is there."""
        there = self.api.look("pods", name, NAMESPACE)
        if there is None or there["metadata"]["uid"] != uid:
            return
        self.api.admin.delete(pod_path(name), grace_s)
        self.book.deleted(Uid(uid))
        if self.api.look("pods", name, NAMESPACE) is not None and FINALIZER in there["metadata"].get(
            "finalizers", ()
        ):
            self.note("finalizer")
            wait_s = self.chance.choice((1.0, 30.0, 120.0))
            self.at(self.world.time.now() + wait_s, lambda: self.release(name, uid))
        self.tell(f"delete pod {name} {uid} with grace {grace_s}")

    def release(self, name: str, uid: str) -> None:
        """Take the finalizer away."""
        if self.patch(name, {"metadata": {"finalizers": None}}, uid):
            self.tell(f"release {name} {uid}")

    def delete_one(self) -> None:
        """Delete a pod in one of the ways that there are."""
        pod = self.pick()
        if pod is None:
            return
        meta, now = pod["metadata"], self.world.time.now()
        name, uid, wish = meta["name"], meta["uid"], self.pods[meta["uid"]]
        way = self.chance.choice(("own", "own", "short", "twice", "force", "force"))
        self.note(f"deleted: {way}")
        match way:
            case "own":
                self.delete(name, uid, None)
            case "short":
                self.delete(name, uid, self.chance.choice((1, 3, 20)))
            case "twice":
                self.delete(name, uid, self.chance.choice((None, 40)))
                later = self.chance.choice((0.5, 3.0, 8.0))
                self.at(now + later, lambda: self.delete(name, uid, self.chance.choice((0, 1, 2))))
            case _:
                self.delete(name, uid, 0)
        if self.chance.random() < 0.6:
            # A controller that wants one of that name makes it again as soon as it may.
            self.at(now + self.chance.choice((0.01, 1.0, 20.0)), lambda: self.make_again(name, wish))

    def make_again(self, name: str, wish: Wish, tries: int = 12) -> None:
        """Create a pod under a name that another had, once that is free."""
        if self.api.healed:
            return
        if self.api.look("pods", name, NAMESPACE) is None:
            self.note("made again")
            self.bind(wish.revised(), name)
        elif tries:
            self.at(self.world.time.now() + 5.0, lambda: self.make_again(name, wish, tries - 1))

    def delete_mirror(self) -> None:
        """Delete the mirror of a static pod, which says nothing about the pod."""
        mirrors = [pod for pod in self.api.pods().values() if is_mirror(pod)]
        if mirrors:
            name = self.chance.choice(mirrors)["metadata"]["name"]
            self.api.admin.delete(pod_path(name), self.chance.choice((0, None)))
            self.note("mirror deleted")
            self.tell(f"delete mirror {name}")

    # ------------------------------------------------------------ the Node

    def change_node(self) -> None:
        """Label the Node, or taint it."""
        if self.api.look("nodes", NODE) is None:
            return
        value = str(self.chance.randrange(100))
        taint = {"key": "team", "value": value, "effect": "NoSchedule"}
        body: Object = {"metadata": {"labels": {"team": value}}}
        if self.chance.random() < 0.5:
            body = {"spec": {"taints": [taint], "unschedulable": self.chance.random() < 0.5}}
        self.api.admin.patch(NODE_PATH, body)
        self.book.node_said = {**self.book.node_said, **({"team": value} if "metadata" in body else {})}
        self.note("node changed")
        self.tell(f"change the Node: {body}")

    def delete_node(self) -> None:
        """Delete the Node; its lease goes with it."""
        if self.api.look("nodes", NODE) is None:
            return
        self.api.admin.delete(NODE_PATH)
        if self.api.look("leases", NODE, "kube-node-lease") is not None and self.chance.random() < 0.7:
            self.api.admin.delete(LEASE_PATH)
        self.book.node_said = {}
        self.note("node deleted")
        self.tell("delete the Node")

    # ------------------------------------------------------------ the end

    def heal(self) -> None:
        """Make everything whole and quiet: nothing that is being deleted is held any longer."""
        super().heal()
        self.api.heal()
        for pod in self.api.pods().values():
            if "deletionTimestamp" in pod["metadata"] and pod["metadata"].get("finalizers"):
                self.release(pod["metadata"]["name"], pod["metadata"]["uid"])

    def remove_all(self) -> None:
        """Want nothing any more, at the API server neither."""
        super().remove_all()
        for pod in self.living():
            self.delete(pod["metadata"]["name"], pod["metadata"]["uid"], self.chance.choice((None, 1)))
            self.release(pod["metadata"]["name"], pod["metadata"]["uid"])
