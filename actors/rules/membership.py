"""Which of many entries each question is about, kept so that a decision touches only those that change.

A decision copies a set of members when it first changes it: the sets of the previous state are left unchanged.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from api.ids import Uid

E = TypeVar("E")


def sort_member(
    members: dict[str, Mapping[Uid, None]],
    kept: object,
    questions: tuple[tuple[str, Callable[[E], bool]], ...],
    uid: Uid,
    after: E | None,
) -> None:
    """Enter or remove a UID under each question, by its entry after a change (None: it is gone).

    `kept` has the sets of the previous state, as attributes named like the questions.
    """
    for name, concerns in questions:
        before = members[name]
        belongs = after is not None and concerns(after)
        if belongs is (uid in before):
            continue
        changed = dict(before) if before is getattr(kept, name) else before
        assert isinstance(changed, dict)
        if belongs:
            changed[uid] = None
        else:
            del changed[uid]
        members[name] = changed
