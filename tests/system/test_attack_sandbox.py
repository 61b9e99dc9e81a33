"""S34: what a program at the records could tell one beside it, and what it could take of the machine.

Each attack was made once and came through; here nothing comes of it.
"""

import threading

import pytest

from gencard.controller.sandbox import limits
from gencard.core.errors import BlackBoxError, InvalidInputError, JobLimitError
from tests.system.raw_calls import quickest
from tests.system.sandboxes import RECORDS, box, needs_sandbox, reported_value

pytestmark = [needs_sandbox, pytest.mark.usefixtures("each_way")]

WRITER = """
import time
def tried():
    for frame in range(20):
        held = bytearray(b"x") * ((frame % 2) * (200 << 20))
        time.sleep(0.05)
        del held
    return 1
"""
"""Writes a bit in each frame: 200 MiB of the machine's memory, or none."""

READER = """
import ctypes, os
LIBC = ctypes.CDLL(None, use_errno=True)
NAMES = ["meminfo", "stat", "loadavg", "vmstat", "diskstats", "interrupts", "softirqs", "zoneinfo",
         "buddyinfo", "slabinfo", "uptime", "swaps", "partitions", "cpuinfo", "locks", "schedstat",
         "pressure/memory", "pressure/cpu", "pressure/io", "mounts", "cgroups", "sysvipc/shm", "keys",
         "sys/kernel/random/entropy_avail", "sys/fs/file-nr", "sys/fs/inode-nr",
         "self/mountinfo", "self/mounts", "self/mountstats", "self/net/dev", "self/net/softnet_stat",
         "self/net/sockstat", "self/net/protocols", "self/cgroup", "self/smaps", "self/pagemap",
         "self/status", "self/schedstat", "self/fdinfo/0", "thread-self/stat"]
FILES = ["/proc/" + name for name in NAMES] + ["/sys/fs/cgroup/memory.current",
         "/sys/fs/cgroup/memory/memory.usage_in_bytes", "/sys/devices/system/node/node0/meminfo",
         "/sys/block", "/dev/shm", "/dev/mqueue", "/run", "/var/log", "/etc/mtab", "/etc/hostname"]
CALLS = [(LIBC.sysinfo, (ctypes.create_string_buffer(512),)),
         (LIBC.getloadavg, (ctypes.create_string_buffer(24), 3)),
         (LIBC.statfs, (b"/usr", ctypes.create_string_buffer(512))),
         (LIBC.statfs, (b"/cell/work", ctypes.create_string_buffer(512))),
         (LIBC.fstatfs, (0, ctypes.create_string_buffer(512)))]
def read(path):
    try:
        return bool(os.listdir(path)) if os.path.isdir(path) else bool(open(path, "rb").read(1))
    except OSError:
        return False
def tried():
    return sum(map(read, FILES)) + sum(call(*arguments) >= 0 for call, arguments in CALLS)
"""
"""Reads every gauge that a program may find; tells how many there are."""

QUEUES = """
import ctypes, errno
ADD_KEY, KEYCTL, IO_URING_SETUP, PIDFD_OPEN = 248, 250, 425, 434
LIBC = ctypes.CDLL(None, use_errno=True)
room = ctypes.create_string_buffer(512)
CALLS = [(LIBC.msgget, 7, 0o1666), (LIBC.msgsnd, 0, room, 8, 0o4000),
         (LIBC.msgrcv, 0, room, 8, 0, 0o4000), (LIBC.msgctl, 0, 3, room),
         (LIBC.semget, 7, 1, 0o1666), (LIBC.semop, 0, room, 1), (LIBC.semctl, 0, 0, 19, room),
         (LIBC.shmget, 7, 4096, 0o1666), (LIBC.shmctl, 0, 14, room),
         (LIBC.mq_open, b"/gencard", 0o102, 0o666, None), (LIBC.mq_unlink, b"/gencard"),
         (LIBC.socket, 1, 1, 0), (LIBC.socketpair, 1, 1, 0, room), (LIBC.inotify_init1, 0),
         (LIBC.flock, 0, 2), (LIBC.memfd_create, b"x", 0),
         (LIBC.syscall, ADD_KEY, b"user", b"x", b"y", 1, -3), (LIBC.syscall, KEYCTL, 0, -3, 1),
         (LIBC.syscall, PIDFD_OPEN, 1, 0), (LIBC.syscall, IO_URING_SETUP, 8, room)]
def tried():
    refused = 0
    for call, *arguments in CALLS:
        ctypes.set_errno(0)
        refused += call(*arguments) == -1 and ctypes.get_errno() == errno.ENOSYS
    return refused + 100 * (len(CALLS) - refused)
"""
"""Queues, semaphores, shared memory, sockets, notices, locks and key rings, by the C library."""


def test_s34_no_gauge_of_the_machine_can_be_read():
    """A box that holds much memory and none in turns runs beside one that reads."""
    writing = threading.Thread(target=reported_value, args=(WRITER,))
    writing.start()
    try:
        assert reported_value(READER) == 0
    finally:
        writing.join()


