"""The port ``certificates`` on a real folder, with real child processes: keys, requests, files as a kubelet writes them, and refusals."""

import base64
import hashlib
import json
import os
import re
import ssl
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from kubernetes import config as client_config

from api.errors import ConflictError, DeniedError, NotFoundError, OperatingError, RejectedError
from api.ports.certificate import MakeSigningRequest, ReadCertificate, StoreCertificate
from api.ports.kube import CreateObject, GetObject, ObjectPath
from runtime.drivers.kube import identity
from runtime.drivers.kube.driver import KubeDriver
from runtime.drivers.kubeconfig import driver as driver_module
from runtime.drivers.kubeconfig.certificate import check_pair, facts_of
from runtime.drivers.kubeconfig.driver import CertificateDriver
from runtime.edge import perform
from tests.harness.cluster.authority import Authority
from tests.harness.kubepeer import KubePeer
from tests.harness.part import need
from tests.harness.wait import until

# Each makes a key, or reads a kubeconfig, in a child process of its own.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[5]
NODE = ObjectPath(plural="nodes", name="n1")
STORED = re.compile(r"kubelet-client-\d{4}(-\d\d){5}\.pem")
TOKEN = "abcdef.0123456789abcdef"


class Member:
    """The driver of one node on a folder of its own, and an authority that signs what it asks for."""

    def __init__(self, folder, server="https://127.0.0.1:6443", server_ca=None, **options):
        self.folder = folder
        self.authority = Authority(folder / "authority")
        self.pki = folder / "pki"
        self.current = self.pki / "kubelet-client-current.pem"
        self.pending = self.pki / "kubelet-client.key.tmp"
        self.kubeconfig, self.bootstrap = folder / "kubeconfig", folder / "bootstrap"
        self.server, self.server_ca = server, server_ca or self.authority.cert
        self.write(self.bootstrap, {"token": TOKEN})
        self.options = {"bootstrap": str(self.bootstrap), "rotates": True, **options}
        self.driver = self.another()

    def another(self):
        """Return the driver of another life of the agent."""
        return CertificateDriver("n1", str(self.kubeconfig), str(self.pki), **self.options)

    def write(self, path, user):
        cluster = {"server": self.server, "certificate-authority": str(self.server_ca)}
        content = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.write_text(json.dumps(content))

    def made(self, *, bootstrap=False):
        return self.driver.perform(MakeSigningRequest(bootstrap=bootstrap), 30.0)

    def store(self, certificate, *, bootstrap=False):
        return self.driver.perform(
            StoreCertificate(certificate=certificate, bootstrap=bootstrap), 30.0
        ).certificate

    def read(self):
        return self.driver.perform(ReadCertificate(), 30.0).certificate

    def sign(self, made, life_s=3600, **options):
        return self.authority.sign(made.pem, life_s, **options)

    def files(self):
        return sorted(path.name for path in self.pki.iterdir())


@pytest.fixture
def member(tmp_path):
    need("openssl")
    return Member(tmp_path)


# ---------------------------------------------------------------- keys and requests


def test_a_request_is_for_the_node_with_an_elliptic_key_and_signed_by_it(member):
    request = x509.load_pem_x509_csr(member.made().pem)
    assert request.subject.rfc4514_string() == "CN=system:node:n1,O=system:nodes"
    assert request.public_key().curve.name == "secp256r1"
    assert request.is_signature_valid


def test_the_key_of_a_rotation_is_new_each_time_and_on_no_disk(member):
    first, second = (x509.load_pem_x509_csr(member.made().pem).public_key() for _ in range(2))
    assert first != second
    assert member.files() == []


def test_the_key_of_a_bootstrap_is_kept_so_that_the_next_life_asks_for_the_same(member):
    first = member.made(bootstrap=True)
    assert member.files() == ["kubelet-client.key.tmp"]
    assert stat.S_IMODE(member.pending.stat().st_mode) == 0o600
    assert stat.S_IMODE(member.pki.stat().st_mode) == 0o700
    member.driver = member.another()
    assert member.made(bootstrap=True).name == first.name
    member.pending.write_text("half of a k")
    assert member.made(bootstrap=True).name != first.name
    assert b"EC PRIVATE KEY" in member.pending.read_bytes()


