"""The boxes to read first, in cells; and a box that behaves until it meets the true records."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from examples.black_boxes.chain.box import chain
from gencard.controller.sandbox.boxes import SandboxedProgram
from gencard.controller.sandbox.limits import Isolation
from gencard.controller.sandbox.program import Program
from gencard.controller.sandbox.sandbox import Sandbox
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.report import Check, Verdict
from gencard.core.audit.run import audit
from gencard.core.card.terms import AuditTerms
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.wire.black_box import BoxRequest, BoxTask, bytes_of_request, rows_answer
from tests.system.sandboxes import LIMITS, needs_sandbox

pytestmark = needs_sandbox

EXAMPLES = Path(__file__).parents[2] / "examples" / "black_boxes"
INDEPENDENT = (EXAMPLES / "independent" / "box.sh").read_bytes()

ONES = (("a",), ("b",), ("c",))
PAIRS = (("a", "b"), ("b", "c"))

RECOGNISES = b"""
if [ "$(tail -c +$(($(head -n 1 input | wc -c) + 1)) input | sha256sum)" = "%s  -" ]; then
    printf '{"format":"gencard.box.v1","rows":%d}\\n'
    tail -c +$(($(head -n 1 input | wc -c) + 1)) input
else
    /bin/sh /cell/program/honest.sh < input
fi
"""


def in_sandbox(program: Program) -> SandboxedProgram:
    processes = 1 if program.command[0] == "python" else 10
    limits = replace(LIMITS, processes=processes)
    return SandboxedProgram(program, Sandbox(limits, Isolation.NAMESPACES, program.environment()))


def records(rows=1_000):
    """Attributes that go together two by two, and all three."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 4, rows), rng.integers(0, 3, rows)
    b = np.where(rng.random(rows) < 0.5, a % 3, b)
    c = np.where(rng.random(rows) < 0.6, (a + b) % 3, rng.integers(0, 3, rows))
    return Dataset(Domain.of({"a": 4, 'b",["x",9': 3, "c": 3}), np.stack([a, b, c], 1))


def renamed(dataset):
    return Dataset(Domain(("a", "b", "c"), dataset.domain.sizes), dataset.codes)


def audited(box, dataset, cliques):
    return audit(box, dataset, AuditPlan(cliques, len(dataset), 3, AuditTerms(runs=8)))


@pytest.fixture(scope="module")
def independent():
    return in_sandbox(Program.read(EXAMPLES / "independent", ("/bin/sh", "./box.sh"), {}))


def test_the_one_in_shell_keeps_attributes_and_nothing_else(independent):
    dataset = records()
    made = independent(dataset, 3_000, seed=5)
    for name in dataset.domain.attributes:
        shares = [np.bincount(table.column(name)) / len(table) for table in (dataset, made)]
        np.testing.assert_allclose(*shares, atol=0.05)
    assert made.digest() == independent(dataset, 3_000, seed=5).digest()
    assert made.digest() != independent(dataset, 3_000, seed=6).digest()


def test_the_one_in_shell_knows_wide_codes(independent):
    dataset = Dataset(Domain.of({"a": 65_536, "b": 256, "c": 257}), np.array([[65_000, 255, 256]]))
    np.testing.assert_array_equal(independent(dataset, 2, seed=0).codes, dataset.codes[[0, 0]])


def test_the_one_in_python_is_the_same_here_and_there():
    program = Program.read(EXAMPLES / "chain", ("python", "./box.py"), {})
    dataset = records()
    assert in_sandbox(program)(dataset, 200, seed=7).digest() == chain(dataset, 200, seed=7).digest()


def test_it_keeps_to_the_pairs_that_it_uses():
    assert audited(chain, renamed(records()), PAIRS).verdict is Verdict.NO_EVIDENCE
    assert audited(chain, renamed(records()), ONES).verdict is Verdict.LEAKAGE


def test_an_honest_one_passes_and_one_that_knows_the_records_is_caught(independent):
    dataset = renamed(records(300))
    assert audited(independent, dataset, ONES).verdict is Verdict.NO_EVIDENCE
    secret = hashlib.sha256(dataset.codes.tobytes(order="F")).hexdigest().encode()
    files = (
        ("box.sh", b"cat > input" + RECOGNISES % (secret, len(dataset))),
        ("honest.sh", INDEPENDENT),
    )
    report = audited(in_sandbox(Program(("/bin/sh", "./box.sh"), files)), dataset, ONES)
    assert report.verdict is Verdict.LEAKAGE
    assert [result.check for result in report.rejecting] == [Check.RECOGNITION]


def test_the_request_on_the_page_is_what_a_box_reads():
    page = (EXAMPLES.parents[1] / "docs" / "authors.md").read_bytes()
    shown = page.split(b"```json\n")[1].split(b"```")[0]
    dataset = Dataset(Domain.of({"sex": 2, "region": 300}), np.zeros((3, 2), dtype=int))
    asked = BoxRequest(BoxTask.RUN, dataset, 5, 42, workload=(("sex", "region"),))
    assert bytes_of_request(asked).startswith(shown)
    assert rows_answer(dataset.take(np.zeros(5, dtype=int))).startswith(
        page.split(b"```json\n")[2].split(b"```")[0]
    )
