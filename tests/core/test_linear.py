"""Linear statistics: what they sum, how they are measured, how far a record moves them."""

from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.card.budget import Neighbouring
from gencard.core.card.privacy import Transform, gaussian, laplace
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.errors import (
    InvalidCodingError,
    InvalidInputError,
    InvalidNumberError,
    InvalidPsiError,
    UnknownAttributeError,
)
from gencard.core.generators.contract import admitted
from gencard.core.statistics.linear import (
    LARGEST_VALUE,
    Function,
    LinearStatistic,
    by_group,
    covariance,
    mean,
    numbers,
    variance,
)
from gencard.core.statistics.measure import measure, measure_dataset
from gencard.core.statistics.noise import sensitivity, sum_scales
from gencard.core.statistics.psi import LinearMeasurement, Psi, check_consistent
from tests.core.strategies import summed
from tests.core.tables import moment

AGE = Attribute("age", Edges((0.0, 0.5, 10.0, 25.0)))
SCORE = Attribute("score", Labels(("-2", "0", "0.1"), missing=True))
SEX = Attribute("sex", Labels(("f", "m")))
CODING = Coding((AGE, SCORE, SEX))
RECORDS = Dataset(
    CODING.domain, np.array([cell for cell in np.ndindex(3, 4, 2) for _ in range(sum(cell) + 1)])
)
AGES = np.array([0.25, 5.25, 17.5])[RECORDS.column("age")]
SCORES = np.array([-2, 0, 0.1, np.nan])[RECORDS.column("score")]
FEMALE = RECORDS.column("sex") == 0
PRESENT = ~np.isnan(SCORES)


def means(statistic):
    (linear,) = measure_dataset(RECORDS, [statistic]).linear
    return dict(
        zip([function.name for function in statistic.functions], linear.means.tolist(), strict=True)
    )


class TestNumbers:
    def test_intervals_stand_for_their_midpoints_and_labels_for_themselves(self):
        assert numbers(AGE) == (Fraction(1, 4), Fraction(21, 4), Fraction(35, 2))
        assert numbers(SCORE) == (Fraction(-2), Fraction(0), Fraction(1, 10), None)

    @pytest.mark.parametrize("label", ["f", "nan", "inf", "1/0", ""])
    def test_labels_that_are_no_numbers_are_refused(self, label):
        with pytest.raises(InvalidCodingError, match="not a number"):
            numbers(Attribute("x", Labels(("1", label))))


class TestMakers:
    """Against numpy, on records whose missing values are NaN."""

    def test_mean_and_variance(self):
        found = means(variance(AGE))
        assert means(mean(AGE))["age"] == pytest.approx(AGES.mean())
        assert found["age ^ 2"] - found["age"] ** 2 == pytest.approx(AGES.var())

    def test_missing_values_are_left_out_and_counted(self):
        found = means(mean(SCORE))
        assert found["score present"] == pytest.approx(PRESENT.mean())
        assert found["score"] / found["score present"] == pytest.approx(np.nanmean(SCORES))

    def test_moment(self):
        assert means(moment(AGE, 3))["age ^ 3"] == pytest.approx((AGES**3).mean())

    def test_covariance_of_the_records_with_both(self):
        found = means(covariance(AGE, SCORE))
        x, y, xy = (
            found[name] / found["age and score present"] for name in ("age", "score", "age * score")
        )
        expected = np.cov(AGES[PRESENT], SCORES[PRESENT], bias=True)[0, 1]
        assert xy - x * y == pytest.approx(expected)

    def test_sums_and_means_by_group(self):
        expected = np.nanmean(np.where(FEMALE, SCORES, np.nan))
        found = means(by_group(SEX, SCORE, counts=True))
        assert found["score where sex is f"] / found["1 where sex is f"] == pytest.approx(expected)
        assert means(by_group(SEX, AGE, counts=False))["age where sex is m"] == pytest.approx(
            AGES[~FEMALE].sum() / len(RECORDS)
        )

    def test_sums_are_whole_numbers_on_a_declared_grid(self):
        (linear,) = measure_dataset(RECORDS, [variance(AGE)]).linear
        assert linear.values.dtype == np.int64
        assert linear.statistic.denominators.tolist() == [1, 4, 16]
        assert linear.values[1] == round(4 * AGES.sum())

    def test_numbers_too_fine_or_too_large_are_refused(self):
        with pytest.raises(InvalidNumberError, match="coarser"):
            moment(AGE, 8)
        with pytest.raises(InvalidNumberError):
            moment(AGE, 9)

    def test_one_attribute_twice_is_refused(self):
        for maker in (covariance, partial(by_group, counts=True)):
            with pytest.raises(InvalidInputError, match="not repeat"):
                maker(AGE, AGE)


