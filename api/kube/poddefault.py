"""The defaults that an API server would apply to a Pod: a static pod never passes one.

Pure and idempotent: `default_pod(default_pod(pod)) == default_pod(pod)`. What an admission plugin would add (service
account, priority, tolerations) or what depends on the node (name suffix, UID) is not here.
"""

from collections.abc import Mapping
from typing import TypeVar

from msgspec.structs import replace

from api.kube import quantity
from api.kube.objects.container import (
    Container,
    ContainerPort,
    EnvVar,
    EphemeralContainer,
    HTTPGetAction,
    Lifecycle,
    LifecycleHandler,
    Probe,
    ResourceRequirements,
)
from api.kube.objects.meta import ObjectFieldSelector
from api.kube.objects.pod import Pod, PodSecurityContext, PodSpec
from api.kube.objects.strmap import StrMap
from api.kube.objects.volume import (
    DownwardAPIVolumeFile,
    EmptyDirVolumeSource,
    Volume,
    VolumeProjection,
)
from api.kube.volumedefault import default_legacy_source

C = TypeVar("C", Container, EphemeralContainer)

DEFAULT_NAMESPACE = "default"
FILE_MODE = 0o644
GRACE_S = 30
TOKEN_LIFE_S = 3600
CERTIFICATE_LIFE_S = 86400
AGGREGATED = ("cpu", "memory")
"""Resources whose request for the whole pod defaults to the sum over its containers."""


def default_pod(pod: Pod) -> Pod:
    """Fill in what the writer of a Pod may leave out."""
    metadata = pod.metadata
    if not metadata.namespace:
        metadata = replace(metadata, namespace=DEFAULT_NAMESPACE)
    return replace(pod, metadata=metadata, spec=default_spec(pod.spec))


def default_spec(spec: PodSpec) -> PodSpec:
    """Fill in the spec's own fields and all its parts."""
    on_host = spec.host_network
    account = spec.service_account_name or spec.service_account
    containers = tuple(default_container(one, on_host) for one in spec.containers)
    return replace(
        spec,
        containers=containers,
        init_containers=tuple(default_container(one, on_host) for one in spec.init_containers),
        ephemeral_containers=tuple(
            default_container(one, on_host=False) for one in spec.ephemeral_containers
        ),
        volumes=tuple(default_volume(one) for one in spec.volumes),
        restart_policy=spec.restart_policy or "Always",
        dns_policy=spec.dns_policy or "ClusterFirst",
        scheduler_name=spec.scheduler_name or "default-scheduler",
        enable_service_links=True if spec.enable_service_links is None else spec.enable_service_links,
        security_context=spec.security_context or PodSecurityContext(),
        termination_grace_period_seconds=(
            GRACE_S
            if spec.termination_grace_period_seconds is None
            else spec.termination_grace_period_seconds
        ),
        resources=default_pod_resources(spec.resources, containers),
        # The old and the new name of the field always say the same.
        service_account=account,
        service_account_name=account,
    )


def default_pod_resources(
    resources: ResourceRequirements | None, containers: tuple[Container, ...]
) -> ResourceRequirements | None:
    """Fill in the whole pod's requests: what its containers request in sum, else its limit."""
    if resources is None:
        return None
    requests = dict(resources.requests)
    for name, limit in resources.limits.items():
        if name in requests:
            continue
        asked = [one.resources.requests[name] for one in containers if name in one.resources.requests]
        if name in AGGREGATED and asked:
            requests[name] = total(asked) or limit
        else:
            requests[name] = limit
    return replace(resources, requests=StrMap(requests))


def total(texts: list[str]) -> str:
    """Return the sum of amounts, empty when one of them is none."""
    try:
        amounts = [quantity.parse(text) for text in texts]
    except quantity.QuantityError:
        return ""
    return str(sum(amounts[1:], amounts[0]))


# containers


def default_container(container: C, on_host: bool) -> C:
    """Fill in one container; on the host's network each port is the host's own."""
    return replace(
        container,
        image_pull_policy=container.image_pull_policy or pull_policy(container.image),
        termination_message_path=container.termination_message_path or "/dev/termination-log",
        termination_message_policy=container.termination_message_policy or "File",
        env=tuple(default_env(one) for one in container.env),
        ports=tuple(default_port(one, on_host) for one in container.ports),
        resources=default_resources(container.resources),
        liveness_probe=default_probe(container.liveness_probe),
        readiness_probe=default_probe(container.readiness_probe),
        startup_probe=default_probe(container.startup_probe),
        lifecycle=default_lifecycle(container.lifecycle),
    )


def pull_policy(image: str) -> str:
    """Return Always for the tag ``latest``, written or meant, else IfNotPresent."""
    name, _, digest = image.partition("@")
    last = name.rpartition("/")[2]
    tag = last.partition(":")[2]
    return "Always" if tag == "latest" or (image and not tag and not digest) else "IfNotPresent"


