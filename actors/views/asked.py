"""The ports that views ask by themselves, for people who wait for the answer."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

Ask = Callable[[msgspec.Struct, float], msgspec.Struct]
"""Makes a call within so many seconds and returns its result. Raises an `api.errors.OperatingError`."""


@dataclass(frozen=True, kw_only=True)
class AskedPorts:
    """How each of these ports is asked."""

    runtime: Ask
    images: Ask
    streams: Ask
