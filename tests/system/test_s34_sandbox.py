"""S34: hostile programs in cells; each test says what becomes of one: contained, caught, neutralised."""

import os
import re
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gencard.controller.jobs.executor import ProcessExecutor
from gencard.controller.jobs.synthesis import RowsFile
from gencard.controller.jobs.tasks import RUN_BLACK_BOX, BlackBoxJob, RowsResult
from gencard.controller.sandbox import namespaces
from gencard.controller.sandbox.boxes import program_recipe
from gencard.controller.sandbox.limits import Isolation, SandboxLimits
from gencard.controller.sandbox.namespaces import VARIABLES
from gencard.controller.sandbox.program import Program
from gencard.controller.settings import Settings
from gencard.controller.wiring.readiness import check_cells
from gencard.core.errors import (
    BlackBoxError,
    GeneratorChangedError,
    InvalidInputError,
    IsolationError,
    JobLimitError,
)
from tests.system.raw_calls import eventually, quickest
from tests.system.sandboxes import LIMITS, RECORDS, box, needs_sandbox, reported_value, shell

pytestmark = needs_sandbox

IDENTITY = """
[identity]
trust_domain = "example"
uri = "spiffe://example/service/controller/controller"
"""
ANSWER = """printf '{"format":"gencard.box.v1","rows":1}\\n\\001\\002\\000'"""
MARK = f"CANARY-marked-program-of-{os.getpid()}"


def running_with(mark: str) -> list[int]:
    """Processes on this machine whose command line holds a mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.mark.usefixtures("each_way")
class TestContained:
    """Attempts of a program that have no effect."""

    def test_s34_the_environment_holds_nothing(self, monkeypatch):
        monkeypatch.setenv("CANARY", "secret")
        body = f"""
import os
import re
def tried():
    own = dict(os.environ)
    first = open("/proc/1/environ", "rb").read() if os.access("/proc/1/environ", os.R_OK) else b""
    more = set(own.items()) - set({VARIABLES!r}.items()) - {{("PWD", "/cell/work")}}
    return len(more) + first.count(b"CANARY")
"""
        assert reported_value(body) == 0

    def test_s34_no_socket_reaches_anybody(self):
        body = """
import socket
def tried():
    reached = 0
    for kind, place in ((socket.AF_INET, ("127.0.0.1", {port})), (socket.AF_INET, ("10.0.0.1", 53)),
                        (socket.AF_UNIX, "\\0{name}")):
        try:
            with socket.socket(kind) as door:
                door.settimeout(1)
                door.connect(place)
                reached += 1
        except OSError:
            pass
    try:
        socket.getaddrinfo("example.org", 443)
        reached += 8
    except OSError:
        pass
    return reached
"""
        name = f"gencard-{os.getpid()}"
        with socket.socket() as listening, socket.socket(socket.AF_UNIX) as beside:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            beside.bind("\0" + name)
            beside.listen()
            assert reported_value(body.format(port=listening.getsockname()[1], name=name)) == 0

    def test_s34_no_file_but_its_own_is_there(self, tmp_path):
        (tmp_path / "records.csv").write_text("secret")
        places = [str(tmp_path), str(tmp_path / "records.csv"), __file__]
        above = {
            str(folder)
            for path in (sys.prefix, sys.base_prefix, __file__)
            for folder in Path(path).parents
        }
        places += [folder for folder in ("/home", "/var", "/tmp", "/sys") if folder not in above]
        places += ["/etc/shadow", "/etc/passwd", "/root/.ssh", "/proc/1/root", "/dev/sda"]
        body = f"""
import os
import re
def seen(place):
    try:
        return bool(os.listdir(place)) if os.path.isdir(place) else bool(open(place).read(1))
    except OSError:
        return False
def tried():
    return sum(map(seen, {places!r}))
"""
        assert reported_value(body) == 0

    def test_s34_nothing_can_be_written_outside(self):
        folders = ["/", sys.prefix, str(Path(__file__).parent), "/usr", "/usr/bin", "/etc", "/cell"]
        folders += ["/cell/program", "/dev", "/dev/shm", "/proc", "/proc/sys/kernel"]
        body = f"""
def written(folder):
    try:
        open(folder + "/hello", "w").write("x")
        return True
    except OSError:
        return False
def tried():
    assert written("/cell/work")
    return sum(map(written, {folders!r}))
"""
        assert reported_value(body) == 0
        assert not Path("/usr/hello").exists()

    def test_s34_the_working_folder_is_small(self):
        body = """
def tried():
    written = 0
    try:
        for part in range(10):
            with open(f"part{part}", "wb", buffering=0) as file:
                written += file.write(bytes(1 << 20))
    except OSError:
        pass
    return written >> 20
"""
        assert reported_value(body, work_mib=4) <= 4

    def test_s34_a_fork_bomb_fizzles(self):
        body = """
