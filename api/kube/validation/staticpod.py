"""References to API objects, which a static pod may not have: it never passes an API server that would resolve them."""

from collections.abc import Iterator

from api.kube.objects.container import Container, EphemeralContainer
from api.kube.objects.pod import Pod
from api.kube.objects.volume import Volume, VolumeProjection
from api.problem import UNSET, FieldProblem, shown


def static_pod_problems(pod: Pod) -> tuple[FieldProblem, ...]:
    """Return a problem for each reference to an API object: ``static pods may not reference <resource>``."""
    found = [*in_spec(pod), *in_volumes(pod)]
    for group, containers in pod.spec.container_groups():
        for index, container in enumerate(containers):
            found.extend(in_container(container, f"spec.{group}[{index}]"))
    return tuple(
        FieldProblem(
            path=path,
            found=f"a reference to {what}",
            expected=f"{UNSET}: static pods may not reference {resource}",
        )
        for path, what, resource in found
    )


Reference = tuple[str, str, str]


def in_spec(pod: Pod) -> Iterator[Reference]:
    """Yield the references in the spec itself."""
    spec = pod.spec
    account = spec.service_account_name or spec.service_account
    if account:
        yield "spec.serviceAccountName", f"service account {shown(account)}", "serviceaccounts"
    for index, claim in enumerate(spec.resource_claims):
        named = claim.resource_claim_name or claim.resource_claim_template_name or claim.name
        yield f"spec.resourceClaims[{index}]", f"resource claim {shown(named)}", "resourceclaims"
    for index, secret in enumerate(spec.image_pull_secrets):
        yield f"spec.imagePullSecrets[{index}]", f"secret {shown(secret.name)}", "secrets"
    if spec.ephemeral_containers:
        yield "spec.ephemeralContainers", "containers that only the API can add", "ephemeralcontainers"


def in_container(container: Container | EphemeralContainer, path: str) -> Iterator[Reference]:
    """Yield the references of one container's environment."""
    for index, source in enumerate(container.env_from):
        if source.secret_ref is not None:
            yield f"{path}.envFrom[{index}].secretRef", f"secret {shown(source.secret_ref.name)}", "secrets"
        if source.config_map_ref is not None:
            yield (
                f"{path}.envFrom[{index}].configMapRef",
                f"config map {shown(source.config_map_ref.name)}",
                "configmaps",
            )
    for index, variable in enumerate(container.env):
        chosen = variable.value_from
        if chosen is None:
            continue
        place = f"{path}.env[{index}].valueFrom"
        if chosen.secret_key_ref is not None:
            yield f"{place}.secretKeyRef", f"secret {shown(chosen.secret_key_ref.name)}", "secrets"
        if chosen.config_map_key_ref is not None:
            yield (
                f"{place}.configMapKeyRef",
                f"config map {shown(chosen.config_map_key_ref.name)}",
                "configmaps",
            )


def in_volumes(pod: Pod) -> Iterator[Reference]:
    """Yield the references of the volumes."""
    for index, volume in enumerate(pod.spec.volumes):
        yield from in_volume(volume, f"spec.volumes[{index}]")


def in_volume(volume: Volume, path: str) -> Iterator[Reference]:
    """Yield the references of one volume."""
    yield from in_own_source(volume, path)
    yield from in_remote_source(volume, path)
    for index, part in enumerate(volume.projected.sources if volume.projected is not None else ()):
        yield from in_projection(part, f"{path}.projected.sources[{index}]")


def in_own_source(volume: Volume, path: str) -> Iterator[Reference]:
    """Yield the reference of a volume whose source is itself an API object."""
    if volume.secret is not None:
        yield f"{path}.secret", f"secret {shown(volume.secret.secret_name)}", "secrets"
    if volume.config_map is not None:
        yield f"{path}.configMap", f"config map {shown(volume.config_map.name)}", "configmaps"
    if volume.persistent_volume_claim is not None:
        claim = volume.persistent_volume_claim.claim_name
        yield f"{path}.persistentVolumeClaim", f"claim {shown(claim)}", "persistentvolumeclaims"
    if volume.ephemeral is not None:
        yield f"{path}.ephemeral", "a claim made for the pod", "persistentvolumeclaims"


def in_remote_source(volume: Volume, path: str) -> Iterator[Reference]:
    """Yield the references of a network volume, mostly the secret for access."""
    if volume.csi is not None and volume.csi.node_publish_secret_ref is not None:
        secret = volume.csi.node_publish_secret_ref.name
        yield f"{path}.csi.nodePublishSecretRef", f"secret {shown(secret)}", "secrets"
    for name, source in (
        ("cephfs", volume.cephfs),
        ("cinder", volume.cinder),
        ("flexVolume", volume.flex_volume),
        ("iscsi", volume.iscsi),
        ("rbd", volume.rbd),
        ("scaleIO", volume.scale_io),
        ("storageos", volume.storageos),
    ):
        if source is not None and source.secret_ref is not None:
            yield f"{path}.{name}.secretRef", f"secret {shown(source.secret_ref.name)}", "secrets"
    if volume.azure_file is not None:
        yield f"{path}.azureFile", f"secret {shown(volume.azure_file.secret_name)}", "secrets"
    if volume.glusterfs is not None:
        yield f"{path}.glusterfs", f"endpoints {shown(volume.glusterfs.endpoints)}", "endpoints"


def in_projection(part: VolumeProjection, place: str) -> Iterator[Reference]:
    """Yield the reference of one source of a projected volume."""
    if part.secret is not None:
        yield f"{place}.secret", f"secret {shown(part.secret.name)}", "secrets"
    if part.config_map is not None:
        yield f"{place}.configMap", f"config map {shown(part.config_map.name)}", "configmaps"
    if part.service_account_token is not None:
        yield f"{place}.serviceAccountToken", "a service account's token", "serviceaccounts"
    if part.cluster_trust_bundle is not None:
        yield f"{place}.clusterTrustBundle", "a trust bundle", "clustertrustbundles"
    if part.pod_certificate is not None:
        yield f"{place}.podCertificate", "a pod certificate", "podcertificates"
