"""A driver of the port ``kube`` before a peer that answers as a test says, and what its streams pushed."""

import json
import queue

from api.ports.kube import ApiPodsListed, KubeObject, ObjectPath
from runtime.drivers.kube.driver import KubeDriver
from runtime.edge import perform
from runtime.net.kubeaccess import Access
from tests.harness.kubepeer import KubePeer

NODE = ObjectPath(plural="nodes", name="n1")
POD_STATUS = ObjectPath(plural="pods", namespace="default", name="a", subresource="status")


def pod(name, version="1", image="i", phase="Pending", uid=""):
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid or f"uid-{name}",
            "resourceVersion": version,
        },
        "spec": {"containers": [{"name": "c", "image": image}], "aFieldOfTomorrow": {"x": 1}},
        "status": {"phase": phase},
    }


def page(*objects, version="10", more=""):
    metadata = {"resourceVersion": version, **({"continue": more} if more else {})}
    return json.dumps({"kind": "List", "metadata": metadata, "items": objects}).encode()


def event(kind, body):
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


def status(code, reason, message="no"):
    return json.dumps({"kind": "Status", "code": code, "reason": reason, "message": message}).encode()


class Bench:
    """A peer, a driver on it, and what its streams pushed."""

    def __init__(self, folder, handle, *, protocol="h2", find=None, **options):
        self.peer = KubePeer(folder, handle, protocol=protocol)
        self.bugs, self.problems = [], []
        self.pushed = queue.SimpleQueue()
        access = Access(server=self.peer.server, ca=self.peer.ca, token="first")
        self.driver = KubeDriver(
            "n1",
            find or (lambda: access),
            on_bug=lambda what, error: self.bugs.append((what, error)),
            problem=self.problems.append,
            **options,
        )

    def ask(self, call, deadline_s=5.0):
        answer = perform(self.driver, call, deadline_s)
        assert type(answer) is KubeObject
        return answer.body

    def listen(self, stream):
        return stream.open(self.pushed.put, self.pushed.put)

    def next(self, kind=ApiPodsListed):
        while not isinstance(item := self.pushed.get(timeout=10.0), kind):
            pass
        return item

    def close(self):
        self.driver.close()
        self.peer.close()
        assert self.bugs == []


class Collection:
    """Answers lists with `pages` in turn, and hands out the watches."""

    def __init__(self, *pages):
        self.pages, self.watches, self.lists = list(pages), queue.SimpleQueue(), []

    def __call__(self, asked):
        if "watch=true" in asked.target:
            asked.answer(end=False)
            self.watches.put(asked)
        elif asked.method == "PATCH":
            asked.answer(body=json.dumps(pod("a", version="77", phase="Running")).encode())
        else:
            self.lists.append(asked.target)
            body = self.pages.pop(0) if len(self.pages) > 1 else self.pages[0]
            asked.answer(*(body if isinstance(body, tuple) else (200, body)))

    def watch(self):
        return self.watches.get(timeout=10.0)


def images(level):
    return {one.metadata.name: one.spec.containers[0].image for one in level.pods}
