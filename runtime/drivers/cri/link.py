"""The two services of a runtime as things that a call can ask."""

from typing import Any

from api.ports.port import Undo
from runtime.drivers.cri.opencall import Answer
from runtime.wire.channel import Channel
from runtime.wire.endpoint import Endpoint
from runtime.wire.rpc import Rpc

IMAGE_SERVICE = "/runtime.v1.ImageService/"


class Unary:
    """One call to the runtime; the answer is its reply."""

    def __init__(self, channel: Channel, rpc: Rpc[Any, Any], request: Any, limit_s: float, what: str) -> None:
        self._channel, self._rpc, self._request = channel, rpc, request
        self._limit_s, self._what = limit_s, what

    def begin(self, left_s: float, answer: Answer) -> Undo:
        """Make the call; its deadline counts from now."""
        limit_s = min(left_s, self._limit_s)
        return self._channel.begin(self._rpc, self._request, limit_s, answer, what=self._what)


class Channels:
    """The channels to a runtime; images may be kept by another server.

    `request_timeout_s` is what a call may take, if nothing else is said of it.
    """

    def __init__(self, endpoint: Endpoint, image_endpoint: Endpoint, request_timeout_s: float) -> None:
        self.request_timeout_s = request_timeout_s
        self.channel = Channel(endpoint)
        self.images = self.channel if image_endpoint == endpoint else Channel(image_endpoint)

    def ask(self, rpc: Rpc[Any, Any], request: Any, *, limit_s: float | None = None, what: str = "") -> Unary:
        """Return a call that can be asked for; `limit_s`, or the request timeout, bounds it besides the call's deadline."""
        channel = self.images if rpc.path.startswith(IMAGE_SERVICE) else self.channel
        return Unary(channel, rpc, request, self.request_timeout_s if limit_s is None else limit_s, what)

    def close(self) -> None:
        """End both connections."""
        self.channel.close()
        self.images.close()
