"""Rows without replicated uniques: exactly as many, all drawn, and none a unique record's twin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import ComputationError, DomainMismatchError, InvalidNumberError
from gencard.measures.privacy.disclosure import replicated_rows, unique_free

DOMAIN = Domain.of({"a": 4, "b": 5})


def dataset(records, seed):
    rng = np.random.default_rng(seed)
    return Dataset.of_columns(DOMAIN, [rng.integers(0, size, records) for size in DOMAIN.sizes])


@given(st.integers(0, 40), st.integers(0, 20), st.integers(0, 10**6))
def test_as_many_rows_and_no_twin(records, rows, seed):
    original, drawn = dataset(records, seed), dataset(rows + 60, seed + 1)
    try:
        found = unique_free(original, drawn, rows)
    except ComputationError:
        return
    assert len(found) == rows
    assert not len(replicated_rows(original, found))
    assert {tuple(row) for row in found.codes.tolist()} <= {tuple(row) for row in drawn.codes.tolist()}


def test_what_is_no_twin_stays_in_its_place():
    original = Dataset(DOMAIN, np.array([[0, 0], [1, 1], [1, 1]]))
    drawn = Dataset(DOMAIN, np.array([[1, 1], [0, 0], [3, 3], [2, 2]]))
    assert unique_free(original, drawn, 3).codes.tolist() == [[1, 1], [2, 2], [3, 3]]


def test_a_vacant_place_may_be_taken_by_another_twin_and_is_vacant_again():
    original = Dataset(DOMAIN, np.array([[0, 0], [0, 1]]))
    drawn = Dataset(DOMAIN, np.array([[0, 0], [0, 1], [2, 2]]))
    assert unique_free(original, drawn, 1).codes.tolist() == [[2, 2]]


def test_where_nothing_is_left_it_says_no_number():
    original = Dataset(DOMAIN, np.array([[0, 0]]))
    with pytest.raises(ComputationError) as refused:
        unique_free(original, original, 1)
    assert not any(letter.isdigit() for letter in str(refused.value))


def test_bad_input():
    with pytest.raises(InvalidNumberError):
        unique_free(dataset(3, 1), dataset(3, 2), 4)
    with pytest.raises(DomainMismatchError):
        unique_free(dataset(3, 1).project(("a",)), dataset(3, 2), 1)
