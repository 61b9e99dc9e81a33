"""S34: what the kernel refuses programs in a cell, and what memory they may have together."""

import errno
import platform
import subprocess

import pytest

from gencard.controller.cell.call_table import ARGUMENTS, MACHINES, REFUSED
from gencard.controller.cell.memory_watch import MemoryWatch
from gencard.core.errors import IsolationError
from tests.system.cells import needs_cell, told

pytestmark = needs_cell


class TestCalls:
    """The kernel is asked for what no program in a cell has."""

    def test_s34_every_call_of_the_table_is_refused(self):
        axis = MACHINES.index(platform.machine())
        numbers = [found[axis] for calls in REFUSED.values() for found in calls.values()]
        body = f"""
import ctypes
def tried():
    libc = ctypes.CDLL(None, use_errno=True)
    there = 0
    for number in {[number for number in numbers if number is not None]!r}:
        there += libc.syscall(number, 0, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != {errno.ENOSYS}
    return there
"""
        assert told(body) == 0

    def test_s34_what_is_there_in_part_is_not_there_for_more(self):
        """Other protocols, unseen memory, and what tells of others at a file that all cells share."""
        assert {entry.call for entry in ARGUMENTS} == {"clone", "socket", "socketpair", "fcntl", "mmap"}
        body = """
import ctypes, fcntl, mmap, os, socket, struct
def at(path, command, argument):
    return lambda: fcntl.fcntl(os.open(path, os.O_RDONLY), command, argument)
LOCK = struct.pack("hhqqi", 1, 0, 0, 1, 0)
WAYS = [lambda family=family, kind=kind: socket.socket(family, kind)
        for family in range(60) for kind in (1, 2, 3, 5) if family != socket.AF_UNIX]
WAYS += [lambda: mmap.mmap(-1, 4096), lambda: os.open("/dev/zero", os.O_RDONLY),
         at("/usr/bin/prlimit", fcntl.F_GETLK, LOCK), at("/usr/bin/prlimit", 36, LOCK),
         at("/usr/bin/prlimit", 37, LOCK), at("/usr/bin/prlimit", fcntl.F_SETLEASE, 0),
         at("/usr/bin", fcntl.F_NOTIFY, 1), at("/usr/bin/prlimit", 1035, bytes(8)),
         at("/usr/bin/prlimit", 1036, struct.pack("Q", 2)),
         lambda: os.unshare(0x10000000) if hasattr(os, "unshare") else 1 / 0]
def works(way):
    try:
        way()
        return True
    except (OSError, ArithmeticError):
        return False
def tried():
    left, right = socket.socketpair()
    left.send(b"within the cell")
    assert right.recv(100)
    return sum(map(works, WAYS))
"""
        assert told(body) == 0

    def test_s34_devices_are_three_and_nothing_sets_a_user(self):
        body = """
import os
def tried():
    devices = {name for name in os.listdir("/dev") if not os.path.islink("/dev/" + name)}
    mounts = [line.split(" - ")[0].split()[5] for line in open("/proc/self/mountinfo")]
    return len(devices ^ {"null", "random", "urandom"}) + sum("nosuid" not in mount for mount in mounts)
"""
        assert told(body) == 0

    def test_s34_whoever_started_it_shows_nothing(self):
        body = """
import os
def seen(place):
    try:
        return bool(os.listdir(place)) if os.path.isdir(place) else bool(open(place, "rb").read(1))
    except OSError:
        return False
def tried():
    return sum(seen(f"/proc/1/{name}") for name in ("root", "cwd", "fd", "mem", "environ", "map_files"))
"""
        assert told(body) == 0


class TestMemory:
    def test_s34_what_processes_share_counts_once(self):
        body = """
import os, time
def tried():
    held = bytearray(b"x") * (300 << 20)
    for _ in range(5):
        if os.fork() == 0:
            time.sleep(1)
            os._exit(0)
    return len([os.wait() for _ in range(5)])
"""
        assert told(body) == 5

    def test_s34_to_start_programs_costs_no_memory(self):
        body = """
import subprocess
def tried():
    held = bytearray(b"x") * (600 << 20)
    return len([subprocess.run(["prlimit"], check=True) for _ in range(40)])
"""
        assert told(body) == 40

    def test_s34_a_cell_that_cannot_be_looked_at_is_ended(self):
        def unseen():
            raise PermissionError

        sleeping = subprocess.Popen(["sleep", "600"])
        with MemoryWatch(unseen, 1, sleeping.kill) as watch:
            assert sleeping.wait(60) < 0
        with pytest.raises(IsolationError):
            watch.check()
