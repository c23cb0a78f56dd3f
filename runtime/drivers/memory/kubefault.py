"""The way from a node to an API server in memory, on which requests take time and go wrong as the world says.

```text
begin ── delay_s ──▶ carried out at the server, unless it is refused ── answer_s ──▶ answer, or a failure in its place
      └──────────────────── in the end ────────────────────────────────────────────▶ TimedOut: it may have been done
```

It has no clock and no chance of its own. Like the real driver it answers before whoever asked gives the call up.
"""

from collections.abc import Callable

import msgspec

from api.errors import Failure, FailureKind, OperatingError
from api.ports.kube import KubeCall, KubeObject
from api.ports.port import Done, Timers, Undo

IN_TIME = 0.95
"""The share of a call's deadline within which the server must have answered."""
SHOWN_S = 0.03
"""A write that is answered later than this is shown by the stream before its answer comes, and so is news."""


class CallFault(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of one request."""

    delay_s: float = 0.0
    """Until it is carried out."""
    answer_s: float = 0.0
    """From there to the answer; infinite: it is lost."""
    failure: Failure | None = None
    """The answer, in place of the server's."""
    commits: bool = True
    """Whether it is carried out all the same."""


class FaultyKube:
    """The port ``kube``. `judge` says what becomes of a request, `carry_out` is given it and whether its answer comes at once."""

    name = "kube"

    def __init__(
        self,
        timers: Timers,
        judge: Callable[[KubeCall], CallFault],
        carry_out: Callable[[KubeCall, bool], KubeObject],
    ) -> None:
        self._timers, self._judge, self._carry_out = timers, judge, carry_out

    def begin(self, call: msgspec.Struct, deadline_s: float, done: Done) -> Undo:
        """Send a request. What was sent is not taken back: nor is it by an agent that dies."""
        if not isinstance(call, KubeCall):
            raise TypeError(f"the port kube takes no {type(call).__name__}")
        now, fault = self._timers.now(), self._judge(call)
        limit_s = IN_TIME * deadline_s
        late = Failure(
            kind=FailureKind.TIMED_OUT,
            message=f"{call.brief()}: no answer within {limit_s:g} s; it may have been done",
        )
        expire = self._timers.call_at(now + limit_s, lambda: done(None, late))

        def answer(result: KubeObject | None, failure: Failure | None) -> None:
            if fault.answer_s == float("inf"):
                return

            def arrive() -> None:
                expire()
                done(result, failure)

            self._timers.call_at(self._timers.now() + fault.answer_s, arrive)

        def effect() -> None:
            result, failure = None, fault.failure
            if fault.commits:
                try:
                    result = self._carry_out(call, failure is None and fault.answer_s <= SHOWN_S)
                except OperatingError as error:
                    failure = failure or error.failure()
            answer(result if failure is None else None, failure)

        self._timers.call_at(now + fault.delay_s, effect)
        return expire
