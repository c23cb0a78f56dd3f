"""Validation of objects: every problem at once, each with its path, what is there and what must be there."""

from api.kube.validation.pod import validate_pod
from api.kube.validation.staticpod import static_pod_problems

__all__ = ["static_pod_problems", "validate_pod"]