def test_the_name_of_a_bootstrap_is_a_digest_of_key_subject_and_usages(member):
    made = member.made(bootstrap=True)
    public = x509.load_pem_x509_csr(made.pem).public_key()
    der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    parts = [der, b"system:node:n1", b"system:nodes", b"digital signature", b"client auth"]

    def text(data):
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    digest = hashlib.new("sha512_256", "".join(text(part) + "|" for part in parts).encode()).digest()
    assert made.name == f"node-csr-{text(digest)}"


def test_a_link_in_the_place_of_the_key_is_not_followed(member, tmp_path):
    member.pki.mkdir(mode=0o700)
    (tmp_path / "other").write_text("somebody's")
    member.pending.symlink_to(tmp_path / "other")
    with pytest.raises(OperatingError, match="pki"):
        member.made(bootstrap=True)
    assert (tmp_path / "other").read_text() == "somebody's"


def test_a_folder_that_others_may_write_is_refused(member):
    member.pki.mkdir()
    member.pki.chmod(0o777)
    with pytest.raises(DeniedError, match=r"folder of certificates.*may be written by others.*--cert-dir"):
        member.made()


def test_a_file_in_the_place_of_the_link_is_left_and_named(member):
    member.pki.mkdir(mode=0o700)
    member.current.write_text("an operator's only key")
    with pytest.raises(ConflictError, match="is no symbolic link"):
        member.made()
    assert member.current.read_text() == "an operator's only key"


# ---------------------------------------------------------------- what is written


def test_a_certificate_is_written_as_a_kubelet_writes_it(member):
    chain = member.sign(member.made(bootstrap=True))
    found = member.store(chain, bootstrap=True)
    assert found.subject == "O=system:nodes, CN=system:node:n1"
    assert 3590 < (found.valid_until - found.valid_from) / 1e9 < 3610
    link, (stored,) = member.files()[1], [name for name in member.files() if STORED.fullmatch(name)]
    assert link == "kubelet-client-current.pem"
    assert member.current.readlink() == member.pki / stored
    content = member.current.read_bytes()
    assert content.startswith(chain.strip())
    assert content.index(b"CERTIFICATE") < content.index(b"EC PRIVATE KEY")
    assert check_pair(content, content) == ""
    assert stat.S_IMODE(member.current.stat().st_mode) == 0o600
    assert len(member.files()) == 2, "neither the pending key nor a half of a file is left"


def test_the_kubeconfig_of_a_bootstrap_is_read_by_the_client_library_and_by_us(member):
    member.store(member.sign(member.made(bootstrap=True)), bootstrap=True)
    assert stat.S_IMODE(member.kubeconfig.stat().st_mode) == 0o600
    loaded = client_config.new_client_from_config(str(member.kubeconfig)).configuration
    assert loaded.host == member.server
    assert Path(loaded.ssl_ca_cert).read_bytes() == member.authority.cert.read_bytes()
    assert loaded.cert_file == loaded.key_file == str(member.current)
    text = member.kubeconfig.read_text()
    for name in ("default-cluster", "default-auth", "default-context"):
        assert name in text
    assert TOKEN not in text
    access = member.driver.access()
    assert (access.server, access.ca_file) == (member.server, str(member.authority.cert))
    assert access.token == ""
    assert member.read().where == str(member.current)


def test_a_kubeconfig_carries_over_all_that_says_how_the_server_is_reached(member):
    content = json.loads(member.bootstrap.read_text())
    data = base64.b64encode(member.authority.cert.read_bytes()).decode()
    content["clusters"][0]["cluster"] = {
        "server": "https://api.example.org/k8s/c-1",
        "certificate-authority-data": data,
        "tls-server-name": "kubernetes",
    }
    member.bootstrap.write_text(json.dumps(content))
    member.store(member.sign(member.made(bootstrap=True)), bootstrap=True)
    access = member.driver.access()
    assert (access.server, access.server_name) == ("https://api.example.org/k8s/c-1", "kubernetes")
    assert access.ca == member.authority.cert.read_bytes()


