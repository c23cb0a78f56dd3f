"""Messages to ApiEventWriter, which writes events to the API server.

Sent by: EventRecorder for pods, and each actor that records events of the node for these. Order: per sender. Delivery: each is a level of
one event, whose count is the whole count; a lost one is repaired by the next occurrence.
"""

from api.messages import Message
from api.shown.introspection import EventRow


class EventRecorded(Message, frozen=True, kw_only=True):
    """An event as it is now: new, or counted once more."""

    event: EventRow

    def brief(self) -> str:
        """Return one line for traces."""
        return f"EventRecorded {self.event.namespace}/{self.event.pod} {self.event.reason} count={self.event.count}"


ApiEventsMessage = EventRecorded
