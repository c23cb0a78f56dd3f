"""The few CRI calls that the harness itself needs, in bare bytes: apart from the agent's own client, which is under test."""

import json
from collections.abc import Iterator

import grpc

RUNTIME = "/runtime.v1.RuntimeService/"
IMAGE = "/runtime.v1.ImageService/"


class CriLink:
    """A connection to a runtime's socket."""

    def __init__(self, socket: str) -> None:
        # A socket of containerd's own name is no HTTP authority; and a proxy of the environment is not for us.
        # Tests restart runtimes: a lost connection is tried again at once.
        options = (
            ("grpc.default_authority", "localhost"),
            ("grpc.enable_http_proxy", 0),
            ("grpc.initial_reconnect_backoff_ms", 50),
            ("grpc.min_reconnect_backoff_ms", 50),
            ("grpc.max_reconnect_backoff_ms", 100),
            # Without this, two connections to one socket in one process are one.
            ("grpc.use_local_subchannel_pool", 1),
        )
        self._channel = grpc.insecure_channel(f"unix://{socket}", options=options)

    def begin(self, method: str, request: bytes = b"", deadline_s: float = 30.0) -> grpc.Future:
        """Begin a call, named with its service; its result is the answer's bytes, or it raises grpc.RpcError."""
        return self._channel.unary_unary(method).future(request, timeout=deadline_s)

    def call(self, method: str, request: bytes = b"", deadline_s: float = 30.0) -> bytes:
        """Make a call and return the answer's bytes; raises grpc.RpcError."""
        return self.begin(method, request, deadline_s).result()

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def is_ready(self) -> bool:
        """Tell whether the runtime answers."""
        try:
            self.call(f"{RUNTIME}Status", deadline_s=2.0)
        except grpc.RpcError:
            return False
        return True

    def sandboxes(self) -> list[str]:
        """Return the ids of all sandboxes, sorted."""
        return sorted(text(item, 1) for item in items(self.call(f"{RUNTIME}ListPodSandbox"), 1))

    def containers(self) -> list[str]:
        """Return the ids of all containers, sorted."""
        return sorted(text(item, 1) for item in items(self.call(f"{RUNTIME}ListContainers"), 1))

    def pid(self, container: str) -> int:
        """Return the process id of a container, 0 when it does not run; raises grpc.RpcError."""
        answer = self.call(f"{RUNTIME}ContainerStatus", field(1, container.encode()) + flag(2))
        told = {text(entry, 1): text(entry, 2) for entry in items(answer, 2)}
        return int(json.loads(told["info"])["pid"])

    def address(self, sandbox: str) -> str:
        """Return the address of a sandbox, empty when it has none of its own; raises grpc.RpcError."""
        status = next(items(self.call(f"{RUNTIME}PodSandboxStatus", field(1, sandbox.encode())), 1))
        return text(next(items(status, 5), b""), 1)

    def is_sandbox_ready(self, sandbox: str) -> bool:
        """Tell whether a sandbox is up; raises grpc.RpcError."""
        status = next(items(self.call(f"{RUNTIME}PodSandboxStatus", field(1, sandbox.encode())), 1))
        # Ready is the enum's zero, which is not sent.
        return number(status, 3) == 0

    def images(self) -> dict[str, tuple[str, ...]]:
        """Return the names of each image, by id."""
        found = items(self.call(f"{IMAGE}ListImages"), 1)
        return {text(item, 1): tuple(name.decode() for name in items(item, 2)) for item in found}

    def remove_image(self, name: str) -> None:
        """Remove an image, by any of its names or its id."""
        self.call(f"{IMAGE}RemoveImage", field(1, field(1, name.encode())))

    def run_sandbox(self, name: str, logs: str) -> str:
        """Run a bare sandbox, as any other client of the runtime may, and return its id."""
        metadata = field(1, name.encode()) + field(2, f"uid-{name}".encode()) + field(3, b"suite")
        config = field(1, metadata) + field(3, logs.encode())
        return text(self.call(f"{RUNTIME}RunPodSandbox", field(1, config)), 1)

    def remove_pods(self) -> None:
        """Stop and remove every sandbox with all its containers, side by side; raises grpc.RpcError.

        Each call is made once more if it fails, as an agent does: a shim that ends at this moment fails its call.
        """
        ids = self.sandboxes()
        for method in ("StopPodSandbox", "RemovePodSandbox"):
            calls = {i: self.begin(f"{RUNTIME}{method}", field(1, i.encode()), 60.0) for i in ids}
            failed = [i for i, call in calls.items() if call.exception() is not None]
            for i in failed:
                self.call(f"{RUNTIME}{method}", field(1, i.encode()), 60.0)


def field(number: int, data: bytes) -> bytes:
    """Return one field of a message that holds bytes, text or a message."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def flag(number: int) -> bytes:
    """Return one field of a message that is set."""
    return _varint(number << 3) + b"\1"


def items(message: bytes, number: int) -> Iterator[bytes]:
    """Yield each value of one field that holds bytes, text or messages."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        match key & 7:
            case 0:
                _, at = _read_varint(message, at)
            case 1:
                at += 8
            case 2:
                size, at = _read_varint(message, at)
                if key >> 3 == number:
                    yield message[at : at + size]
                at += size
            case 5:
                at += 4
            case kind:
                raise ValueError(f"a field of the unknown kind {kind} at byte {at}")


def number(message: bytes, wanted: int) -> int:
    """Return the number in one field, 0 when it is not there."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        value, at = _read_varint(message, at)
        if key & 7 == 2:
            at += value
        elif key >> 3 == wanted:
            return value
    return 0


def text(message: bytes, number: int) -> str:
    """Return the text of one field, empty when it is not there."""
    return next(items(message, number), b"").decode()


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at
