"""Spending of a box of tier private: its price covers its draws, and rows disclose less."""

from fractions import Fraction
from math import exp, log

import numpy as np
import pytest
from scipy.stats import beta

from gencard.boxes.entry import Surroundings
from gencard.boxes.net_options import delta_of_votes, rho_of_votes
from gencard.boxes.registry import BOXES, box_named, complete
from gencard.controller.noise import OpenDpNoise
from gencard.core.card.budget import Neighbouring
from gencard.core.card.privacy import InsideGenerator, Mechanism, laplace
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import InvalidInputError
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.noise import epsilon_of

EPSILON = 1.0
DOMAIN = Domain.of({"a": 2, "b": 2})
FITS, ROWS, RECORDS = 300, 400, 30


class NoNoise:
    """An implementation that forgot its noise."""

    def laplace(self, counts, scale):
        return counts

    gaussian = laplace

    def choose(self, scores, scale):
        return int(np.argmax(scores))


def neighbours() -> tuple[Dataset, Dataset]:
    """Two datasets of as many records; one record is another."""
    low = np.zeros((RECORDS, 2), dtype=np.int64)
    high = low.copy()
    high[0] = 1
    return Dataset(DOMAIN, low), Dataset(DOMAIN, high)


def shown(noise) -> float:
    """A lower bound on epsilon from rows, of confidence 1 - 1e-6: how often one level is common."""
    surroundings = Surroundings((("a", "b"),), {}, noise)
    box = box_named("privbayes", {"epsilon": str(EPSILON)}, surroundings)
    hits = []
    for dataset in neighbours():
        made = (box(dataset, ROWS, seed=seed).codes for seed in range(FITS))
        hits.append(sum(bool(codes[:, 0].mean() > 1 / (2 * RECORDS)) for codes in made))
    return max(_bound(*hits), _bound(FITS - hits[0], FITS - hits[1]))


def _bound(without: int, with_one: int) -> float:
    """log of the least ratio of two chances that these numbers allow (Clopper and Pearson)."""
    level = 5e-7
    low = beta.ppf(level, with_one, FITS - with_one + 1) if with_one else 0.0
    high = beta.ppf(1 - level, without + 1, FITS - without) if without < FITS else 1.0
    return log(low / high) if low > 0 else -np.inf


def test_rows_show_less_than_the_promise():
    assert shown(OpenDpNoise()) < EPSILON


def test_a_fit_without_noise_would_be_found():
    assert shown(NoNoise()) > EPSILON


@pytest.mark.parametrize("name", ["mst", "aim", "privbayes", "pate-gan"])
def test_the_price_is_of_the_promise_on_the_card(name):
    """At its delta, rho comes to the epsilon of the claim; to little more where votes are counted."""
    entry = BOXES[name]
    parameters = complete(entry, {})
    claim, privacy = entry.claim(parameters), entry.privacy(parameters)
    assert (privacy.mechanism, privacy.neighbouring) == (Mechanism.GENERATOR, claim.neighbouring)
    if not privacy.price.rho:
        assert (privacy.price.epsilon, claim.delta) == (claim.epsilon, 0)
        return
    assert privacy.delta == claim.delta
    most = 1.0 if name != "pate-gan" else 1.1
    assert 0.99 <= float(epsilon_of(privacy.price.rho, privacy.delta) / claim.epsilon) <= most


@pytest.mark.parametrize(("votes", "scale"), [(1, 0.5), (40, 3.25), (6_400, 160.0)])
def test_rho_of_votes_is_that_of_pure_votes_rounded_up(votes, scale):
    rho = rho_of_votes(votes, scale)
    exact = Fraction(votes) / (2 * Fraction(scale) ** 2)
    assert 0 <= Fraction(rho) - exact < Fraction(1, 10**9)
    for epsilon in (0.5, 1.0, 3.0):  # by the tail of zCDP, which is looser than the exact law
        delta = exp(-((epsilon - float(rho)) ** 2) / (4 * float(rho))) if epsilon > rho else 1.0
        assert delta_of_votes(votes, scale, epsilon) <= delta


def test_boxes_without_noise_have_no_privacy_and_so_are_not_private():
    for name in ("synthpop", "ctgan"):
        assert BOXES[name].privacy(complete(BOXES[name], {})) is None


def test_the_door_measures_nothing_for_a_generators_own_noise():
    from gencard.core.statistics.measure import measure

    class Untouched:
        def count(self, cliques):
            raise AssertionError("records were counted")

    privacy = InsideGenerator(laplace("1", neighbouring=Neighbouring.REPLACE_ONE))
    with pytest.raises(InvalidInputError, match="tier private"):
        measure(Untouched(), [("a",)], DOMAIN, privacy, noise=NoNoise())
    assert measure_dataset(neighbours()[0], [("a",)]).cliques == (("a",),)
