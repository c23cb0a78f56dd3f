"""What two node agents made of the same pods, field by field, without what must differ: identities, addresses and times."""

import re

IDENTITY = {
    "uid", "resourceVersion", "creationTimestamp", "managedFields", "containerID", "podIP", "podIPs", "ip",
    "startTime", "startedAt", "finishedAt", "lastTransitionTime", "lastProbeTime", "generateName", "selfLink",
}  # fmt: skip
MASKS = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "ID"),
    (re.compile(r"\b198\.\d+\.\d+\.\d+"), "ADDRESS"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)?(ms|µs|s)\b"), "DURATION"),
)


def masked(text: str) -> str:
    """Return a text without identities, addresses and times."""
    for pattern, word in MASKS:
        text = pattern.sub(word, text)
    return text


def flattened(value, path: str = "") -> dict[str, object]:
    """Return the leaves of an object by their paths; lists of what has a type or a name are keyed by it."""
    if isinstance(value, dict):
        found: dict[str, object] = {}
        for key, one in value.items():
            found |= {f"{path}.{key}": "SET"} if key in IDENTITY and one else flattened(one, f"{path}.{key}")
        return found
    if isinstance(value, list):
        found = {}
        for index, one in enumerate(value):
            key = one.get("type") or one.get("name") or index if isinstance(one, dict) else index
            found |= flattened(one, f"{path}[{key}]")
        return found
    return {path: masked(value) if isinstance(value, str) else value}


def pod_differences(ours: dict, theirs: dict) -> list[tuple[str, object, object]]:
    """Return path, our value and that of the other for each field that differs."""
    parts = ("metadata", "status")
    left = {key: one for part in parts for key, one in flattened(ours.get(part, {}), part).items()}
    right = {key: one for part in parts for key, one in flattened(theirs.get(part, {}), part).items()}
    return [
        (key, left.get(key), right.get(key))
        for key in sorted({*left, *right})
        if left.get(key) != right.get(key)
    ]


def event_lines(events: list[dict], pod: str) -> set[str]:
    """Return what happened to a pod, one line each, without how often."""
    return {
        f"{one['type']} {one['reason']} {one['involvedObject'].get('fieldPath', '')}: {masked(one['message'])}"
        for one in events
        if one["involvedObject"]["name"] == pod and one["source"].get("component") == "kubelet"
    }
