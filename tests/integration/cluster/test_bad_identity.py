"""What is wrong with kubeconfig, identity or server: one clear line each, with what to do, tried again, and no secret in it."""

import json
import stat

import pytest

from tests.harness.agent.agent import NODE, Agent
from tests.harness.cluster.authority import Authority
from tests.harness.kubepeer import KubePeer
from tests.harness.wait import until

SECRET = "t0ps3cret"


def kubeconfig(path, *, user=None, **cluster):
    """Write a kubeconfig; the user has a token unless another is given."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user or {"token": SECRET}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(document))
    return path


def plugin(path, script):
    """Write an exec plugin, and return the user that names it."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": str(path), "interactiveMode": "Never"}}


class Applicant(Agent):
    """An agent with a kubeconfig that does not work."""

    def __init__(self, folder, path):
        self.path = path
        super().__init__(folder)

    def command(self, *flags, manifests=True):
        return super().command("--kubeconfig", str(self.path), *flags, manifests=manifests)


@pytest.fixture
def html(tmp_path):
    """Return a server that answers HTML, over TLS."""
    (tmp_path / "peer").mkdir()
    peer = KubePeer(
        tmp_path / "peer", lambda asked: asked.answer(200, b"<html>hello</html>", media="text/html")
    )
    yield peer
    peer.close()


def says(tmp_path, path, *words, deadline_s=15.0):
    """See that an agent with this kubeconfig runs on, says these words in one warning, and no secret; return its warnings."""
    agent = Applicant(tmp_path / "agent", path)
    try:
        agent.put("static", "exec sleep 1000")
        agent.start(ready=False)

        def warned():
            lines = [line for line in agent.stderr().splitlines() if "WARN" in line]
            return [line for line in lines if all(word in line for word in words)]

        until(warned, f"a warning says {words}", deadline_s, agent.stderr)
        agent.until_status("static", "Running")
        assert agent.process.poll() is None
        assert SECRET not in agent.stderr()
        assert "Traceback" not in agent.stderr()
        return agent.stderr()
    finally:
        agent.clean_up()


def test_there_is_no_such_file(tmp_path):
    says(tmp_path, tmp_path / "nowhere", "nowhere", "there is no such file")


def test_the_file_is_no_kubeconfig(tmp_path):
    path = tmp_path / "junk"
    path.write_text("{{{ not yaml")
    says(tmp_path, path, "junk", "line 1")


def test_it_names_no_server(tmp_path):
    says(tmp_path, kubeconfig(tmp_path / "config"), "config", "server")


def test_no_one_listens_there(tmp_path):
    says(tmp_path, kubeconfig(tmp_path / "config", server="https://127.0.0.1:1"), "127.0.0.1:1", "refused")


def test_the_server_s_certificate_is_of_another_authority(tmp_path, html):
    other = Authority(tmp_path / "other")
    path = kubeconfig(tmp_path / "config", server=html.server, **{"certificate-authority": str(other.cert)})
    says(tmp_path, path, html.server, "certificate")


def test_the_server_answers_html(tmp_path, html):
    ca = tmp_path / "ca.pem"
    ca.write_bytes(html.ca)
    path = kubeconfig(tmp_path / "config", server=html.server, **{"certificate-authority": str(ca)})
    says(tmp_path, path, html.server, "is it an API server?")


def test_an_exec_plugin_prints_junk(tmp_path):
    user = plugin(tmp_path / "plugin.sh", f"echo {SECRET}")
    path = kubeconfig(tmp_path / "config", user=user, server="https://127.0.0.1:1")
    says(tmp_path, path, "plugin.sh", "JSON")


def test_an_exec_plugin_fails(tmp_path):
    user = plugin(tmp_path / "plugin.sh", "echo no credentials >&2; exit 3")
    path = kubeconfig(tmp_path / "config", user=user, server="https://127.0.0.1:1")
    says(tmp_path, path, "plugin.sh", "3")


@pytest.mark.slow
def test_an_exec_plugin_that_hangs_is_given_up(tmp_path):
    user = plugin(tmp_path / "plugin.sh", "exec sleep 1000")
    path = kubeconfig(tmp_path / "config", user=user, server="https://127.0.0.1:1")
    says(tmp_path, path, "plugin.sh", "did not", deadline_s=90.0)


@pytest.mark.real
@pytest.mark.optional
def test_the_client_certificate_has_expired(tmp_path, control_plane):
    old = control_plane.authority.issue("old", f"system:node:{NODE}", "system:nodes", days=-1)
    user = {"client-certificate": str(old.cert), "client-key": str(old.key)}
    authority = {"certificate-authority": str(control_plane.authority.cert)}
    path = kubeconfig(tmp_path / "config", user=user, server=control_plane.server, **authority)
    said = says(tmp_path, path, "was valid until", "have a new one issued")
    assert said.count("request about the node failed") == 1


@pytest.mark.real
@pytest.mark.optional
def test_the_identity_may_do_nothing(tmp_path, control_plane):
    nobody = control_plane.authority.issue("nobody", "nobody", "nobodies")
    user = {"client-certificate": str(nobody.cert), "client-key": str(nobody.key)}
    authority = {"certificate-authority": str(control_plane.authority.cert)}
    path = kubeconfig(tmp_path / "config", user=user, server=control_plane.server, **authority)
    says(tmp_path, path, "nodes", "forbidden", "nobody")


@pytest.mark.real
@pytest.mark.optional
def test_the_identity_is_that_of_another_node(tmp_path, control_plane):
    says(tmp_path, control_plane.node_kubeconfig("another"), NODE, "forbidden")


@pytest.mark.real
@pytest.mark.optional
def test_the_server_knows_no_such_token(tmp_path, control_plane):
    authority = {"certificate-authority": str(control_plane.authority.cert)}
    path = kubeconfig(tmp_path / "config", server=control_plane.server, **authority)
    says(tmp_path, path, "Unauthorized")