class TestStatistic:
    @pytest.mark.parametrize(
        "functions",
        [
            (),
            (Function("1", (1, 1)),),
            (Function("x", (0, 1)), Function("1", (1, 1))),
            (Function("1", (1, 1)), Function("x", (0, 1, 2))),
            (Function("1", (1, 1)), *(Function("x", (0, 1)),) * 1_000),
        ],
        ids=["none", "constant alone", "constant last", "other cells", "too many"],
    )
    def test_is_checked(self, functions):
        with pytest.raises(InvalidInputError):
            LinearStatistic(("a",), functions)

    @pytest.mark.parametrize(
        ("values", "denominator"),
        [((0, 0), 1), ((1, LARGEST_VALUE + 1), 1), ((1, 0.5), 1), ((1, 2), 0), ((1, True), 1)],
    )
    def test_functions_are_checked(self, values, denominator):
        with pytest.raises(InvalidNumberError):
            Function("x", values, denominator)

    def test_it_must_fit_the_domain(self):
        with pytest.raises(InvalidInputError, match="each cell"):
            measure_dataset(RECORDS, [LinearStatistic(("sex",), mean(AGE).functions)])
        with pytest.raises(UnknownAttributeError):
            measure_dataset(RECORDS, [LinearStatistic(("z",), mean(AGE).functions)])


class TestMeasuring:
    @given(drawn=summed())
    def test_sums_are_those_of_the_definition(self, drawn):
        dataset, statistic = drawn
        (linear,) = measure_dataset(dataset, [statistic]).linear
        sizes = dataset.domain.project(statistic.clique).sizes
        cells = [
            np.ravel_multi_index(record, sizes) for record in dataset.project(statistic.clique).codes
        ]
        expected = [sum(function.values[cell] for cell in cells) for function in statistic.functions]
        assert linear.values.tolist() == expected
        assert linear.values[0] == len(dataset)

    def test_they_stand_beside_marginals_in_the_card_s_order(self):
        psi = measure_dataset(RECORDS, [("sex",), mean(AGE), covariance(AGE, SCORE)])
        assert psi.cliques == (("sex",),)
        assert [linear.statistic for linear in psi.linear] == [mean(AGE), covariance(AGE, SCORE)]
        assert psi.domain == RECORDS.domain.project(("age", "score", "sex"))
        assert psi.exact

    def test_a_marginal_after_them_is_refused(self):
        with pytest.raises(InvalidInputError, match="marginals before"):
            measure_dataset(RECORDS, [mean(AGE), ("sex",)])

    def test_generators_of_marginals_refuse_them(self):
        psi = measure_dataset(RECORDS, [("sex",), mean(AGE)])
        with pytest.raises(InvalidPsiError, match="linear"):
            admitted(psi, RECORDS.domain)

    def test_they_are_not_rounded(self):
        with pytest.raises(InvalidInputError, match="only for counts"):
            measure(None, [mean(AGE)], RECORDS.domain, transform=Transform(rounding=5))

    @pytest.mark.parametrize(
        ("values", "stddevs", "problem"),
        [
            ([1, 2], [0.0, 0.0, 0.0], "one value"),
            ([1, 2, np.nan], [0.0, 0.0, 0.0], "finite"),
            ([1, 2, 3], [0.0, np.inf, 0.0], "finite"),
            ([1, 2, 3], [0.0, -1.0, 0.0], "stddev"),
        ],
    )
    def test_psi_is_checked(self, values, stddevs, problem):
        linear = LinearMeasurement(variance(AGE), np.array(values), np.array(stddevs))
        with pytest.raises(InvalidPsiError, match=problem):
            Psi(RECORDS.domain, (), (linear,))

    @pytest.mark.parametrize(
        ("values", "problem"),
        [([0, 0], "no record"), ([3, 4 * 18 * 3], "out of range"), ([3, 0], "out of range")],
    )
    def test_sums_of_no_records_are_refused(self, values, problem):
        linear = LinearMeasurement(mean(AGE), np.array(values), np.zeros(2))
        with pytest.raises(InvalidPsiError, match=problem):
            check_consistent(Psi(RECORDS.domain, (), (linear,)))

    def test_the_number_of_records_must_agree(self):
        psi = measure_dataset(RECORDS, [("sex",), mean(AGE)])
        fewer = measure_dataset(RECORDS.take(np.arange(7)), [mean(AGE)])
        with pytest.raises(InvalidPsiError, match="number of records"):
            check_consistent(Psi(RECORDS.domain, psi.measurements, fewer.linear))


