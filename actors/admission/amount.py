"""Claims compared and joined: what a pod takes while it changes from one allocation to another."""

from actors.rules.resources.request import Claim


def joined(one: Claim, other: Claim) -> Claim:
    """Return the greater amount of each resource: the claim of a pod during a resize."""
    scalars = {**dict(one.scalars)}
    for name, amount in other.scalars:
        scalars[name] = max(amount, scalars.get(name, 0))
    return Claim(
        cpu_milli=max(one.cpu_milli, other.cpu_milli),
        memory_bytes=max(one.memory_bytes, other.memory_bytes),
        ephemeral_bytes=max(one.ephemeral_bytes, other.ephemeral_bytes),
        scalars=tuple(sorted(scalars.items())),
        ports=tuple(sorted({*one.ports, *other.ports})),
    )


def grows(before: Claim, after: Claim) -> bool:
    """Return whether `after` has more of any resource than `before`."""
    return joined(before, after) != joined(before, before)
