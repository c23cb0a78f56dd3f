"""Which of many entries each question is about, kept so that a turn touches only those that change.

A turn copies a set of members when it changes it first: the sets of the turn before stay as they are.
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

    `kept` has the sets of the turn before, as attributes that are called as the questions.
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
