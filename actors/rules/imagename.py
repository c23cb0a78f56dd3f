"""What names of images mean: which texts are names, what they are without a tag, and which of them mean the same image.

```text
sha256:<hex>   <hex>                       -> <hex>              runtimes write ids both ways
busybox        docker.io/library/busybox   -> docker.io/library/busybox:latest
name@sha256:<hex>                          -> docker.io/library/name@sha256:<hex>, and the digest <hex>
```

These forms are for comparison only; a runtime is given a name as the pod writes it, with its default tag.
"""

import re

DEFAULT_REGISTRY = "docker.io"
DEFAULT_TAG = "latest"
NAME_LIMIT = 255
"""Characters that a repository with its registry may have."""

_ID = re.compile(r"(?:[a-z0-9]+:)?(?P<hex>[0-9a-f]{64,})")
_WORD = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL = r"(?:[A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9-]*[A-Za-z0-9])"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_NAME = re.compile(
    rf"(?P<path>(?:{_HOST}/)?{_WORD}(?:/{_WORD})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)


def complaint(image: str) -> str:
    """Return why a text cannot name an image, empty when it can."""
    found = _NAME.fullmatch(image)
    if found is None:
        lower = _NAME.fullmatch(image.lower())
        if lower:
            return must_be_lower(image[: lower.end("path")])
        return "invalid reference format: expected [registry[:port]/]path[:tag][@digest]"
    first = found["path"].partition("/")[0]
    if "/" in found["path"] and not is_registry(first) and first != first.lower():
        return must_be_lower(found["path"])
    if len(found["path"]) > NAME_LIMIT:
        return f"invalid reference format: repository name must not be more than {NAME_LIMIT} characters"
    if re.fullmatch(r"[0-9a-f]{64}", image):
        return "invalid reference format: 64 hexadecimal digits are an id, not the name of a repository"
    return ""


def must_be_lower(path: str) -> str:
    """Return why a path with capitals names no repository: as a kubelet, without what may be its registry."""
    first, slash, rest = path.partition("/")
    is_host = bool(slash) and rest != rest.lower() and (is_registry(first) or first != first.lower())
    return f"invalid reference format: repository name ({rest if is_host else path}) must be lowercase"


def with_default_tag(image: str) -> str:
    """Return a valid name with ``:latest`` when it has neither tag nor digest; nothing else is added to it."""
    found = _NAME.fullmatch(image)
    bare = found is not None and found["tag"] is None and found["digest"] is None
    return f"{image}:{DEFAULT_TAG}" if bare else image


def is_registry(word: str) -> bool:
    """Return whether the first word of a name is a registry: by a dot, a port or the name localhost."""
    return bool(set(".:") & set(word)) or word == "localhost"


def forms(text: str) -> tuple[str, ...]:
    """Return every form that an id or reference is compared by; none for an empty text."""
    if not text:
        return ()
    found = _ID.fullmatch(text)
    if found:
        return (found["hex"],)
    name, at, digest = text.partition("@")
    repository, tag = split_tag(name)
    if at:
        return (f"{repository}@{digest}", digest.rpartition(":")[2])
    return (f"{repository}:{tag or DEFAULT_TAG}",)


def split_tag(name: str) -> tuple[str, str]:
    """Return the repository with its registry, and the tag, empty when there is none."""
    colon = name.rfind(":")
    repository, tag = (name[:colon], name[colon + 1 :]) if colon > name.rfind("/") else (name, "")
    registry, slash, rest = repository.partition("/")
    if not slash or not is_registry(registry):
        registry, rest = DEFAULT_REGISTRY, repository
    if registry in {DEFAULT_REGISTRY, "index.docker.io"}:
        registry, rest = DEFAULT_REGISTRY, rest if "/" in rest else f"library/{rest}"
    return f"{registry}/{rest}", tag