def default_env(variable: EnvVar) -> EnvVar:
    """Fill in the version of a field reference."""
    source = variable.value_from
    if source is None or source.field_ref is None:
        return variable
    return replace(variable, value_from=replace(source, field_ref=default_field(source.field_ref)))


def default_field(field: ObjectFieldSelector) -> ObjectFieldSelector:
    """Fill in the version that a field path is written in."""
    return field if field.api_version else replace(field, api_version="v1")


def default_port(port: ContainerPort, on_host: bool) -> ContainerPort:
    """Fill in protocol and, on the host's network, the host's port."""
    host_port = port.host_port or (port.container_port if on_host else 0)
    return replace(port, protocol=port.protocol or "TCP", host_port=host_port)


def default_resources(resources: ResourceRequirements) -> ResourceRequirements:
    """Request what is limited and not requested otherwise."""
    missing: Mapping[str, str] = {k: v for k, v in resources.limits.items() if k not in resources.requests}
    return replace(resources, requests=StrMap({**resources.requests, **missing})) if missing else resources


def default_probe(probe: Probe | None) -> Probe | None:
    """Fill in a probe's pace and thresholds."""
    if probe is None:
        return None
    return replace(
        probe,
        timeout_seconds=probe.timeout_seconds or 1,
        period_seconds=probe.period_seconds or 10,
        success_threshold=probe.success_threshold or 1,
        failure_threshold=probe.failure_threshold or 3,
        http_get=default_http(probe.http_get),
    )


def default_http(action: HTTPGetAction | None) -> HTTPGetAction | None:
    """Fill in path and scheme."""
    if action is None:
        return None
    return replace(action, path=action.path or "/", scheme=action.scheme or "HTTP")


def default_lifecycle(lifecycle: Lifecycle | None) -> Lifecycle | None:
    """Fill in the hooks."""
    if lifecycle is None:
        return None
    return replace(
        lifecycle, post_start=default_hook(lifecycle.post_start), pre_stop=default_hook(lifecycle.pre_stop)
    )


def default_hook(hook: LifecycleHandler | None) -> LifecycleHandler | None:
    """Fill in one hook."""
    return None if hook is None else replace(hook, http_get=default_http(hook.http_get))


# volumes


def default_volume(volume: Volume) -> Volume:
    """Fill in a volume's source; without any it is an emptyDir."""
    if not any(getattr(volume, field) is not None for field in volume.__struct_fields__ if field != "name"):
        return replace(volume, empty_dir=EmptyDirVolumeSource())
    if volume.secret is not None and volume.secret.default_mode is None:
        volume = replace(volume, secret=replace(volume.secret, default_mode=FILE_MODE))
    if volume.config_map is not None and volume.config_map.default_mode is None:
        volume = replace(volume, config_map=replace(volume.config_map, default_mode=FILE_MODE))
    if volume.downward_api is not None:
        source = volume.downward_api
        mode = FILE_MODE if source.default_mode is None else source.default_mode
        source = replace(source, default_mode=mode, items=default_items(source.items))
        volume = replace(volume, downward_api=source)
    if volume.projected is not None:
        projected = volume.projected
        mode = FILE_MODE if projected.default_mode is None else projected.default_mode
        sources = tuple(default_projection(one) for one in projected.sources)
        volume = replace(volume, projected=replace(projected, default_mode=mode, sources=sources))
    if volume.image is not None and not volume.image.pull_policy:
        volume = replace(volume, image=replace(volume.image, pull_policy=pull_policy(volume.image.reference)))
    return default_legacy_source(volume)


def default_items(items: tuple[DownwardAPIVolumeFile, ...]) -> tuple[DownwardAPIVolumeFile, ...]:
    """Fill in the version of the field references of downward API files."""
    return tuple(
        replace(item, field_ref=default_field(item.field_ref)) if item.field_ref else item for item in items
    )


def default_projection(projection: VolumeProjection) -> VolumeProjection:
    """Fill in one source of a projected volume."""
    if projection.downward_api is not None:
        items = default_items(projection.downward_api.items)
        projection = replace(projection, downward_api=replace(projection.downward_api, items=items))
    token = projection.service_account_token
    if token is not None and token.expiration_seconds is None:
        projection = replace(
            projection, service_account_token=replace(token, expiration_seconds=TOKEN_LIFE_S)
        )
    certificate = projection.pod_certificate
    if certificate is not None and certificate.max_expiration_seconds is None:
        life = replace(certificate, max_expiration_seconds=CERTIFICATE_LIFE_S)
        projection = replace(projection, pod_certificate=life)
    return projection
