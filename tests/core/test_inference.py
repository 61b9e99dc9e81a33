"""What outputs together leave open about small cells, beside brute force on tiny tables."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.answers.design import Question
from gencard.core.answers.margins import RecordMargins
from gencard.core.card.mechanism import Transform
from gencard.core.coding import Attribute, Coding, Edges, Labels, StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.output_checks import facts, inference
from gencard.core.output_checks.inference import WIDTH, Facts, Lattice, tells_small_cells
from gencard.core.output_checks.rules import USUAL_RULES
from gencard.core.statistics.formula import Analysis
from gencard.formulas.answering import read_question

CODING = Coding(
    (
        Attribute("sex", Labels(("f", "m"), ordered=True)),
        Attribute("age", Edges((0.0, 2.0, 4.0, 6.0))),
    )
)
CHECKS = Transform(threshold=5, zeros=True, rounding=5)
ALL = np.ones(6, dtype=bool)


def lattice(counts, zeros=()):
    codes = np.array(list(product(range(2), range(3)))).repeat(counts, axis=0)
    return Lattice.of(Dataset(CODING.domain, codes), ("sex", "age"), zeros)


def tables(total, cells):
    """All tables of whole counts."""
    if cells == 1:
        yield (total,)
        return
    for first in range(total + 1):
        yield from ((first, *rest) for rest in tables(total - first, cells - 1))


@given(st.integers(0, 10_000))
def test_what_is_let_pass_is_open_by_brute_force(seed):
    rng = np.random.default_rng(seed)
    one = lattice(rng.multinomial(12, [0.4, 0.2, 0.1, 0.1, 0.1, 0.1]))
    rows = (rng.random((3, 6)) < 0.5) * 1.0
    new = Facts.rounded(rows, one.counts, base=int(rng.integers(1, 6)))
    before = Facts.together([], 6)
    if tells_small_cells(new, before, one, CHECKS):
        return
    agreeing = np.array(list(tables(12, 6)))
    values = agreeing @ rows.T
    agreeing = agreeing[((new.low <= values) & (values <= new.high)).all(axis=1)]
    sums = agreeing @ one.sums.T
    small = one.sums @ one.counts < CHECKS.threshold
    assert np.all(np.ptp(sums, axis=0)[small] >= WIDTH)


def test_a_cell_that_two_sums_leave_alone_is_found_and_rounding_protects_it():
    one = lattice([20, 3, 9, 8, 11, 30])
    whole, rest = ALL[None] * 1.0, np.array([[1.0, 0, 1, 1, 1, 1]])
    before = Facts.near(whole, one.counts, 0.0)
    assert tells_small_cells(Facts.near(rest, one.counts, 0.0), before, one, CHECKS)
    assert not tells_small_cells(Facts.rounded(rest, one.counts, 5), before, one, CHECKS)
    # it was known before: nothing new is told
    assert not tells_small_cells(
        before, Facts.near(np.vstack([whole, rest]), one.counts, 0.0), one, CHECKS
    )


def test_integer_programs_find_what_no_single_move_does():
    """Both margins are known: only four records together can change their cells."""
    one = lattice([20, 3, 9, 8, 11, 30])
    margins = facts.counted([("sex",), ("age",)], one)
    assert inference._moved(one.sums, margins, one).max() == 0
    assert not tells_small_cells(margins, Facts.together([], 6), one, CHECKS)
    assert tells_small_cells(facts.counted([("sex", "age")], one), margins, one, CHECKS)


@pytest.mark.parametrize(
    ("zeros", "known"), [((), True), ((StructuralZeros(("sex",), ((1,),)),), False)]
)
def test_empty_cells_are_small_unless_everybody_knows_them(zeros, known):
    one = lattice([20, 12, 9, 0, 0, 0], zeros)
    new = Facts.near(one.indicators(("sex",), ALL), one.counts, 0.0)
    assert tells_small_cells(new, Facts.together([], 6), one, CHECKS) == known
    assert not tells_small_cells(new, Facts.together([], 6), one, Transform(threshold=5))


@pytest.mark.parametrize(
    ("text", "kind", "number"),
    [
        ("age ~ sex", Analysis.MEANS, 1 + 2 + 2),  # records of all and of groups, two means
        ("sex ~ age", Analysis.CROSSTAB, 1 + 6),
        ("age ~ sex", Analysis.LINEAR, 1 + 2),  # two normal equations
        ("age ~ sex", Analysis.QUANTILES, 1 + 2 + 6),
    ],
)
def test_facts_hold_of_the_records(text, kind, number):
    one = lattice([20, 13, 19, 18, 11, 30])
    question: Question = read_question(text, kind, CODING)
    margins = RecordMargins.of(one.cells, one.counts * 1.0)
    stated = facts.facts_of_answer(question, ALL, margins, one, USUAL_RULES)
    assert len(stated.rows) == number
    values = stated.rows @ one.counts
    assert np.all((stated.low - 1e-6 <= values) & (values <= stated.high + 1e-6))


def test_stored_numbers_tell_how_large_their_groups_are():
    one = lattice([20, 0, 0, 0, 11, 0])
    margins = RecordMargins.of(one.cells, one.counts * 1.0)
    stored = read_question("age ~ sex", Analysis.MEANS, CODING, options={"response": "stored"})
    assert len(facts.facts_of_answer(stored, ALL, margins, one, USUAL_RULES).rows) == 1 + 2
