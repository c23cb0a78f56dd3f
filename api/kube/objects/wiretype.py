"""Wire format of Kubernetes objects: the base of all of them and their scalar types.

Rules that every object keeps:

- attributes are snake case, wire names camel case, given by hand where camel case would miss them (`hostPID`);
- what is unset is not written: None for a number or object that may be unset, an empty string, list or map;
- what Kubernetes always writes (`restartCount: 0`) has a `default_factory`, which an encoder never leaves out;
- decoding never fails for want of a field; `api.kube.validation` says which ones are missing;
- lists are tuples and maps are `StrMap`, so that an object can be compared, hashed and sent.
"""

from typing import Annotated

import msgspec


class ApiObject(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """A Kubernetes object or a part of one. Frozen all the way down, hence no cycles for a collector to find."""


Time = Annotated[str, msgspec.Meta(extra={"kubernetes": "time"})]
"""An instant as RFC 3339 text, kept as it came."""

Quantity = Annotated[str, msgspec.Meta(extra={"kubernetes": "quantity"})]
"""An amount such as ``250m`` or ``64Mi``, see `api.kube.quantity`. A number in a manifest becomes its text."""

SecretText = Annotated[str, msgspec.Meta(extra={"kubernetes": "secret"})]
"""A text that no message, log line or representation may repeat."""

Duration = Annotated[str, msgspec.Meta(extra={"kubernetes": "duration"})]
"""A span of time such as ``1m30s``, see `api.duration`."""

IntOrString = int | str
"""A port by number or by name."""
