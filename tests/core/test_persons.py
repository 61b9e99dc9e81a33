"""Noise that protects persons: what a person with at most k records moves, by brute force."""

from decimal import Decimal
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.card import privacy
from gencard.core.card.budget import MOST_RECORDS, Neighbouring
from gencard.core.card.privacy import gaussian, laplace
from gencard.core.errors import InvalidNumberError
from gencard.core.statistics.linear import Function, LinearStatistic
from gencard.core.statistics.noise import sensitivity

ADD, REPLACE = Neighbouring.ADD_REMOVE, Neighbouring.REPLACE_ONE
NOISES = {1: laplace, 2: gaussian}


def of_persons(norm, relation, most_records):
    noise = NOISES[norm](1, neighbouring=relation)
    return noise.__class__(relation, Decimal(1), most_records=most_records)


def differences(values, relation, k):
    """Differences of the sums over neighbouring datasets: shape (pairs, functions)."""
    cells = values.shape[1]
    persons = [
        values[:, list(records)].sum(axis=1)
        for number in range(k + 1)
        for records in combinations_with_replacement(range(cells), number)
    ]
    if relation is ADD:
        return np.array(persons)
    return np.array([one - other for one, other in product(persons, persons)])


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("relation", Neighbouring)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_marginal_moves_by_just_so_much_at_worst(k, relation, norm):
    moved = np.abs(differences(np.eye(3, dtype=int), relation, k)) ** norm
    assert of_persons(norm, relation, k).moved == moved.sum(axis=1).max()


@given(st.data(), st.integers(2, 3), st.sampled_from(Neighbouring), st.sampled_from([1, 2]))
def test_sums_move_by_just_so_much_at_worst(data, k, relation, norm):
    values = st.lists(st.integers(-4, 4), min_size=3, max_size=3)
    rows = [[1, 1, 1], *data.draw(st.lists(values.filter(any), min_size=1, max_size=2))]
    functions = tuple(Function(str(place), tuple(row)) for place, row in enumerate(rows))
    statistic = LinearStatistic(("a",), functions)
    scaled = np.array([[Fraction(v, max(map(abs, row))) for v in row] for row in rows], dtype=object)
    worst = (np.abs(differences(scaled, relation, k)) ** norm).sum(axis=1).max()
    most = sensitivity(statistic, relation, norm, most_records=k)
    assert worst <= most <= worst * Fraction(1_000_000_002, 1_000_000_000)


@given(st.sampled_from(privacy.NOISES), st.decimals("0.001", 100, places=3), st.integers(1, 50))
def test_noise_for_persons_is_the_noise_for_a_record_with_less_budget(kind, amount, k):
    """Pure epsilon divides by k and zCDP by its square: the two ways to say the same noise agree."""
    one = kind(ADD, amount)
    person = one.for_person(k)
    assert person.scale(person.moved, Fraction(person.budget)) == one.scale(
        one.moved, Fraction(one.budget)
    )


@pytest.mark.parametrize("number", [0, -1, MOST_RECORDS + 1])
def test_a_number_of_records_that_makes_no_sense_is_refused(number):
    with pytest.raises(InvalidNumberError):
        of_persons(1, ADD, number)


def test_it_is_said_in_words():
    assert (
        str(of_persons(1, ADD, 3)) == "laplace, epsilon 1, add-remove, a person with at most 3 records"
    )
    assert str(of_persons(2, REPLACE, 1)).endswith("replace-one, a person with at most 1 record")
