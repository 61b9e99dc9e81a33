"""Moments: linear statistics by name, and the functions that they stand for."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.card.privacy import Transform, laplace
from gencard.core.card.sums import Moment, MomentKind
from gencard.core.card.terms import Proposal
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import (
    InvalidCodingError,
    InvalidInputError,
    InvalidNumberError,
    UnknownAttributeError,
)
from gencard.core.statistics.linear import (
    LinearStatistic,
    are_functions_of,
    numbers,
    statistic_of,
    statistics_of,
)
from gencard.core.statistics.measure import measure_dataset
from gencard.core.typed_json import PLAIN

CODING = Coding(
    (
        Attribute("sex", Labels(("f", "m"))),
        Attribute("age", Edges((0.0, 20.0, 50.0, 90.0), missing=True)),
        Attribute("score", Labels(("1", "2", "5"))),
    )
)
DOMAIN = CODING.domain


def proposal(*moments, marginals=(), **more):
    return Proposal("datasets/x", "to see", marginals, "maximum-entropy", 10, moments=moments, **more)


def every_moment(domain):
    for kind in MomentKind:
        for one in domain.attributes:
            for other in domain.attributes if kind.attributes == 2 else ("",):
                if one != other:
                    order = 3 if kind is MomentKind.MOMENT else 0
                    yield Moment(kind, (one, other)[: kind.attributes], order)


class TestMoment:
    @pytest.mark.parametrize(
        ("kind", "attributes", "order", "error"),
        [
            (MomentKind.MEAN, (), 0, InvalidInputError),
            (MomentKind.MEAN, ("a", "b"), 0, InvalidInputError),
            (MomentKind.COVARIANCE, ("a",), 0, InvalidInputError),
            (MomentKind.COVARIANCE, ("a", "a"), 0, InvalidInputError),
            (MomentKind.MEAN, ("a",), 1, InvalidNumberError),
            (MomentKind.MOMENT, ("a",), 0, InvalidNumberError),
            (MomentKind.MOMENT, ("a",), 9, InvalidNumberError),
        ],
    )
    def test_what_is_none_is_refused(self, kind, attributes, order, error):
        with pytest.raises(error):
            Moment(kind, attributes, order)

    def test_it_says_what_it_is(self):
        said = [str(moment) for moment in every_moment(Domain.of({"age": 2, "sex": 2}))]
        assert "moment 3 of age" in said
        assert "means of age by sex" in said
        assert len(set(said)) == len(said)

    def test_it_releases_no_more_functions_than_it_says(self):
        for moment in every_moment(DOMAIN):
            if (
                "sex"
                in moment.attributes[moment.kind in (MomentKind.GROUP_SUMS, MomentKind.GROUP_MEANS) :]
            ):
                continue
            statistic = statistic_of(moment, CODING)
            assert statistic.clique == moment.attributes
            assert len(statistic.functions) <= 1 + moment.functions(DOMAIN)
            assert len(statistic.functions) * len(statistic.functions[0].values) <= moment.values(DOMAIN)

    def test_numbers_must_be_declared(self):
        with pytest.raises(InvalidCodingError, match="sex"):
            statistics_of([Moment(MomentKind.MEAN, ("sex",))], CODING)
        with pytest.raises(UnknownAttributeError):
            statistics_of([Moment(MomentKind.MEAN, ("z",))], CODING)

    def test_its_functions_go_through_json_without_loss(self):
        for moment in (
            Moment(MomentKind.GROUP_MEANS, ("sex", "age")),
            Moment(MomentKind.MOMENT, ("score",), 4),
        ):
            statistic = statistic_of(moment, CODING)
            assert PLAIN.read(LinearStatistic, PLAIN.write(statistic), field="linear") == statistic


@st.composite
def edges_with_step(draw):
    """Edges whose intervals hold few enough values to write them all."""
    decimals = draw(st.integers(0, 2))
    steps = draw(st.lists(st.integers(1, 40), min_size=1, max_size=5))
    units = np.cumsum([draw(st.integers(-300, 300)), *steps])
    edges = tuple(float(unit) / 10**decimals for unit in units)
    return Edges(edges, decimals=decimals, dates=decimals == 0 and draw(st.booleans()))


class TestAnIntervalCountsAsTheMeanOfTheValuesItCanHold:
    @given(edges_with_step())
    def test_as_all_values_written_down(self, edges):
        unit = Fraction(1, 10**edges.decimals)
        ends = [round(edge / unit) for edge in edges.edges]
        last = len(ends) - 2
        held = [
            [place * unit for place in range(low, high + (at == last))]
            for at, (low, high) in enumerate(pairwise(ends))
        ]
        means = [sum(values) / len(values) for values in held]
        assert list(numbers(Attribute("x", edges))) == means
        np.testing.assert_allclose(edges.midpoints, list(map(float, means)), rtol=0, atol=1e-12)

    def test_records_of_zero_have_a_mean_of_zero(self):
        coding = Coding((Attribute("x", Edges((0.0, 1.0, 2.0, 3.0), decimals=0)),))
        psi = measure_dataset(
            Dataset(coding.domain, np.zeros((10, 1), dtype=int)),
            statistics_of([Moment(MomentKind.VARIANCE, ("x",))], coding),
        )
        (measured,) = psi.linear
        assert measured.values.tolist() == [10, 0, 0]

    @pytest.mark.parametrize("edges", [(0.0, 500.0, 1_000.0), (0.0, 0.37, 40_000.0)])
    def test_a_grid_too_fine_for_squares_is_rounded_as_little_as_can_be(self, edges):
        attribute = Attribute("price", Edges(edges, decimals=2))
        coding = Coding((attribute,))
        _, mean, squares = statistic_of(Moment(MomentKind.VARIANCE, ("price",)), coding).functions
        exact = [number**2 for number in numbers(attribute)]
        assert [Fraction(value, mean.denominator) for value in mean.values] == list(numbers(attribute))
        assert all(
            abs(Fraction(value, squares.denominator) - right) <= Fraction(1, 2 * squares.denominator)
            for value, right in zip(squares.values, exact, strict=True)
        )
        assert max(squares.values) >= 10**6

    def test_functions_of_the_first_cards_are_known(self):
        edges = Edges((0.0, 1.0, 2.0, 3.0), decimals=0)
        coding, real = (Coding((Attribute("x", one),)) for one in (edges, replace(edges, decimals=None)))
        moments = [Moment(MomentKind.VARIANCE, ("x",))]
        now, before = statistics_of(moments, coding), statistics_of(moments, real)
        assert now != before
        assert are_functions_of(now, moments, coding)
        assert are_functions_of(before, moments, coding)
        assert not are_functions_of(now, moments, real)
        others = statistics_of([Moment(MomentKind.MEAN, ("x",))], coding)
        assert not are_functions_of(others, moments, coding)


class TestProposal:
    @given(st.permutations(list(every_moment(DOMAIN))), st.integers(1, 6))
    def test_order_is_one_and_weights_stay_with_their_moments(self, moments, number):
        chosen = tuple(dict.fromkeys(m.in_order_of(DOMAIN) for m in moments[:number]))
        weights = tuple(range(1, len(chosen) + 3))
        asked = proposal(
            *chosen,
            marginals=(("age", "sex"), ("score",)),
            privacy=laplace(1, neighbouring="add-remove"),
            weights=weights,
        )
        ordered = asked.in_order_of(DOMAIN)
        assert ordered == ordered.in_order_of(DOMAIN)
        assert ordered.marginals == (("score",), ("sex", "age"))
        assert ordered.weights[:2] == (2, 1)
        assert dict(zip(ordered.moments, ordered.weights[2:], strict=True)) == dict(
            zip(chosen, weights[2:], strict=True)
        )

    def test_two_names_of_one_covariance_are_one_too_many(self):
        two = (Moment(MomentKind.COVARIANCE, pair) for pair in (("age", "score"), ("score", "age")))
        with pytest.raises(InvalidInputError, match="not repeat"):
            proposal(*two).in_order_of(DOMAIN)

    def test_moments_do_without_marginals_and_not_with_transforms(self):
        mean = Moment(MomentKind.MEAN, ("age",))
        assert proposal(mean).cliques == (("age",),)
        with pytest.raises(InvalidInputError, match="at least one statistic"):
            proposal()
        with pytest.raises(InvalidInputError, match="transform"):
            proposal(mean, transform=Transform(rounding=5))
        with pytest.raises(InvalidInputError, match="one entry for each"):
            proposal(mean, privacy=laplace(1, neighbouring="add-remove"), weights=(1, 2))


def test_declared_numbers_are_what_a_moment_sums():
    statistic = statistic_of(Moment(MomentKind.GROUP_MEANS, ("sex", "age")), CODING)
    assert [function.name for function in statistic.functions] == [
        "1",
        "1 where sex is f",
        "age where sex is f",
        "1 where sex is m",
        "age where sex is m",
    ]
    ages = statistic.numerators[2] / statistic.denominators[2]
    np.testing.assert_array_equal(ages.reshape(2, 4), [[10, 35, 70, 0], [0, 0, 0, 0]])
