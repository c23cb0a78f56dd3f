"""A node in memory, with given facts."""

import msgspec

from api.ports.node import DescribeNode, NodeDescribed, NodeFacts


class MemoryNode:
    """The port ``node``."""

    name = "node"

    def __init__(self, facts: NodeFacts) -> None:
        self.facts = facts

    def perform(self, call: msgspec.Struct, deadline_s: float) -> msgspec.Struct:  # noqa: ARG002
        """Carry out `DescribeNode`."""
        if not isinstance(call, DescribeNode):
            raise TypeError(f"the port node takes no {type(call).__name__}")
        return NodeDescribed(facts=self.facts)
