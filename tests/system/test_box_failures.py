"""An author of a black box learns on made-up records why a run fails; at the records nobody does."""

import re

import pytest
from typer.testing import CliRunner

from gencard.client.connection.tables import RemoteBox
from gencard.client.shell.main import app
from gencard.controller.jobs.process import WorkerProcess
from gencard.core.errors import BlackBoxError, GeneratorChangedError, JobLimitError
from tests.system.every_method import made_up
from tests.system.house import build, survey
from tests.system.sandboxes import RECORDS, box, needs_sandbox

PYTHON = """
import numpy as np
from gencard.wire.black_box import black_box

@black_box
def made(table, rows, *, rng):
    {body}
    return codes

{end}
"""
GOOD = 'codes = {"a": np.zeros(rows, int), "b": np.zeros(rows, int)}'

BAD_STR = """
class Odd(Exception):
    def __str__(self): raise ValueError
"""


def python(body=GOOD, *, before="", end="made.main()"):
    return before + PYTHON.format(body=body, end=end)


HEADER = """printf '{"format":"gencard.box.v1","rows":2}\\n'"""

FAILURES = {
    # name: program, part of the problem, part of what it wrote, part of the advice
    "syntax error": (
        python("codes = (", end=""),
        "exit code 1",
        "SyntaxError: '(' was never closed",
        "",
    ),
    "missing package": (
        python(before="import pandass"),
        "exit code 1",
        "No module named 'pandass'",
        "libraries",
    ),
    "package that is not declared": (
        python(before="import duckdb"),
        "exit code 1",
        "No module named",
        "libraries",
    ),
    "name that is not there": (
        python(before="from numpy import nothing"),
        "exit code 1",
        "cannot import name 'nothing'",
        "",
    ),
    "exception": (python("codes = 1 / 0"), "exit code 1", "ZeroDivisionError: division by zero", ""),
    "exception without text": (
        python("raise Odd", before=BAD_STR),
        "exit code 1",
        "Odd: <exception str() failed>",
        "",
    ),
    "code too large": (
        python(GOOD + "; codes['a'] += 256"),
        "exit code 1",
        "'a' holds 256; its codes are 0 to 255",
        "",
    ),
    "code below 0": (python(GOOD + "; codes['b'] -= 1"), "exit code 1", "'b' holds -1", ""),
    "not a number": (
        python(GOOD + "; codes['b'] = codes['b'] * np.nan"),
        "exit code 1",
        "'b' holds NaN",
        "",
    ),
    "numbers with a fraction": (
        python(GOOD + "; codes['b'] = codes['b'] + .5"),
        "exit code 1",
        "dtype float64",
        "",
    ),
    "text": (python(GOOD + "; codes['b'] = ['x'] * rows"), "exit code 1", "has dtype <U1", ""),
    "another shape": (
        python(GOOD + "; codes['b'] = codes['b'][:, None]"),
        "exit code 1",
        "has shape (2, 1), not (2,)",
        "",
    ),
    "fewer rows": (
        python(GOOD + "; codes = {n: c[1:] for n, c in codes.items()}"),
        "exit code 1",
        "has shape (1,), not (2,)",
        "",
    ),
    "more records": (
        python("codes = table.dataset"),
        "exit code 1",
        "requested number of rows: 50, not 2",
        "",
    ),
    "an attribute is missing": (python(GOOD + "; del codes['b']"), "exit code 1", "it lacks 'b'", ""),
    "another attribute": (
        python(GOOD + "; codes['c'] = codes['b']"),
        "exit code 1",
        "'c', which is no attribute",
        "",
    ),
    "nothing is returned": (python("codes = None"), "exit code 1", "but NoneType", ""),
    "other arguments": (
        python().replace("(table, rows, *, rng)", "(table, rows)"),
        "exit code 1",
        "unexpected keyword argument 'rng'",
        "",
    ),
    "main is not called": (
        python(end=""),
        "exit code 0 and wrote no answer",
        "",
        "end the script with NAME.main()",
    ),
    "exit": (python("exit()"), "exit code 0 and wrote no answer", "", "NAME.main()"),
    "exit with a number": (python("import sys; sys.exit(3)"), "exit code 3", "", ""),
    "exit with a text": (python("import sys; sys.exit('no level')"), "exit code 1", "no level", ""),
    "os._exit": (python("import os; os._exit(4)"), "exit code 4", "", ""),
    "abort": (python("import os; os.abort()"), "signal 6 (SIGABRT)", "in made", ""),
    "crash in C": (
        python("import ctypes; ctypes.string_at(0)"),
        "signal 11 (SIGSEGV)",
        "in string_at",
        "",
    ),
    "recursion": (
        python("codes = (lambda f: f(f))(lambda f: f(f))"),
        "exit code 1",
        "RecursionError",
        "",
    ),
    "memory": (python("codes = bytearray(8 << 30)"), "exit code 1", "MemoryError", "memory_mib"),
    "processes": (
        python("import os, subprocess; subprocess.run(['/bin/true'])"),
        "exit code 1",
        "Function not implemented",
        "`processes`",
    ),
    "network": (python("import socket; socket.socket()"), "exit code 1", "OSError", "no network"),
    "a file elsewhere": (
        python("open('/cell/program/x', 'w')"),
        "exit code 1",
        "Read-only file system",
        "",
    ),
    "print before main": (
        python(before="print('hello', flush=True)"),
        "begins with 'hello' in place of '{\"format\"",
        "",
        "print only after",
    ),
    "print in the function, then fail": (
        python("print('halfway'); 1 / 0"),
        "exit code 1",
        "halfway",
        "",
    ),
    "print without end": (
        python("[print('x' * 9999) for _ in range(99)]; 1 / 0"),
        "exit code 1",
        "ZeroDivisionError",
        "",
    ),
}

