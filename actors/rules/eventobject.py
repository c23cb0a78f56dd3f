"""Events as Kubernetes writes them (reference ``api-config-security`` section 22)."""

from zlib import crc32

from api.kube.objects.event import Event, EventSource
from api.kube.objects.meta import ObjectMeta, ObjectReference
from api.shown.introspection import EventRow
from api.wallclock import rfc3339

COMPONENT = "kubelet"
"""Who reports: tools that know a kubelet's events know these."""
COMBINED = "(combined from similar events): "
"""Begins the message of the one event for all that differ in their message only and are too many."""
CLUSTER_NAMESPACE = "default"
"""Of the events of what has no namespace itself."""
NAME_LIMIT = 253


def event_object(row: EventRow) -> Event:
    """Return a row as a v1 Event; what did not happen to a pod happened to the node."""
    first_at = row.first_at or row.at
    name = object_name(row)
    if row.namespace:
        about = ObjectReference(
            api_version="v1",
            kind="Pod",
            namespace=row.namespace,
            name=name,
            uid=row.uid,
            field_path=row.field_path,
        )
    else:
        about = ObjectReference(kind="Node", name=name, uid=name)
    return Event(
        metadata=ObjectMeta(name=event_name(row), namespace=row.namespace or CLUSTER_NAMESPACE),
        involved_object=about,
        type=row.type,
        reason=row.reason,
        message=row.message,
        count=row.count,
        first_timestamp=rfc3339(first_at),
        last_timestamp=rfc3339(row.at),
        source=EventSource(component=COMPONENT, host=row.host),
        reporting_component=COMPONENT,
        reporting_instance=row.host,
    )


def object_name(row: EventRow) -> str:
    """Return the name of the pod or of the node that an event is about."""
    return row.pod.removeprefix("node/")


def event_name(row: EventRow) -> str:
    """Return the name of an Event, the same whenever it is counted once more: the object's and a time, as a kubelet's.

    Events that began in the same moment differ in some seconds that are added.
    """
    first_at = row.first_at or row.at
    message = COMBINED if row.message.startswith(COMBINED) else row.message
    key = f"{row.uid}/{row.type}/{row.reason}/{row.field_path}/{message}"
    suffix = f".{first_at + crc32(key.encode()):x}"
    return object_name(row)[: NAME_LIMIT - len(suffix)] + suffix
