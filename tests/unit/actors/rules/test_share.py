"""Numbers that differ from node to node, and are the same for the same words."""

from actors.rules.share import share


def test_a_share_is_below_one_stays_and_differs():
    found = [share("n1", "round", number) for number in range(1000)]
    assert found == [share("n1", "round", number) for number in range(1000)]
    assert all(0 <= one < 1 for one in found)
    assert 0.4 < sum(found) / len(found) < 0.6
    assert share("n1", "round", 1) != share("n2", "round", 1)
