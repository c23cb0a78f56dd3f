"""What a kubeconfig comes to, and each way in which it comes to nothing, read by real child processes."""

import base64
import contextlib
import json
import os
import stat
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from api.errors import DeniedError, NotFoundError, RejectedError, TimedOutError, UnavailableError
from runtime.drivers.kubeconfig.certificate import facts_of
from runtime.drivers.kubeconfig.resolve import resolve
from runtime.net.kubeaccess import file_mark
from tests.harness.cluster.authority import Authority, openssl
from tests.harness.part import need
from tests.harness.wait import until

# Each reads a kubeconfig in a child process of its own.
pytestmark = pytest.mark.slow

SECRET = "s3cret-bearer"
ROOT = Path(__file__).parents[5]
VERSION = "client.authentication.k8s.io/v1"


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    need("openssl")
    folder = tmp_path_factory.mktemp("pki")
    authority = Authority(folder)
    return {
        "ca": authority.cert,
        "node": authority.issue("node", "system:node:n1", "system:nodes"),
        "other": authority.issue("other", "system:node:n2", "system:nodes"),
        "expired": authority.issue("expired", "system:node:n1", "system:nodes", days=-1),
    }


def config(cluster=None, user=None, **rest):
    """Return a kubeconfig of one context."""
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [{"name": "here", "cluster": {"server": "https://127.0.0.1:6443", **(cluster or {})}}],
        "users": [{"name": "me", "user": user if user is not None else {"token": SECRET}}],
        "contexts": [{"name": "both", "context": {"cluster": "here", "user": "me"}}],
        "current-context": "both",
    }
    return {**whole, **rest}


@pytest.fixture
def write(tmp_path):
    """Write a kubeconfig, return its path; JSON is YAML."""

    def written(content):
        path = tmp_path / "node.kubeconfig"
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return str(path)

    return written


@pytest.fixture
def plugin(tmp_path, write):
    """Write a kubeconfig with an exec plugin of this shell script, return its path."""

    def written(script, **entry):
        program = tmp_path / "plugin"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o700)
        return write(config(user={"exec": {"apiVersion": VERSION, "command": "./plugin", **entry}}))

    return written


def credential(**status):
    return json.dumps({"apiVersion": VERSION, "kind": "ExecCredential", "status": status})


def printing(**status):
    return f"cat <<'END'\n{credential(**status)}\nEND"


def refused(kind, path, *words, deadline_s=20.0):
    """Assert that it is refused by one line that names the file, says this, and shows no secret."""
    with pytest.raises(kind) as caught:
        resolve(path, deadline_s)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"kubeconfig {path}: ")
    for word in words:
        assert word in text, text
    assert SECRET not in text
    assert type(caught.value) is kind
    return text


def in_base64(path):
    return base64.b64encode(path.read_bytes()).decode()


# ---------------------------------------------------------------- what it comes to


def test_data_within_and_a_token_come_as_they_are(write, pki):
    access = resolve(
        write(config({"certificate-authority-data": in_base64(pki["ca"]), "tls-server-name": "kubernetes"}))
    )
    assert access.server == "https://127.0.0.1:6443"
    assert access.ca == pki["ca"].read_bytes()
    assert (access.token, access.server_name, access.insecure) == (SECRET, "kubernetes", False)
    assert (access.cert, access.key, access.expires_at) == (b"", b"", None)
    assert SECRET not in repr(access)


def test_files_are_relative_to_the_folder_of_the_kubeconfig_and_a_prefix_stays(write, pki, tmp_path):
    (tmp_path / "pki").mkdir()
    for name, path in (("ca", pki["ca"]), ("cert", pki["node"].cert), ("key", pki["node"].key)):
        (tmp_path / "pki" / name).write_bytes(path.read_bytes())
    access = resolve(
        write(
            config(
                {"server": "https://example.org:6443/k8s/c-1/", "certificate-authority": "pki/ca"},
                {"client-certificate": "pki/cert", "client-key": "pki/key"},
            )
        )
    )
    assert access.server == "https://example.org:6443/k8s/c-1"
    assert access.ca == pki["ca"].read_bytes()
    assert access.cert == pki["node"].cert.read_bytes()
    assert access.key == pki["node"].key.read_bytes()
    assert access.expires_at == facts_of(access.cert).until
    assert 86400 < access.expires_at - time.time() < 3 * 86400
    assert "PRIVATE" not in repr(access)


