"""Whether a pod has AppArmor profiles to enforce (reference ``runtime-cri`` section 5.7)."""

from api.kube.objects.container import Container, EphemeralContainer
from api.kube.objects.pod import Pod

APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
"""Beginning of the annotations that came before the fields; the rest is a container's name."""
FREE = ("", "Unconfined", "unconfined")


def asks_for_apparmor(pod: Pod) -> bool:
    """Return whether a container of the pod has an AppArmor profile to enforce."""
    return any(
        profile_of(pod, container) not in FREE
        for _, group in pod.spec.container_groups()
        for container in group
    )


def profile_of(pod: Pod, container: Container | EphemeralContainer) -> str:
    """Return the kind of profile that counts: of the container's field, its old annotation, the pod's field."""
    own, pods = container.security_context, pod.spec.security_context
    if own is not None and own.app_armor_profile is not None:
        return own.app_armor_profile.type
    old = pod.metadata.annotations.get(f"{APPARMOR}{container.name}", "")
    if old:
        return old
    return pods.app_armor_profile.type if pods is not None and pods.app_armor_profile is not None else ""
