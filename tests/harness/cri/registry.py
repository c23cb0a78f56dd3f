"""A private image registry on loopback (Debian's docker-registry), with or without a login.

```python
registry = Registry(folder, users={"puller": "secret"}).start()
name = registry.push(busybox(), "team/app:1")        # 127.0.0.1:PORT/team/app:1
```

containerd speaks plain HTTP with a registry on 127.0.0.1 without being told to.
"""

import base64
import ctypes
import http.client
import json
import shutil
import socket
import subprocess
from pathlib import Path

from tests.harness.cri.image import Image, digest
from tests.harness.part import SEARCH_PATH
from tests.harness.wait import until

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


class Registry:
    """A registry. With `users` (name to password) every request must log in."""

    def __init__(self, folder: Path, users: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.users = users or {}
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "registry.log"

    @property
    def host(self) -> str:
        """Return what image names begin with."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> "Registry":
        """Start it and wait until it answers; a later start listens on the same port."""
        self.port = self.port or _free_port()
        (self.folder / "config.json").write_text(json.dumps(self._config()))
        program = shutil.which("docker-registry", path=SEARCH_PATH)
        assert program is not None, "there is no docker-registry here: need('registry') comes first"
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [program, "serve", self.folder / "config.json"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        until(self._is_up, "the registry answers", 20.0, lambda: self.log.read_text(errors="replace")[-2000:])
        return self

    def stop(self) -> None:
        """End it; what was pushed stays for the next start."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.process = None

    def push(self, image: Image, name: str) -> str:
        """Push an image as `name` (repository and tag) and return its full name."""
        repository, _, tag = name.partition(":")
        layer = image.packed()
        for blob in (image.config, layer):
            self._push_blob(repository, blob)
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "size": len(image.config), "digest": digest(image.config)},
            "layers": [{"mediaType": LAYER, "size": len(layer), "digest": digest(layer)}],
        }
        path = f"/v2/{repository}/manifests/{tag or 'latest'}"
        self._ask("PUT", path, 201, json.dumps(manifest).encode(), MANIFEST)
        return f"{self.host}/{name}"

    def delete(self, name: str) -> None:
        """Take a name (repository and tag) back: it is not found any more."""
        repository, _, tag = name.partition(":")
        path = f"/v2/{repository}/manifests/"
        answer = self._ask("HEAD", path + (tag or "latest"), 200)
        self._ask("DELETE", path + answer.headers["Docker-Content-Digest"], 202)

    def pulls(self, repository: str) -> int:
        """Return how many times a manifest of `repository` was asked for, as its log tells."""
        mark = f'"GET /v2/{repository}/manifests/'
        return sum(mark in line for line in self.log.read_text(errors="replace").splitlines())

    def _config(self) -> dict[str, object]:
        config: dict[str, object] = {
            "version": 0.1,
            "log": {"level": "warn"},
            "storage": {
                "filesystem": {"rootdirectory": str(self.folder / "data")},
                "delete": {"enabled": True},
            },
            "http": {"addr": self.host},
        }
        if self.users:
            passwords = self.folder / "htpasswd"
            passwords.write_text("".join(f"{user}:{_bcrypt(word)}\n" for user, word in self.users.items()))
            config["auth"] = {"htpasswd": {"realm": "tests", "path": str(passwords)}}
        return config

    def _is_up(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (
            f"the registry ended:\n{self.log.read_text(errors='replace')[-2000:]}"
        )
        try:
            self._ask("GET", "/v2/", 200)
        except OSError:
            return False
        return True

    def _push_blob(self, repository: str, blob: bytes) -> None:
        begun = self._ask("POST", f"/v2/{repository}/blobs/uploads/", 202)
        where = begun.headers["Location"].partition(self.host)[2] or begun.headers["Location"]
        mark = "&" if "?" in where else "?"
        self._ask("PUT", f"{where}{mark}digest={digest(blob)}", 201, blob, "application/octet-stream")

    def _ask(
        self, method: str, target: str, expected: int, body: bytes = b"", kind: str = ""
    ) -> http.client.HTTPResponse:
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        headers = {"Content-Type": kind} if kind else {}
        headers["Accept"] = MANIFEST
        if self.users:
            user, word = next(iter(self.users.items()))
            headers["Authorization"] = f"Basic {base64.b64encode(f'{user}:{word}'.encode()).decode()}"
        try:
            link.request(method, target, body=body, headers=headers)
            answer = link.getresponse()
            said = answer.read()
        finally:
            link.close()
        assert answer.status == expected, f"{method} {target}: {answer.status} {said!r}"
        return answer


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _bcrypt(password: str) -> str:
    """Return what the registry's password file holds; Python's own module for this is on its way out."""
    library = ctypes.CDLL("libcrypt.so.1")
    library.crypt.restype = ctypes.c_char_p
    # Four rounds: a test's password is no secret, and each request is checked anew.
    hashed = library.crypt(password.encode(), b"$2b$04$abcdefghijklmnopqrstuu")
    assert (hashed or b"").startswith(b"$2b$"), "libcrypt cannot make bcrypt hashes here"
    return hashed.decode()
