"""PrivBayes: a Bayesian network, its edges chosen and its tables measured privately.

J. Zhang, G. Cormode, C. Procopiuc, D. Srivastava, X. Xiao, "PrivBayes: Private Data Release via Bayesian
Networks", ACM TODS 42(4), 2017; general domains as they are coded (section 5, "vanilla").
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.boxes.entry import BoxEntry, Parameters, PrivacyBudget, noise_of, whole
from gencard.boxes.marginal_models import KeptModel, ModelBox, check_attributes
from gencard.core.card.budget import Claim, Neighbouring, decimal_of
from gencard.core.card.privacy import AddedNoise, InsideGenerator, Laplace, Noise
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidNumberError
from gencard.core.generators.contract import rng_of
from gencard.core.generators.models import NetworkModel, Node
from gencard.core.statistics.marginals import cell_numbers, count
from gencard.core.statistics.psi import on_simplex
from gencard.core.types import IntArray, Progress, ignore_progress

# Candidate parents of an attribute and their scores: integers that one record changes little.
#
# The scores of PrivBayes (Zhang et al. 2017, sections 4.2 and 5.3), n records in all, for neighbours
# that differ by replacing one.
#
# R, for any sizes, is half the L1 distance of the joint distribution from independence. Times
# :math:`2 n^2` it is :math:`\sum_{x, \pi} |n\,c(x, \pi) - c(x)\,c(\pi)|`. Replacing a record moves
# :math:`n\,c(x, \pi)` by :math:`2 n` in all, and :math:`c(x)\,c(\pi)` by :math:`2 n + 2 n + 4`: together
# :math:`6 n + 4`.
#
# F, where all attributes are binary, is minus half the L1 distance to the nearest distribution in
# which the parents determine the attribute, and which is uniform there. Times :math:`2 n`:
# :math:`-\min_S\, (n - 2 k_0)^+ + (n - 2 k_1)^+`, where S says which cells of the parents stand for
# 0, :math:`k_0` are the records with 0 in S, and :math:`k_1` those with 1 outside. A record moves two
# counts by 1, and so an L1 distance by 2 and :math:`2 n F` by 2.

_MOST_PAIRS = 50_000
"""That are scored for one choice."""
_WORD = 64
"""Bits, and records."""
_AT_ONCE = 1 << 14
"""Pairs of assignments compared at a time, so that they stay in a core's cache."""

_NARROW = 1 << 28
"""With fewer records every sum has 32 bits, and goes twice as fast."""
Planes = NDArray[np.uint64]
"""One row of bits for each of several levels or cells; a bit says whether a record lies there."""


@dataclass(frozen=True, slots=True)
class Pair:
    """An attribute and its parents, in the domain's order."""

    attribute: str
    parents: Clique


class BitPlanes:
    """The records of one dataset, attribute by attribute, as they are asked for."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._by_name: dict[str, Planes] = {}

    def joints(self, parents: Clique, attributes: Clique) -> IntArray:
        """Counts of each attribute's levels in each cell of the parents.

        Args:
            attributes: Of one size.

        Returns:
            Shape ``(attributes, cells of the parents, levels)``, in records.
        """
        size = self._dataset.domain.size(attributes[0])
        levels = np.concatenate([self._levels(name)[:-1] for name in attributes])
        cells = _packed(np.ones((1, len(self._dataset)), dtype=bool))
        for name in parents:  # one row for each cell, the last parent running fastest
            intersections = cells[:, None] & self._levels(name)
            cells = intersections.reshape(-1, intersections.shape[2])
        joints = np.empty((len(attributes), len(cells), size), dtype=np.int64)
        buffer = np.empty_like(levels)
        for number, cell in enumerate(cells):
            np.bitwise_and(levels, cell, out=buffer)
            joints[:, number, :-1] = _bits(buffer).reshape(len(attributes), size - 1)
        joints[:, :, -1] = _bits(cells) - joints[:, :, :-1].sum(axis=2)  # the level left out above
        return joints

    def _levels(self, name: str) -> Planes:
        if name not in self._by_name:
            levels = np.arange(self._dataset.domain.size(name))
            self._by_name[name] = _packed(self._dataset.column(name) == levels[:, None])
        return self._by_name[name]


_FEW = 128
"""Cells of a table up to which it is counted by bits, quicker than record by record."""


class ParentScores:
    """Scores of pairs over one dataset; each is computed once.

    Attributes:
        sensitivity: The most that replacing a record moves any of them.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._binary = all(size <= 2 for size in dataset.domain.sizes)
        self._planes = BitPlanes(dataset)
        self._scores: dict[Pair, int] = {}
        self.sensitivity = 2 if self._binary else 6 * len(dataset) + 4

    def of(self, pairs: Sequence[Pair]) -> IntArray:
        """The scores of pairs, in their order: F where all attributes are binary, else R."""
        lacking: dict[tuple[Clique, int], list[str]] = {}
        for pair in pairs:
            if pair not in self._scores:
                alike = (pair.parents, self._dataset.domain.size(pair.attribute))
                lacking.setdefault(alike, []).append(pair.attribute)
        for (parents, _), attributes in lacking.items():
            joints = self._joints(parents, tuple(attributes))
            scores = certainties(np.stack([*joints])) if self._binary else map(dependence, joints)
            for attribute, score in zip(attributes, scores, strict=True):
                self._scores[Pair(attribute, parents)] = int(score)
        return np.array([self._scores[pair] for pair in pairs], dtype=np.int64)

    def _joints(self, parents: Clique, attributes: Clique) -> Iterable[IntArray]:
        """For each attribute counts, one row for each cell of the parents, one column for each level."""
        domain = self._dataset.domain
        rows, size = domain.project(parents).cells, domain.size(attributes[0])
        if rows * size <= _FEW:
            return self._planes.joints(parents, attributes)
        cells = np.zeros(len(self._dataset), dtype=np.int64)  # the number of each record's cell
        if parents:
            places = [self._dataset.column(name) for name in parents]
            cells = cell_numbers(places, domain.project(parents).sizes).astype(np.int64)
        begins = cells * size
        columns = map(self._dataset.column, attributes)
        counts = (np.bincount(begins + column, minlength=rows * size) for column in columns)
        return (count.reshape(rows, size).astype(np.int64) for count in counts)


