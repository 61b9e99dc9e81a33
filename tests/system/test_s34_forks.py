"""S34: runs forked from one interpreter are as strange to each other as processes started anew."""

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gencard.controller.jobs.executor import ProcessExecutor
from gencard.controller.jobs.synthesis import RowsFile
from gencard.controller.jobs.tasks import RUN_BLACK_BOX, BlackBoxJob
from gencard.controller.sandbox import namespaces, sandbox
from gencard.controller.sandbox import sandbox as forks
from gencard.controller.sandbox.boxes import (
    SandboxedProgram,
    built_in_program,
    program_recipe,
    sandboxed_box,
)
from gencard.controller.sandbox.environment import Environment
from gencard.controller.sandbox.limits import Isolation, children_of, tree_of
from gencard.controller.sandbox.program import Program
from gencard.controller.sandbox.sandbox import Sandbox
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import BlackBoxError, IsolationError, JobLimitError
from tests.system.raw_calls import eventually
from tests.system.sandboxes import LIMITS, RECORDS, box, copies, needs_sandbox

pytestmark = needs_sandbox

BYTES = """
import hashlib
import numpy as np
from gencard.wire.black_box import black_box

@black_box
def tell(table, rows, *, rng):
    codes = np.frombuffer(tried()[:rows].ljust(rows, b"\\0"), dtype=np.uint8)
    return {"a": codes, "b": np.zeros(rows, dtype=int)}

tell.main()
"""


def told(made: SandboxedProgram, rows: int = 32, seed: int = 0) -> bytes:
    """The bytes that the function ``tried`` of a box gives."""
    return bytes(made(RECORDS, rows, seed=seed).column("a").astype(np.uint8))


def zygotes() -> list[int]:
    """Processes below this one that wait to be forked."""
    waiting = []
    for pid in tree_of(os.getpid()):
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"/cell/zygote.py" in words and not words[0].endswith(b"bwrap"):
                waiting.append(pid)
    return waiting


STATE = """
import builtins, os, resource, signal, sys, threading
from contextlib import suppress
import numpy as np
PLACES = "/cell/work", "/cell", "/cell/program", "/tmp", "/dev", "/dev/shm", "/var/tmp", "/"
def met():
    yield from (os.path.exists(f"{place}/memory") for place in PLACES)
    yield os.environ.get("MEMORY") is not None
    yield hasattr(np, "memory") or hasattr(builtins, "memory") or "memory" in sys.modules
    yield signal.getsignal(signal.SIGUSR1) is not signal.SIG_DFL
    yield os.getpriority(os.PRIO_PROCESS, 0) == 19
    yield resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 100
    yield os.umask(0o077) != 0o077
    yield os.getcwd() != "/cell/work"
    yield os.stat("/cell/work").st_mtime < 1_000_000
    yield threading.active_count() > 1
    for number in range(4, 400):  # 3 is its own answer
        try:
            os.fstat(number)
            yield True
        except OSError:
            pass
def tried():
    found = sum(met())
    for place in PLACES:
        with suppress(OSError):
            open(f"{place}/memory", "w").write("seen")
            os.utime(place, (5, 5))
    os.environ["MEMORY"] = "seen"
    np.memory = builtins.memory = sys.modules["memory"] = os
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    os.setpriority(os.PRIO_PROCESS, 0, 19)
    resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))
    os.umask(0)
    os.open("/dev/null", os.O_RDONLY)
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    os.chdir("/")
    return bytes([found])
"""
"""Leaves marks wherever it can, and counts those that it meets."""

LOOKS = """
import ctypes, gc, os, resource, stat, sys, threading
def tried():
    kinds = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
    seen = [os.getpid(), os.getppid(), os.getsid(0), os.getpgid(0), os.getgroups(), os.umask(0)]
    seen += [sorted(os.environ.items()), sys.argv, sys.path, sorted(sys.modules)]
    seen += [os.getpriority(0, 0)]
    seen += [resource.getrlimit(kind) for kind in kinds] + [os.uname()[1], os.getcwd(), __name__]
    seen += [sorted(os.listdir(folder)) for folder in ("/", "/cell", "/cell/work", "/cell/program")]
    seen += [threading.active_count(), gc.get_stats(), gc.isenabled(), gc.get_freeze_count()]
    seen += [len(gc.get_objects())]
    seen += [resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime, os.stat("/cell/work").st_ino]
    seen += [resource.getrusage(resource.RUSAGE_SELF).ru_utime < 5, sys._getframe(4).f_back is None]
    seen += [stat.S_ISFIFO(os.fstat(number).st_mode) for number in (0, 1)]
    frame = sys._getframe()
    while frame := frame.f_back:
        seen += [sorted(name for name in frame.f_locals)]
    return hashlib.sha256(repr(seen).encode()).digest()
"""
"""A digest of all that a run sees of itself."""


