"""What a virtual container does, decided by its command in a tiny language.

The words are read from left to right, as a shell script would run:

```text
run                     run until stopped
sleep S                 wait S seconds
print TEXT STREAM       write one line; STREAM is stdout or stderr
exit N                  end with this exit code
crash [N]               be killed by signal N (default 11)
oom                     be killed for memory: 137, OOMKilled
ignore-term             from the start, ignore SIGTERM
slow-term S [code N]    from the start, take S seconds to end on SIGTERM, with code N (default 143)
missing                 the program does not exist: the start fails
```

A script that ends without an ending exits 0, unless all it says is how to take SIGTERM: then it runs on. No words at
all stand for the image's own entry point, which runs on too. A word that is not in the language is a program that does
not exist.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum

import msgspec

from api.ports.runtime import ContainerSpec

SIGKILL = 9
SIGSEGV = 11
SIGTERM = 15


class Output(StrEnum):
    """A stream that a process writes to."""

    STDOUT = "stdout"
    STDERR = "stderr"


class ProcessExit(msgspec.Struct, frozen=True, kw_only=True):
    """How a process ends: by itself with `code`, or by `signal` (then `code` is 128 + signal)."""

    code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""


class OutputLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line written `after_s` seconds from the start."""

    after_s: float
    text: str
    output: Output = Output.STDOUT


class OnTerm(msgspec.Struct, frozen=True, kw_only=True):
    """How a process takes SIGTERM. `code` None means that the signal itself ends it."""

    ignored: bool = False
    takes_s: float = 0.0
    code: int | None = None


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """The whole life of a virtual process. `ends_after_s` None: it runs until it is stopped."""

    lines: tuple[OutputLine, ...] = ()
    ends_after_s: float | None = None
    ending: ProcessExit = ProcessExit()
    on_term: OnTerm = OnTerm()
    cannot_start: str = ""
    """Why the start fails, empty when it does not."""


Behave = Callable[[ContainerSpec], Behaviour]
"""Decides what a container does; a simulation may have its own, for example one that depends on the attempt."""


def killed_by(signal: int, reason: str = "", message: str = "") -> ProcessExit:
    """Return the ending of a process that `signal` killed."""
    return ProcessExit(code=128 + signal, signal=signal, reason=reason, message=message)


def behaviour_of(spec: ContainerSpec) -> Behaviour:
    """Read a container's command and arguments as a script."""
    return parse((*spec.command, *spec.args))


def parse(words: Sequence[str]) -> Behaviour:
    """Read a script; one that is not in the language becomes a process that cannot start, with the reason."""
    try:
        return _read(iter(words))
    except StopIteration:
        return Behaviour(cannot_start=f"the script {' '.join(words)!r} ends in the middle of a statement")
    except ValueError as error:
        return Behaviour(cannot_start=f"the script {' '.join(words)!r} is wrong: {error}")


def _read(words: Iterator[str]) -> Behaviour:
    lines: list[OutputLine] = []
    clock_s = 0.0
    on_term = OnTerm()
    runs_on = True
    word = next(words, None)
    while word is not None:
        following: str | None = None
        match word:
            case "run":
                return Behaviour(lines=tuple(lines), on_term=on_term)
            case "sleep":
                clock_s, runs_on = clock_s + float(next(words)), False
            case "print":
                lines.append(OutputLine(after_s=clock_s, text=next(words), output=Output(next(words))))
                runs_on = False
            case "ignore-term":
                on_term = OnTerm(ignored=True)
            case "slow-term":
                takes_s, code = float(next(words)), 128 + SIGTERM
                following = next(words, None)
                if following == "code":
                    code, following = int(next(words)), None
                on_term = OnTerm(takes_s=takes_s, code=code)
            case "exit" | "crash" | "oom":
                ending = _ending(word, words)
                return Behaviour(lines=tuple(lines), ends_after_s=clock_s, ending=ending, on_term=on_term)
            case _:
                return Behaviour(cannot_start=f"no such program: {word!r}")
        word = following if following is not None else next(words, None)
    return Behaviour(lines=tuple(lines), ends_after_s=None if runs_on else clock_s, on_term=on_term)


def _ending(word: str, words: Iterator[str]) -> ProcessExit:
    match word:
        case "exit":
            code = int(next(words))
            return ProcessExit(code=code, reason="Error" if code else "Completed")
        case "oom":
            return killed_by(SIGKILL, "OOMKilled")
        case _:
            return killed_by(int(next(words, SIGSEGV)))
