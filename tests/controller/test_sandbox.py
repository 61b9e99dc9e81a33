"""Cells: closed by root and by others, ended with whoever started them, and boxes that work inside."""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gencard.controller.jobs.descriptions import values_of
from gencard.controller.jobs.tasks import JOBS
from gencard.controller.sandbox import namespaces
from gencard.controller.sandbox.boxes import (
    _BUILT_IN,
    ProgramRecipe,
    built_in_program,
    built_in_recipe,
    check_isolation,
    sandboxed_box,
    sandboxed_box_of,
)
from gencard.controller.sandbox.limits import Isolation
from gencard.controller.sandbox.namespaces import sandbox_user
from gencard.controller.sandbox.sandbox import Sandbox
from gencard.core.blackbox import FittingBox
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import (
    BlackBoxError,
    GencardError,
    InvalidInputError,
    IsolationError,
    JobLimitError,
    TooLargeError,
)
from gencard.wire.black_box import error_of_refusal
from tests.system.raw_calls import eventually, open_files, quickest
from tests.system.sandboxes import LIMITS, RECORDS, box, copies, needs_sandbox, shell

SMALL = Dataset(Domain.of({"a": 3, "b": 2}), np.arange(40).reshape(20, 2) % [3, 2])
ISOLATIONS = [pytest.param(Isolation.NAMESPACES, marks=needs_sandbox), Isolation.PROCESSES]

RESAMPLES = """
from gencard.wire.black_box import black_box

@black_box
def resample(table, rows, *, rng):
    assert table.workload == () and table.parameters == {}
    return table.dataset.take(rng.integers(len(table), size=rows))

resample.main()
"""


@pytest.mark.parametrize("isolation", ISOLATIONS)
class TestBox:
    def test_the_seed_is_all_the_randomness(self, isolation):
        resample = box(RESAMPLES, isolation=isolation)
        first = resample(RECORDS, 30, seed=2**64 - 1)
        expected = np.random.Generator(np.random.PCG64(2**64 - 1)).integers(len(RECORDS), size=30)
        np.testing.assert_array_equal(first.codes, RECORDS.codes[expected])

    def test_no_rows_and_no_records(self, isolation):
        resample = box(RESAMPLES, isolation=isolation)
        assert len(resample(RECORDS, 0, seed=0)) == 0
        with pytest.raises(BlackBoxError):
            resample(RECORDS.take(np.array([], dtype=np.intp)), 1, seed=0)

    def test_it_ends_within_its_time(self, isolation):
        def ended():
            with pytest.raises(JobLimitError):
                shell("exec sleep 100", isolation=isolation, wall_seconds=1)(RECORDS, 1, seed=0)

        assert quickest(ended, within=4) < 4

    def test_nothing_is_left_open(self, isolation):
        before = open_files().items()
        with pytest.raises(BlackBoxError):
            shell("exit 1", isolation=isolation)(RECORDS, 1, seed=0)
        assert eventually(lambda: not open_files().items() - before)  # others open and close theirs


@needs_sandbox
class TestClosing:
    def test_what_should_be_hidden_is_looked_for(self):
        check_isolation(Isolation.NAMESPACES, Path(__file__))
        with pytest.raises(IsolationError):
            check_isolation(Isolation.NAMESPACES, Path("/usr/bin"))

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
    def test_others_than_root_close_it_too(self, monkeypatch):
        """In a user namespace, with its own count of processes."""
        user, start = (
            ["setpriv", "--reuid", "64007", "--regid", "64007", "--clear-groups"],
            subprocess.Popen,
        )
        monkeypatch.setattr(namespaces.os, "geteuid", lambda: 64_007)
        monkeypatch.setattr(subprocess, "Popen", lambda words, **how: start([*user, *words], **how))
        text = """
            found=$(id -u | cksum | cut -c1-1)
            [ "$(id -u)" = 65534 ] && found=100
            cat /etc/shadow /proc/1/environ | grep -q HOME && found=1
            for folder in / /usr /cell/program /dev/shm; do touch $folder/hello && found=2; done
            unshare --user true && found=3
            (for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 5 & done) >&2 && found=4
            printf '{"format":"gencard.box.v1","rows":1}\\n'
            printf "\\\\$(printf %03o "$found")\\\\000\\\\000"
        """
        assert shell(text, processes=8)(RECORDS, 1, seed=0).column("a")[0] == 100

    def test_it_dies_with_whoever_started_it(self):
        mark = f"CANARY-orphan-{os.getpid()}"
        text = f"trap '' TERM INT; setsid sh -c 'sleep 200' {mark} & sleep 200"
        script = f"from tests.system.sandboxes import *\nshell({text!r})(RECORDS, 1, seed=0)"
        starter = subprocess.Popen(
            [sys.executable, "-c", script], cwd=Path(__file__).parents[2], start_new_session=True
        )
        try:
            assert eventually(lambda: marked(mark))
        finally:
            starter.send_signal(signal.SIGKILL)
            starter.wait()
        assert eventually(lambda: not marked(mark), 2)

    def test_without_bubblewrap_nothing_runs(self, monkeypatch):
        real = subprocess.Popen

        def absent(words, **how):
            return real(["bwrap-that-is-nowhere", *words[1:]], **how)

        monkeypatch.setattr(subprocess, "Popen", absent)
        with pytest.raises(IsolationError):
            box(RESAMPLES)(RECORDS, 1, seed=0)
        with pytest.raises(IsolationError):
            check_isolation(Isolation.NAMESPACES, Path("/nowhere"))

    def test_where_namespaces_are_not_allowed_nothing_runs(self, monkeypatch):
        for alone in (("--userns", "999"), ("--unshare-pid",)):
            monkeypatch.setattr(namespaces, "_ALONE", alone)
            with pytest.raises(IsolationError):
                check_isolation(Isolation.NAMESPACES, Path("/nowhere"))


