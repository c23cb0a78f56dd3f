"""Rules that objects must keep: every problem at once, each with path, what was found and what is expected."""

from api.kube.validation.pod import validate_pod
from api.kube.validation.staticpod import static_pod_problems

__all__ = ["static_pod_problems", "validate_pod"]