def test_a_folder_of_a_kubelet_is_taken_over_and_its_files_stay(member):
    member.pki.mkdir(mode=0o700)
    issued = member.authority.issue("old", "system:node:n1", "system:nodes")
    old = member.pki / "kubelet-client-2024-05-01-10-11-12.pem"
    old.write_bytes(issued.cert.read_bytes() + issued.key.read_bytes())
    member.current.symlink_to(old)
    member.write(
        member.kubeconfig, {"client-certificate": str(member.current), "client-key": str(member.current)}
    )
    assert member.read().valid_until == round(facts_of(old.read_bytes()).until) * 10**9
    found = member.store(member.sign(member.made()))
    assert member.read() == found
    assert old.exists()
    assert len(member.files()) == 3


def test_a_stored_certificate_takes_the_place_of_one_inside_the_kubeconfig_for_the_same_name_only(member):
    issued = member.authority.issue("inside", "system:node:n1", "system:nodes")
    data = {
        "client-certificate-data": base64.b64encode(issued.cert.read_bytes()).decode(),
        "client-key-data": base64.b64encode(issued.key.read_bytes()).decode(),
    }
    member.write(member.kubeconfig, data)
    assert member.read().where == str(member.kubeconfig)
    member.store(member.sign(member.made()))
    assert member.read().where == str(member.current)
    assert member.driver.access().cert == member.current.read_bytes()

    other = member.authority.issue("renamed", "system:node:n2", "system:nodes")
    member.current.unlink()
    both = member.pki / "kubelet-client-2024-05-01-10-11-12.pem"
    both.write_bytes(other.cert.read_bytes() + other.key.read_bytes())
    member.current.symlink_to(both)
    assert member.read().where == str(member.kubeconfig)


# ---------------------------------------------------------------- refusals


def another_key(member, made):
    return member.authority.issue("another", "system:node:n1", "system:nodes").cert.read_bytes()


def another_name(member, made):
    return member.sign(made, common_name="system:node:n2")


def expired(member, made):
    return member.sign(made, 100, age_s=1000)


def garbage(member, made):
    return b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def too_long(member, made):
    return member.sign(made) * 200


@pytest.mark.parametrize(
    ("issue", "why"),
    [
        (another_key, "the key is not the certificate's"),
        (another_name, "it is for 'CN=system:node:n2', not for O=system:nodes, CN=system:node:n1"),
        (expired, "it was valid until"),
        (garbage, "it is no certificate in PEM"),
        (too_long, "it is no certificate in PEM of at most 64 KiB"),
        (lambda member, made: b"", "it is no certificate in PEM"),
    ],
)
def test_a_certificate_that_must_not_be_used_changes_nothing(member, issue, why):
    first = member.store(member.sign(member.made(bootstrap=True)), bootstrap=True)
    made = member.made()
    with pytest.raises(RejectedError) as caught:
        member.store(issue(member, made))
    assert why in str(caught.value)
    assert "PRIVATE" not in str(caught.value)
    assert member.read() == first
    assert len(member.files()) == 2


def test_a_key_that_a_signer_sends_along_is_not_taken_for_ours(member):
    made = member.made()
    evil = member.authority.issue("evil", "evil").key.read_bytes()
    member.store(evil + member.sign(made) + evil)
    content = member.current.read_bytes()
    assert content.count(b"PRIVATE KEY-----") == 2
    assert check_pair(content, content) == ""


def test_a_certificate_whose_key_was_lost_is_not_written(member):
    chain = member.sign(member.made())
    member.driver = member.another()
    with pytest.raises(NotFoundError, match=r"key .* is not known any more"):
        member.store(chain)
    assert member.files() == []


def test_an_expired_certificate_is_told_from_one_that_cannot_be_read(member):
    old = member.authority.issue("expired", "system:node:n1", "system:nodes", days=-1)
    member.write(member.kubeconfig, {"client-certificate": str(old.cert), "client-key": str(old.key)})
    with pytest.raises(DeniedError) as caught:
        member.read()
    assert caught.value.reason == "Expired"
    member.kubeconfig.unlink()
    with pytest.raises(NotFoundError, match="first client certificate is being requested"):
        member.read()


