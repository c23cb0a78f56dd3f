"""What every Kubernetes object carries: its name, labels, owners, and the references between objects."""

from collections.abc import Mapping

import msgspec

from api.kube.objects.strmap import NO_ENTRIES, freeze_maps
from api.kube.objects.wiretype import ApiObject, Quantity, Time


class ManagedFieldsEntry(ApiObject, frozen=True, kw_only=True):
    """Which writer owns which fields. The field set itself (`fieldsV1`) is the API server's and not kept here."""

    api_version: str = ""
    fields_type: str = ""
    manager: str = ""
    operation: str = ""
    subresource: str = ""
    time: Time | None = None


class OwnerReference(ApiObject, frozen=True, kw_only=True):
    """An object that this one belongs to and goes away with."""

    api_version: str = msgspec.field(default_factory=str)
    block_owner_deletion: bool | None = None
    controller: bool | None = None
    kind: str = msgspec.field(default_factory=str)
    name: str = msgspec.field(default_factory=str)
    uid: str = msgspec.field(default_factory=str)


class ObjectMeta(ApiObject, frozen=True, kw_only=True):
    """Name, labels and history of one object."""

    annotations: Mapping[str, str] = NO_ENTRIES
    creation_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    deletion_timestamp: Time | None = None
    finalizers: tuple[str, ...] = ()
    generate_name: str = ""
    generation: int = 0
    labels: Mapping[str, str] = NO_ENTRIES
    managed_fields: tuple[ManagedFieldsEntry, ...] = ()
    name: str = ""
    namespace: str = ""
    owner_references: tuple[OwnerReference, ...] = ()
    resource_version: str = ""
    self_link: str = ""
    uid: str = ""

    def __post_init__(self) -> None:
        freeze_maps(self, "annotations", "labels")


class ShardInfo(ApiObject, frozen=True, kw_only=True):
    """Which shard of a sharded list this is."""

    selector: str = msgspec.field(default_factory=str)


class ListMeta(ApiObject, frozen=True, kw_only=True):
    """What a list says about itself."""

    continue_: str = msgspec.field(name="continue", default="")
    remaining_item_count: int | None = None
    resource_version: str = ""
    self_link: str = ""
    shard_info: ShardInfo | None = None


class LabelSelectorRequirement(ApiObject, frozen=True, kw_only=True):
    """One condition on a label: In, NotIn, Exists, DoesNotExist."""

    key: str = msgspec.field(default_factory=str)
    operator: str = msgspec.field(default_factory=str)
    values: tuple[str, ...] = ()


class LabelSelector(ApiObject, frozen=True, kw_only=True):
    """Labels that an object must have; both parts must match."""

    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
    match_labels: Mapping[str, str] = NO_ENTRIES

    def __post_init__(self) -> None:
        freeze_maps(self, "match_labels")


class LocalObjectReference(ApiObject, frozen=True, kw_only=True):
    """The name of an object in the same namespace."""

    name: str = ""


class ObjectReference(ApiObject, frozen=True, kw_only=True):
    """Any object in the cluster, or a field of it."""

    api_version: str = ""
    field_path: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    uid: str = ""


class TypedLocalObjectReference(ApiObject, frozen=True, kw_only=True):
    """An object of a named kind in the same namespace."""

    api_group: str = ""
    kind: str = msgspec.field(default_factory=str)
    name: str = msgspec.field(default_factory=str)


class TypedObjectReference(ApiObject, frozen=True, kw_only=True):
    """An object of a named kind, possibly in another namespace."""

    api_group: str = ""
    kind: str = msgspec.field(default_factory=str)
    name: str = msgspec.field(default_factory=str)
    namespace: str = ""


class ObjectFieldSelector(ApiObject, frozen=True, kw_only=True):
    """A field of the pod itself, for the downward API."""

    api_version: str = ""
    field_path: str = msgspec.field(default_factory=str)


class ResourceFieldSelector(ApiObject, frozen=True, kw_only=True):
    """A container's request or limit, for the downward API, divided by `divisor`."""

    container_name: str = ""
    divisor: Quantity = ""
    resource: str = msgspec.field(default_factory=str)
