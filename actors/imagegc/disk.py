"""How full the image file system is, in whole per cent as a kubelet counts; figures may be absurd and are bounded."""

from api.ports.images import ImageFs


def available(fs: ImageFs) -> int:
    """Return the bytes that are free, never less than none nor more than there are."""
    return max(0, min(fs.available_bytes, fs.capacity_bytes))


def used_percent(fs: ImageFs) -> int:
    """Return how much is used; `fs` has a capacity."""
    return 100 - available(fs) * 100 // fs.capacity_bytes


def need_bytes(fs: ImageFs, low_percent: int) -> int:
    """Return how much must become free to be below the low threshold; none or less: it is."""
    return fs.capacity_bytes * (100 - low_percent) // 100 - available(fs)


def people(count: int) -> str:
    """Return bytes as people say them: ``37.1 GiB``."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def span(seconds: float) -> str:
    """Return a span of time as people say it: ``45s``, ``2m``, ``3h20m``, ``2d4h``."""
    whole = max(0, round(seconds))
    for size, unit, small, sub in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size}{unit}" + (f"{rest}{sub}" if rest else "")
    return f"{whole}s"
