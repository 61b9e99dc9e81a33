import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import InvalidDatasetError, TooLargeError, UnknownAttributeError
from gencard.core.statistics import marginals as counting
from gencard.core.statistics.marginals import Counter, cell_numbers, count, count_all, project
from tests.core.strategies import brute_count, measured

DOMAIN = Domain.of({"sex": 2, "age": 3})


@given(measured(fewest=0))
def test_counts_are_those_of_going_through_the_records_one_by_one(drawn):
    dataset, cliques = drawn
    for clique, table in zip(cliques, count_all(dataset, cliques), strict=True):
        np.testing.assert_array_equal(table, brute_count(dataset, clique))
        assert table.dtype == np.int64
        np.testing.assert_array_equal(count(dataset, clique), table)


@given(measured(), st.randoms(use_true_random=False))
def test_the_order_of_records_does_not_matter(drawn, random):
    dataset, cliques = drawn
    order = random.sample(range(len(dataset)), len(dataset))
    for one, other in zip(
        count_all(dataset, cliques), count_all(dataset.take(np.array(order)), cliques), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@given(measured())
def test_a_marginal_of_a_marginal_is_a_marginal(drawn):
    dataset, _ = drawn
    names = dataset.domain.attributes
    whole = count(dataset, names)
    for name in names:
        np.testing.assert_array_equal(project(whole, names, (name,)), count(dataset, (name,)))


@given(measured(fewest=0), st.integers(1, 7))
def test_a_stream_counts_like_the_whole(drawn, step):
    dataset, cliques = drawn
    counter = Counter(dataset.domain, cliques)
    for begin in range(0, len(dataset), step):
        block = dataset.codes[begin : begin + step]
        counter.add(block if begin % 2 else list(block.T.astype(np.int64)))
    for one, other in zip(counter.marginals(), count_all(dataset, cliques), strict=True):
        np.testing.assert_array_equal(one, other)


def test_blocks_and_tables_of_every_width_agree(monkeypatch):
    """Many blocks of records; tables numbered by two, four and eight bytes."""
    monkeypatch.setattr(counting, "_BLOCK_ROWS", 100)
    rng = np.random.Generator(np.random.PCG64(0))
    domain = Domain.of({"a": 300, "b": 400, "c": 2})
    codes = np.stack([rng.integers(0, size, 1_050) for size in domain.sizes], axis=1)
    dataset = Dataset(domain, codes)
    for clique in (("a", "c"), ("a", "b"), ("c", "b", "a")):
        np.testing.assert_array_equal(count(dataset, clique), brute_count(dataset, clique))


def test_cells_are_numbered_exactly_beyond_four_bytes():
    columns = [np.array([0, 65_535]), np.array([1, 65_535]), np.array([2, 65_535])]
    assert cell_numbers(columns, (65_536,) * 3).tolist() == [65_538, 65_536**3 - 1]


@pytest.mark.parametrize("sizes", [(1, 65_536), (65_536, 1), (256, 256), (2, 32_768)])
def test_tables_whose_cells_just_fill_two_bytes(sizes):
    codes = np.array([[0, 0], [size - 1 for size in sizes]])
    assert cell_numbers(list(codes.T), sizes).tolist() == [0, 65_535]


@pytest.mark.parametrize(
    "codes",
    [
        np.array([[0, 3]]),
        np.array([[-1, 0]]),
        np.array([[0.0, 1.0]]),
        np.array([[0, 0, 0]]),
        [np.array([0]), np.array([0, 1])],
        [np.array([0])],
        [np.array([[0]]), np.array([[0]])],
    ],
    ids=["too large", "negative", "floats", "too wide", "ragged", "too narrow", "columns of tables"],
)
def test_a_stream_refuses_what_a_dataset_refuses(codes):
    counter = Counter(DOMAIN, [("sex",)])
    with pytest.raises(InvalidDatasetError):
        counter.add(codes)
    assert counter.marginals()[0].tolist() == [0, 0]


def test_nothing_is_allocated_for_a_clique_that_is_too_large():
    domain = Domain(tuple(f"a{i}" for i in range(12)), (10,) * 12)
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError, match="50000000"):
            Counter(domain, [domain.attributes])
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_an_unknown_attribute_is_refused():
    with pytest.raises(UnknownAttributeError):
        Counter(DOMAIN, [("income",)])


def test_marginals_do_not_change_when_more_is_counted():
    counter = Counter(DOMAIN, [("age",)])
    counter.add(np.array([[0, 1]]))
    before = counter.marginals()[0]
    counter.add(np.array([[0, 1]]))
    assert before.tolist() == [0, 1, 0]
    assert counter.marginals()[0].tolist() == [0, 2, 0]