def test_yaml_as_people_write_it(write):
    text = f"""
apiVersion: v1
kind: Config
current-context: one
contexts: [{{name: one, context: {{cluster: c, user: u}}}}]
clusters:
- name: c
  cluster: {{server: "https://[::1]:6443", insecure-skip-tls-verify: true, certificate-authority: ""}}
users:
- name: u
  user:
    token: {SECRET}
    exec: null
"""
    access = resolve(write(text.encode()))
    assert (access.server, access.insecure, access.token) == ("https://[::1]:6443", True, SECRET)


def test_a_token_file_wins_and_is_read_again_after_a_while(write, tmp_path):
    (tmp_path / "token").write_text("of-the-file\n")
    access = resolve(write(config(user={"token": "inline", "tokenFile": "token"})))
    assert access.token == "of-the-file"
    assert 60 < access.expires_at - time.time() <= 300
    (tmp_path / "token").unlink()
    assert resolve(write(config(user={"token": "inline", "tokenFile": "token"}))).token == "inline"


def test_a_plugin_gives_a_token_until_it_expires(plugin, tmp_path):
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=10)
    path = plugin(
        f"env >{tmp_path}/env; {printing(token=SECRET, expirationTimestamp=soon.strftime('%Y-%m-%dT%H:%M:%SZ'))}",
        args=["get-token"],
        env=[{"name": "WHO", "value": "me"}],
        provideClusterInfo=True,
    )
    os.environ["SECRET_OF_THE_AGENT"] = "x"
    try:
        access = resolve(path)
    finally:
        del os.environ["SECRET_OF_THE_AGENT"]
    assert (access.token, access.expires_at) == (SECRET, soon.timestamp())
    seen = dict(line.partition("=")[::2] for line in (tmp_path / "env").read_text().splitlines())
    assert seen["WHO"] == "me"
    assert "SECRET_OF_THE_AGENT" not in seen
    assert "PYTHONPATH" not in seen
    assert json.loads(seen["KUBERNETES_EXEC_INFO"]) == {
        "apiVersion": VERSION,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://127.0.0.1:6443"}},
    }


def test_a_plugin_gives_a_certificate(plugin, pki):
    node = pki["node"]
    status = {"clientCertificateData": node.cert.read_text(), "clientKeyData": node.key.read_text()}
    access = resolve(plugin(printing(**status)))
    assert access.cert.strip() == node.cert.read_bytes().strip()
    assert access.expires_at == facts_of(access.cert).until


