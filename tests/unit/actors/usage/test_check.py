"""Which readings of usage are believed."""

import pytest

from actors.rules.resources.usage import (
    check_count,
    check_cpu,
    check_fs,
    check_memory,
    check_share,
    check_swap,
)
from api.usage import CpuUsage, FsUsage, MemoryUsage, SwapUsage

NS = 1_000_000_000
GIB = 1 << 30


def cpu(clock_s, total_s):
    return CpuUsage(at=7, clock_ns=int(clock_s * NS), total_ns=int(total_s * NS))


def memory(usage, working_set=None, rss=0, available=None):
    in_use = usage if working_set is None else working_set
    return MemoryUsage(
        at=7, usage_bytes=usage, working_set_bytes=in_use, rss_bytes=rss, available_bytes=available
    )


def fs(**fields):
    good = {
        "capacity_bytes": 100,
        "available_bytes": 40,
        "used_bytes": 50,
        "inodes": 20,
        "inodes_free": 5,
        "inodes_used": 15,
    }
    return FsUsage(at=7, **{**good, **fields})


def test_a_rate_is_the_difference_of_two_readings():
    after, why = check_cpu(cpu(10, 4), cpu(12, 5), 2)
    assert (after.nano_cores, after.total_ns, why) == (NS // 2, 5 * NS, "")


def test_the_first_reading_has_no_rate():
    assert check_cpu(None, cpu(10, 4), 2) == (cpu(10, 4), "")


def test_a_counter_that_went_back_was_begun_anew_and_has_no_rate():
    assert check_cpu(cpu(10, 4), cpu(12, 1), 2) == (cpu(12, 1), "")


def test_a_reading_long_after_the_last_has_no_rate():
    assert check_cpu(cpu(10, 4), cpu(2000, 5), 2) == (cpu(2000, 5), "")


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (cpu(12, -1), "negative"),
        (cpu(10, 4.5), "time stands still"),
        (cpu(12, 400), "more than 2 CPUs allow"),
    ],
)
def test_absurd_processor_time_is_refused_and_the_last_reading_stands(after, why):
    before = cpu(10, 4)
    believed, said = check_cpu(before, after, 2)
    assert believed == before
    assert why in said


def test_a_clock_that_was_set_back_is_named_and_counts_from_there_on():
    believed, why = check_cpu(cpu(10, 4), cpu(9, 4.5), 2)
    assert (believed, why) == (cpu(9, 4.5), "time goes back at its source")
    again, why = check_cpu(believed, cpu(10, 5), 2)
    assert (again.nano_cores, why) == (NS // 2, "")


def test_a_machine_at_its_limit_is_believed():
    after, why = check_cpu(cpu(10, 4), cpu(11, 6.02), 2)
    assert (why, after.nano_cores) == ("", int(2.02 * NS))


@pytest.mark.parametrize(
    "after",
    [
        memory(-1),
        memory(9 * GIB),
        memory(1, working_set=-1),
        memory(GIB, working_set=9 * GIB),
        memory(1, rss=-4096),
        memory(1, available=-1),
    ],
)
def test_absurd_memory_is_refused_and_the_last_reading_stands(after):
    before = memory(GIB)
    believed, why = check_memory(before, after, 8 * GIB)
    assert believed == before
    assert why


def test_memory_up_to_what_the_machine_has_is_believed():
    assert check_memory(None, memory(8 * GIB), 8 * GIB) == (memory(8 * GIB), "")


def test_without_a_known_capacity_only_negative_values_are_refused():
    assert check_memory(None, memory(999 * GIB), None)[1] == ""
    assert check_memory(None, memory(-1), None)[1] != ""


@pytest.mark.parametrize(
    "fields",
    [
        {"capacity_bytes": 0},
        {"capacity_bytes": None},
        {"capacity_bytes": -5},
        {"available_bytes": 101},
        {"available_bytes": -1},
        {"used_bytes": 101},
        {"used_bytes": -1},
        {"inodes_free": 21},
        {"inodes_free": -1},
        {"inodes_used": 21},
    ],
)
def test_an_absurd_file_system_is_refused_and_the_last_reading_stands(fields):
    believed, why = check_fs(fs(), fs(**fields))
    assert believed == fs()
    assert why


def test_a_file_system_that_counts_no_inodes_is_believed():
    plain = fs(inodes=None, inodes_free=None, inodes_used=None)
    assert check_fs(None, plain) == (plain, "")


def test_nothing_takes_more_of_a_file_system_than_there_is():
    assert check_share("used", 100, 20, fs()) == ""
    assert "exceeds the maximum" in check_share("used", 101, 0, fs())
    assert "exceeds the maximum" in check_share("used", 1, 21, fs())
    assert "negative" in check_share("used", -1, 0, None)


def test_counts_and_swap_are_bounded_too():
    assert check_count("threads", 5, 7, 10) == (7, "")
    assert check_count("threads", 5, 11, 10) == (5, "threads of 11 exceeds the maximum 10")
    swap = SwapUsage(at=7, usage_bytes=-1)
    assert check_swap(None, swap, GIB)[0] is None


def test_what_is_not_known_is_not_absurd():
    assert check_cpu(cpu(1, 1), None, 2) == (None, "")
    assert check_memory(memory(1), None, 2) == (None, "")
    assert check_fs(fs(), None) == (None, "")
