"""Kills for want of memory in the kernel's own words, of old kernels and new ones; gaps, and lines that only look alike."""

import pytest

from api.ports.ooms import LINES, OomKill, follow

POD = "/kubepods/burstable/pod5c1e0000-aaaa-4bbb-8ccc-1234567890ab"
CONTAINER = f"{POD}/0123456789abcdef"
HEAD = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
START = "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"
BETWEEN = (
    "CPU: 0 UID: 0 PID: 14328 Comm: python3 Not tainted 6.18.44 #1 PREEMPT(none) ",
    "Call Trace:",
    " dump_header+0x43/0x1c0",
    "memory: usage 40960kB, limit 40960kB, failcnt 19",
    f"Memory cgroup stats for {POD}:",
    "Tasks state (memory values in pages):",
    "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
    "[  14328]     0 14328    14421    13560    11936     1624             0 python3",
)
NEW = f"{HEAD}oom_memcg={POD},task_memcg={CONTAINER},task=python3,pid=14328,uid=0"
NEW_END = "Memory cgroup out of memory: Killed process 14328 (python3) total-vm:57684kB, anon-rss:47744kB, UID:0 pgtables:152kB"
SYSTEM = (
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
    f"task_memcg={CONTAINER},task=java,pid=77,uid=1000"
)
OLD_LIMIT = f"Task in {CONTAINER} killed as a result of limit of {POD}"
OLD_END = "Killed process 4321 (stress) total-vm:40224kB, anon-rss:39000kB, file-rss:4kB"
KILL = OomKill(group=POD, victim_group=CONTAINER, process="python3", pid=14328)


def kills(*lines):
    search, found = None, []
    for line in lines:
        search, kill = follow(search, line)
        found += [kill] if kill is not None else []
    return found


def test_a_kill_for_a_cgroups_limit():
    assert kills(START, *BETWEEN, NEW, NEW_END) == [KILL]
    assert not KILL.is_system


def test_a_kill_of_the_machines_own():
    [kill] = kills(START, *BETWEEN, SYSTEM, "Out of memory: Killed process 77 (java) total-vm:1kB")
    assert kill == OomKill(group="/", victim_group=CONTAINER, process="java", pid=77)
    assert kill.is_system


def test_old_kernels_tell_the_limit_and_the_victim_apart():
    assert kills(
        START, OLD_LIMIT, *BETWEEN, "Memory cgroup out of memory: Kill process 4321 (stress) score 9", OLD_END
    ) == [OomKill(group=POD, victim_group=CONTAINER, process="stress", pid=4321)]


def test_old_kernels_name_no_limit_when_the_machine_was_short():
    [kill] = kills(
        START, *BETWEEN, "Out of memory: Kill process 4321 (stress) score 9 or sacrifice child", OLD_END
    )
    assert kill == OomKill(process="stress", pid=4321)
    assert kill.is_system


def test_the_oldest_words_for_a_victim():
    assert kills(START, "Killed process 12, UID 48, (httpd) total-vm:1kB")[0].process == "httpd"


def test_one_kill_is_told_once():
    assert kills(START, NEW, NEW_END, NEW_END) == [KILL]


def test_several_kills_one_after_the_other():
    assert kills(START, NEW, NEW_END, START, OLD_LIMIT, OLD_END, START, SYSTEM) == [
        KILL,
        OomKill(group=POD, victim_group=CONTAINER, process="stress", pid=4321),
        OomKill(group="/", victim_group=CONTAINER, process="java", pid=77),
    ]


def test_a_start_whose_end_was_lost_does_not_swallow_the_next_kill():
    assert kills(START, OLD_LIMIT, START, *BETWEEN, OLD_END) == [OomKill(process="stress", pid=4321)]


def test_a_whole_line_counts_though_its_start_was_lost():
    assert kills(*BETWEEN, NEW, NEW_END) == [KILL]


def test_an_end_without_a_start_is_nobodys():
    assert kills(OLD_LIMIT, OLD_END, NEW_END) == []


def test_a_search_is_given_up_after_so_many_lines():
    assert kills(START, *["eth0: link up"] * (LINES - 1), OLD_END) != []
    assert kills(START, *["eth0: link up"] * LINES, OLD_END) == []
    assert kills(START, *["eth0: link up"] * LINES, START, OLD_END) != []


@pytest.mark.parametrize(
    "line",
    [
        "EXT4-fs (vda): mounted filesystem r/w without journal. Quota mode: none.",
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)",
        "oom_reaper: reaped process 14328 (python3), now anon-rss:0kB",
        "systemd[1]: Killed process 12 (x)",
        "python3 invoked oom-killer",
        "",
    ],
)
def test_other_lines_are_no_kills(line):
    assert kills(line, line) == []


@pytest.mark.parametrize("name", ["a,pid=1,uid=0", "x (y) z", ",task=init", "task_memcg=/"])
def test_a_program_can_not_choose_its_words_so_that_another_one_is_named(name):
    [kill] = kills(f"{HEAD}oom_memcg={POD},task_memcg={CONTAINER},task={name},pid=14328,uid=0")
    assert (kill.process, kill.pid, kill.victim_group) == (name, 14328, CONTAINER)
    [kill] = kills(START, OLD_LIMIT, f"Killed process 4321 ({name}) total-vm:40224kB, anon-rss:1kB")
    assert (kill.process, kill.pid) == (name, 4321)