def test_what_a_plugin_leaves_running_neither_delays_nor_outlives_the_reading(plugin, tmp_path):
    path = plugin(f"sleep 300 & echo $! >{tmp_path}/pid; {printing(token=SECRET)}")
    begun = time.monotonic()
    assert resolve(path).token == SECRET
    assert time.monotonic() - begun < 15
    pid = int((tmp_path / "pid").read_text())
    until(lambda: gone(pid), "the process that the plugin left is gone")


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_no_descriptor_of_the_agent_reaches_a_plugin(plugin, tmp_path):
    path = plugin(f"ls -l /proc/self/fd >{tmp_path}/open; {printing(token=SECRET)}")
    mine = os.open(tmp_path / "ledger", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(mine, True)
    try:
        resolve(path)
    finally:
        os.close(mine)
    seen = (tmp_path / "open").read_text()
    assert f"{tmp_path}/open" in seen
    assert "ledger" not in seen


def children():
    """Return the pids of what this process started and did not wait for."""
    found = []
    for one in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(one.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(one.parent.name)
    return sorted(found)


def test_the_children_of_a_process_are_found():
    with subprocess.Popen(["sleep", "60"]) as process:
        assert str(process.pid) in children()
        process.kill()
    assert str(process.pid) not in children()


def test_many_readings_leave_no_descriptor_and_no_child(write):
    def left():
        return len(list(Path("/proc/self/fd").iterdir())), children()

    path = write(config())
    resolve(path)
    before = left()
    for _ in range(3):
        resolve(path)
    assert left() == before


# ---------------------------------------------------------------- the file


def test_a_file_that_is_not_there(tmp_path):
    refused(NotFoundError, str(tmp_path / "none"), "there is no such file", "--kubeconfig")


def test_a_path_that_is_no_path():
    with pytest.raises(UnavailableError, match="null byte"):
        resolve("/tmp/a\0b")


@pytest.mark.parametrize("make", ["mkdir", "mkfifo"])
def test_what_is_no_regular_file_is_not_waited_for(tmp_path, make):
    path = tmp_path / "odd"
    getattr(os, make)(path)
    refused(RejectedError, str(path), "--kubeconfig", "folder" if make == "mkdir" else "not a regular file")


def test_a_file_that_may_not_be_read(write):
    path = write(config())
    Path(path).chmod(0)
    if os.geteuid() != 0:
        refused(DeniedError, path, "may not read it", "--kubeconfig")
        return
    # Root reads everything, but not without these capabilities.
    code = f"from runtime.drivers.kubeconfig.resolve import resolve; resolve({path!r})"
    without = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
    done = subprocess.run(
        [*without, sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    said = f"api.errors.DeniedError: kubeconfig {path}: user 0 may not read it; give the path of one that can be read"
    assert said in done.stderr


def test_a_file_that_is_too_big(write):
    refused(RejectedError, write(b"#" * ((1 << 20) + 1)), "more than 1 MiB")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"users:\n- token: '{SECRET}\n\tx: y", ["not YAML in line"]),
        (f"a: b\ntoken: {SECRET}: {SECRET}\n", ["not YAML in line 2"]),
        ("a: !!python/object:os.system {}\n", ["not YAML in line 1"]),
        ("a: 2026-13-45\n", ["not YAML"]),
        (b"\xff\xfe\x00a", ["not YAML in UTF-8"]),
        ("[" * 100_000, ["not YAML"]),
        ("a: &a [*a]\nclusters: *a\n", ["not a kubeconfig"]),
        ("", ["empty"]),
        ("- a\n- b\n", ["not a kubeconfig"]),
        ("just words", ["not a kubeconfig"]),
        ("current-context: 5\n", ["not a kubeconfig", "current-context"]),
        (f"users: [{{name: a, user: {{token: [{SECRET}]}}}}]", ["not a kubeconfig", "users[0].user.token"]),
    ],
)
def test_what_is_no_kubeconfig(write, text, words):
    refused(RejectedError, write(text if isinstance(text, bytes) else text.encode()), *words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (config(**{"current-context": None}), ["no current-context", "use-context"]),
        (config(**{"current-context": "else"}), ["current-context names context 'else'", "not in the file"]),
        (config(contexts=None), ["names context 'both'"]),
        (config(contexts=[{"name": "both"}]), ["context 'both' names no cluster"]),
        (config(clusters=[]), ["context 'both' names cluster 'here', which is not in the file"]),
        (config(clusters=config()["clusters"] * 2), ["2 clusters of the name 'here'"]),
        (config(users=[]), ["context 'both' names user 'me', which is not in the file"]),
        (config({"server": ""}), ["cluster 'here' has no server", "https://HOST:6443"]),
        (config({"server": "10.0.0.1:6443"}), ["server of cluster 'here'", "https://HOST:PORT/PREFIX"]),
        (config({"server": "http://10.0.0.1"}), ["server of cluster 'here'"]),
        (config({"server": f"https://me:{SECRET}@h"}), ["server of cluster 'here'"]),
        (config({"server": "https://h:99999"}), ["server of cluster 'here'"]),
        (config({"server": "https://h\r\nX: y"}), ["server of cluster 'here'"]),
        (config({"server": "https://h/?a=b"}), ["server of cluster 'here'"]),
        (config({"server": "https://"}), ["server of cluster 'here'"]),
        (config({"proxy-url": "http://p:1"}), ["proxy-url", "not supported"]),
        (config({"certificate-authority-data": "?"}), ["certificate-authority of cluster 'here'", "base64"]),
        (config({"certificate-authority-data": "eHl6"}), ["certificate-authority of cluster 'here'", "PEM"]),
        (config(user={"username": "u", "password": SECRET}), ["user 'me' has username, which is not supported"]),
        (config(user={"auth-provider": {"name": "gcp"}}), ["user 'me' has auth-provider"]),
        (config(user={"token": SECRET, "as": "root"}), ["user 'me' has as,"]),
        (config(user={"token": SECRET + "\n"}), ["token of user 'me'"]),
        (config(user={"client-key-data": "eHl6"}), ["a client-key without a client-certificate"]),
        (config(user={"exec": {"command": "x", "apiVersion": "v0"}}), ["exec plugin 'x' of user 'me'", "apiVersion"]),
        (config(user={"exec": {"apiVersion": VERSION}}), ["exec plugin '' of user 'me': command is required"]),
        (
            config(user={"exec": {"apiVersion": VERSION, "command": "x", "interactiveMode": "Always"}}),
            ["no terminal"],
        ),
    ],
)  # fmt: skip
def test_what_an_entry_lacks_or_may_not_have(write, content, words):
    refused(RejectedError, write(content), *words)