import os, time
def tried():
    born = 0
    try:
        while born < 200:
            if os.fork() == 0:
                os.close(1)
                time.sleep(100)
            born += 1
    except OSError:
        pass
    return born
"""
        with pytest.raises(BlackBoxError):  # its children keep the pipe, or it ends without an answer
            shell("bomb() { bomb | bomb & }; bomb; sleep 1; exit 3", processes=8)(RECORDS, 1, seed=0)
        assert reported_value(body, processes=8) <= 9

    def test_s34_signals_and_ptrace_reach_nobody(self):
        body = """
import ctypes, os, signal
def sent(number, whom):
    try:
        os.kill(whom, number)
        return 1
    except OSError:
        return 0
def tried():
    libc = ctypes.CDLL(None, use_errno=True)
    for whom in (1, os.getppid()):
        sent(signal.SIGKILL, whom)
        assert libc.ptrace(16, whom, 0, 0) == -1
    sent(signal.SIGKILL, -1)
    return sent(signal.SIGTERM, {mine})
"""
        assert reported_value(body.format(mine=os.getpid())) == 0

    def test_s34_memory_has_an_end(self):
        body = """
def tried():
    try:
        return len(bytearray(3 << 30)) > 0
    except MemoryError:
        return 0
"""
        assert reported_value(body, memory_mib=1_024) == 0

    def test_s34_no_other_process_is_in_sight(self):
        """There is no list of them, and no signal finds one but its own and bubblewrap's."""
        body = """
import os
import re
def there(pid):
    try:
        os.kill(pid, 0)
        return True
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
def tried():
    assert not os.path.exists("/proc")
    return sum(map(there, range(1, 40_000)))
"""
        assert reported_value(body) == 2

    def test_s34_it_cannot_become_anybody_again(self):
        body = """
import ctypes, os
PR_CAPBSET_READ, PR_GET_NO_NEW_PRIVS = 23, 39
def tried():
    gained = os.getuid() == 0
    for user in (0, 1000):
        try:
            os.setuid(user)
            gained = True
        except OSError:
            pass
    prctl = ctypes.CDLL(None).prctl
    bounding = sum(prctl(PR_CAPBSET_READ, capability, 0, 0, 0) > 0 for capability in range(41))
    return gained + bounding + (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
"""
        assert reported_value(body) == 0


class TestCaught:
    """Programs that are stopped: the run fails in fixed words."""

    def test_s34_ten_gigabytes_of_output(self):
        def ended():
            with pytest.raises(BlackBoxError, match="too long"):
                shell("exec head -c 10000000000 /dev/urandom")(RECORDS, 100, seed=0)

        assert quickest(ended, within=5) < 5

    def test_s34_endless_sleep(self):
        with pytest.raises(JobLimitError, match="time for one run"):
            shell("exec sleep 1000", wall_seconds=1)(RECORDS, 1, seed=0)

    def test_s34_endless_work(self):
        with pytest.raises(JobLimitError, match="CPU"):
            shell("while :; do :; done", cpu_seconds=1)(RECORDS, 1, seed=0)

    def test_s34_ten_processes_that_are_small_each(self):
        """An open cell divides no memory among processes that root starts: the watch ends it."""
        body = """
import os, time
def tried():
    for _ in range(10):
        if os.fork() == 0:
            held = bytearray(os.urandom(1)) * (150 << 20)
            time.sleep(20)
            os._exit(len(held) % 2)
    return len([os.wait() for _ in range(10)])
"""
        with pytest.raises(JobLimitError, match="memory for one run"):
            reported_value(body, isolation=Isolation.PROCESSES)

    def test_s34_children_that_ignore_every_signal_they_can(self):
        text = f"trap '' TERM INT HUP; (setsid sh -c 'while :; do sleep 1; done' {MARK} &) ; sleep 1000"
        with pytest.raises(JobLimitError):
            shell(text, wall_seconds=1)(RECORDS, 1, seed=0)
        assert running_with(MARK) == []

    def test_s34_an_answer_and_then_no_end(self):
        with pytest.raises(JobLimitError, match="time for one run"):
            shell("exec 1>&-; sleep 100", wall_seconds=1)(RECORDS, 1, seed=0)

    @pytest.mark.parametrize("text", ["exit 0", "exit 7", "kill -SEGV $$", "echo hello", "cat"])
    def test_s34_crashes_and_garbage(self, text):
        with pytest.raises(BlackBoxError):
            shell(text)(RECORDS, 3, seed=0)


@pytest.mark.usefixtures("each_way")
class TestNeutralised:
    """Programs that may do as they like: the result is the same."""

    def test_s34_what_it_remembers_is_gone(self):
        body = """
import os
import re
PLACES = "/cell/work", "/tmp", "/dev/shm", "/cell/program", "/var/tmp", "/cell"
def tried():
    met = sum(os.path.exists(f"{place}/memory") for place in PLACES)
    for place in PLACES:
        try:
            open(f"{place}/memory", "w").write("seen")
        except OSError:
            pass
    return met
"""
        assert [reported_value(body), reported_value(body)] == [0, 0]

    def test_s34_what_it_prints_goes_nowhere(self):
        body = """
import sys
def tried():
    print("Ann Smith")
    print("Ann Smith", file=sys.stderr)
    return 5
"""
        assert reported_value(body) == 5

    def test_s34_it_need_not_read_its_input(self):
        made = shell(ANSWER)
        assert made(RECORDS, 1, seed=0).codes.tolist() == [[1, 2]]


