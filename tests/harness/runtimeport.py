"""The ports of one container runtime, as its drivers have them: the driver is the port ``runtime`` itself."""

from typing import Any

import msgspec

from api.ports.images import ImageCall
from api.ports.port import Port
from api.ports.streams import StreamCall


def port_for(runtime: Any, call: msgspec.Struct) -> Port:
    """Return the port that takes a call."""
    match call:
        case ImageCall():
            return runtime.images
        case StreamCall():
            return runtime.streams
        case _:
            return runtime