def test_an_authority_beside_no_verification_is_refused(write, pki):
    cluster = {"certificate-authority": str(pki["ca"]), "insecure-skip-tls-verify": True}
    refused(
        RejectedError, write(config(cluster)), "both a certificate-authority and insecure-skip-tls-verify"
    )


# ---------------------------------------------------------------- the files that it names


def test_files_that_are_missing(write, pki, tmp_path):
    text = refused(
        NotFoundError,
        write(config({"certificate-authority": "ca.crt"})),
        "certificate-authority of cluster 'here'",
    )
    assert f"{tmp_path}/ca.crt: there is no such file" in text
    refused(
        NotFoundError, write(config(user={"tokenFile": "/no/token"})), "tokenFile of user 'me': /no/token"
    )
    user = {"client-certificate": str(pki["node"].cert), "client-key": "/no/key"}
    refused(
        NotFoundError, write(config(user=user)), "client-key of user 'me': /no/key: there is no such file"
    )


def test_a_name_with_line_ends_or_without_end_is_one_short_line_of_an_error(write):
    refused(
        NotFoundError, write(config({"certificate-authority": "a\nb\u2028c"})), "a?b?c: there is no such file"
    )
    text = refused(
        RejectedError, write(config(**{"current-context": "x" * 100_000})), "current-context names context"
    )
    assert len(text) < 2_000


def test_files_that_hold_nothing(write, tmp_path):
    (tmp_path / "empty").write_text("\n")
    refused(RejectedError, write(config(user={"tokenFile": "empty"})), "tokenFile of user 'me'", "empty")


def test_a_certificate_that_expired_says_when(write, pki):
    expired = pki["expired"]
    user = {"client-certificate": str(expired.cert), "client-key": str(expired.key)}
    day = datetime.fromtimestamp(facts_of(expired.cert.read_bytes()).until, UTC)
    assert day < datetime.now(UTC)
    refused(
        DeniedError,
        write(config(user=user)),
        f"client-certificate of user 'me' was valid until {day.isoformat()}",
    )


@pytest.mark.parametrize(
    ("cert", "key", "words"),
    [
        ("node.cert", "other.key", "the key is not the certificate's"),
        ("junk", "node.key", "the certificate is not PEM"),
        ("node.cert", "junk", "the key is not PEM"),
        ("node.cert", "locked", "the key is not PEM without a password"),
    ],
)
def test_a_pair_that_tls_cannot_use(write, pki, tmp_path, cert, key, words):
    (tmp_path / "junk").write_text("junk")
    openssl("ec", "-in", pki["node"].key, "-aes256", "-passout", "pass:x", "-out", tmp_path / "locked")

    def place(name):
        whose, _, part = name.partition(".")
        return str(getattr(pki[whose], part)) if part else str(tmp_path / name)

    user = {"client-certificate": place(cert), "client-key": place(key)}
    refused(RejectedError, write(config(user=user)), "client-certificate of user 'me'", words)


