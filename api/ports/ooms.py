"""OOM kills in the kernel's log: read line by line, each line by itself where it can be.

```text
x invoked oom-killer: gfp_mask=...                                         a kill begins; an older search is given up
oom-kill:constraint=...,oom_memcg=/g,task_memcg=/g/v,task=x,pid=1,uid=0    all of it (Linux 5.0 and later)
Task in /g/v killed as a result of limit of /g                             before that: whose limit
Killed process 1 (x) total-vm:...                                          and who was killed
```

Reference ``node`` section 17. A search that finds nothing within so many lines is given up: a gap in the log, or lines
that only looked like a kill, must not swallow the next one.
"""

import re

import msgspec

from api.messages import Message

MACHINE = "/"
"""The group of all: a kill for its sake is the machine's own want of memory."""
LINES = 20_000
"""Lines that a search may take: every process of a large machine may be listed in between."""
START = " invoked oom-killer:"
WHOLE = re.compile(
    r"oom-kill:constraint=.*?,(?:global_oom|oom_memcg=(?P<group>.*?)),task_memcg=(?P<victims>.*?)"
    r",task=(?P<process>.*),pid=(?P<pid>\d+),uid=\d+\s*$"
)
LIMIT = re.compile(r"Task in (?P<victims>.*) killed as a result of limit of (?P<group>.*?)\s*$")
KILLED = re.compile(r"(?:.*: )?Killed process (?P<pid>\d+),?(?: UID \d+,)? \((?P<process>.*)\)")


class OomKill(Message, frozen=True, kw_only=True):
    """The kernel killed a process for want of memory. An item of the stream ``kernel.ooms``."""

    group: str = MACHINE
    """The cgroup whose limit was reached; `MACHINE`: there was none left at all."""
    victim_group: str = MACHINE
    """The cgroup of the killed process."""
    process: str = ""
    pid: int = 0

    @property
    def is_system(self) -> bool:
        """Return whether the machine as a whole was short."""
        return self.group == MACHINE

    def brief(self) -> str:
        """Return one line for traces."""
        return f"OomKill of {self.process} ({self.pid}) in {self.victim_group} for {self.group}"


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """A kill whose process is not known yet."""

    group: str = MACHINE
    victim_group: str = MACHINE
    left: int = LINES


def follow(search: Search | None, line: str) -> tuple[Search | None, OomKill | None]:
    """Parse the next line of the kernel; return the kill to complete from now on, and the one that it completes."""
    if START in line:
        return Search(), None
    found = WHOLE.match(line)
    if found is not None:
        return None, OomKill(
            group=found["group"] or MACHINE,
            victim_group=found["victims"] or MACHINE,
            process=found["process"],
            pid=int(found["pid"]),
        )
    if search is None:
        return None, None
    found = LIMIT.match(line)
    if found is not None:
        return Search(group=found["group"], victim_group=found["victims"], left=search.left), None
    found = KILLED.match(line)
    if found is not None:
        kill = OomKill(
            group=search.group,
            victim_group=search.victim_group,
            process=found["process"],
            pid=int(found["pid"]),
        )
        return None, kill
    if search.left <= 1:
        return None, None
    return Search(group=search.group, victim_group=search.victim_group, left=search.left - 1), None
