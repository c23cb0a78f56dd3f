"""Facts about the node."""

from actors.rules.nodeevent import KEPT, NodeEvent, node_event_rows, with_node_event


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
