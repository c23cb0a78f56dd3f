"""The agent's client certificate on a real control plane: bootstrap, rotation, and credential files that change.

There is no controller manager: the tests approve and sign.
"""

import stat
import time

import pytest

from api.ports.kube import LEASES, ObjectPath
from runtime.drivers.kubeconfig.certificate import facts_of
from tests.harness.agent.agent import NODE, Agent
from tests.harness.agent.house import FOREVER
from tests.harness.cluster.clusteradmin import ClusterAdmin
from tests.harness.cluster.signer import REQUESTS, TOKEN, ClusterSigner
from tests.harness.wait import until

pytestmark = [pytest.mark.real, pytest.mark.optional]

NODE_PATH = ObjectPath(plural="nodes", name=NODE)
LEASE = ObjectPath(api_version=LEASES, plural="leases", namespace="kube-node-lease", name=NODE)


class Joining(Agent):
    """An agent that is to become the node of a control plane."""

    def __init__(self, folder, admin, kubeconfig, bootstrap=None, **config):
        self.admin, self.kubeconfig, self.bootstrap = admin, kubeconfig, bootstrap
        super().__init__(folder, **config)
        self.certificates = self.root / "pki"
        self.current = self.certificates / "kubelet-client-current.pem"

    def command(self, *flags, manifests=True):
        bootstrap = ("--bootstrap-kubeconfig", str(self.bootstrap)) if self.bootstrap else ()
        return super().command("--kubeconfig", str(self.kubeconfig), *bootstrap, *flags, manifests=manifests)

    def is_node_ready(self):
        found = (self.admin.read(NODE_PATH) or {}).get("status", {}).get("conditions", [])
        return any((one["type"], one["status"]) == ("Ready", "True") for one in found)

    def until_node_ready(self):
        until(self.is_node_ready, "the node is Ready", 30.0, self._scene)

    def said(self):
        """Return what the rows say of the API server."""
        rows = self.json("/sources")["sources"]
        top = next((row for row in rows if row["source"] == "api"), {"status": "absent", "problems": ()})
        return f"{top['status']}: {'; '.join(top['problems'])}"

    def health(self):
        """Return what the health page says of the certificate."""
        return next(
            line for line in self.ask("/healthz?verbose")[1].decode().split("\n") if "certificates" in line
        )

    def renewal(self):
        return (self.admin.read(LEASE) or {}).get("spec", {}).get("renewTime", "")


@pytest.fixture
def signer(control_plane, cluster_admin):
    signer = ClusterSigner(cluster_admin, control_plane.authority)
    signer.accept_bootstrap_tokens()
    signer.clear()
    return signer


@pytest.fixture
def join(tmp_path, cluster_admin):
    """Return a function that makes the agent of a test; at the end nothing of it is left."""
    made = []

    def joining(kubeconfig, **options):
        made.append(Joining(tmp_path / "agent", cluster_admin, kubeconfig, **options))
        return made[-1]

    yield joining
    for agent in made:
        agent.clean_up()
    if cluster_admin.read(NODE_PATH):
        cluster_admin.delete(NODE_PATH)


@pytest.fixture
def bootstrap(control_plane, tmp_path):
    """Return a kubeconfig with the bootstrap token in a file beside it."""
    token = tmp_path / "token"
    token.write_text(TOKEN)
    return control_plane.kubeconfig_of("bootstrap", {"tokenFile": str(token)})


def request_of(signer):
    (one,) = until(signer.waiting, "a certificate is requested", 20.0)
    return one


def modes(folder):
    return {
        path.name: stat.S_IMODE(path.lstat().st_mode) for path in folder.iterdir() if not path.is_symlink()
    }


def test_a_bootstrap_waits_for_its_approval_runs_static_pods_meanwhile_and_ends_ready(
    join, signer, bootstrap, tmp_path
):
    agent = join(tmp_path / "node.kubeconfig", bootstrap=bootstrap)
    agent.put("web", FOREVER)
    agent.start(ready=False)
    asked = request_of(signer)
    name = asked["metadata"]["name"]
    assert name.startswith("node-csr-")
    assert asked["spec"]["signerName"] == "kubernetes.io/kube-apiserver-client-kubelet"
    assert asked["spec"]["usages"] == ["digital signature", "client auth"]
    agent.until_status("web", "Running")
    waits = f"waiting: waits for the approval of CertificateSigningRequest {name}: kubectl certificate approve {name}"
    agent.until(lambda: agent.said().startswith(waits), "its row says what it waits for")
    assert not agent.kubeconfig.exists()
    assert modes(agent.certificates) == {"kubelet-client.key.tmp": 0o600}

    signer.decide(name)
    agent.until(lambda: "which is approved" in agent.said(), "it waits for the certificate")
    signer.issue(name, 3600)
    agent.until_node_ready()
    assert stat.S_IMODE(agent.kubeconfig.stat().st_mode) == 0o600
    assert set(modes(agent.certificates)) == {agent.current.resolve().name}
    assert set(modes(agent.certificates).values()) == {0o600}
    agent.until(agent.is_ready, "the API server was read", 20.0)
    assert "is valid until" in agent.health()
    assert ClusterAdmin(agent.kubeconfig).read(NODE_PATH)["metadata"]["name"] == NODE
    for secret in (TOKEN, "PRIVATE KEY"):
        assert secret not in agent.stderr()