def dependence(joint: IntArray) -> int:
    r""":math:`2 n^2 R`, from 0 to below :math:`2 n^2`; the work is that of the cells with records.

    An empty cell adds :math:`c(x)\,c(\pi)`, and those products over all cells add up to :math:`n^2`.
    """
    records = joint.sum()
    cells = np.flatnonzero(joint)
    rows, columns = np.divmod(cells, joint.shape[1])
    independent = joint.sum(axis=1)[rows] * joint.sum(axis=0)[columns]
    apart = np.abs(records * joint.ravel()[cells] - independent)
    return int(records**2 + (apart - independent).sum())


def pairs_to_choose_from(
    domain: Domain, network: Sequence[Pair], most_cells: int, degree: int
) -> list[Pair]:
    """Every attribute not in the network yet, with every set of parents that nothing can be added to.

    Where these are more than can be scored, parents are fewer by one, or by as many as it takes: that
    follows from what is public and from choices that were made.

    Args:
        most_cells: Of the table of attribute and parents. Where it has more even without any, the
            attribute is offered without parents.
    """
    inside = {pair.attribute for pair in network}
    before = tuple(name for name in domain.attributes if name in inside)
    after = tuple(name for name in domain.attributes if name not in inside)
    for fewer in range(degree, 0, -1):
        # Attributes of one size have the same sets of parents: set by set, so that each is met once.
        pairs = (
            Pair(attribute, parents)
            for size in sorted({domain.size(name) for name in after})
            for parents in maximal_sets(domain, before, most_cells // size, fewer)
            for attribute in after
            if domain.size(attribute) == size
        )
        offered = list(islice(pairs, _MOST_PAIRS + 1))
        if len(offered) <= _MOST_PAIRS:
            return offered
    return [Pair(attribute, ()) for attribute in after]


def maximal_sets(domain: Domain, names: Clique, most_cells: int, degree: int) -> Iterator[Clique]:
    """Sets of attributes to which none can be added: over the bound on cells, or on their number."""
    sizes = {name: domain.size(name) for name in names}
    for chosen, room in _sets(sizes, names, most_cells, degree):
        others = (size for name, size in sizes.items() if name not in chosen)
        if len(chosen) == degree or all(size > room for size in others):
            yield chosen


def _sets(
    sizes: Mapping[str, int], names: Clique, most_cells: int, most: int
) -> Iterator[tuple[Clique, int]]:
    """Every set within the bounds, the empty one always, and what room it leaves in cells."""
    yield (), most_cells
    if most > 0:
        for place, name in enumerate(names):
            room = most_cells // sizes[name]
            if room > 0:
                for rest, left in _sets(sizes, names[place + 1 :], room, most - 1):
                    yield (name, *rest), left


def _packed(rows: NDArray[np.bool_]) -> Planes:
    """Rows of Booleans as rows of bits, padded with zeros to whole words, at least one."""
    words = max(1, -(-rows.shape[1] // _WORD))
    packed = np.zeros((len(rows), words * _WORD // 8), dtype=np.uint8)
    bits = np.packbits(rows, axis=1)
    packed[:, : bits.shape[1]] = bits
    return packed.view(np.uint64)


def _bits(planes: Planes) -> IntArray:
    """The bits that are set in each row."""
    counts: IntArray = np.bitwise_count(planes).sum(axis=1, dtype=np.uint32).astype(np.int64)
    return counts


def certainties(joints: IntArray) -> IntArray:
    r""":math:`2 n F` of each table, from :math:`-n` to 0.

    Cell after cell of the parents stands for 0 or for 1. Of all ways so far, those stay that no other
    one matches in both :math:`k_0` and :math:`k_1` [1]_: few, where ways double with each cell. Half of
    the cells and the other half are gone through apart, and then every way with every way [2]_.

    Args:
        joints: Shape ``(tables, cells of the parents, levels)``, in records; one level, or two.

    References:
        .. [1] G. Nemhauser, Z. Ullmann, "Discrete Dynamic Programming and Capital Allocation",
           Management Science 15(9), 1969.
        .. [2] E. Horowitz, S. Sahni, "Computing Partitions with Applications to the Knapsack Problem",
           Journal of the ACM 21(2), 1974.
    """
    cells = np.zeros((*joints.shape[:2], 2), dtype=np.int64)
    cells[:, :, : joints.shape[2]] = joints  # an attribute of one level has no 1
    records = cells.sum(axis=(1, 2))
    middle = cells.shape[1] // 2
    one, other = (_ways(part, records) for part in (cells[:, :middle], cells[:, middle:]))
    scores = [_least(*each) for each in zip(one, other, records, strict=True)]
    return -np.array(scores, dtype=np.int64)


def _least(one: IntArray, other: IntArray, records: int) -> int:
    """The least of :math:`(n - 2 k_0)^+ + (n - 2 k_1)^+` over two parts' ways, each with each."""
    narrow = np.int32 if records < _NARROW else np.int64
    short: NDArray[Any] = (records - 2 * one).astype(narrow)
    added: NDArray[Any] = (2 * other).astype(narrow)
    step = max(1, _AT_ONCE // added.shape[1])
    least = []
    for begin in range(0, short.shape[1], step):
        zeros, ones = short[:, begin : begin + step, None] - added[:, None]
        np.maximum(zeros, 0, out=zeros)
        zeros += np.maximum(ones, 0, out=ones)
        least.append(int(zeros.min()))
    return min(least)


def _ways(cells: IntArray, records: IntArray) -> IntArray:
    """Sums k_0 and k_1 of the ways that count, shape ``(tables, 2, ways)``, filled up with 0.

    A way counts if no other one of its table is as large or larger in both sums; of equal ones one.
    """
    met = np.zeros((len(cells), 2, 1), dtype=np.int64)
    wide = np.int64(int(records.max(initial=0)).bit_length())  # bits of the largest sum there may be
    for cell in cells.transpose(1, 0, 2):
        sums = np.concatenate([met, met], axis=2)
        sums[:, 0, : met.shape[2]] += cell[:, :1]
        sums[:, 1, met.shape[2] :] += cell[:, 1:]
        ordered = np.sort(sums[:, 0] << wide | sums[:, 1], axis=1)
        ones = ordered & ((np.int64(1) << wide) - 1)
        after = np.full_like(ones, -1)
        after[:, :-1] = np.maximum.accumulate(ones[:, :0:-1], axis=1)[:, ::-1]
        tables, places = np.nonzero(ones > after)
        begins = np.searchsorted(tables, np.arange(len(sums)))
        met = np.zeros((len(sums), 2, int(np.bincount(tables).max(initial=0))), dtype=np.int64)
        met[tables, 0, np.arange(len(tables)) - begins[tables]] = ordered[tables, places] >> wide
        met[tables, 1, np.arange(len(tables)) - begins[tables]] = ones[tables, places]
    return met


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
        part = budget.remaining / len(network)  # each table has an equal part of what remains
        nodes = []
        for number, pair in enumerate(network):
            progress("tables", 0.5 + 0.5 * number / len(network))
            clique = (*pair.parents, pair.attribute)
            noisy = budget.noisy_marginal(clique, count(dataset, clique), part).values
            table = np.zeros(noisy.shape)
            if len(dataset):  # counts from 0 up that sum to n records
                table = on_simplex(noisy.astype(np.float64), len(dataset))
            nodes.append(Node(pair.attribute, pair.parents, table))
        return KeptModel(NetworkModel(dataset.domain, tuple(nodes)))

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


ENTRY = BoxEntry(
    "PrivBayes: a Bayesian network, its edges chosen and its tables measured with noise (Zhang et al. "
    "2017).",
    {"epsilon": "1", "theta": "4", "beta": "0.3", "degree": "4"},
    _claim,
    lambda parameters, surroundings: PrivBayes(
        _privacy(parameters),
        noise_of(surroundings),
        Fraction(decimal_of(parameters["theta"], "theta")),
        Fraction(decimal_of(parameters["beta"], "beta")),
        whole(parameters, "degree", 0, 16),
    ),
    privacy=lambda parameters: InsideGenerator(_privacy(parameters)),
)
