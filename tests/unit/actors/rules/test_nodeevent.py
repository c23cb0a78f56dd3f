"""Facts about the node."""

import msgspec

from actors.rules.nodeevent import KEPT, NodeEvent, node_event_rows, with_node_event, with_node_events_sent
from api import paths
from api.lifecycle import Decision


def fact(reason="Short", message="of memory", at=1):
    return NodeEvent(at=at, reason=reason, message=message)


def test_an_equal_fact_counts_up_and_is_as_young_as_the_last():
    known = with_node_event(with_node_event((), fact(at=1)), fact(at=5))
    assert [(one.at, one.count) for one in known] == [(5, 2)]
    assert len(with_node_event(known, fact(message="of disk"))) == 2


def test_facts_of_one_reason_may_count_as_one_whatever_they_say():
    known = with_node_event(with_node_event((), fact()), fact(message="of disk", at=2), any_message=True)
    assert [(one.message, one.count) for one in known] == [("of disk", 2)]


def test_only_the_last_facts_are_kept():
    known = ()
    for number in range(KEPT + 5):
        known = with_node_event(known, fact(message=str(number), at=number))
    assert [one.message for one in known] == [str(number) for number in range(5, KEPT + 5)]


def test_a_fact_is_an_event_of_the_node():
    [row] = node_event_rows((fact(),), "n1")
    assert (row.pod, row.namespace, row.type, row.reason, row.count) == ("node/n1", "", "Warning", "Short", 1)


class Noted(msgspec.Struct, frozen=True):
    """The state of an actor with events of the node."""

    node_events: tuple = ()
    node_name: str = "n1"


def test_new_and_counted_facts_go_to_the_followers_of_the_node_s_events():
    first, more = with_node_event((), fact()), fact(message="of disk", at=2)
    before, after = Noted(first), Noted(with_node_event(with_node_event(first, fact(at=9)), more))
    decision = with_node_events_sent(Decision(state=after), before, after, (paths.APIEVENTS,))
    assert [(one.to, one.message.event.at, one.message.event.count) for one in decision.actions] == [
        (paths.APIEVENTS, 9, 2),
        (paths.APIEVENTS, 2, 1),
    ]
    assert decision.actions[0].message.event.first_at == 1
    assert with_node_events_sent(Decision(state=after), after, after, (paths.APIEVENTS,)).actions == ()
    assert with_node_events_sent(Decision(state=after), before, after, ()).actions == ()
