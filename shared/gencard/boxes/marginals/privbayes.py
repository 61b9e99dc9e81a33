"""PrivBayes: a Bayesian network, its edges chosen and its tables measured privately.

J. Zhang, G. Cormode, C. Procopiuc, D. Srivastava, X. Xiao, "PrivBayes: Private Data Release via Bayesian
Networks", ACM TODS 42(4), 2017; general domains as they are coded (section 5, "vanilla").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import prod

import numpy as np

from gencard.boxes.budget import PrivacyBudget
from gencard.boxes.entry import BoxEntry, Parameters, Surroundings, noise_of, whole
from gencard.boxes.marginals.models import KeptModel, ModelBox, check_attributes
from gencard.boxes.marginals.privbayes_parents import Pair, ParentScores, pairs_to_choose_from
from gencard.core.card.budget import Claim, Neighbouring, decimal_of
from gencard.core.card.mechanism import InsideGenerator
from gencard.core.card.noise import AddedNoise, Laplace, Noise
from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidNumberError
from gencard.core.generators.contract import rng_of
from gencard.core.generators.sampling import NetworkModel, Node
from gencard.core.statistics.consistency import on_simplex
from gencard.core.statistics.counting import count
from gencard.core.types import Progress, ignore_progress

_MOST_CELLS = 1 << 18
"""Limit on a table: drawing the noise of a larger one would take too long."""

_SCORED = 2_000
"""Pairs that are scored between two reports of progress."""


@dataclass(frozen=True, slots=True)
class PrivBayes(ModelBox):
    r"""Pure epsilon; the number of records n is public, so neighbours differ by replacing one.

    An attribute with its parents is chosen by the exponential mechanism, d - 1 times, among tables that
    are :math:`\theta`-useful: the mean of their counts is at least :math:`\theta` times the scale of the
    noise. The d tables get Laplace noise, and become the nearest ones without negative counts.

    Args:
        theta: Usefulness that a table must have.
        beta: Part of epsilon for the choices; the rest is for the tables.
        degree: Most parents of an attribute.

    Raises:
        InvalidNumberError: theta is not positive, beta not between 0 and 1, or the degree negative.
    """

    privacy: AddedNoise
    noise: Noise
    theta: Fraction = Fraction(4)
    beta: Fraction = Fraction(3, 10)
    degree: int = 4

    def __post_init__(self) -> None:
        if self.theta <= 0:
            raise InvalidNumberError(field="theta", expected="above zero")
        if not 0 < self.beta < 1:
            raise InvalidNumberError(field="beta", expected="between 0 and 1")
        if self.degree < 0:
            raise InvalidNumberError(field="degree", expected="zero or more")

    def fit(self, dataset: Dataset, *, seed: int, progress: Progress = ignore_progress) -> KeptModel:
        """Fit to records; the seed draws the attribute to begin with.

        Raises:
            InvalidDatasetError: There is no attribute.
            InvalidNumberError: The seed is out of range.
        """
        check_attributes(dataset)
        budget = PrivacyBudget(self.privacy, self.noise)
        first = int(rng_of(seed).integers(len(dataset.domain)))
        network = self._network(dataset, dataset.domain.attributes[first], budget, progress)
        return KeptModel(NetworkModel(dataset.domain, _nodes(dataset, network, budget, progress)))

    def _network(
        self, dataset: Dataset, first: str, budget: PrivacyBudget, progress: Progress
    ) -> Sequence[Pair]:
        """Choices that spend beta of epsilon; none, and nothing spent, where no parent can be useful."""
        domain, number, choosing = dataset.domain, len(dataset.domain), self.beta * budget.total
        useful = len(dataset) * (budget.total - choosing) / (2 * number * self.theta)
        most_cells = min(int(useful), _MOST_CELLS)
        if self.degree == 0 or prod(sorted(domain.sizes)[:2]) > most_cells:
            return [Pair(name, ()) for name in domain.attributes]
        network, scores = [Pair(first, ())], ParentScores(dataset)
        while len(network) < number:
            offered = pairs_to_choose_from(domain, network, most_cells, self.degree)
            score_blocks = []
            for begin in range(0, len(offered), _SCORED):
                share_done = len(network) + begin / len(offered)
                progress("network", 0.5 * share_done / number)
                score_blocks.append(scores.of(offered[begin : begin + _SCORED]))
            choice = budget.choose(
                np.concatenate(score_blocks), scores.sensitivity, choosing / (number - 1)
            )
            network.append(offered[choice])
        return network


def _nodes(
    dataset: Dataset, network: Sequence[Pair], budget: PrivacyBudget, progress: Progress
) -> tuple[Node, ...]:
    """Each table with an equal part of what remains, projected to counts >= 0 that sum to n records."""
    part = budget.remaining / len(network)
    nodes = []
    for number, pair in enumerate(network):
        progress("tables", 0.5 + 0.5 * number / len(network))
        clique = (*pair.parents, pair.attribute)
        noisy = budget.noisy_marginal(clique, count(dataset, clique), part).values.astype(np.float64)
        table = on_simplex(noisy, len(dataset)) if len(dataset) else np.zeros(noisy.shape)
        nodes.append(Node(pair.attribute, pair.parents, table))
    return tuple(nodes)


def _privacy(parameters: Parameters) -> Laplace:
    return Laplace(Neighbouring.REPLACE_ONE, decimal_of(parameters["epsilon"], "epsilon"))


def _claim(parameters: Parameters) -> Claim:
    return Claim(
        "All choices and tables of one fit together keep epsilon; the number of records is public, so "
        "neighbours differ by replacing one record.",
        _privacy(parameters).epsilon,
        Decimal(0),
        Neighbouring.REPLACE_ONE,
    )


def _make(parameters: Parameters, surroundings: Surroundings) -> PrivBayes:
    return PrivBayes(
        _privacy(parameters),
        noise_of(surroundings),
        _fraction(parameters, "theta"),
        _fraction(parameters, "beta"),
        whole(parameters, "degree", 0, 16),
    )


def _fraction(parameters: Parameters, name: str) -> Fraction:
    """A decimal, exact; raises InvalidNumberError where it is none or out of any range."""
    return Fraction(decimal_of(parameters[name], name))


ENTRY = BoxEntry(
    "PrivBayes: a Bayesian network, its edges chosen and its tables measured with noise (Zhang et al. "
    "2017).",
    {"epsilon": "1", "theta": "4", "beta": "0.3", "degree": "4"},
    _claim,
    _make,
    privacy=lambda parameters: InsideGenerator(_privacy(parameters)),
)
