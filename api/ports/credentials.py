"""The port ``credentials``: it takes `ReadNodeCredentials`."""

import msgspec

from api.messages.images import Credential
from api.ports.call import HostCall
from api.ports.manifests import Problem


class ReadNodeCredentials(HostCall, frozen=True, kw_only=True):
    """Read what the node itself may use at registries -> NodeCredentials. A file that cannot be read is a problem in it."""


class NodeCredentials(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The node's own credentials, those of the file that is looked for first in front."""

    credentials: tuple[Credential, ...] = ()
    problems: tuple[Problem, ...] = ()
    """Files that are broken, by name; nothing of their content is shown."""