SHELL = {
    "no answer": ("true", "exit code 0 and wrote no answer", "", "write the header line"),
    "command not found": ("nothing-such", "exit code 127", "nothing-such", ""),
    "another header": ("echo hello", "begins with 'hello'", "", "Write nothing else"),
    "another number of rows": (HEADER.replace("2}", "3}"), "begins with", "", ""),
    "too few codes": (f"{HEADER}; printf abc", "has 3 bytes after the header in place of 6", "", ""),
    "code too large": (
        rf"{HEADER}; printf 'aa\001\000\377\377'",
        "attribute 'b' has code 65535 in row 1; its codes are 0 to 299",
        "",
        "whole numbers",
    ),
    "an endless answer": (f"{HEADER}; while true; do printf aaaaaaaaaaaaaaaa; done", "too long", "", ""),
}


def check(made, problem, written, advice):
    """A run fails as at the records, without a cause; the explanation names it."""
    with pytest.raises(BlackBoxError) as failed:
        made(RECORDS, 2, seed=1)
    assert failed.value.fields.keys() == {"problem"}
    error, text = made.explanation(failed.value, RECORDS, 2, 1)
    assert problem in error.message
    assert written in text
    assert advice in error.advice
    assert len(error.advice) > 15
    if "Fatal Python error" not in text:
        assert not re.search(r"zygote|runpy", text)


@needs_sandbox
@pytest.mark.parametrize("name", FAILURES)
def test_an_author_learns_the_cause(name):
    text, *expected = FAILURES[name]
    check(box(text), *expected)


@needs_sandbox
@pytest.mark.parametrize("name", SHELL)
def test_an_author_in_another_language_learns_the_cause(name):
    text, *expected = SHELL[name]
    check(box(text, interpreter="/bin/sh", processes=8), *expected)


BOXES = """
[[black_boxes]]
name = "lacking"
kind = "program"
folder = "programs/lacking"
command = ["python", "./box.py"]

[[black_boxes]]
name = "outside"
kind = "program"
folder = "programs/outside"
command = ["python", "./box.py"]

[[black_boxes]]
name = "waiting"
kind = "program"
folder = "programs/waiting"
command = ["python", "./box.py"]
limits = { wall_seconds = 1 }

[[black_boxes]]
name = "fair"
kind = "program"
folder = "programs/fair"
command = ["python", "./box.py"]
"""
FAIR = """
import os
from gencard.wire.black_box import black_box

@black_box
def fair(table, rows, *, rng):
    return table.dataset.take(rng.integers(len(table), size=rows))

fair.main()
"""
PROGRAMS = {
    "lacking": "import nothing_such",
    "outside": FAIR.replace(
        "return ", "return {name: table.column(name) * 0 + 99 for name in table.domain.attributes}\n    "
    ),
    "waiting": "while True: pass",
    "fair": FAIR,
}


