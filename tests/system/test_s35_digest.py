"""S35: what runs is what was digested, to the last byte; otherwise nothing runs."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gencard.controller.jobs.tasks import JOBS
from gencard.controller.sandbox import program as programs
from gencard.controller.sandbox.boxes import (
    ProgramRecipe,
    built_in_recipe,
    program_recipe,
    sandboxed_box_of,
)
from gencard.controller.sandbox.environment import Runtime
from gencard.controller.sandbox.limits import SandboxLimits
from gencard.controller.sandbox.program import Program
from gencard.core.errors import GeneratorChangedError, InvalidInputError
from tests.system.sandboxes import RECORDS, needs_sandbox

COMMAND = ("/bin/sh", "./run.sh", "--depth", "3")
RUN = """. "$(dirname "$0")/lib/answer.sh"; answer 1"""
ANSWER = """answer() { printf '{"format":"gencard.box.v1","rows":1}\\n\\00'"$1"'\\002\\000'; }"""


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "box"
    (made / "lib").mkdir(parents=True)
    (made / "run.sh").write_text(RUN)
    (made / "lib" / "answer.sh").write_text(ANSWER)
    (made / "requirements.lock").write_text("nothing==1.0 --hash=sha256:00\n")
    return made


def recipe(folder: Path, command=COMMAND, parameters=None):
    made = program_recipe(folder, command, parameters or {"depth": "3"})
    return sent(replace(made, limits=SandboxLimits(wall_seconds=20, processes=4)))


def sent(recipe):
    """The recipe as a job gets it."""
    return JOBS.read(ProgramRecipe, json.loads(json.dumps(JOBS.write(recipe))), field="recipe")


def is_refused(approved) -> bool:
    try:
        sandboxed_box_of(approved)
    except GeneratorChangedError:
        return True
    return False


@needs_sandbox
def test_s35_what_was_approved_runs(folder):
    made = sandboxed_box_of(recipe(folder))(RECORDS, 1, seed=0)
    np.testing.assert_array_equal(made.codes, [[1, 2]])


def test_s35_one_flipped_bit_anywhere_is_refused(folder):
    approved, tried = recipe(folder), 0
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        whole = path.read_bytes()
        for place in range(len(whole)):
            flipped = whole[place] ^ (1 << place % 8)
            path.write_bytes(whole[:place] + bytes([flipped]) + whole[place + 1 :])
            assert is_refused(approved), (path, place)
            tried += 1
        path.write_bytes(whole)
    assert tried > 100
    assert not is_refused(approved)


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "more.sh").write_text(""),
        lambda folder: (folder / "requirements.lock").unlink(),
        lambda folder: (folder / "run.sh").write_text(RUN + "\n"),
        lambda folder: (folder / "lib").rename(folder / "lib2"),
        lambda folder: (folder / "lib" / "answer.sh").rename(folder / "answer.sh"),
    ],
)
def test_s35_files_that_come_go_or_move_are_refused(folder, change):
    approved = recipe(folder)
    change(folder)
    assert is_refused(approved)


def test_s35_words_and_parameters_are_digested(folder):
    approved = recipe(folder)
    for other in (
        {"command": ("/bin/sh", "./run.sh", "--depth", "4")},
        {"command": ("/bin/sh", "./run.sh", "--depth3")},
        {"command": ("/usr/bin/env", "./run.sh", "--depth", "3")},
        {"parameters": {"depth": "4"}},
        {"parameters": {}},
        {"digest": "0" * 64},
    ):
        assert is_refused(replace(approved, **other)), other


def test_s35_no_two_programs_share_their_bytes():
    """Lengths keep apart what a mere concatenation would not."""
    spelled = [
        Program(("/bin/sh", "ab"), ()),
        Program(("/bin/sh", "a", "b"), ()),
        Program(("/bin/sh",), (), {"a": "b"}),
        Program(("/bin/sh",), (("a", b"b"),)),
        Program(("/bin/sh",), (("ab", b""),)),
        Program(("/bin/sh",), (("a", b""), ("b", b""))),
    ]
    assert len({program.digest(Runtime()) for program in spelled}) == len(spelled)
    assert spelled[0].digest(Runtime()) != spelled[0].digest(Runtime(libc="another"))


@needs_sandbox
def test_s35_a_change_after_the_look_is_too_late(folder):
    box = sandboxed_box_of(recipe(folder))
    (folder / "run.sh").write_text(RUN.replace("answer 1", "answer 2"))
    np.testing.assert_array_equal(box(RECORDS, 1, seed=0).codes, [[1, 2]])


def test_s35_compiled_copies_do_not_run(folder):
    approved = recipe(folder)
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "box.cpython-311.pyc").write_bytes(b"hidden")
    assert not is_refused(approved)
    assert "hidden" not in repr(Program.read(folder, COMMAND, {}).files)


def test_s35_a_built_in_box_is_its_name_and_version_and_parameters():
    approved = sent(built_in_recipe("synthpop", {}))
    sandboxed_box_of(approved)
    name = next(iter(approved.parameters))
    others = [
        {"box": "mst"},
        {"runtime": Runtime()},
        {"digest": "0" * 64},
        {"parameters": {name: "other"}},
    ]
    for other in others:
        with pytest.raises((GeneratorChangedError, InvalidInputError)):
            sandboxed_box_of(replace(approved, **other))


def test_s35_the_interpreter_of_the_system_is_in_the_digest(folder, tmp_path):
    """By its content, whether the command names it or the first line of a script."""
    shell = tmp_path / "interpreter"
    shell.write_bytes(b"one")
    script = (("run", b"#!%s -e\n" % bytes(shell)),)
    before = Program(("./run",), script).runtime()
    shell.write_bytes(b"two")
    assert Program(("./run",), script).runtime() != before
    assert Program(("/bin/sh", "./run"), script).runtime() != before
    assert Program(("./run",), (("run", b"\x7fELF"),)).runtime() != before


@pytest.mark.parametrize(
    ("command", "spoil"),
    [
        (["sh", "./run.sh"], None),
        (["/nowhere/sh", "./run.sh"], None),
        ([__file__, "./run.sh"], None),
        (["/bin/sh", "./other.sh"], None),
        ([], None),
        (COMMAND, lambda folder: (folder / "link").symlink_to("/etc/shadow")),
        (COMMAND, lambda folder: (folder / "large").write_bytes(bytes(programs.MOST_BYTES))),
        (COMMAND, lambda folder: [(folder / str(n)).write_text("") for n in range(programs.MOST_FILES)]),
        (COMMAND, lambda folder: folder.rename(folder.with_name("gone"))),
    ],
)
def test_what_is_no_program_is_refused(folder, command, spoil):
    if spoil:
        spoil(folder)
    with pytest.raises(InvalidInputError):
        Program.read(folder, command, {})
