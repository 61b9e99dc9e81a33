from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given

from gencard.core.card.budget import Neighbouring
from gencard.core.card.privacy import InsideGenerator, Laplace
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import (
    InvalidCliqueError,
    InvalidInputError,
    InvalidPsiError,
    UnknownAttributeError,
)
from gencard.core.statistics.measure import measure, measure_dataset
from tests.core.strategies import brute_count, measured

DOMAIN = Domain.of({"sex": 2, "age": 3, "health": 2})


class Source:
    """Answers with given tables, whatever is asked."""

    def __init__(self, *tables):
        self.tables = [np.array(table) for table in tables]
        self.asked = []

    def count(self, cliques):
        self.asked.append(tuple(cliques))
        return self.tables


@given(measured())
def test_psi_is_the_counts_in_the_order_asked_for(drawn):
    dataset, cliques = drawn
    psi = measure_dataset(dataset, cliques)
    assert psi.cliques == cliques
    assert psi.exact
    for measurement in psi.measurements:
        np.testing.assert_array_equal(measurement.values, brute_count(dataset, measurement.clique))


def test_psi_says_nothing_of_attributes_that_no_clique_names():
    dataset = Dataset(DOMAIN, np.array([[0, 2, 1], [1, 0, 1]]))
    assert measure_dataset(dataset, [("health",), ("sex",)]).domain == Domain.of({"sex": 2, "health": 2})


def test_the_records_are_looked_at_once():
    source = Source([1, 1], [1, 0, 1])
    measure(source, [("sex",), ("age",)], DOMAIN)
    assert source.asked == [(("sex",), ("age",))]


@pytest.mark.parametrize(
    "tables",
    [([1, 1],), ([1, 1], [1, 1]), ([1, 1], [1, 1, 1]), ([3, -1], [1, 0, 1]), ([1.5, 0.5], [1, 0, 1])],
    ids=["too few", "wrong shape", "other total", "negative", "not counts"],
)
def test_a_source_that_cannot_be_right_is_refused(tables):
    with pytest.raises(InvalidPsiError):
        measure(Source(*tables), [("sex",), ("age",)], DOMAIN)


def test_nothing_is_counted_for_a_clique_that_is_refused():
    source = Source([1, 1])
    with pytest.raises(UnknownAttributeError):
        measure(source, [("income",)], DOMAIN)
    with pytest.raises(InvalidCliqueError):
        measure(source, [("sex", "sex")], DOMAIN)
    assert source.asked == []


def test_no_record_is_no_psi():
    with pytest.raises(InvalidPsiError, match="no record"):
        measure_dataset(Dataset(DOMAIN, np.empty((0, 3), dtype=int)), [("sex",)])


@pytest.mark.parametrize("noise", [None, object()])
def test_a_card_of_tier_private_measures_no_psi(noise):
    source, privacy = Source([1, 1]), InsideGenerator(Laplace(Neighbouring.ADD_REMOVE, Decimal(1)))
    with pytest.raises(InvalidInputError, match="measures no psi"):
        measure(source, [("sex",)], DOMAIN, privacy, noise=noise)
    assert source.asked == []