@pytest.fixture(scope="module")
def lending(tmp_path_factory):
    """A controller that lends four programs, of which three fail."""
    house = build(tmp_path_factory.mktemp("lending"), survey(400))
    house.raise_caps()
    house.allow_audits(50)
    house.edit({"black_boxes": '["lacking", "outside", "waiting", "fair"]'})
    with house.settings_file.open("a") as settings:
        settings.write(BOXES)
    for name, text in PROGRAMS.items():
        folder = house.folder / "programs" / name
        folder.mkdir(parents=True)
        (folder / "box.py").write_text(text)
    yield house.start()
    house.stop()


@pytest.fixture(scope="module")
def card(lending):
    with lending.analyst() as ana:
        pairs = [("sex", "health"), ("sex", "work"), ("health", "work")]
        yield ana.propose("survey", pairs, purpose="a test", rows=50).accept()


def lent(card, name, seed=1):
    records = made_up(50).project(card.agreement.domain.attributes)
    return RemoteBox(card._connection, card.name, name)(records, 50, seed=seed)


@needs_sandbox
class TestOverTheWire:
    def test_the_author_reads_the_traceback_on_made_up_records(self, card, caplog):
        with pytest.raises(BlackBoxError, match="exit code 1") as failed:
            lent(card, "lacking")
        (written,) = failed.value.__notes__
        assert written.startswith("Traceback (most recent call last):\n")
        assert 'File "/cell/program/box.py", line 1, in <module>' in written
        assert written.endswith("ModuleNotFoundError: No module named 'nothing_such'")
        assert "`libraries`" in failed.value.advice
        (line,) = (one for one in caplog.records if one.message == "lent run failed")
        assert (line.place, line.kind) == ("black_boxes/lacking", "BLACK_BOX")
        assert "nothing_such" not in caplog.text

    def test_codes_out_of_range_are_named(self, card):
        with pytest.raises(BlackBoxError) as failed:
            lent(card, "outside")
        assert "'sex' holds 99; its codes are 0 to 1" in failed.value.__notes__[0]

    def test_a_limit_is_named_with_the_key_that_sets_it(self, card):
        with pytest.raises(JobLimitError, match="time for one run") as failed:
            lent(card, "waiting")
        assert "The limit is 1 s" in failed.value.advice
        assert "wall_seconds" in failed.value.advice

    def test_the_shell_prints_all_lines(self, lending, card, monkeypatch):
        monkeypatch.setenv("GENCARD_CONNECTION", str(lending.person("ana")))
        (lending.person("ana") / "connection.toml").write_text(f'address = "{lending.address}"\n')
        done = CliRunner().invoke(app, ["audit", card.name, "--black-box", "lacking"])
        assert done.exit_code == 1
        assert "BLACK_BOX" in done.output
        assert "line 1, in <module>\n" in done.output

    @pytest.mark.parametrize("name", ["lacking", "outside", "waiting"])
    def test_at_the_records_all_failures_are_one_and_say_nothing(self, card, caplog, name):
        with pytest.raises(BlackBoxError) as failed:
            card.audit(name, where="card", progress=False)
        assert failed.value.fields == {"problem": "its runs on the records did not finish correctly"}
        assert not getattr(failed.value, "__notes__", ())
        assert "nothing_such" not in caplog.text

    def test_runs_of_one_caller_share_a_process_and_no_others(self, lending, card, monkeypatch):
        """One process and one interpreter for all runs; rows are those of the seed."""
        pids, real = [], WorkerProcess.talk

        def talk(process, request):
            pids.append(process.pid)
            return real(process, request)

        monkeypatch.setattr(WorkerProcess, "talk", talk)
        digests = [sorted_rows(lent(card, "fair", seed)) for seed in (1, 2, 1)]
        assert digests[0] == digests[2] != digests[1]
        assert len(set(pids)) == 1
        with lending.analyst("aud") as other:
            records = made_up(50).project(card.agreement.domain.attributes)
            rows = RemoteBox(other._connection, card.name, "fair")(records, 50, seed=1)
        assert sorted_rows(rows) == digests[0]
        assert len(set(pids)) == 2

    def test_a_program_that_changes_between_runs_is_not_run(self, lending, card):
        """Nor are the bytes that a process has kept since the run before."""
        before = sorted_rows(lent(card, "fair", 5))
        file = lending.folder / "programs" / "fair" / "box.py"
        file.write_text(FAIR + "# another byte")
        try:
            with pytest.raises(GeneratorChangedError):
                lent(card, "fair", 5)
        finally:
            file.write_text(FAIR)
        assert sorted_rows(lent(card, "fair", 5)) == before


def sorted_rows(rows):
    return sorted(map(tuple, rows.codes.tolist()))
