"""S34: what the kernel refuses programs in a cell, and what memory they may have together."""

import errno
import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gencard.controller.sandbox.limits import MemoryWatch
from gencard.controller.sandbox.namespaces import ARGUMENTS, MACHINES, OF_SEVERAL, REFUSED, Namespaces
from gencard.core.errors import IsolationError
from tests.system.raw_calls import eventually
from tests.system.sandboxes import LIMITS, needs_sandbox, reported_value, shell

pytestmark = needs_sandbox


@contextmanager
def started(text: str) -> Iterator[int]:
    """A shell program that runs in a cell; gives its process, as it is seen from outside."""
    keeper = Namespaces(shell("").program.environment())
    process = keeper.start(["/bin/sh", "-c", text], (), LIMITS)
    try:
        assert eventually(lambda: any(_name_of(member) == "sleep" for member in keeper.members()))
        yield next(int(member.name) for member in keeper.members() if _name_of(member) == "sleep")
    finally:
        keeper.kill()
        process.wait()


def _name_of(member: Path) -> str:
    try:
        return (member / "comm").read_text().strip()
    except OSError:
        return ""


@pytest.mark.usefixtures("each_way")
class TestCalls:
    """The kernel is asked for what no program in a cell has."""

    def test_s34_every_call_of_the_table_is_refused(self):
        axis = MACHINES.index(platform.machine())
        table = [*REFUSED.values(), OF_SEVERAL]
        numbers = [found[axis] for calls in table for found in calls.values()]
        body = f"""
import ctypes
def tried():
    libc = ctypes.CDLL(None, use_errno=True)
    there = 0
    for number in {[number for number in numbers if number is not None]!r}:
        there += libc.syscall(number, 0, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != {errno.ENOSYS}
    return there
"""
        assert reported_value(body) == 0

    def test_s34_what_is_there_in_part_is_not_there_for_more(self):
        """Unseen memory, and what tells of the machine or of others at a file that all cells share."""
        assert {entry.call for entry in ARGUMENTS} == {"clone", "fcntl", "ioctl", "madvise", "mmap"}
        body = """
import ctypes, fcntl, mmap, os, struct
def at(path, command, argument):
    return lambda: fcntl.fcntl(os.open(path, os.O_RDONLY), command, argument)
def asked(path, request):
    return lambda: fcntl.ioctl(os.open(path, os.O_RDONLY), request, bytes(64))
def started(flags):
    def clone():
        pid = ctypes.CDLL(None, use_errno=True).syscall({clone}, flags | 17, 0, 0, 0, 0)
        if pid == 0:
            os._exit(0)
        if pid < 0:
            raise OSError
    return clone
LOCK = struct.pack("hhqqi", 1, 0, 0, 1, 0)
MERGEABLE, PAGEOUT, PIDFD = 12, 21, 0x1000
ENTROPY, EXTENTS, FLAGS, CLONE = 0x80045200, 0xC020660B, 0x80086601, 0x40049409
WAYS = [lambda: mmap.mmap(-1, 4096), lambda: os.open("/dev/zero", os.O_RDONLY),
        lambda: mmap.mmap(-1, 4096, mmap.MAP_PRIVATE).madvise(MERGEABLE),
        lambda: mmap.mmap(-1, 4096, mmap.MAP_PRIVATE).madvise(PAGEOUT),
        started(PIDFD), started(0), started(0x10000000), os.fork,
        lambda: os.posix_spawn("/x", ["x"], dict()),
        asked("/dev/urandom", ENTROPY), asked("/dev/random", ENTROPY),
        asked("/usr/bin/prlimit", EXTENTS), asked("/usr/bin/prlimit", FLAGS),
        asked("/usr/bin/prlimit", CLONE),
        at("/usr/bin/prlimit", fcntl.F_GETLK, LOCK), at("/usr/bin/prlimit", 36, LOCK),
        at("/usr/bin/prlimit", 37, LOCK), at("/usr/bin/prlimit", fcntl.F_SETLEASE, 0),
        at("/usr/bin", fcntl.F_NOTIFY, 1), at("/usr/bin/prlimit", 1035, bytes(8)),
        at("/usr/bin/prlimit", 1036, struct.pack("Q", 2)),
        lambda: fcntl.fcntl(0, 1031, 1 << 20), lambda: fcntl.fcntl(0, 1032), os.pipe]
def works(way):
    try:
        way()
        return True
    except OSError:
        return False
def tried():
    return sum(map(works, WAYS))
""".replace("{clone}", str({"x86_64": 56, "aarch64": 220}[platform.machine()]))
        assert reported_value(body) == 0

    def test_s34_threads_are_there_where_processes_are_not(self):
        body = """
import threading
def tried():
    heard = []
    threads = [threading.Thread(target=heard.append, args=(number,)) for number in range(5)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return len(heard)
"""
        assert reported_value(body) == 5

    def test_s34_devices_are_three_and_nothing_sets_a_user(self):
        body = """
import os
def tried():
    return len(set(os.listdir("/dev")) ^ {"null", "random", "urandom"})
"""
        assert reported_value(body) == 0
        with started("exec sleep 600") as first:
            mounts = Path(f"/proc/{first}/mountinfo").read_text().splitlines()
            assert all("nosuid" in mount.split(" - ")[0].split()[5] for mount in mounts)

    def test_s34_each_cell_has_namespaces_of_its_own(self):
        """Queues, semaphores and shared memory of System V and POSIX belong to one of them."""
        with started("exec sleep 600") as one, started("exec sleep 600") as other:
            for name in ("ipc", "pid", "net", "mnt", "uts"):
                seen = {os.readlink(f"/proc/{pid}/ns/{name}") for pid in (one, other, "self")}
                assert len(seen) == 3, name


class TestMemory:
    def test_s34_a_cell_that_cannot_be_looked_at_is_ended(self):
        def unseen():
            raise PermissionError

        sleeping = subprocess.Popen(["sleep", "600"])
        with MemoryWatch(unseen, 1, sleeping.kill) as watch:
            assert sleeping.wait(60) < 0
        with pytest.raises(IsolationError):
            watch.check()
