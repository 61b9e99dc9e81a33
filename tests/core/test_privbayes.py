"""PrivBayes: the network that an endless budget finds, what is useful enough, and its bounds."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from gencard.boxes import privbayes
from gencard.boxes.privbayes import PrivBayes
from gencard.controller.noise import OpenDpNoise
from gencard.core.card.privacy import laplace
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import InvalidNumberError
from gencard.core.statistics.marginals import count
from tests.core.seeded_noise import Recorded, SeededNoise

ENDLESS = laplace(1_000_000, neighbouring="replace-one")
ONE = laplace(1, neighbouring="replace-one")


def copied(rows=3_000, size=3):
    """b is a, d is c, and nothing else hangs together."""
    rng = np.random.default_rng(1)
    a, c = rng.integers(0, size, (2, rows))
    return Dataset.of_columns(Domain.of(dict.fromkeys("abcd", size)), [a, a, c, c])


@pytest.mark.parametrize("size", [2, 3])
def test_a_copy_has_its_original_as_parent(size):
    """By score F where all is binary, else by R."""
    model = PrivBayes(ENDLESS, OpenDpNoise(), degree=1).fit(copied(size=size), seed=4).model
    beside = {frozenset((node.attribute, *node.parents)) for node in model.nodes[1:]}
    assert {frozenset("ab"), frozenset("cd")} <= beside


def test_an_endless_budget_leaves_the_tables():
    dataset = copied()
    model = PrivBayes(ENDLESS, OpenDpNoise()).fit(dataset, seed=0).model
    for node in model.nodes:
        np.testing.assert_allclose(
            node.table, count(dataset, (*node.parents, node.attribute)), atol=1e-9
        )


def test_progress_is_told_while_pairs_are_scored_and_for_each_table(monkeypatch):
    """Offered are 1 x 3, 2 x 2 and 3 x 1 pairs, of which two at a time are scored."""
    monkeypatch.setattr(privbayes, "_SCORED", 2)
    told = []
    box = PrivBayes(ONE, SeededNoise(0), degree=1)
    box.fit(copied(), seed=0, progress=lambda *said: told.append(said))
    assert Counter(stage for stage, _ in told) == {"network": 2 + 2 + 2, "tables": 4}
    shares = [share for _, share in told]
    assert shares == sorted(set(shares))
    assert 0 <= shares[0] <= shares[-1] < 1


def test_tables_are_useful_and_of_n_records():
    """3,000 records, 4 tables of epsilon 0.7 in all: noise of scale 8 / 0.7, a mean of 4 times that."""
    dataset = copied()
    noise = Recorded(0)
    model = PrivBayes(ONE, noise).fit(dataset, seed=0).model
    for node in model.nodes:
        assert node.table.sum() == pytest.approx(3_000)
        assert node.table.min() >= 0
        assert 3_000 / node.table.size >= 4 * 8 / 0.7
    scales = {scale for kind, _, scale in noise.draws if kind == "laplace"}
    assert list(scales) == pytest.approx([8 / 0.7])


def test_the_more_useful_tables_must_be_the_fewer_their_cells():
    sizes = [
        max(
            node.table.size
            for node in PrivBayes(ONE, SeededNoise(0), Fraction(theta)).fit(copied(), seed=0).model.nodes
        )
        for theta in (1, 8, 200)
    ]
    assert sizes == [81, 27, 3]


@pytest.mark.parametrize("told", [{"degree": 0}, {"theta": Fraction(200)}])
def test_where_no_parent_can_be_useful_the_tables_get_all_of_epsilon(told):
    noise = Recorded(0)
    model = PrivBayes(ONE, noise, **told).fit(copied(), seed=0).model
    assert [node.parents for node in model.nodes] == [()] * 4
    assert [(kind, scale) for kind, _, scale in noise.draws] == [("laplace", 8.0)] * 4


def test_the_seed_draws_the_first_attribute():
    firsts = {
        PrivBayes(ONE, SeededNoise(0)).fit(copied(), seed=seed).model.nodes[0].attribute
        for seed in range(30)
    }
    assert firsts == set("abcd")


@pytest.mark.parametrize(
    "wrong", [{"theta": Fraction(0)}, {"beta": Fraction(1)}, {"beta": Fraction(0)}, {"degree": -1}]
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(InvalidNumberError):
        PrivBayes(ONE, SeededNoise(0), **wrong)


def test_no_table_is_larger_than_its_bound_however_large_the_budget():
    """Two attributes of 1,100 levels have more cells together than the bound."""
    dataset = copied(size=1_100)
    model = PrivBayes(ENDLESS, SeededNoise(0), Fraction(1, 1_000)).fit(dataset, seed=0).model
    assert [node.parents for node in model.nodes] == [()] * 4