def test_no_two_cells_have_one_user_at_a_time(monkeypatch):
    """Otherwise processes that one run starts would count against the other."""
    monkeypatch.setattr(namespaces, "_USERS", range(70_000, 70_050))
    with ExitStack() as held:
        numbers = [held.enter_context(sandbox_user()) for _ in range(50)]
        assert sorted(numbers) == list(namespaces._USERS)
        with pytest.raises(OSError, match="free"):
            held.enter_context(sandbox_user())
    with sandbox_user() as one:
        assert one in numbers


def marked(mark: str) -> bool:
    """Whether a shell of this name runs."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (folder / "cmdline").read_bytes().endswith(mark.encode() + b"\0"):
                return True
    return False


def celled() -> Sandbox:
    environment = built_in_program("synthpop", {}).environment(copies())
    return Sandbox(LIMITS, Isolation.NAMESPACES, environment)


@needs_sandbox
class TestBuiltIn:
    def test_it_does_inside_what_it_does_outside(self):
        inside = sandboxed_box("synthpop", {}, celled())
        made = inside(SMALL, 25, seed=4)
        assert made.domain == SMALL.domain
        assert made.digest() == inside(SMALL, 25, seed=4).digest()

    def test_a_fit_is_kept_and_opened_by_another_cell(self):
        inside, heard = sandboxed_box("synthpop", {}, celled()), []
        assert isinstance(inside, FittingBox)
        fitted = inside.fit(SMALL, seed=4, progress=lambda stage, done: heard.append((stage, done)))
        assert heard == sorted(heard)
        assert {stage for stage, _ in heard} == {"fit"}
        again = inside.load(fitted.save())
        assert again.domain == SMALL.domain
        assert again.sample(9, seed=1).digest() == fitted.sample(9, seed=1).digest()

    def test_what_it_computes_with_is_there(self):
        """Attributes of so many levels need trees, and trees scikit-learn."""
        assert len(sandboxed_box("synthpop", {}, celled())(RECORDS, 5, seed=0)) == 5

    def test_bytes_of_no_fit_are_refused(self):
        inside = sandboxed_box("synthpop", {}, celled())
        for saved in (b"", b"{}\n", b'{"attributes":["a"],"sizes":[0]}\nx', b"\0\n"):
            with pytest.raises(BlackBoxError):
                inside.load(saved)
        saved = inside.fit(SMALL, seed=0).save()
        with pytest.raises(GencardError):
            inside.load(saved[: len(saved) // 2]).sample(1, seed=0)

    def test_its_recipe_crosses_to_a_job(self):
        written = JOBS.write(replace(built_in_recipe("synthpop", {}), limits=LIMITS))
        recipe = JOBS.read(ProgramRecipe, json.loads(json.dumps(written)), field="recipe")
        made = sandboxed_box_of(recipe, workload=(("a", "b"),), values={"a": (1.0, 2.0, float("nan"))})
        assert len(made(SMALL, 5, seed=0)) == 5

    def test_an_unknown_one_is_refused_before_anything_runs(self):
        with pytest.raises(InvalidInputError):
            sandboxed_box("stranger", {}, celled())
        with pytest.raises(InvalidInputError):
            built_in_recipe("synthpop", {"stranger": "1"})
        with pytest.raises(InvalidInputError):
            sandboxed_box_of(replace(built_in_recipe("synthpop", {}), box="stranger"))


def test_what_starts_for_each_run_of_a_built_in_box_is_small():
    """An audit starts it 50 times, and scipy takes longer than most boxes."""
    imports = "\n".join(line for line in _BUILT_IN.splitlines() if line.startswith("from "))
    script = f"{imports}\nimport sys\nassert not {{'scipy', 'torch', 'cryptography'}} & {{*sys.modules}}"
    subprocess.run([sys.executable, "-I", "-c", script], check=True)


def test_only_errors_of_the_question_come_out():
    fields = {"what": "model", "limit": "10"}
    assert isinstance(error_of_refusal("TOO_LARGE", fields), TooLargeError)
    for reason, fields in (("DATASET_UNAVAILABLE", {}), ("INVALID_INPUT", {}), ("stranger", {})):
        assert isinstance(error_of_refusal(reason, fields), BlackBoxError)


def test_values_are_what_codes_stand_for():
    coding = Coding(
        (
            Attribute("age", Edges((0.0, 10.0, 30.0), missing=True)),
            Attribute("sex", Labels(("f", "m"))),
            Attribute("rooms", Labels(("1", "4"), integer=True, ordered=True)),
            Attribute("health", Labels(("bad", "fair", "good"), ordered=True, missing=True)),
        )
    )
    found = values_of(coding)
    assert found.keys() == {"age", "rooms", "health"}
    np.testing.assert_array_equal(found["age"], [5.0, 20.0, np.nan])
    np.testing.assert_array_equal(found["rooms"], [1.0, 4.0])
    np.testing.assert_array_equal(found["health"], [0.0, 1.0, 2.0, np.nan])


def test_a_job_s_own_bounds_are_not_exceeded():
    script = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30));"
        "from gencard.controller.sandbox.limits import limited;"
        "from gencard.controller.sandbox.limits import SandboxLimits;"
        "print(limited(SandboxLimits(memory_mib=4096)))"
    )
    run = [sys.executable, "-c", script]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert f"--as={1 << 30}:{1 << 30}" in done.stdout
