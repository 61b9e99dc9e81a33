import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.dataset import Dataset, check_same_domain, code_dtype
from gencard.core.domain import Domain
from gencard.core.errors import DomainMismatchError, InvalidDatasetError
from tests.core.strategies import datasets

DOMAIN = Domain.of({"sex": 2, "age": 3})


@pytest.mark.parametrize(
    "codes",
    [
        np.zeros((2, 3), dtype=int),
        np.zeros(4, dtype=int),
        np.zeros((2, 2)),
        np.array([[0, 3]]),
        np.array([[-1, 0]]),
        np.array([[256, 0]]),
        np.array([[True, False]]),
    ],
    ids=["too wide", "flat", "floats", "too large", "negative", "wraps to zero", "booleans"],
)
def test_codes_outside_the_domain_are_refused(codes):
    with pytest.raises(InvalidDatasetError):
        Dataset(DOMAIN, codes)


def test_columns_must_match_the_domain():
    with pytest.raises(InvalidDatasetError):
        Dataset.of_columns(DOMAIN, [np.array([0, 1])])
    with pytest.raises(InvalidDatasetError):
        Dataset.of_columns(DOMAIN, [np.array([0, 1]), np.array([0])])
    with pytest.raises(InvalidDatasetError, match="age"):
        Dataset.of_columns(DOMAIN, [np.array([0, 1]), np.array([0, 259])])


def test_a_dataset_is_read_only():
    dataset = Dataset(DOMAIN, np.zeros((2, 2), dtype=np.uint8, order="F"))
    with pytest.raises(ValueError, match="read-only"):
        dataset.codes[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        dataset.column("sex")[0] = 1


@given(datasets())
def test_columns_and_table_make_the_same_dataset(dataset):
    again = Dataset.of_columns(dataset.domain, list(dataset.codes.T))
    np.testing.assert_array_equal(again.codes, dataset.codes)
    assert again.digest() == dataset.digest()


@pytest.mark.parametrize(("size", "dtype"), [(1, np.uint8), (256, np.uint8), (257, np.uint16)])
def test_codes_are_as_narrow_as_they_can_be(size, dtype):
    assert code_dtype(size) == dtype
    assert Dataset(Domain.of({"a": size}), np.array([[size - 1]])).codes.dtype == dtype


def test_project_and_take():
    dataset = Dataset(DOMAIN, np.array([[0, 2], [1, 0], [1, 1]]))
    assert dataset.project(("age", "sex")).codes.tolist() == [[2, 0], [0, 1], [1, 1]]
    assert dataset.take(np.array([2, 0])).codes.tolist() == [[1, 1], [0, 2]]
    assert len(dataset) == 3


def test_the_digest_is_of_the_bytes_that_its_docstring_says():
    domain = Domain.of({"sex": 2, "street": 300})
    dataset = Dataset(domain, np.array([[0, 258], [1, 1]]))
    wire = (
        b"gencard.dataset.v1\x00sex\x002\x00street\x00300\x002\x00" + bytes([0, 1]) + bytes([2, 1, 1, 0])
    )
    assert dataset.digest() == hashlib.sha256(wire).hexdigest()


@given(datasets(Domain.of({"a": 3, "b": 3}), fewest=2), st.data())
def test_the_digest_sees_every_change(dataset, data):
    row = data.draw(st.integers(0, len(dataset) - 1))
    codes = dataset.codes.copy()
    codes[row, 0] = (codes[row, 0] + 1) % 3
    assert Dataset(dataset.domain, codes).digest() != dataset.digest()
    assert dataset.take(np.arange(1, len(dataset))).digest() != dataset.digest()


def test_domains_are_compared():
    check_same_domain(DOMAIN, Domain.of({"sex": 2, "age": 3}))
    with pytest.raises(DomainMismatchError):
        check_same_domain(DOMAIN, DOMAIN.project(("age", "sex")))