class TestBetweenRuns:
    def test_s34_what_one_run_leaves_no_later_one_meets(self):
        made = box(STATE + BYTES)
        assert [told(made, rows=1) for _ in range(3)] == [b"\0"] * 3

    def test_s34_every_run_looks_alike(self, tmp_path):
        """The first, the third, that of another sandbox, and that of a job: an audit and a release."""
        made = box(LOOKS + BYTES)
        seen = [told(made) for _ in range(3)] + [told(box(LOOKS + BYTES))]
        (tmp_path / "box").mkdir()
        (tmp_path / "box" / "box").write_text(LOOKS + BYTES)
        recipe = program_recipe(tmp_path / "box", ("python", "./box"), {})
        recipe = replace(recipe, environment=made.sandbox.environment, limits=LIMITS)
        upload = RowsFile(tmp_path / "upload")
        upload.write(RECORDS)
        job = BlackBoxJob(recipe, upload.path, 32, 1, tmp_path / "rows", tmp_path / "errors")
        executor = ProcessExecutor(1, cpu_seconds=60, memory_mib=2_048, report=print)
        try:
            executor.submit(RUN_BLACK_BOX, job).result(240)
        finally:
            executor.shutdown(cancel_futures=True)
        assert len(set(seen)) == 1
        rows = RowsFile(tmp_path / "rows").dataset().column("a").astype(np.uint8)
        assert sorted(bytes(rows)) == sorted(seen[0])

    def test_s34_random_numbers_without_a_seed_are_others_in_each_run(self):
        body = """
import random, secrets, uuid
import numpy as np
def tried():
    return np.random.bytes(8) + random.randbytes(8) + uuid.uuid4().bytes[:6] + secrets.token_bytes(8)
"""
        made = box(body + BYTES)
        drawn = [told(made, rows=30) for _ in range(3)]
        for begin in (0, 8, 16, 22):
            assert len({each[begin : begin + 6] for each in drawn}) == 3

    def test_s34_noise_of_private_boxes_is_other_noise_in_each_run(self):
        """Two runs with one draw of noise would show what the noise hides."""
        made = sandboxed_box("mst", {"epsilon": "1"}, celled("mst"))
        codes = np.arange(1_500).reshape(500, 3) % [3, 2, 4]
        records = Dataset(Domain.of({"a": 3, "b": 2, "c": 4}), codes)
        assert len({made(records, 500, seed=1).digest() for _ in range(3)}) == 3

    def test_s34_a_run_that_is_ended_leaves_the_next_one_as_it_was(self):
        text = """
import time
from gencard.wire.black_box import black_box
@black_box
def waits(table, rows, *, rng):
    if len(table) > 40:
        time.sleep(100)
    return table.dataset.take(rng.integers(len(table), size=rows))
waits.main()
"""
        made, few = box(text, wall_seconds=2), RECORDS.take(np.arange(9))
        before = made(few, 5, seed=3).digest()
        with pytest.raises(JobLimitError, match="time for one run"):
            made(RECORDS, 5, seed=3)
        assert made(few, 5, seed=3).digest() == before
        assert len(zygotes()) == 1