def test_s34_an_open_cell_is_bounded_all_the_same():
    with pytest.raises(JobLimitError):
        shell("exec sleep 1000", isolation=Isolation.PROCESSES, wall_seconds=1)(RECORDS, 1, seed=0)
    body = "import os\ndef tried():\n    return len(set(os.environ) & {'USER', 'PYTHONPATH', 'LOGNAME'})"
    assert reported_value(body, isolation=Isolation.PROCESSES) == 0
    with pytest.raises(BlackBoxError):
        box("not python", isolation=Isolation.PROCESSES)(RECORDS, 1, seed=0)


def test_s34_an_open_cell_is_refused_in_production(tmp_path):
    text = IDENTITY + '[cell]\nisolation = "processes"\n[server]\ninsecure_dev = {}\n'
    path = tmp_path / "controller.toml"
    path.write_text(text.format("false"))
    with pytest.raises(InvalidInputError, match=r"cell\.isolation"):
        Settings.load(path)
    path.write_text(text.format("true"))
    assert Settings.load(path).cell.isolation is Isolation.PROCESSES


class TestStart:
    @pytest.fixture
    def settings(self, tmp_path):
        """Settings of the page, with the example as their program."""
        root = Path(__file__).parents[2]
        page = (root / "docs" / "controllers.md").read_text(encoding="utf-8")
        (shown,) = re.findall(r"```toml\n(\[\[black_boxes\]\].*?)```", page, re.DOTALL)
        (tmp_path / "boxes").symlink_to(root / "examples" / "black_boxes")
        (tmp_path / "controller.toml").write_text(IDENTITY + shown)
        return Settings.load(tmp_path / "controller.toml")

    def test_s34_the_settings_on_the_page_are_some(self, settings):
        program, built_in = settings.black_boxes
        assert program.limits_in(settings.cell.limits) == replace(settings.cell.limits, wall_seconds=300)
        assert built_in.limits_in(settings.cell.limits) == settings.cell.limits == SandboxLimits()
        Program.read(program.folder, program.command, program.parameters)
        check_cells(settings)

    def test_s34_where_nothing_can_be_closed_nothing_is_served(self, settings, monkeypatch):
        monkeypatch.setattr(namespaces, "_ALONE", ("--userns", "999"))
        with pytest.raises(IsolationError):
            check_cells(settings)
        check_cells(settings.model_copy(update={"black_boxes": ()}))


class TestJob:
    """Runs as in the service: in a job's process, under its limits."""

    @pytest.fixture
    def job(self, tmp_path):
        """A description of a run of this shell program on made-up records."""

        def described(text: str) -> BlackBoxJob:
            folder = tmp_path / "box"
            folder.mkdir()
            (folder / "box").write_text(text)
            upload = RowsFile(tmp_path / "upload")
            upload.write(RECORDS)
            recipe = replace(
                program_recipe(folder, ("/bin/sh", "./box"), {}),
                limits=replace(LIMITS, processes=8),
                cliques=(("a", "b"),),
            )
            return BlackBoxJob(recipe, upload.path, 1, 1, tmp_path / "rows", tmp_path / "errors")

        return described

    @pytest.fixture
    def executor(self):
        made = ProcessExecutor(1, cpu_seconds=60, memory_mib=2_048, report=print)
        yield made
        made.shutdown(cancel_futures=True)

    def test_s34_a_job_runs_a_cell(self, executor, job, tmp_path):
        reported_value = executor.submit(RUN_BLACK_BOX, job(ANSWER)).result(240)
        made = RowsFile(tmp_path / "rows").dataset()
        assert made.codes.tolist() == [[1, 2]]
        assert reported_value == RowsResult(made.digest())

    def test_s34_a_cancelled_job_takes_its_cell_along(self, executor, job):
        mark = f"CANARY-cancelled-program-of-{os.getpid()}"
        text = f"trap '' TERM; setsid sh -c 'while :; do sleep 1; done' {mark} & while :; do :; done"
        future = executor.submit(RUN_BLACK_BOX, job(text))
        assert eventually(lambda: running_with(mark))
        future.cancel()
        assert eventually(lambda: not running_with(mark), 2)

    def test_s35_a_program_that_changed_does_not_run(self, executor, job, tmp_path):
        described = job(ANSWER)
        (tmp_path / "box" / "box").write_text(ANSWER.replace("001", "003"))
        with pytest.raises(GeneratorChangedError):
            executor.submit(RUN_BLACK_BOX, described).result(240)
