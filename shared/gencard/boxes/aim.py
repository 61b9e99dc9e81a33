"""AIM: each round privately selects and measures the marginal that the model fits worst.

R. McKenna, B. Mullins, D. Sheldon, G. Miklau, "AIM: An Adaptive and Iterative Mechanism for
Differentially Private Synthetic Data", PVLDB 15(11), 2022, algorithm 2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from math import pi, sqrt

import numpy as np

from gencard.boxes.entry import (
    APPROXIMATE,
    GRID,
    BoxEntry,
    Parameters,
    PrivacyBudget,
    approximate,
    approximate_claim,
    approximate_privacy,
    misfit,
    noise_of,
    whole,
)
from gencard.boxes.marginal_models import KeptModel, ModelBox, NoisyModel, check_attributes
from gencard.core.card.privacy import AddedNoise, Noise
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.generators.contract import check_settings
from gencard.core.generators.junction_tree import cells_needed, check_cells
from gencard.core.statistics.marginals import closure, count_all
from gencard.core.types import Progress, ignore_progress


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Every marginal inside one of the workload that the model has room for, in the domain's order.

    Args:
        weights: For each clique the number of its attributes in the workload's cliques, added up.
    """

    domain: Domain
    weights: Mapping[Clique, int]
    _cells: dict[frozenset[Clique], dict[Clique, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, domain: Domain, workload: Sequence[Clique], max_cells: int) -> "Candidates":
        """Return the marginals of a workload, by default of all pairs, with at most so many cells.

        Raises:
            InvalidCliqueError, UnknownAttributeError: The workload is not one of the domain.
            TooLargeError: It has too many subsets.
        """
        whole = [domain.canonical(clique) for clique in workload]
        if not whole:
            whole = list(combinations(domain.attributes, min(2, len(domain))))
        cliques = [domain.canonical(inside) for inside in closure(whole) if inside]
        ordered = sorted(cliques, key=lambda clique: (len(clique), domain.axes(clique)))
        sets = [frozenset(clique) for clique in whole]
        return cls(
            domain,
            {
                clique: sum(len(names.intersection(clique)) for names in sets)
                for clique in ordered
                if domain.project(clique).cells <= max_cells
            },
        )

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return tuple(self.weights)

    def within(self, model: NoisyModel, max_cells: int) -> list[Clique]:
        """Cliques that are in the model already, or that keep it within the bound."""
        measured = model.cliques
        if measured not in self._cells:  # cached until something more is measured
            self._cells.clear()
            self._cells[measured] = {}
        inside, cells = [], self._cells[measured]
        held = [set(one) for one in model.tree.tree.cliques]
        for clique in self.weights:
            is_held = any(one.issuperset(clique) for one in held)
            if not is_held and clique not in cells:
                cells[clique] = cells_needed(self.domain, sorted(measured | {clique}))
            if is_held or cells[clique] <= max_cells:
                inside.append(clique)
        return inside


_MEASURING = Fraction(9, 10)
"""Share of a round's budget for the measurement; the rest is for the choice."""

_MEAN = sqrt(2 / pi)
"""Mean size of normal noise of stddev 1."""


@dataclass(frozen=True, slots=True)
class Aim(ModelBox):
    """Chooses among all marginals inside the workload, scored by the expected improvement.

    A score is the clique's weight, which is how much the workload overlaps with it, times the L1
    distance between marginal and model, less the expected noise. After a round that changed the model by
    no more than noise does, later rounds get four times its budget. The model may grow in proportion to
    the budget spent, up to ``max_cells``.

    Args:
        workload: Cliques that matter; none for all pairs.
        rounds: Rounds for each attribute, of equal budget at first.
        max_cells: Bound on the cells of the model's junction tree.
    """

    privacy: AddedNoise
    noise: Noise
    workload: tuple[Clique, ...] = ()
    rounds: int = 16
    max_cells: int = 1 << 17

    def __post_init__(self) -> None:
        check_settings(rounds=self.rounds, max_cells=self.max_cells)

    def fit(self, dataset: Dataset, *, seed: int, progress: Progress = ignore_progress) -> KeptModel:  # noqa: ARG002 - privacy noise has no seed
        """Fit to records.

        Raises:
            InvalidDatasetError: There is no attribute.
            InvalidCliqueError, UnknownAttributeError: The workload is not one of the dataset.
            TooLargeError: The workload has too many subsets, or too many cells in those to choose from.
            ModelTooLargeError: The attributes alone have more cells than the model may have.
        """
        check_attributes(dataset)
        alone = [(name,) for name in dataset.domain.attributes]
        check_cells(dataset.domain, alone, self.max_cells)
        progress("attributes", 0.0)
        budget = PrivacyBudget(self.privacy, self.noise)
        part = budget.total / (self.rounds * len(dataset.domain))
        candidates = Candidates.of(dataset.domain, self.workload, self.max_cells)
        counts = dict(zip(candidates.cliques, count_all(dataset, candidates.cliques), strict=True))
        measured = budget.noisy_marginals(dataset, alone, _MEASURING * part * len(alone))
        model = NoisyModel(dataset.domain, measured)
        # the number of rounds depends on the noise, so no finer progress is reported
        progress("rounds", 0.1)
        while budget.remaining:  # choose, measure, fit; the last round spends all that is left
            last = budget.remaining < 2 * part
            spent = budget.remaining if last else part
            share = 1 - (budget.remaining - spent) / budget.total
            allowed = candidates.within(model, int(self.max_cells * share))
            bias = _MEAN * budget.stddev(_MEASURING * spent)
            expected = model.expected(allowed)
            weights = [candidates.weights[clique] for clique in allowed]
            # Less the expected L1 size of the noise on each marginal, on the grid of scores.
            scores = [
                weight * (misfit(counts[one], expected[one]) - round(bias * expected[one].size * GRID))
                for weight, one in zip(weights, allowed, strict=True)
            ]
            sensitivity = max(weights) * budget.l1_sensitivity * GRID
            chosen = budget.choose(np.array(scores), sensitivity, (1 - _MEASURING) * spent)
            clique = allowed[chosen]
            marginal = budget.noisy_marginal(clique, counts[clique], _MEASURING * spent)
            before = model.expected([clique])[clique]
            model = model.with_one(marginal)
            change = float(np.abs(model.expected([clique])[clique] - before).sum())
            if change <= _MEAN * marginal.stddev * before.size:
                part *= 4
        return KeptModel(model.tree)


def _check(parameters: Parameters, workload: tuple[Clique, ...], domain: Domain) -> None:
    """Raises what a fit raises before it spends anything."""
    most = whole(parameters, "max_cells", 1, 50_000_000)
    check_cells(domain, [(name,) for name in domain.attributes], most)
    Candidates.of(domain, workload, most)


ENTRY = BoxEntry(
    "AIM: in each round, the marginal of the workload that the model fits worst is measured "
    "with noise (McKenna, Mullins, Sheldon, Miklau 2022).",
    {**APPROXIMATE, "rounds": "16", "max_cells": "131072"},
    approximate_claim,
    lambda parameters, surroundings: Aim(
        approximate(parameters),
        noise_of(surroundings),
        surroundings.workload,
        whole(parameters, "rounds", 1, 1_000),
        whole(parameters, "max_cells", 1, 50_000_000),
    ),
    privacy=approximate_privacy,
    within_workload=True,
    check=_check,
)
