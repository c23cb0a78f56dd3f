"""Events as Kubernetes writes them (reference ``api-config-security`` section 22)."""

from api.kube.objects.event import Event, EventSource
from api.kube.objects.meta import ObjectMeta, ObjectReference
from api.shown.introspection import EventRow
from api.wallclock import rfc3339

COMPONENT = "kubelet"
"""Who reports: tools that know a kubelet's events know these."""


def event_object(row: EventRow) -> Event:
    """Return a row as a v1 Event; what did not happen to a pod happened to the node."""
    first_at = row.first_at or row.at
    name = row.pod.removeprefix("node/")
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
        metadata=ObjectMeta(name=f"{name}.{first_at:x}", namespace=row.namespace or "default"),
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