class Recorded:
    """Draws no noise, and remembers the scales."""

    def __init__(self):
        self.scales = []

    def laplace(self, counts, scale):
        self.scales += [scale] * counts.size
        return counts

    gaussian = laplace


class TestNoise:
    @given(drawn=summed(), norm=st.sampled_from([1, 2]), relation=st.sampled_from(Neighbouring))
    def test_sensitivity_is_that_of_the_worst_record(self, drawn, norm, relation):
        _, statistic = drawn
        scaled = [[Fraction(v, f.largest) for v in f.values] for f in statistic.functions]
        cells = list(zip(*scaled, strict=True))
        pairs = product(cells, cells if relation is Neighbouring.REPLACE_ONE else [[0] * len(scaled)])
        worst = max(
            sum(abs(a - b) ** norm for a, b in zip(one, other, strict=True)) for one, other in pairs
        )
        found = sensitivity(statistic, relation, norm)
        assert worst <= found <= (worst or 1) * Fraction(1_000_000_002, 1_000_000_000)

    def test_of_too_many_pairs_a_bound_is_taken(self):
        cells = 20_000
        functions = (
            Function("1", (1,) * cells),
            Function("x", tuple(range(cells))),
            Function("y", (3,) * cells),
        )
        statistic = LinearStatistic(("a",), functions)
        assert 1 <= sensitivity(statistic, Neighbouring.REPLACE_ONE, 1) == pytest.approx(2)
        assert sensitivity(statistic, Neighbouring.REPLACE_ONE, 2) == pytest.approx(4)

    def test_sums_by_group_cost_as_much_as_one_group(self):
        """Two sums, of which a record moves one, beside the number of records."""
        sums = by_group(SEX, AGE, counts=False)
        assert sensitivity(sums, Neighbouring.ADD_REMOVE, 1) == pytest.approx(2)

    @pytest.mark.parametrize("relation", Neighbouring)
    def test_the_scales_spend_the_budget_and_no_more(self, relation):
        """The privacy loss of the worst record, summed over the sums: Laplace by L1, Gauss by L2."""
        statistic = variance(AGE)
        values = np.array([function.values for function in statistic.functions], dtype=float)
        moved = (
            values
            if relation is Neighbouring.ADD_REMOVE
            else (values[:, :, None] - values[:, None, :]).reshape(len(values), -1)
        )
        for privacy, budget, loss in (
            (laplace("0.5", neighbouring=relation), 0.5, lambda s: (np.abs(moved) / s).sum(axis=0)),
            (gaussian("0.2", neighbouring=relation), 0.2, lambda s: (moved**2 / (2 * s**2)).sum(axis=0)),
        ):
            scales = np.array(sum_scales(statistic, privacy, Fraction(Decimal(str(budget)))))[:, None]
            assert 0.999 * budget < loss(scales).max() <= budget

    def test_weights_divide_the_budget_among_marginals_and_statistics(self):
        noise, privacy = Recorded(), laplace(1, neighbouring="add-remove")
        dataset = RECORDS.project(("age", "sex"))
        psi = measure(
            _Counting(dataset),
            [("sex",), by_group(SEX, AGE, counts=False)],
            dataset.domain,
            privacy,
            noise=noise,
            weights=[1, 3],
        )
        unit = 2 / 0.75
        largest = [f.largest for f in by_group(SEX, AGE, counts=False).functions]
        assert noise.scales == pytest.approx([4.0, 4.0, *(unit * each for each in largest)], rel=1e-6)
        (linear,) = psi.linear
        assert not psi.exact
        assert linear.stddevs == pytest.approx([privacy.stddev(scale) for scale in noise.scales[2:]])


class _Counting:
    def __init__(self, dataset):
        self._dataset = dataset

    def count(self, cliques):
        psi = measure_dataset(self._dataset, cliques)
        return [measurement.values for measurement in psi.measurements]
