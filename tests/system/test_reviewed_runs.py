"""Reviewed runs through the real service: dry run, run at the records, a steward's decision, the answer."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from gencard.client.programs import dry_run, run_program
from gencard.controller.shell.main import app
from gencard.core.answers.answer import Answer
from gencard.core.errors import (
    InvalidInputError,
    NotFoundError,
    ProgramNotRunError,
    ProgramRunFailedError,
    TooLargeError,
)
from gencard.v1 import answers_pb2 as pb
from gencard.wire.documents.answer_document import answer_of_document
from gencard.wire.signatures.canonical import sha256
from gencard.wire.signatures.dsse import ANSWER, opened, predicate_of
from tests.system.house import House, build
from tests.system.sandboxes import needs_sandbox

pytestmark = [needs_sandbox, pytest.mark.timeout(300)]

GOOD = """
from gencard.run import output, records
frame = records()
output.table("sex by health", frame.groupby(["sex", "health"], observed=True).size().unstack())
output.scalar("mean age", frame["age"].mean())
output.scalar("rare", ((frame["age"] > 90) & (frame["sex"] == "male")).sum() % 7 + 1, count=True)
"""
FAILS_HERE = "raise ValueError"
FAILS_THERE = """
from gencard.run import output, records
assert len(records()) != 3_000, records()
output.scalar("n", 1.0)
"""
PROGRAMS = (GOOD, FAILS_HERE, FAILS_THERE)
NEVER_NAMED = "from gencard.run import output\noutput.scalar('x', 1.0)"


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    built: House = build(tmp_path_factory.mktemp("reviewed"))
    text = built.settings_file.read_text()
    granted = "analyses = { reviewed_runs = 3, program_numbers = 60 }\n"
    built.settings_file.write_text(text.replace("automatic = true\n", f"automatic = true\n{granted}", 1))
    built.raise_caps()
    try:
        yield built.start()
    finally:
        built.stop()