@pytest.mark.skipif("__import__('platform').machine() != 'x86_64'")
def test_s34_nothing_that_two_cells_could_share_can_be_made():
    assert reported_value(QUEUES) == 20


def test_s34_one_process_moves_no_counter_that_a_later_one_can_read():
    """Pipes and sockets are numbered for the whole machine; a program sees the number of its input."""
    body = """
import os, signal, socket
def makes(way):
    try:
        way()
        return True
    except OSError:
        return False
def tried():
    ways = os.pipe, lambda: os.pipe2(0), socket.socket, socket.socketpair, os.fork
    return sum(map(makes, ways)) + (os.fstat(0).st_ino == 0)
"""
    assert reported_value(body) == 0


class TestAnswer:
    """At a bound of 30 seconds for the run, all of these are ended within a few."""

    @pytest.mark.parametrize(
        "follows",
        ["print 'x'", "print chr(0) while 1", "print qq(\\n)"],
        ids=["a byte", "without end", "an end of line"],
    )
    def test_s34_it_is_cut_at_the_first_byte_too_many(self, follows):
        """A right answer, one byte more, and then no end."""
        text = r"""
            binmode STDOUT; $| = 1; $SIG{PIPE} = 'IGNORE';
            print qq({"format":"gencard.box.v1","rows":2}\n), "\x01\x02\x03\x00\x04\x00";
        """

        def ended():
            program = box(f"{text} {follows}; sleep 1000", interpreter="/usr/bin/perl")
            with pytest.raises(BlackBoxError, match="too long"):
                program(RECORDS, 2, seed=0)

        assert quickest(ended, within=15) < 15

    def test_s34_a_line_that_is_wrong_ends_it_before_anything_follows(self):
        text = r"""$| = 1; print qq({"format":"gencard.box.v1","rows":3}\n); sleep 1000"""

        def ended():
            with pytest.raises(BlackBoxError, match="no valid header"):
                box(text, interpreter="/usr/bin/perl")(RECORDS, 2, seed=0)

        assert quickest(ended, within=15) < 15


TOUCHES = """
import os
def touched():
    parts = []
    try:
        for _ in range(90):
            parts.append(bytearray(b"x") * (10 << 20))
    except MemoryError:
        pass
    return len(parts)
"""


class TestMemory:
    """Six children touched 900 MiB each, for less than two looks of a watch."""

    @pytest.fixture
    def peaks(self, monkeypatch):
        """Sums of what all processes had in memory, looked at all the time; and no watch that acts."""
        seen = []

        def looked_at(members, bound):
            processes = list(members)
            seen.append(sum(map(limits._proportional, processes)))
            return False

        monkeypatch.setattr(limits, "_is_over", looked_at)
        monkeypatch.setattr(limits, "_EVERY", 0.001)
        return seen

    def test_s34_children_never_exceed_the_bound_together(self, peaks):
        """Each touches what it gets, and all hold it at the same time."""
        body = f"""{TOUCHES}
def tried():
    (ready, done), (go, gone) = os.pipe(), os.pipe()
    for _ in range(6):
        if os.fork() == 0:
            held = touched()
            os.write(done, bytes([held]))
            os.close(gone)
            os.read(go, 1)
            os._exit(0)
    counts = b""
    while len(counts) < 6:
        counts += os.read(ready, 6)
    os.close(gone)
    [os.wait() for _ in range(6)]
    return sum(counts)
"""
        assert 6 * 4 <= reported_value(body, memory_mib=1_200, processes=7) <= 120
        assert max(peaks) <= 1_200 << 20

    def test_s34_one_process_may_have_all_of_it_and_no_child(self, peaks):
        body = f"""{TOUCHES}
def tried():
    try:
        os.fork()
        return 255
    except OSError:
        return touched()
"""
        assert 80 <= reported_value(body, memory_mib=1_024) <= 102
        assert max(peaks) <= 1_024 << 20

    def test_s34_threads_share_what_the_process_has(self, peaks):
        body = f"""{TOUCHES}
import threading
def tried():
    counts = []
    threads = [threading.Thread(target=lambda: counts.append(touched())) for _ in range(6)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return sum(counts)
"""
        reported_value(body, memory_mib=1_024)
        assert max(peaks) <= 1_024 << 20

    def test_s34_files_count_though_they_are_empty(self):
        """The kernel keeps a KiB for each, which no bound on bytes or processes counts."""
        body = """
def tried():
    number = 0
    while True:
        open(str(number), "w").close()
        number += 1
"""
        with pytest.raises(JobLimitError, match="memory for one run"):
            reported_value(body, memory_mib=192)

    def test_s34_bounds_that_leave_a_process_nothing_are_refused(self):
        with pytest.raises(InvalidInputError, match="too little"):
            box("", memory_mib=256, processes=17)