def test_an_agent_that_was_killed_while_it_waited_waits_for_the_same_request(
    join, signer, bootstrap, tmp_path
):
    agent = join(tmp_path / "node.kubeconfig", bootstrap=bootstrap)
    agent.start(ready=False)
    name = request_of(signer)["metadata"]["name"]
    agent.kill9()
    agent.start(ready=False)
    agent.until(lambda: name in agent.said(), "it waits for the same one")
    assert len(agent.admin.read(REQUESTS)["items"]) == 1
    assert signer.serve(3600) == 1
    agent.until_node_ready()


def test_a_denied_request_and_a_refused_token_are_named_with_what_to_do(join, signer, bootstrap, tmp_path):
    (tmp_path / "token").write_text("abcdef.ffffffffffffffff")
    agent = join(tmp_path / "node.kubeconfig", bootstrap=bootstrap)
    agent.start(ready=False)
    agent.until(lambda: "have a new bootstrap token made" in agent.said(), "the token is refused")
    assert "Unauthorized" in agent.said()
    (tmp_path / "token").write_text(TOKEN)
    name = request_of(signer)["metadata"]["name"]
    signer.decide(name, "Denied", "who is this?")
    denied = f"CertificateSigningRequest {name} was denied (Test: who is this?); to have another one made, delete it"
    agent.until(lambda: denied in agent.said(), "the denial is named")
    assert agent.process.poll() is None


def test_a_certificate_of_some_seconds_is_rotated_before_it_ends_and_the_node_stays(
    join, signer, bootstrap, tmp_path
):
    agent = join(tmp_path / "node.kubeconfig", bootstrap=bootstrap, rotateCertificates=True)
    agent.start(ready=False)
    request_of(signer)
    signer.serve(20)
    agent.until_node_ready()
    first, ends = agent.current.resolve(), facts_of(agent.current.read_bytes()).until
    until(lambda: signer.serve(3600), "a rotation is requested", 20.0, agent._scene)
    assert time.time() < ends
    agent.until(lambda: agent.current.resolve() != first, "the new certificate is in use", 10.0)
    until(lambda: time.time() > ends, "the first certificate has expired", 20.0, every_s=0.5)
    before = agent.renewal()
    until(lambda: agent.renewal() > before, "the lease is renewed with the new one", 15.0, agent._scene)
    agent.until(lambda: "rotated from" in agent.health(), "its row says when it is next")
    assert agent.process.poll() is None
    assert first.exists()


def test_a_kubeconfig_that_is_replaced_is_in_use_without_a_restart(join, control_plane, tmp_path):
    issued = control_plane.authority.issue("nobody", "nobody")
    agent = join(
        control_plane.kubeconfig_of(
            "changing", {"client-certificate": str(issued.cert), "client-key": str(issued.key)}
        )
    )
    agent.start(ready=False)
    agent.until(lambda: 'User "nobody" cannot' in agent.said(), "it has no rights")
    right = control_plane.authority.issue("right", f"system:node:{NODE}", "system:nodes")
    user = {"client-certificate": str(right.cert), "client-key": str(right.key)}
    control_plane.kubeconfig_of("changing", user)
    agent.until_node_ready()
    assert "identity for the API server was read again" in agent.stderr()


def test_an_expired_certificate_begins_a_bootstrap(join, signer, control_plane, bootstrap):
    expired = control_plane.authority.issue("old", f"system:node:{NODE}", "system:nodes", days=-1)
    user = {"client-certificate": str(expired.cert), "client-key": str(expired.key)}
    agent = join(control_plane.kubeconfig_of("old", user), bootstrap=bootstrap)
    agent.start(ready=False)
    request_of(signer)
    signer.serve(3600)
    agent.until_node_ready()
    assert str(agent.current) in agent.kubeconfig.read_text()
