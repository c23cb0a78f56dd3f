"""Records of the kernel's log: whose they are, and what a gap does."""

import pytest

from api.errors import FailureKind
from api.ports.ooms import OomKill
from runtime.drivers.host.kernel.kernellog import KernelLogReader, kernel_line

START = b"4,1,1,-;a invoked oom-killer: gfp_mask=0x0\n"
LIMIT = b"4,2,2,-;Task in /g/v killed as a result of limit of /g\n"
END = b"3,3,3,-;Killed process 5 (a) total-vm:1kB\n"
KILL = OomKill(group="/g", victim_group="/g/v", process="a", pid=5)


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (b"4,346,739528446,-;python3 invoked oom-killer: x\n", "python3 invoked oom-killer: x"),
        (b"6,1,2,-,caller=T14;text; with semicolon\n", "text; with semicolon"),
        (b"6,1,2,-;usb 1-1: new\n SUBSYSTEM=usb\n DEVICE=c1\n", "usb 1-1: new"),
        (b"12,1,2,-;said by a program\n", ""),
        (b"30,1,2,-;said by systemd\n", ""),
        (b"x,1,2,-;text\n", ""),
        (b"no record at all", ""),
        (b"4,1,2,-;\xff\xfe\n", "\ufffd\ufffd"),
    ],
)
def test_the_text_of_a_record_that_the_kernel_logged(record, text):
    assert kernel_line(record) == text


class Records:
    """An open log: records, None for none at the moment, or what reading raises."""

    def __init__(self, *records):
        self.records = list(records)

    def read(self, _size):
        found = self.records.pop(0) if self.records else None
        if isinstance(found, OSError):
            raise found
        return found


def read(*records):
    pushed, failures = [], []
    reader = KernelLogReader("/dev/null", pushed.append)
    reader._file.close()
    reader._file = Records(*records)
    reader._fail = failures.append
    while reader._file.records and not failures:
        reader._readable(0)
    return pushed, failures


def test_a_kill_may_come_in_several_turns():
    assert read(START, None, LIMIT, None, END) == ([KILL], [])


def test_a_gap_ends_a_search_and_what_follows_is_heard():
    assert read(START, LIMIT, BrokenPipeError(), END) == ([], [])
    assert read(START, BrokenPipeError(), START, LIMIT, END) == ([KILL], [])


def test_a_log_that_cannot_be_read_any_more_ends_the_stream():
    pushed, [failure] = read(OSError(5, "Input/output error"), END)
    assert pushed == []
    assert failure.kind is FailureKind.UNAVAILABLE
    assert failure.message == "could not read the kernel's log /dev/null: Input/output error"
    assert read(b"")[1][0].message == "/dev/null came to an end"


def test_what_others_say_changes_nothing():
    forged = b"12,2,2,-;x invoked oom-killer: y\n"
    assert read(START, LIMIT, forged, END) == ([KILL], [])
