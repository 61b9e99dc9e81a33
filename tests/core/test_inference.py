"""Bounds on small counts from all outputs together, beside brute force on tiny tables."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gencard.analysis.answers.design import CheckedQuestion
from gencard.analysis.answers.kinds import answered
from gencard.analysis.answers.margins import RecordMargins
from gencard.analysis.formulas.answering import read_question
from gencard.analysis.formulas.numbers import NumbersUsed
from gencard.analysis.output_checks import facts, inference
from gencard.analysis.output_checks import lattice as lattice_module
from gencard.analysis.output_checks.differencing import Condition, Merged
from gencard.analysis.output_checks.inference import SearchOutcome, tells_small_counts
from gencard.analysis.output_checks.lattice import WIDTH, CountFacts, Lattice, LinearProgram
from gencard.analysis.output_checks.released import of_rounded_counts, released
from gencard.core.card.privacy import Transform
from gencard.core.coding import Attribute, Coding, Edges, Labels, StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.policy import USUAL_RULES
from gencard.core.statistics.formula import Analysis

CODING = Coding(
    (Attribute("sex", Labels(("f", "m"), ordered=True)), Attribute("age", Edges((0.0, 2.0, 4.0, 6.0))))
)
CHECKS = Transform(threshold=5, zeros=True, rounding=5)
ALL = np.ones(6, dtype=bool)
NOTHING = CountFacts.together([], 6)


def lattice(counts, zeros=(), checks=CHECKS):
    codes = np.array(list(product(range(2), range(3)))).repeat(counts, axis=0)
    return Lattice.of(Dataset(CODING.domain, codes), ("sex", "age"), checks, zeros)


def small_rows(one):
    """The small counts of a lattice as sums over its cells, one a row."""
    rows = []
    for small in one.small:
        numbers, _ = one.numbers(small.clique)
        rows += [numbers == place for place in small.places]
    return np.array(rows, dtype=float).reshape(-1, len(one.changing))


def tables(total, cells):
    """All tables of whole counts."""
    if cells == 1:
        yield (total,)
        return
    for first in range(total + 1):
        yield from ((first, *rest) for rest in tables(total - first, cells - 1))


def random_facts(low, high, rng):
    """Facts of random functions and slacks."""
    rows = rng.normal(size=(3, 6)).round(1)
    return CountFacts.between(rows, rng.uniform(low, 0, 3), rng.uniform(0, high, 3))


@settings(max_examples=40)
@given(st.integers(0, 10_000))
def test_what_is_let_pass_is_open_by_brute_force(seed):
    rng = np.random.default_rng(seed)
    one = lattice(rng.multinomial(12, [0.4, 0.2, 0.1, 0.1, 0.1, 0.1]))
    new = random_facts(-4.0, 4.0, rng)
    if tells_small_counts(new, NOTHING, one):
        return
    changes = np.array(list(tables(12, 6))) - one.counts
    values = changes @ new.rows.T
    agreeing = changes[((new.low <= values + 1e-6) & (values - 1e-6 <= new.high)).all(axis=1)]
    assert np.all(np.ptp(agreeing @ small_rows(one).T, axis=0) >= WIDTH)


@settings(max_examples=60)
@given(st.integers(0, 10_000))
def test_an_interior_point_agrees_with_all_facts_and_is_nearly_as_far(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 9, 6)
    program = LinearProgram(random_facts(-4.0, 4.0, rng), counts)
    weights = rng.normal(size=6)
    best, change = (program.fraction(weights, interior=interior) for interior in (False, True))
    assert best is not None
    assume(change is not None)  # the solver may find none; then nothing is opened
    values = program.facts.rows @ change
    assert np.all((program.facts.low - 1e-6 <= values) & (values <= program.facts.high + 1e-6))
    assert abs(change.sum()) < 1e-6
    assert np.all(change >= -counts)
    assert weights @ change >= weights @ best - 1e-4


def test_a_cell_that_two_sums_leave_alone_is_found_and_rounding_protects_it():
    one = lattice([20, 3, 9, 8, 11, 30])
    others = np.array([True, False, True, True, True, True])
    rest = one.sums((), others)
    assert tells_small_counts(CountFacts.near(rest.rows, 0.0), NOTHING, one)
    assert not tells_small_counts(CountFacts.rounded(rest, 5), NOTHING, one)
    # it was known before: nothing new is told
    assert not tells_small_counts(
        CountFacts.near(one.sums(("sex",), ALL).rows, 0.0), CountFacts.near(rest.rows, 0.0), one
    )


@settings(max_examples=60)
@given(st.integers(0, 10_000))
def test_a_rounded_table_of_a_card_says_which_counts_have_the_same_psi(seed):
    rng = np.random.default_rng(seed)
    checks = Transform(threshold=int(rng.integers(0, 8)), rounding=int(rng.integers(2, 9)))
    counts = rng.integers(max(checks.threshold, 1), 30, 6) * (rng.random(6) < 0.8)
    one = lattice(counts)
    told = facts.rounded(("sex", "age"), checks, one)

    def psi(values):
        passed = (values >= checks.threshold) | (values == 0)
        return np.where(passed, np.round(values / checks.rounding) * checks.rounding, -1)

    changes = np.arange(-30, 30)
    for row, low, high in zip(told.rows, told.low, told.high, strict=True):
        count = int(row @ counts)
        own = psi(np.array([count]))
        alike = changes[(count + changes >= 0) & (psi(count + changes) == own)]
        assert low <= alike.min()
        assert alike.max() <= high
        assert high - low <= checks.rounding
    assert np.array_equal(told.rows.sum(axis=0), np.ones(6))


def test_a_rounded_table_of_another_project_is_joined():
    """An answer leaves 1 to 5 open for a count, and the rounded table 3 to 7: together too little."""
    one = lattice([24, 3, 9, 8, 11, 30])
    table = facts.rounded(("sex", "age"), Transform(rounding=5), one)
    others = one.sums((), np.array([True, False, True, True, True, True]))
    answer = CountFacts.near(others.rows, 2.0)
    assert tells_small_counts(answer, NOTHING, one) is SearchOutcome.OPEN
    assert tells_small_counts(table, NOTHING, one) is SearchOutcome.OPEN
    assert tells_small_counts(answer, table, one) is SearchOutcome.DISCLOSED


def test_integer_programs_find_what_no_single_move_does():
    """Both margins are known: only four records together can change their cells."""
    one = lattice([20, 3, 9, 8, 11, 30])
    margins = facts.counted([("sex",), ("age",)], one)
    assert not inference._moves(margins, one.counts).any()
    assert tells_small_counts(margins, NOTHING, one) is SearchOutcome.OPEN
    assert (
        tells_small_counts(facts.counted([("sex", "age")], one), margins, one) is SearchOutcome.DISCLOSED
    )


@pytest.mark.parametrize("spent", [True, False])
def test_a_search_without_a_proof_is_no_release(monkeypatch, spent):
    """With no work left, or no node to visit, neither the answer nor its refusal is proven."""
    one = lattice([20, 3, 9, 8, 11, 30])
    margins = facts.counted([("sex",), ("age",)], one)
    if spent:
        monkeypatch.setattr(lattice_module, "_MOST_WORK", -1)
    else:
        nothing = np.zeros((0, 6), dtype=np.int64)
        for name in ("mended", "boxed", "within"):
            monkeypatch.setattr(lattice_module.LinearProgram, name, lambda *_, **__: nothing)
        monkeypatch.setattr(lattice_module.LinearProgram, "bounded", lambda *_: (nothing, np.inf))
        monkeypatch.setattr(lattice_module.LinearProgram, "fraction", lambda *_, **__: None)
    assert tells_small_counts(margins, NOTHING, one) is SearchOutcome.UNDECIDED


def test_cells_that_no_output_tells_apart_need_no_program(monkeypatch):
    """Seventy cells of a few records each are open beside their number of records alone."""
    monkeypatch.setattr(lattice_module, "_MOST_WORK", -1)
    coding = Coding((Attribute("a", Labels(tuple(map(str, range(70))))), *CODING.attributes[:1]))
    codes = np.array(list(product(range(70), range(2)))).repeat(2, axis=0)
    one = Lattice.of(Dataset(coding.domain, codes), ("a", "sex"), CHECKS)
    everybody = np.ones(140, dtype=bool)
    nothing = CountFacts.together([], 140)
    assert (
        tells_small_counts(CountFacts.near(one.sums(("sex",), everybody).rows, 0.0), nothing, one) == 0
    )
    within_two = one.cells.column("a") < 1
    assert tells_small_counts(CountFacts.near(one.sums((), within_two).rows, 0.0), nothing, one) > 0


@pytest.mark.parametrize(
    ("zeros", "known"), [((), True), ((StructuralZeros(("sex",), ((1,),)),), False)]
)
def test_empty_cells_are_small_unless_everybody_knows_them(zeros, known):
    one = lattice([20, 12, 9, 0, 0, 0], zeros)
    new = CountFacts.near(one.sums(("sex",), ALL).rows, 0.0)
    outcome = tells_small_counts(new, CountFacts.together([], len(one.changing)), one)
    assert outcome is (SearchOutcome.DISCLOSED if known else SearchOutcome.OPEN)
    without = lattice([20, 12, 9, 0, 0, 0], zeros, Transform(threshold=5))
    assert not without.small


def test_what_exact_marginals_tell_needs_no_protection():
    codes = np.array(list(product(range(2), range(3)))).repeat([20, 0, 9, 8, 2, 30], axis=0)
    dataset = Dataset(CODING.domain, codes)
    alone = Lattice.of(dataset, ("sex", "age"), CHECKS)
    beside = Lattice.of(dataset, ("sex", "age"), CHECKS, exact=[("age",)])
    # two of the middle age are known, and with them who of these is of which sex: 0 to 2
    assert (len(small_rows(alone)), len(small_rows(beside))) == (3, 0)


WIDE = Coding(
    tuple(
        Attribute(name, Labels(tuple(map(str, range(size)))))
        for name, size in (("a", 3), ("b", 4), ("c", 60))
    )
)


def wide(rng, records=300):
    codes = np.stack([rng.integers(size, size=records) for size in WIDE.domain.sizes], axis=1)
    codes[codes[:, 0] == 2, 1] = 0  # empty cells
    return Dataset(WIDE.domain, codes)


def test_a_wide_lattice_is_judged_whole():
    """An exact small count in an answer is detected among 720 cells, and a rounded count is not."""
    one = Lattice.of(wide(np.random.default_rng(1)), WIDE.domain.attributes, CHECKS)
    assert len(one.cells) == 720
    assert sum(len(small.places) for small in one.small) > 700
    nothing = CountFacts.together([], len(one.changing))
    inside = (one.cells.column("a") == 2) & (one.cells.column("b") == 1)
    empty = one.sums((), inside)
    assert empty.values == 0
    assert tells_small_counts(CountFacts.near(empty.rows, 0.0), nothing, one) is SearchOutcome.DISCLOSED
    everybody = one.sums(("a",), np.ones(len(one.counts), dtype=bool))
    assert tells_small_counts(CountFacts.rounded(everybody, 5), nothing, one) is SearchOutcome.OPEN


@pytest.mark.parametrize("level", [0, 37, 59])
def test_any_single_count_of_a_wide_lattice_is_found(level):
    """The last of several hundred small counts is detected, which a search that gives up would pass."""
    one = Lattice.of(wide(np.random.default_rng(3)), WIDE.domain.attributes, CHECKS)
    inside = (one.cells.column("a") == 1) & (one.cells.column("c") == level)
    tiny = CountFacts.near(one.sums((), inside).rows, 1.0)
    assert (
        tells_small_counts(tiny, CountFacts.together([], len(one.changing)), one)
        is SearchOutcome.DISCLOSED
    )


def test_levels_that_no_condition_tells_apart_are_merged():
    choice = np.zeros((2, 3), dtype=bool)
    choice[0, 2] = True
    merged = Merged.by([Condition(("sex", "age"), choice)], ("sex", "age"), CODING.domain)
    assert merged.domain(CODING.domain).sizes == (2, 2)
    dataset = Dataset(CODING.domain, np.array(list(product(range(2), range(3)))))
    kept = merged.condition(Condition(("sex", "age"), choice)).kept(merged.dataset(dataset))
    assert np.array_equal(kept, Condition(("sex", "age"), choice).kept(dataset))
    # of two merged ages, one can occur with this sex
    zeros = StructuralZeros(("sex", "age"), ((1, 0), (0, 0), (0, 1)))
    young = merged.classes["age"][0]
    assert merged.zeros(zeros, CODING.domain).cells == ((0, int(young)),)


@pytest.mark.parametrize(
    ("text", "kind", "number"),
    [
        ("age ~ sex", Analysis.MEANS, 1 + 2 + 2 + 2),  # records of all and of groups, means, spreads
        ("sex ~ age", Analysis.CROSSTAB, 1 + 6),
        ("age ~ sex", Analysis.LINEAR, 1 + 2 + 2),  # two normal equations, and what else is independent
        ("age ~ sex", Analysis.QUANTILES, 1 + 2 + 6),
    ],
)
def test_counts_that_give_the_same_answer_agree_with_its_facts(text, kind, number):
    one = lattice([20, 13, 19, 18, 11, 30], checks=Transform(threshold=12))
    question: CheckedQuestion = read_question(text, kind, CODING)

    def told(counts):
        margins = RecordMargins.of(one.cells, counts * 1.0)
        exact = answered(question, margins)
        return released(of_rounded_counts(question, exact, margins, USUAL_RULES), USUAL_RULES)

    margins = RecordMargins.of(one.cells, one.counts * 1.0)
    stated = facts.facts_of_answer(question, ALL, margins, one, USUAL_RULES)
    assert len(stated.rows) >= number
    rng, expected, alike = np.random.default_rng(1), told(one.counts).to_json(), 0
    for _ in range(300):
        change = rng.integers(-2, 3, 6) * (rng.random(6) < 0.6)
        if np.any(one.counts + change < USUAL_RULES.checks.threshold):  # refused, and so not agreeing
            continue
        if told(one.counts + change).to_json() == expected:
            alike += 1
            if kind is Analysis.QUANTILES:  # taken to tell its cells, which it tells nearly
                continue
            values = stated.rows @ change
            if kind is Analysis.CROSSTAB:  # its number of records is taken to be that of other kinds
                values[stated.rows.all(axis=1)] = 0.0
            apart = 0.1 if kind in {Analysis.MEANS, Analysis.LINEAR} else 1e-6  # derivatives
            assert np.all((stated.low - apart <= values) & (values <= stated.high + apart))
    assert alike > (1 if kind in {Analysis.MEANS, Analysis.LINEAR} else 0)


def test_facts_about_other_attributes_are_left_out():
    one = lattice([20, 13, 19, 18, 11, 30])
    narrow = Lattice.of(
        Dataset(CODING.domain, np.array(list(product(range(2), range(3)))).repeat(9, axis=0)),
        ("sex",),
        CHECKS,
    )
    question = read_question("sex ~ age", Analysis.CROSSTAB, CODING)
    margins = RecordMargins.of(one.cells, one.counts * 1.0)
    stated = facts.facts_of_answer(question, np.ones(2, dtype=bool), margins, narrow, USUAL_RULES)
    assert len(stated.rows) == 1  # how many records there are


def test_stored_numbers_tell_how_large_their_groups_are():
    one = lattice([20, 0, 0, 0, 11, 0])
    margins = RecordMargins.of(one.cells, one.counts * 1.0)
    options, used = {"response": "stored"}, NumbersUsed("age")
    stored = read_question("age ~ sex", Analysis.MEANS, CODING, options=options, used=used)
    stored = replace(stored, needs=(("sex",),))
    assert len(facts.facts_of_answer(stored, ALL, margins, one, USUAL_RULES).rows) == 1 + 2


@pytest.mark.parametrize("apart", [1e-1, 1e-2, 1e-3, 1e-4, 1e-5])
def test_the_basis_of_functions_that_are_nearly_dependent_is_orthonormal(apart):
    """The basis is that of a singular value decomposition: what exact facts determine, and no more."""
    rng = np.random.default_rng(4)
    rows = (rng.random((12, 40)) < 0.4).astype(float)
    rows = np.vstack([rows, rows[:6] + apart * rng.standard_normal((6, 40)), rows[:3] * 1e4])
    basis = inference._basis(CountFacts(rows, np.ones(len(rows)), np.ones(len(rows))))
    assert np.abs(basis @ basis.T - np.eye(len(basis))).max() < 1e-9
    assert np.linalg.matrix_rank(np.vstack([rows, np.ones(40)])) == len(basis)
    assert np.all(
        inference._is_spanned(np.vstack([rows, rng.standard_normal((5, len(rows))) @ rows]), basis)
    )
    assert not np.any(inference._is_spanned(rng.standard_normal((20, 40)), basis))
