"""Where each actor lives: its address in messages, traces and on the command line."""

from api.ids import Path, Uid

NODE = Path("/node/info")
STATUS = Path("/node/status")
EVENTS = Path("/node/events")
IMAGES = Path("/node/images")
PLEG = Path("/node/pleg")
PROBES = Path("/node/probes")
PODS = Path("/node/pods")
ADMISSION = Path("/node/admission")
IMAGEGC = Path("/node/imagegc")
CGROUPS = Path("/node/cgroups")
LOGS = Path("/node/logs")
USAGE = Path("/node/usage")
EVICTION = Path("/node/eviction")
OOM = Path("/node/oom")
CONFIG = Path("/node/config")
FILE = Path("/node/file")
HTTP = Path("/node/http")
API = Path("/node/api")
APISTATUS = Path("/node/apistatus")
MIRRORS = Path("/node/mirrors")
NODESTATUS = Path("/node/nodestatus")
LEASE = Path("/node/lease")
APIEVENTS = Path("/node/apievents")
CERTIFICATES = Path("/node/certificates")


def leaf(path: Path) -> str:
    """Return the name that the actor at `path` has below its parent."""
    return path.rpartition("/")[2]


def pod_path(uid: Uid) -> Path:
    """Return where the actor of a pod lives."""
    return Path(f"/node/pods/{uid}")
