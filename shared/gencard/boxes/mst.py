"""MST: the maximum spanning tree of pairs, chosen and measured privately.

Levels whose noisy counts are small are merged before pairs are measured, and split again afterwards.

R. McKenna, G. Miklau, D. Sheldon, "Winning the NIST Contest: A scalable and general approach to
differentially private synthetic data", Journal of Privacy and Confidentiality 11(3), 2021, section 4.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.boxes.entry import (
    APPROXIMATE,
    GRID,
    BoxEntry,
    PrivacyBudget,
    StepProgress,
    approximate,
    approximate_claim,
    approximate_privacy,
    misfit,
    noise_of,
)
from gencard.boxes.marginal_models import KeptModel, ModelBox, check_attributes
from gencard.core.card.privacy import AddedNoise, Noise
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.generators.family import graphical, spanning_tree
from gencard.core.generators.models import TreeModel
from gencard.core.statistics.marginals import count_all, total
from gencard.core.statistics.psi import Measurement, Psi, reconcile
from gencard.core.types import Progress, ignore_progress

_RARE_BELOW = 3.0
"""A level is rare where its noisy count is below this number of standard deviations."""


@dataclass(frozen=True, slots=True, eq=False)
class KeptLevels:
    """The levels of one attribute, before and after rare ones are merged.

    Args:
        merged: For each level its number after merging: frequent ones first, then one for all rare ones.
        shares: For each level its share of that number: 1 for frequent ones.
    """

    merged: NDArray[np.int64]
    shares: NDArray[np.float64]

    @classmethod
    def of(cls, measured: Measurement) -> "KeptLevels":
        """From a noisy one-way marginal; a single rare level is not merged."""
        rare = np.flatnonzero(measured.values < _RARE_BELOW * measured.stddev)
        shares = np.ones(measured.values.size)
        if rare.size < 2:
            return cls(np.arange(measured.values.size), shares)
        frequent = np.setdiff1d(np.arange(measured.values.size), rare)
        merged = np.full(measured.values.size, frequent.size)
        merged[frequent] = np.arange(frequent.size)
        # Within the group of rare levels, from their reconciled noisy counts.
        noisy = Measurement(("level",), measured.values[rare], measured.stddev)
        psi = reconcile(Psi(Domain.of({"level": rare.size}), (noisy,)))
        counts = psi.measurements[0].values
        shares[rare] = counts / total(counts)
        return cls(merged, shares)

    @property
    def size(self) -> int:
        return int(self.merged.max()) + 1

    def summed(self, measured: Measurement) -> Measurement:
        """The marginal after merging; its stddev is the root of the mean variance of its counts."""
        values = np.bincount(self.merged, weights=measured.values, minlength=self.size)
        spread = (measured.values.size / self.size) ** 0.5
        return Measurement(measured.clique, np.rint(values).astype(np.int64), measured.stddev * spread)


@dataclass(frozen=True, slots=True, eq=False)
class MergedLevels:
    """A domain before and after merging; all of it follows from noisy marginals."""

    domain: Domain
    levels: tuple[KeptLevels, ...]

    @property
    def small(self) -> Domain:
        """The domain after merging."""
        return Domain(self.domain.attributes, tuple(levels.size for levels in self.levels))

    def merged(self, dataset: Dataset) -> Dataset:
        """The records after merging."""
        columns = [
            levels.merged[dataset.codes[:, axis]].astype(np.uint16)
            for axis, levels in enumerate(self.levels)
        ]
        return Dataset.of_columns(self.small, columns)

    def apart(self, model: TreeModel) -> TreeModel:
        """The model over the original levels; rare ones have fixed shares of their group."""
        tables = []
        for clique, merged in zip(model.tree.cliques, model.tables, strict=True):
            table: NDArray[Any] = merged
            for axis, attribute in enumerate(self.domain.axes(clique)):
                levels, shape = self.levels[attribute], [1] * table.ndim
                shape[axis] = -1
                table = np.take(table, levels.merged, axis=axis) * levels.shares.reshape(shape)
            tables.append(table)
        return TreeModel(self.domain, model.tree, tuple(tables))


@dataclass(frozen=True, slots=True)
class Mst(ModelBox):
    """A third of rho each: the attributes, the choice of a tree of pairs, and the pairs of that tree.

    Rare levels are merged before pairs are scored. A pair's score is the L1 distance,
    in records, between its marginal and that of independent attributes; an edge is drawn by the
    exponential mechanism among those that close no cycle (Kruskal's algorithm, privately).
    """

    privacy: AddedNoise
    noise: Noise

    def fit(self, dataset: Dataset, *, seed: int, progress: Progress = ignore_progress) -> KeptModel:  # noqa: ARG002 - privacy noise has no seed
        """Fit to records.

        Raises:
            InvalidDatasetError: There is no attribute.
            ModelTooLargeError: A tree of pairs may have too many cells.
        """
        check_attributes(dataset)
        names = dataset.domain.attributes
        _check_tree(dataset.domain)
        budget = PrivacyBudget(self.privacy, self.noise)
        third = budget.total / (3 if len(names) > 1 else 1)
        progress("attributes", 0.0)
        alone = budget.noisy_marginals(dataset, [(name,) for name in names], third)
        levels = MergedLevels(dataset.domain, tuple(map(KeptLevels.of, alone)))
        small = levels.merged(dataset)
        merged_marginals = [
            one.summed(marginal) for one, marginal in zip(levels.levels, alone, strict=True)
        ]
        edges = _chosen(
            small, merged_marginals, budget, third, lambda done: progress("choice", 0.2 + 0.2 * done)
        )
        pairs = budget.noisy_marginals(
            small, edges, third, lambda done: progress("pairs", 0.4 + 0.2 * done)
        )
        psi = Psi(small.domain, (*merged_marginals, *pairs))
        progress("model", 0.6)
        return KeptModel(levels.apart(graphical().fit_tree(psi, small.domain)))


def _chosen(
    dataset: Dataset,
    alone: Sequence[Measurement],
    budget: PrivacyBudget,
    part: Fraction,
    progress: StepProgress,
) -> list[Clique]:
    """The edges of the tree."""
    scores = _scores(dataset, alone, progress)
    group = {name: name for name in dataset.domain.attributes}
    edges: list[Clique] = []
    while len(edges) < len(group) - 1:
        open_pairs = [pair for pair in scores if group[pair[0]] != group[pair[1]]]
        among = np.array([scores[pair] for pair in open_pairs])
        each = part / (len(group) - 1)
        one, other = open_pairs[budget.choose(among, budget.l1_sensitivity * GRID, each)]
        edges.append((one, other))
        joined, left = group[one], group[other]
        group = {name: joined if of == left else of for name, of in group.items()}
    return edges


def _scores(
    dataset: Dataset, alone: Sequence[Measurement], progress: StepProgress
) -> Mapping[Clique, int]:
    """Distance of each pair from independence, with the number of records taken from noisy counts."""
    reconciled = reconcile(Psi(dataset.domain, tuple(alone))).measurements
    records = float(reconciled[0].values.sum())
    shares = {marginal.clique[0]: marginal.values / records for marginal in reconciled}
    names, scores = dataset.domain.attributes, dict[Clique, int]()
    for place, one in enumerate(names):
        progress(place / len(names))
        pairs = [(one, other) for other in names[place + 1 :]]
        # Only the tables of the pairs of one attribute are in memory at a time.
        for pair, table in zip(pairs, count_all(dataset, pairs), strict=True):
            scores[pair] = misfit(table, records * np.outer(shares[one], shares[pair[1]]))
    return scores


def _check_tree(domain: Domain) -> None:
    names = domain.attributes
    spanning_tree().check([*combinations(names, 2)] or [names], domain)


ENTRY = BoxEntry(
    "MST: a spanning tree of pairs, chosen and measured with noise (McKenna, Miklau, Sheldon 2021).",
    APPROXIMATE,
    approximate_claim,
    lambda parameters, surroundings: Mst(approximate(parameters), noise_of(surroundings)),
    privacy=approximate_privacy,
    check=lambda _parameters, _workload, domain: _check_tree(domain),
)