class TestTakingOver:
    """A box turns against the process that it was forked from."""

    HOSTILE = """
import ctypes, os, signal, time
LIBC = ctypes.CDLL(None, use_errno=True)
def works(way):
    try:
        return way() not in (-1, None)
    except OSError:
        return False
def tried():
    ways = [lambda whom=whom, number=number: os.kill(whom, number) or 1
            for whom in range(3, 100) for number in (0, 9, 19)]
    ways += [lambda: LIBC.ptrace(16, 1, 0, 0), lambda: LIBC.ptrace(16, 2, 0, 0)]
    ways += [lambda: LIBC.unshare(0x10000000), lambda: LIBC.setns(0, 0)]
    ways += [lambda: LIBC.umount(b"/cell/work")]
    ways += [lambda: LIBC.mount(b"tmpfs", b"/cell/work", b"tmpfs", 0, None)]
    ways += [lambda number=number: os.write(number, b"go") for number in range(4, 300)]
    ways += [lambda: LIBC.prctl(23, 21, 0, 0, 0) or -1, lambda: os.setuid(0) or 1]
    return bytes([sum(map(works, ways))])
"""

    def test_s34_it_reaches_nothing_of_it(self):
        made = box(self.HOSTILE + BYTES)
        assert [told(made, rows=1) for _ in range(3)] == [b"\0"] * 3

    def test_s34_daemons_end_with_their_run(self):
        body = """
import os, signal, time
def there(pid):
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
def tried():
    others = sum(map(there, range(1, 5_000)))
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            [signal.signal(number, signal.SIG_IGN) for number in (1, 2, 15)]
            os.close(1)
            time.sleep(100)
        os._exit(0)
    os.wait()
    return bytes([others, os.getpid()])
"""
        made = box(body + BYTES, processes=8)
        assert [told(made, rows=2) for _ in range(3)] == [bytes([2, 2])] * 3
        (waiting,) = zygotes()
        assert eventually(lambda: not children_of(waiting))

    def test_s34_without_its_zygote_a_run_fails(self):
        """No other program runs in the place of the zygote, whoever ended it."""
        made = box(STATE + BYTES)
        told(made, rows=1)
        (waiting,) = zygotes()
        os.kill(waiting, signal.SIGKILL)
        assert eventually(lambda: not zygotes())
        for _ in range(2):
            with pytest.raises(IsolationError):
                told(made, rows=1)

    def test_s34_nothing_is_shared_with_what_is_forked(self):
        """No memory that two processes write to, no thread that a fork would lose."""
        for name in ("synthpop", "mst"):
            made = sandboxed_box(name, {}, celled(name))
            with suppress(BlackBoxError):
                made(RECORDS.take(np.arange(20)), 5, seed=0)
            (waiting,) = zygotes()
            maps = Path(f"/proc/{waiting}/maps").read_text().splitlines()
            assert not [line for line in maps if line.split()[1] == "rw-s"]
            assert len(os.listdir(f"/proc/{waiting}/task")) == 1
            assert sorted(os.listdir(f"/proc/{waiting}/fd")) == ["0", "1", "2"]
            del made

    def test_s34_it_ends_with_the_box(self):
        made = box(STATE + BYTES)
        told(made, rows=1)
        assert len(zygotes()) == 1
        del made
        assert zygotes() == []


def celled(name: str, *, forks: bool = True) -> Sandbox:
    environment = built_in_program(name, {}).environment(copies())
    return Sandbox(LIMITS, Isolation.NAMESPACES, environment, forks=forks)


class TestRows:
    """Output of forks equals the output of new processes, to the byte."""

    def test_a_built_in_box(self):
        small = Dataset(Domain.of({"a": 3, "b": 2}), np.arange(40).reshape(20, 2) % [3, 2])
        forked, anew = (
            sandboxed_box("synthpop", {}, celled("synthpop", forks=forks)) for forks in (True, False)
        )
        for seed in range(2):
            assert forked(small, 50, seed=seed).digest() == anew(small, 50, seed=seed).digest()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_s34_others_than_root_fork_too(monkeypatch):
    """In a user namespace, with its own count of processes; by an interpreter that others may read."""
    user, start = ["setpriv", "--reuid", "64009", "--regid", "64009", "--clear-groups"], subprocess.Popen
    monkeypatch.setattr(namespaces.os, "geteuid", lambda: 64_009)
    monkeypatch.setattr(subprocess, "Popen", lambda words, **how: start([*user, *words], **how))
    for module in (forks, sandbox):
        monkeypatch.setattr(module, "PYTHON_COMMAND", ("/usr/bin/python3", "-s", "-B"))
    text = b"""
import ctypes, os, sys, time
from dataclasses import replace
capabilities = sum(ctypes.CDLL(None).prctl(23, number, 0, 0, 0) > 0 for number in range(64))
born = 0
try:
    while born < 50:
        if os.fork() == 0:
            os.close(1)
            time.sleep(100)
        born += 1
except OSError:
    pass
sys.stdout.write('{"format":"gencard.box.v1","rows":3}\\n')
sys.stdout.flush()
sys.stdout.buffer.write(bytes([os.getuid() == 65534, capabilities, born]) + bytes(6))
"""
    program = Program(("python", "./box"), (("box", text),), modules=())
    limits = replace(LIMITS, processes=8)
    made = SandboxedProgram(program, Sandbox(limits, Isolation.NAMESPACES, Environment()))
    assert [told(made, rows=3) for _ in range(2)] == [bytes([1, 0, 7])] * 2