# ---------------------------------------------------------------- cost


def test_reading_costs_a_child_only_where_a_file_has_changed(member, monkeypatch):
    asked = []
    real = driver_module.resolve
    monkeypatch.setattr(driver_module, "resolve", lambda *a, **k: asked.append(a) or real(*a, **k))
    member.store(member.sign(member.made(bootstrap=True)), bootstrap=True)
    asked.clear()
    for _ in range(3):
        member.read()
    assert len(asked) == 1
    member.store(member.sign(member.made()))
    asked.clear()
    assert member.read() == member.read()
    assert len(asked) == 1


def test_a_kubeconfig_that_has_expired_is_read_once_a_minute_while_a_bootstrap_waits(member, monkeypatch):
    asked = []
    real = driver_module.resolve
    monkeypatch.setattr(driver_module, "resolve", lambda *a, **k: asked.append(a) or real(*a, **k))
    old = member.authority.issue("expired", "system:node:n1", "system:nodes", days=-1)
    member.write(member.kubeconfig, {"client-certificate": str(old.cert), "client-key": str(old.key)})
    for _ in range(3):
        with pytest.raises(DeniedError, match="was valid until"):
            member.driver.access()
    assert len(asked) == 1
    member.store(member.sign(member.made(bootstrap=True)), bootstrap=True)
    assert member.driver.access().cert == member.current.read_bytes()


def test_a_kubeconfig_that_came_by_another_way_ends_a_bootstrap_and_its_key(member):
    member.made(bootstrap=True)
    issued = member.authority.issue("given", "system:node:n1", "system:nodes")
    member.write(member.kubeconfig, {"client-certificate": str(issued.cert), "client-key": str(issued.key)})
    assert member.read().where == str(issued.cert)
    assert member.files() == []


def test_the_agent_imports_neither_the_client_library_nor_the_package_that_makes_keys():
    code = (
        "import sys, actors.agent.agent, runtime.drivers.kube.driver, runtime.drivers.kubeconfig.driver;"
        "print([one for one in ('kubernetes', 'cryptography') if one in sys.modules])"
    )
    environment = {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, cwd="/"
    )
    assert done.stdout.strip() == "[]"


# ---------------------------------------------------------------- before a server


def test_a_server_sees_the_token_then_the_first_certificate_and_then_the_rotated_one(tmp_path, monkeypatch):
    need("openssl")
    monkeypatch.setattr(identity, "LOOK_S", 0.05)
    seen = []

    def handle(asked):
        certificate = asked.connection.sock.getpeercert() or {}
        seen.append((asked.headers.get("authorization"), certificate.get("serialNumber")))
        asked.answer(body=b"{}")

    (tmp_path / "peer").mkdir()
    peer = KubePeer(tmp_path / "peer", handle)
    (tmp_path / "server.crt").write_bytes(peer.ca)
    member = Member(tmp_path, peer.server, tmp_path / "server.crt")
    peer._tls.load_verify_locations(member.authority.cert)
    peer._tls.verify_mode = ssl.CERT_OPTIONAL
    drivers = [KubeDriver("n1", find) for find in (member.driver.bootstrap_access, member.driver.access)]
    try:
        made = member.made(bootstrap=True)
        requests = ObjectPath(api_version="certificates.k8s.io/v1", plural="certificatesigningrequests")
        with pytest.raises(OperatingError, match="is not there yet"):
            perform(drivers[1], GetObject(path=NODE), 1.0)
        perform(drivers[0], CreateObject(path=requests, body=b'{"metadata": {}}'), 10.0)
        assert seen == [(f"Bearer {TOKEN}", None)]

        member.store(member.sign(made), bootstrap=True)
        perform(drivers[1], GetObject(path=NODE), 20.0)
        token, first = seen[-1]
        assert token is None
        assert first

        member.store(member.sign(member.made()))

        def is_another():
            perform(drivers[1], GetObject(path=NODE), 20.0)
            return seen[-1][1] not in (None, first)

        until(is_another, "the new certificate is in use", 10.0)
    finally:
        for one in drivers:
            one.close()
        peer.close()
