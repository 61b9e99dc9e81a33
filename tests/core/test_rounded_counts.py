"""Numbers beside rounded counts: together they tell no more than the rounded counts."""

from itertools import product

import numpy as np
import pytest

from gencard.analysis.answers import crosstabs
from gencard.analysis.answers.kinds import answered
from gencard.analysis.answers.margins import RecordMargins
from gencard.analysis.formulas.answering import read_question
from gencard.analysis.output_checks.released import of_rounded_counts, released, undoes_rounding
from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.dataset import Dataset
from gencard.core.policy import USUAL_RULES
from gencard.core.statistics.formula import Analysis

CODING = Coding(
    tuple(
        Attribute(name, Labels(tuple(map(str, range(size)))))
        for name, size in (("a", 2), ("b", 3), ("c", 2))
    )
)
CELLS = np.array(list(product(range(2), range(3), range(2))))


def released_answer(text, counts, kind=Analysis.CROSSTAB):
    question = read_question(text, kind, CODING)
    margins = RecordMargins.of(Dataset(CODING.domain, CELLS.repeat(counts, axis=0)))
    exact = answered(question, margins)
    return released(of_rounded_counts(question, exact, margins, USUAL_RULES), USUAL_RULES)


@pytest.mark.parametrize("kind", [Analysis.CROSSTAB, Analysis.NAIVE_BAYES, Analysis.CORRESPONDENCE])
def test_tables_with_the_same_rounded_counts_have_the_same_answer(kind):
    """Any two tables inside the rounding give every number alike, so none says which one it is."""
    rng = np.random.default_rng(1)
    text = "~ a + b" if kind is Analysis.CORRESPONDENCE else "a ~ b"
    nearest = np.array([20, 35, 50, 25, 60, 40])
    answers = set()
    for _ in range(8):
        pairs = nearest + rng.integers(-2, 3, 6)
        counts = np.zeros((2, 3, 2), dtype=np.int64)
        counts[:, :, 0] = pairs.reshape(2, 3)
        answers.add(str(released_answer(text, counts.ravel(), kind).to_json()))
    assert len(answers) == 1


@pytest.mark.parametrize("seed", range(10))
def test_expected_counts_and_residuals_do_not_undo_rounding(seed):
    """The exact table is not the one of its neighbourhood that the derived numbers fit best."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((2, 3, 2), dtype=np.int64)
    counts[:, 0] = 5 * rng.integers(10, 30, (2, 2)) + rng.choice([-2, -1, 1, 2], (2, 2))
    answer = released_answer("a ~ c", counts.ravel())
    rounded, expected, residuals = (
        np.array(answer.table(name).values, dtype=float)
        for name in ("counts", "expected", "standardized_resids")
    )

    def gap(table):
        return (
            np.abs(crosstabs.expected_counts(table) - expected).max()
            + np.abs(crosstabs.adjusted_residuals(table) - residuals).max()
        )

    assert gap(rounded) < gap(counts[:, 0].T.astype(float))
    assert answer.n == rounded.sum()


def test_a_table_inside_another_one_is_its_sum():
    answer = released_answer("a ~ c + b:c", np.full(12, 13))
    inside, wide = answer.table("counts[c × a]"), answer.tables
    strata = [np.array(one.values, dtype=float) for one in wide if one.name.startswith("counts[")]
    assert np.array(inside.values, dtype=float).sum() == answer.n
    assert all(np.all(table % 5 == 0) for table in strata)


def test_two_tables_whose_sums_leave_one_table_wait():
    """With one level of b, both tables have the same margin, rounded in two ways."""
    question = read_question("a ~ b + c", Analysis.CROSSTAB, CODING)

    def undone(zero, one):
        counts = np.zeros((2, 3, 2), dtype=np.int64)
        counts[:, 0] = zero, one
        return undoes_rounding(
            question, RecordMargins.of(Dataset(CODING.domain, CELLS.repeat(counts.ravel(), axis=0))),
            USUAL_RULES,
        )  # fmt: skip

    assert not undone((20, 20), (30, 25))
    # 22 and 22 are 20 and 20, but 44 is 45: each is then 21 or 22
    assert undone((22, 22), (30, 25))
