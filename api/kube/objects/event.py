"""The v1 Event: one line of what happened to an object, counted when it happens again."""

import msgspec

from api.kube.objects.meta import ListMeta, ObjectMeta, ObjectReference
from api.kube.objects.wiretype import ApiObject, Time


class EventSeries(ApiObject, frozen=True, kw_only=True):
    """How often it happened, and when last."""

    count: int = 0
    last_observed_time: Time | None = None


class EventSource(ApiObject, frozen=True, kw_only=True):
    """Which component on which node saw it."""

    component: str = ""
    host: str = ""


class Event(ApiObject, frozen=True, kw_only=True):
    """One line of what happened to an object."""

    action: str = ""
    api_version: str = msgspec.field(default_factory=lambda: "v1")
    count: int = 0
    event_time: Time | None = None
    first_timestamp: Time | None = None
    involved_object: ObjectReference = msgspec.field(default_factory=ObjectReference)
    kind: str = msgspec.field(default_factory=lambda: "Event")
    last_timestamp: Time | None = None
    message: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    reason: str = ""
    related: ObjectReference | None = None
    reporting_component: str = ""
    reporting_instance: str = ""
    series: EventSeries | None = None
    source: EventSource = EventSource()
    type: str = ""


class EventList(ApiObject, frozen=True, kw_only=True):
    """Several events."""

    api_version: str = msgspec.field(default_factory=lambda: "v1")
    items: tuple[Event, ...] = msgspec.field(default_factory=tuple)
    kind: str = msgspec.field(default_factory=lambda: "EventList")
    metadata: ListMeta = ListMeta()
