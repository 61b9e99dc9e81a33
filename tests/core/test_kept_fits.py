"""Fits are kept bit for bit, bounded in number and size, one for a card."""

import numpy as np
import pytest

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.generators import model_file
from gencard.core.generators.contract import rng_of
from gencard.core.generators.model_file import KeptFits, draws_of, model_of, saved_fit
from gencard.core.generators.models import TableModel
from gencard.core.generators.registry import GENERATORS, generator_named
from gencard.core.statistics.measure import measure_dataset

DOMAIN = Domain.of({"a": 3, "b": 4, "c": 2, "d": 5, "e": 7})
WHOLE = [DOMAIN.attributes]
PAIRS = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("d", "e")]


def fitted(name, seed=1):
    rng = np.random.default_rng(seed)
    weights = [rng.dirichlet(np.ones(size)) for size in DOMAIN.sizes]
    columns = [rng.choice(len(one), 2_000, p=one) for one in weights]
    psi = measure_dataset(Dataset.of_columns(DOMAIN, columns), WHOLE if name == "saturated" else PAIRS)
    return generator_named(name, structural_zeros=(), max_cells=10**6).fit(psi, DOMAIN)


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_fit_of_every_generator_is_kept_bit_for_bit(name, seed):
    model = fitted(name, seed)
    saved = saved_fit(model)
    assert saved
    again = model_of(saved)
    for one, other in zip(draws_of(model), draws_of(again), strict=True):
        assert one.tobytes() == other.tobytes()
    rows = [each.sample(3_000, rng=rng_of(5)).digest() for each in (model, again)]
    assert rows[0] == rows[1]
    assert saved_fit(again) == saved


def test_probabilities_are_not_scaled_twice():
    """About one table in three has a sum that is not 1 to the last digit."""
    rng = np.random.default_rng(3)
    scaled_again = 0
    for _ in range(60):
        model = TableModel(DOMAIN, rng.exponential(size=DOMAIN.sizes))
        scaled_again += bool(
            (TableModel(DOMAIN, model.probabilities).probabilities != model.probabilities).any()
        )
        again = model_of(model_file.bytes_of(model))
        assert again.probabilities.tobytes() == model.probabilities.tobytes()
    assert scaled_again > 0


def test_what_would_draw_other_rows_is_not_kept(monkeypatch):
    model, other = fitted("ipf", 1), fitted("ipf", 2)
    monkeypatch.setattr(model_file, "model_of", lambda _: other)
    assert saved_fit(model) == b""
    assert saved_fit(object()) == b""


def test_the_fits_that_were_kept_last_are_kept():
    fits = KeptFits(most_fits=3, most_bytes=100)
    for card in "abc":
        fits.keep(card, "key", b"x" * 10)
    assert fits.fit("a", "key") == b"x" * 10
    assert fits.fit("a", "other key") == b""
    fits.keep("d", "key", b"y")
    assert fits.cards == ("b", "c", "d")
    fits.keep("c", "newer", b"z" * 95)
    assert fits.cards == ("d", "c")
    fits.keep("e", "key", b"z" * 101)
    fits.keep("e", "key", b"")
    assert fits.cards == ("d", "c")
    fits.drop("c")
    fits.drop("c")
    assert fits.cards == ("d",)
