"""What cgroups are given for requests and limits: the conversions of reference ``node`` section 9.3, in integers.

Shares, weight and quota describe the same wish in the words of cgroup version 1 and 2 and of the scheduler.
"""

MIN_SHARES, MAX_SHARES, SHARES_PER_CPU = 2, 262_144, 1024
MIN_WEIGHT, MAX_WEIGHT = 1, 10_000
MIN_QUOTA_US = 1000
DEFAULT_PERIOD_US = 100_000
SLICE_STEP_US = 10_000
"""systemd counts a slice's quota in hundredths of a CPU, which is so much per second."""
SECOND_US = 1_000_000
PAGE_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


def shares_of(milli: int) -> int:
    """Return CPU shares of thousandths of a CPU."""
    return min(max(milli * SHARES_PER_CPU // 1000, MIN_SHARES), MAX_SHARES) if milli else MIN_SHARES


def weight_of(shares: int) -> int:
    """Return the weight of cgroup version 2 for shares: the linear form that agents write, not the runtimes' curve."""
    if shares >= MAX_SHARES:
        return MAX_WEIGHT
    return 1 + (max(shares, MIN_SHARES) - 2) * 9999 // 262_142


def quota_of(milli: int, period_us: int = DEFAULT_PERIOD_US) -> int:
    """Return the quota per period of thousandths of a CPU; 0 stays 0, and the kernel takes none below 1 ms."""
    return max(milli * period_us // 1000, MIN_QUOTA_US) if milli else 0


def slice_quota_of(quota_us: int, period_us: int) -> int:
    """Return a quota as systemd keeps it: rounded up, so that it is never below what a container in it is given."""
    if quota_us <= 0 or not period_us:
        return quota_us
    per_second = -(-quota_us * SECOND_US // period_us)
    steps = -(-per_second // SLICE_STEP_US)
    return -(-steps * SLICE_STEP_US * period_us // SECOND_US)


def page_name(size: int) -> str:
    """Return a page size as cgroups call it: ``2MB``."""
    unit = 0
    while size >= 1024 and size % 1024 == 0 and unit + 1 < len(PAGE_UNITS):
        size, unit = size // 1024, unit + 1
    return f"{size}{PAGE_UNITS[unit]}"
