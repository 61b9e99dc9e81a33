"""Marginal error and gaps against another program on census income, and by hand."""

import json

import numpy as np
import pytest

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import DomainMismatchError, InvalidInputError
from gencard.core.statistics.marginals import count
from gencard.measures.utility.fidelity import Gap, gap_error, gaps
from gencard.measures.utility.table_utility import marginal_error
from tests.core.oracles import coded, read
from tests.shared_data import oracle_file

CLIQUE = ("income", "occupation", "sex")


@pytest.fixture(scope="module")
def adult():
    """Training, holdout and synthetic records; an occupation is "", "*" or one of 14 names."""
    parts = ("train", "holdout", "synthetic")
    return dict(
        zip(parts, coded(*(f"metrics/adult_clearbox_{part}.csv" for part in parts)), strict=True)
    )


@pytest.fixture(scope="module")
def oracle():
    return json.loads(oracle_file("metrics/utility_tables_adult.json").read_text())[
        "marginal_rmse_and_gap"
    ]


@pytest.mark.shared
@pytest.mark.parametrize("part", ["synthetic", "holdout"])
class TestAnotherProgramSaysTheSame:
    def test_of_two_attributes(self, adult, oracle, part):
        found = marginal_error(adult["train"], adult[part], ("sex", "income"))
        assert found == pytest.approx(oracle[part]["rmse_2way_sex_income"], rel=1e-12)

    def test_of_three_attributes(self, adult, oracle, part):
        """The oracle leaves out the 8 cells of unnamed occupations: they are put back here."""
        ours, theirs = (count(adult[name], CLIQUE) / len(adult[name]) for name in ("train", part))
        left_out = ((ours - theirs)[:, :2] ** 2).sum()
        expected = oracle[part]["rmse_3way"] ** 2 * (ours.size - 8) + left_out
        found = marginal_error(adult["train"], adult[part], CLIQUE)
        assert found**2 * ours.size == pytest.approx(expected, rel=1e-12)

    def test_of_gaps(self, adult, oracle, part):
        rows = read("metrics/adult_clearbox_train.csv")
        incomes, sexes = (sorted({row[name] for row in rows}) for name in ("income", "sex"))
        gap = Gap(
            "sex",
            (sexes.index("Male"), sexes.index("Female")),
            "occupation",
            ("income", (incomes.index(">50K"),)),
        )
        assert sorted({row["occupation"] for row in rows})[1:] == oracle["occupations"]
        np.testing.assert_allclose(gaps(adult["train"], gap)[2:], oracle["train_gap"], rtol=1e-12)
        np.testing.assert_allclose(gaps(adult[part], gap)[2:], oracle[part]["gap"], rtol=1e-12)
        differences = gaps(adult["train"], gap) - gaps(adult[part], gap)
        expected = oracle[part]["gap_rmse"] ** 2 * 14 + (differences[:2] ** 2).sum()
        assert gap_error(adult["train"], adult[part], gap) ** 2 * 16 == pytest.approx(
            expected, rel=1e-12
        )


DOMAIN = Domain.of({"active": 3, "work": 3, "sex": 2})
GAP = Gap("sex", (0, 1), "work", ("active", (0, 2)))


def test_gaps_by_hand():
    """Work 0: two of one sex and one of the other; work 1: one of the other; work 2: nobody active."""
    records = [[0, 0, 0], [2, 0, 0], [2, 0, 1], [0, 1, 1], [1, 1, 0], [1, 2, 0]]
    dataset = Dataset(DOMAIN, np.array(records))
    np.testing.assert_allclose(gaps(dataset, GAP), [1 / 3, -1, 0])
    other = Dataset(DOMAIN, np.array([[0, 0, 0]]))
    assert gap_error(dataset, other, GAP) == pytest.approx(np.sqrt(((2 / 3) ** 2 + 1) / 3))


def test_error_by_hand():
    one, other = (
        Dataset(Domain.of({"a": 4}), np.array(codes)[:, None]) for codes in ([0, 1], [0, 0, 0, 0])
    )
    assert marginal_error(one, other, ("a",)) == pytest.approx(np.sqrt((0.25 + 0.25) / 4))
    assert marginal_error(one, one, ("a",)) == 0


def test_domains_must_agree_and_hold_records():
    one, other = (Dataset(Domain.of({"a": size}), np.array([[0]])) for size in (2, 3))
    with pytest.raises(DomainMismatchError):
        marginal_error(one, other, ("a",))
    with pytest.raises(DomainMismatchError):
        gap_error(one, other, GAP)
    with pytest.raises(InvalidInputError, match="no record"):
        marginal_error(one, one.take(np.arange(0)), ("a",))
