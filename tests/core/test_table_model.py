import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gencard.core.domain import Domain
from gencard.core.errors import (
    DomainMismatchError,
    InvalidCliqueError,
    InvalidInputError,
    InvalidNumberError,
)
from gencard.core.generators import models as table_model
from gencard.core.generators.contract import rng_of
from gencard.core.generators.models import TableModel

DOMAIN = Domain.of({"a": 2, "b": 3})


class Words:
    """A stand-in for a generator: gives the words it was given."""

    def __init__(self, *words):
        self.words = words
        self.bit_generator = self

    def random_raw(self, number):
        drawn, self.words = self.words[:number], self.words[number:]
        return np.array(drawn, dtype=np.uint64)


@st.composite
def models(draw):
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    weights = draw(
        st.lists(st.integers(0, 20), min_size=int(np.prod(sizes)), max_size=int(np.prod(sizes)))
    )
    table = np.array(weights, dtype=float).reshape(sizes)
    table.flat[draw(st.integers(0, table.size - 1))] += 1
    return TableModel(Domain(tuple("abc"[: len(sizes)]), tuple(sizes)), table)


@pytest.mark.parametrize(
    ("table", "error"),
    [
        (np.ones((3, 2)), DomainMismatchError),
        (np.zeros((2, 3)), InvalidNumberError),
        (np.full((2, 3), np.nan), InvalidNumberError),
        (np.array([[1, 1, 1], [1, 1, np.inf]]), InvalidNumberError),
        (np.array([[1, 1, 1], [1, 1, -0.1]]), InvalidNumberError),
    ],
    ids=["other shape", "nothing", "no numbers", "infinite", "negative"],
)
def test_a_table_that_is_no_distribution_is_refused(table, error):
    with pytest.raises(error):
        TableModel(DOMAIN, table)


@given(models())
def test_marginals_are_distributions(model):
    for name in model.domain.attributes:
        assert model.marginal((name,)).sum() == pytest.approx(1)
    assert model.marginal(model.domain.attributes[::-1]).shape == model.domain.sizes[::-1]
    with pytest.raises(InvalidCliqueError):
        model.marginal(("z",))


def test_the_table_is_scaled_and_read_only():
    table = np.ones((2, 3))
    model = TableModel(DOMAIN, table)
    assert model.probabilities.tolist() == [[1 / 6] * 3] * 2
    with pytest.raises(ValueError, match="read-only"):
        model.probabilities[0, 0] = 1
    assert table.tolist() == [[1, 1, 1]] * 2


@given(models(), st.lists(st.integers(0, 2**64 - 1), max_size=30))
def test_a_word_falls_to_the_cell_whose_share_holds_it(model, words):
    """The definition, in exact integers: cell i is drawn for words in [T(i-1), T(i))."""
    ends = np.cumsum(model.probabilities, axis=None)
    thresholds = [int(end / ends[-1] * 2.0**64) for end in ends]
    cells = [next(i for i, end in enumerate(thresholds) if word < end) for word in words]
    expected = np.unravel_index(np.array(cells, dtype=int), model.domain.sizes)
    drawn = model.sample(len(words), rng=Words(*words))
    np.testing.assert_array_equal(drawn.codes, np.stack(expected, axis=1))


@given(models(), st.lists(st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]), max_size=10))
def test_a_cell_of_probability_zero_is_never_drawn(model, words):
    drawn = model.sample(len(words), rng=Words(*words))
    assert np.all(model.probabilities[tuple(drawn.codes.T.astype(int))] > 0)


def test_cells_too_small_for_a_word_are_harmless():
    model = TableModel(Domain.of({"a": 4}), np.array([1.0, 1e-30, 0.0, 1e-30]))
    assert model.sample(3, rng=Words(0, 2**63, 2**64 - 1)).codes.ravel().tolist() == [0, 0, 0]


@given(models(), st.integers(0, 50), st.integers(0, 50), st.integers(0, 2**64 - 1))
def test_two_draws_are_one_long_draw(model, first, second, seed):
    rng = rng_of(seed)
    parts = np.concatenate([model.sample(rows, rng=rng).codes for rows in (first, second)])
    np.testing.assert_array_equal(parts, model.sample(first + second, rng=rng_of(seed)).codes)


def test_the_size_of_the_blocks_does_not_matter(monkeypatch):
    model = TableModel(DOMAIN, np.arange(6.0).reshape(2, 3))
    whole = model.sample(1_000, rng=rng_of(5)).digest()
    monkeypatch.setattr(table_model, "_BLOCK_ROWS", 7)
    assert model.sample(1_000, rng=rng_of(5)).digest() == whole


@settings(max_examples=5)
@given(st.integers(0, 10))
def test_rows_have_the_probabilities_of_the_table(seed):
    table = np.array([[1, 2, 3], [4, 0, 6]], dtype=float)
    drawn = TableModel(DOMAIN, table).sample(100_000, rng=rng_of(seed))
    counts = np.bincount(drawn.codes[:, 0].astype(int) * 3 + drawn.codes[:, 1], minlength=6)
    present = table.ravel() > 0
    result = stats.chisquare(counts[present], table.ravel()[present] / table.sum() * 100_000)
    assert result.pvalue > 1e-4
    assert counts[~present].sum() == 0


def test_the_bytes_are_the_same_for_ever():
    """Golden: these rows must come out on every machine and with every version of numpy."""
    model = TableModel(Domain.of({"a": 3, "b": 300}), np.arange(1.0, 901.0).reshape(3, 300))
    drawn = model.sample(10_000, rng=rng_of(7))
    assert drawn.codes[:3].tolist() == [[2, 111], [2, 252], [2, 192]]
    assert drawn.digest() == "cc0495956e94a221b46f52ea6772be46173cceb0616132e444c266c4fe99fa13"


def test_rows_and_words_are_checked():
    model = TableModel(DOMAIN, np.ones((2, 3)))
    assert len(model.sample(0, rng=rng_of(0))) == 0
    with pytest.raises(InvalidNumberError):
        model.sample(-1, rng=rng_of(0))
    with pytest.raises(InvalidInputError, match="64-bit"):
        model.sample(1, rng=np.random.Generator(np.random.MT19937(0)))
