"""Terms without an attribute: a steward leaves out all its statistics, with their weights."""

from dataclasses import replace

import pytest

from gencard.controller.stewards.cards import without_attributes
from gencard.core.card.privacy import gaussian
from gencard.core.card.sums import Sum
from gencard.core.card.terms import Analyses, Proposal
from gencard.core.errors import InvalidInputError

TERMS = Proposal(
    dataset="datasets/d",
    purpose="a test",
    marginals=(("a", "b"), ("b", "c"), ("c", "d")),
    generator="maximum-entropy",
    rows=10,
    privacy=gaussian("0.5", neighbouring="add-remove"),
    weights=(1, 2, 3, 4, 5, 6, 7),
    histograms=("b", "c"),
    sums=(Sum(("c",)), Sum(("c",), ("a",))),
)


@pytest.mark.parametrize(
    ("left_out", "marginals", "histograms", "sums", "weights"),
    [
        (("a",), (("b", "c"), ("c", "d")), ("b", "c"), (Sum(("c",)),), (2, 3, 4, 5, 6)),
        (("b",), (("c", "d"),), ("c",), TERMS.sums, (3, 5, 6, 7)),
        (("b", "d"), (), ("c",), TERMS.sums, None),
        (("c",), (("a", "b"),), ("b",), (), (1, 4)),
    ],
)
def test_statistics_about_an_attribute_go_with_their_weights(
    left_out, marginals, histograms, sums, weights
):
    if weights is None:  # a card needs a marginal
        with pytest.raises(InvalidInputError, match="marginals"):
            without_attributes(TERMS, frozenset(left_out))
        return
    assert without_attributes(TERMS, frozenset(left_out)) == replace(
        TERMS, marginals=marginals, histograms=histograms, sums=sums, weights=weights
    )


def test_programs_do_not_get_the_numbers_of_an_attribute_that_is_left_out():
    analyses = Analyses(programs=("a" * 64,), reviewed_runs=2, columns=("c", "d"))
    offered = without_attributes(replace(TERMS, analyses=analyses), frozenset({"d"}))
    assert offered.analyses == replace(analyses, columns=("c",))


def test_an_attribute_that_no_statistic_is_about():
    with pytest.raises(InvalidInputError, match="without"):
        without_attributes(TERMS, frozenset({"e"}))