# ---------------------------------------------------------------- plugins


def test_a_plugin_that_is_not_installed_gives_its_hint(write):
    entry = {"apiVersion": VERSION, "command": "no-such-plugin", "installHint": "apt install\n  it"}
    refused(
        NotFoundError,
        write(config(user={"exec": entry})),
        "exec plugin 'no-such-plugin' of user 'me'",
        "apt install it",
    )


def test_a_plugin_that_may_not_be_run(plugin, tmp_path):
    path = plugin("exit 0")
    (tmp_path / "plugin").chmod(stat.S_IRUSR)
    refused(RejectedError, path, "exec plugin './plugin' of user 'me'", "cannot be run", "Permission denied")


def test_a_plugin_that_fails_says_its_last_line_without_what_it_was_given(plugin):
    path = plugin(
        'echo "first" >&2; echo "no login for $PASS" >&2; echo >&2; exit 3',
        env=[{"name": "PASS", "value": SECRET}],
    )
    refused(UnavailableError, path, "ended with status 3", "no login for ***", "by hand")


def test_a_plugin_that_is_killed(plugin):
    refused(UnavailableError, plugin("kill -KILL $$"), "was killed by SIGKILL")


def test_a_plugin_that_hangs_is_killed_with_what_it_started(plugin, tmp_path):
    path = plugin(f"sleep 300 & echo $! >{tmp_path}/pid; exec sleep 300")
    begun = time.monotonic()
    refused(TimedOutError, path, "exec plugin './plugin' of user 'me'", "did not end within", deadline_s=6.0)
    assert time.monotonic() - begun < 6
    pid = int((tmp_path / "pid").read_text())
    until(lambda: gone(pid), "what the plugin started is gone")


def test_a_plugin_that_stops_its_reader_is_killed_at_the_deadline(plugin, tmp_path):
    path = plugin(f"echo $$ >{tmp_path}/pid; kill -STOP $PPID; exec sleep 300")
    refused(TimedOutError, path, "no answer within 3 s", deadline_s=3.0)
    pid = int((tmp_path / "pid").read_text())
    until(lambda: gone(pid), "the plugin is gone")


def test_a_plugin_that_kills_its_reader(plugin):
    refused(UnavailableError, plugin("kill -KILL $PPID"), "without an answer", "status -9")


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        (f"echo {SECRET}", RejectedError, "no ExecCredential in JSON"),
        ("head -c 3000000 /dev/zero", RejectedError, "more than 1 MiB"),
        ("yes >&2", RejectedError, "more than 1 MiB"),
        (printing(), RejectedError, "neither a token nor a client certificate"),
        (printing(clientKeyData=SECRET), RejectedError, "a key without a certificate"),
        (printing(token=SECRET, expirationTimestamp="soon"), RejectedError, "not a time"),
        (
            printing(token=SECRET, expirationTimestamp="2020-01-01T00:00:00Z"),
            DeniedError,
            "expired at 2020-01-01",
        ),
        (printing(token=SECRET).replace("/v1", "/v9"), RejectedError, f"no ExecCredential of {VERSION}"),
        (printing(clientKeyData="x", clientCertificateData="y"), RejectedError, "the certificate is not PEM"),
    ],
)
def test_a_plugin_that_prints_no_credential(plugin, script, kind, words):
    refused(kind, plugin(script), words)


def test_an_access_lists_the_files_that_it_came_from_as_they_were_before_they_were_read(write, pki, tmp_path):
    node = pki["node"]
    path = write(
        config(
            {"certificate-authority": str(pki["ca"])},
            {"client-certificate": str(node.cert), "client-key": str(node.key), "tokenFile": "token"},
        )
    )
    (tmp_path / "token").write_text(SECRET)
    access = resolve(path)
    assert access.ca_file == str(pki["ca"])
    expected = [path, str(pki["ca"]), str(node.cert), str(node.key), str(tmp_path / "token")]
    assert [one.path for one in access.files] == expected
    assert [one.mark for one in access.files] == [file_mark(one) for one in expected]
    (tmp_path / "token").write_text("another")
    assert access.files[-1].mark != file_mark(access.files[-1].path)
