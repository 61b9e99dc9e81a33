"""Our default beside synthpop's IPF, at the same true epsilon and on the same noisy counts.

What synthpop calls epsilon is for marginals of sensitivity 1, and it uses the exact number of records.
Neighbours then differ by replacing a record, which moves two counts of each marginal: the true epsilon
is twice as large. Ours asks for that true epsilon under replace-one. M marginals get noise of scale
2 M / (2 epsilon) = M / epsilon either way; so both programs are given the very same noisy counts, drawn
by OpenDP, and the same words to draw rows with. What is compared is what each makes of them.
"""

from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from benchmarks import synthpop
from benchmarks.diagnosis import survey
from benchmarks.raab import FIRST_SEED
from benchmarks.scores import Array, Scores
from gencard.controller.noise import OpenDpNoise
from gencard.core.card.privacy import laplace
from gencard.core.domain import Domain
from gencard.core.generators.contract import Model, rng_of
from gencard.core.generators.family import graphical
from gencard.core.generators.models import TreeModel
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.noise import noisy
from gencard.core.statistics.psi import Psi


@dataclass(frozen=True, slots=True, eq=False)
class Contest:
    """Scores of both; ``epsilon`` is what synthpop says, half of what it is."""

    attributes: int
    epsilon: float
    ours: Scores
    theirs: Scores

    @property
    def two(self) -> "Margin":
        """By two-way tables."""
        return Margin.of(self.ours.two, self.theirs.two)

    @property
    def three(self) -> "Margin":
        """By three-way tables."""
        return Margin.of(self.ours.three, self.theirs.three)


@dataclass(frozen=True, slots=True)
class Margin:
    """Mean S_pMSE of both, and the standard error of the difference, from pairs."""

    ours: float
    theirs: float
    error: float

    @classmethod
    def of(cls, ours: Array, theirs: Array) -> "Margin":
        error = float(np.std(theirs - ours, ddof=1)) / len(ours) ** 0.5
        return cls(float(ours.mean()), float(theirs.mean()), error)


def contested(attributes: int, epsilon: float, syntheses: int) -> Contest:
    """Both on the same noisy counts, so many times over."""
    dataset = survey(attributes)
    exact = measure_dataset(dataset, synthpop.pairs(dataset.domain))
    privacy = laplace(2 * Decimal(str(epsilon)), neighbouring="replace-one")
    contest = Contest(attributes, epsilon, Scores(dataset), Scores(dataset))
    for seed in range(FIRST_SEED, FIRST_SEED + syntheses):
        psi = noisy(exact, privacy, OpenDpNoise())
        _enter(contest.ours, *_fitted(psi, dataset.domain), seed)
        theirs = synthpop.ipf(_margins(psi, len(dataset)), dataset.domain)
        _enter(contest.theirs, theirs.model, theirs.converged, seed)
    return contest


def _enter(scores: Scores, model: Model, converged: bool, seed: int) -> None:
    rows = len(scores.original)
    scores.add(model.sample(rows, rng=rng_of(seed)), converged=converged)


def _margins(psi: Psi, records: int) -> list[Array]:
    """Make noisy counts positive as synthpop does; its prior is added before the same noise."""
    return synthpop.made_positive([synthpop.with_prior(m.values) for m in psi.measurements], records)


def _fitted(psi: Psi, domain: Domain) -> tuple[TreeModel, bool]:
    """Our default, and whether it ended by itself: half of the sweeps then give the same bits."""
    generator = graphical()
    model = generator.fit_tree(psi, domain)
    half = graphical(most_sweeps=generator.most_sweeps // 2).fit_tree(psi, domain)
    pairs = zip(model.tables, half.tables, strict=True)
    return model, all(np.array_equal(one, other) for one, other in pairs)
