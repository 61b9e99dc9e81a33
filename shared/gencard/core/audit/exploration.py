"""Step 1: look for a direction in which the outputs of a box follow its inputs outside Phi."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import scipy

from gencard.core.audit.direction import Basis, Direction
from gencard.core.audit.extremal_pair import ExtremalPair
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.types import FloatArray

# Tests of whether two samples have one distribution; corrections for many tests; pooling over tries.
#
# A leak that one audit misses shows in several: a generator that is submitted until it passes adds to
# the evidence against it with each try. Submitting versions without a leak in between dilutes a pool of
# all tries, but no other pool: so the newest tries, and those of the same bytes, are pooled by
# themselves too (``windows``), each at its part of the level.


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two means compared.

    Args:
        gap: Mean of ``high`` minus mean of ``low``.
        error: Standard error of the gap.
        freedom: Degrees of freedom of Student's distribution.
        p_value: Two-sided.
    """

    gap: float
    error: float
    freedom: float
    p_value: float

    @property
    def direction(self) -> int:
        """Sign of the gap: 1, -1, or 0 where the means are equal."""
        return (self.gap > 0) - (self.gap < 0)

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Confidence interval of the gap."""
        reach = float(scipy.special.stdtrit(self.freedom, 0.5 + confidence / 2)) * self.error
        return self.gap - reach, self.gap + reach

    def smallest_detectable(self, level: float) -> float:
        """About the smallest true gap that 8 of 10 tests at ``level`` find."""
        quantile = scipy.special.stdtrit
        reach = quantile(self.freedom, 1 - level / 2) + quantile(self.freedom, 0.8)
        return float(reach) * self.error


def welch(low: FloatArray, high: FloatArray) -> Comparison:
    """Compare the means of two samples of unequal variance.

    A generator without randomness gives two constants, for which t is 0/0. Equal constants are no
    evidence (p = 1); unequal ones are proof (p = 0).
    """
    gap = float(high.mean() - low.mean())
    if np.ptp(low) == 0 and np.ptp(high) == 0:
        # Not ``gap != 0``: means of equal constants may differ in the last bit.
        unequal = bool(low[0] != high[0])
        return Comparison(gap if unequal else 0.0, 0.0, 1.0, 0.0 if unequal else 1.0)
    parts = np.array([low.var(ddof=1) / len(low), high.var(ddof=1) / len(high)])
    error = float(np.sqrt(parts.sum()))
    shares = parts / parts.sum()
    freedom = 1 / float(shares[0] ** 2 / (len(low) - 1) + shares[1] ** 2 / (len(high) - 1))
    return Comparison(gap, error, freedom, 2 * float(scipy.special.stdtr(freedom, -abs(gap) / error)))


def brown_forsythe(low: FloatArray, high: FloatArray) -> float:
    """p-value for equal spread: Welch's test on the distances from each sample's median.

    M. Brown, A. Forsythe, "Robust tests for the equality of variances", JASA 69 (1974).
    """
    return welch(np.abs(low - np.median(low)), np.abs(high - np.median(high))).p_value


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values: rejecting those up to a level keeps it over all of them together.

    >>> holm([0.01, 0.04, 0.03])
    (0.03, 0.06, 0.06)
    """
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(np.asarray(p_values)[order] * factors))
    return tuple(float(p_value) for p_value in adjusted)


SMALLEST_P = 1e-300
"""Smaller p-values count as this one; z has then about 37 standard errors."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One test in one try.

    Args:
        p_value: Two-sided where the test has a direction.
        direction: 1, -1, or 0 for a test without a direction; see ``CheckResult``.
        weight: Positive, fixed before the try: its z counts in this proportion.
    """

    p_value: float
    direction: int
    weight: float


def pooled_p_value(evidence: Sequence[Evidence]) -> float:
    r"""One p-value of a test in several independent tries.

    Tests with a direction in every try are pooled by Stouffer's method with weights [1]_: with
    :math:`z_k = d_k \Phi^{-1}(1 - p_k / 2)`, the sum :math:`\sum w_k z_k / \sqrt{\sum w_k^2}` is
    standard normal without a leak, and is tested on both sides. Others are pooled by Fisher's method
    [2]_: :math:`-2 \sum \log p_k` has a chi-squared distribution with two degrees of freedom for each
    try, or lies below it where p-values are discrete (a p-value of 1 adds nothing; in Stouffer's method
    it would outweigh all others). One try alone keeps its p-value.

    >>> round(pooled_p_value([Evidence(0.05, 1, 1.0), Evidence(0.05, 1, 1.0)]), 4)
    0.0056
    >>> round(pooled_p_value([Evidence(0.05, 1, 1.0), Evidence(0.05, -1, 1.0)]), 4)
    1.0

    References:
        .. [1] T. Liptak, "On the combination of independent tests" (1958); S. Stouffer et al.,
           "The American Soldier", vol. 1 (1949).
        .. [2] R. A. Fisher, "Statistical Methods for Research Workers", 4th edition (1932), 21.1.
    """
    if len(evidence) == 1:
        return evidence[0].p_value
    # A p-value of 0 would have an infinite z, which no later try could outweigh.
    p_values = np.maximum([one.p_value for one in evidence], SMALLEST_P)
    directions = np.array([one.direction for one in evidence])
    if not directions.all():
        return float(scipy.special.chdtrc(2 * len(evidence), -2 * np.log(p_values).sum()))
    weights = np.array([one.weight for one in evidence])
    # Equal to ndtri(1 - p / 2), where small p-values would be lost to rounding.
    z = directions * -scipy.special.ndtri(p_values / 2)
    return 2 * float(scipy.special.ndtr(-abs(float(weights @ z)) / sqrt(float(weights @ weights))))


def windows(same_bytes: Sequence[bool]) -> tuple[tuple[int, ...], ...]:
    """Return the positions of tries that are pooled, oldest first; the last one is judged.

    The newest 1, 2, 4, ... tries, all of them, and all of the same bytes as the last one; each set once.
    Their number depends on the number of tries and on digests alone, never on an outcome.

    >>> windows([True, False, True])
    ((2,), (1, 2), (0, 1, 2), (0, 2))
    """
    number = len(same_bytes)
    # A leak may begin at any try, and honest tries before it dilute its evidence. Doubling lengths keep
    # the number of windows, and so the Bonferroni factor, logarithmic in the number of tries.
    lengths = [2**power for power in range(number.bit_length()) if 2**power < number]
    newest = [tuple(range(number - length, number)) for length in (*lengths, number)]
    same = tuple(position for position in range(number) if same_bytes[position])
    return tuple(dict.fromkeys([*newest, same]))


def pooled_over_windows(evidence: Sequence[Evidence], same_bytes: Sequence[bool]) -> float:
    """The smallest p-value of all windows, times their number (Bonferroni), at most 1.

    Args:
        evidence: One test in every try, oldest first.
        same_bytes: For each try, whether it had the bytes of the last one; the last is True.
    """
    sets = windows(same_bytes)
    smallest = min(pooled_p_value([evidence[position] for position in positions]) for positions in sets)
    return min(1.0, len(sets) * smallest)


MOST_LEVELS = 64
"""The order of rows is tested on so many classes of an attribute's levels."""

_UNIFORM = 0.02
"""Share of a uniform table that is mixed in, to bound the weights of cells that are hardly ever hit."""

LARGEST_Z = 1e6
"""Largest absolute z that is reported: z has no bound if a box has no randomness."""
_NOISE_OF_Z = 1.0
"""The root mean square of z without a leak."""
_WEAK = 0.1
"""Beside a block of large z, those below this part of it are taken for noise too."""
_NOISE_OF_ENERGY = 3.0
"""The same for what does not follow the input; stricter, because its direction is estimated too."""


@dataclass(frozen=True, slots=True)
class BlockEvidence:
    """Evidence of step 1 on one block.

    Args:
        dimension: Dimension of the block, ``prod(n_i - 1)``.
        z: How far the outputs follow the input's difference, in standard errors.
        reproduced: The paper's diagonal coefficient pooled over the block: 0 not reproduced, 1 copied.
            None where the inputs do not differ in the block; 0 in reports of the first edition.
        energy: Squared difference of the mean outputs, unbiased, in standard errors: also sees leaks
            that do not follow the input.
        p_value: Two-sided p value of ``z``, adjusted by Holm over all blocks.
    """

    clique: Clique
    dimension: int
    z: float
    reproduced: float | None
    energy: float
    p_value: float

    @property
    def strength(self) -> float:
        """The larger of the two signs of a leak, in standard errors."""
        return max(abs(self.z), self.energy)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Summary of the outputs of one side in step 1.

    Args:
        coordinates: In the basis, shape ``(runs, dimensions)``.
        shares: Mean marginal on each clique.
        neighbours: Mean of ``neighbour_shares``.
    """

    coordinates: FloatArray
    shares: list[FloatArray]
    neighbours: FloatArray

    @classmethod
    def of(cls, basis: Basis, datasets: Iterable[Dataset]) -> "Sample":
        shares, neighbours = [], []
        for dataset in datasets:
            shares.append(basis.shares(dataset))
            neighbours.append(neighbour_shares(dataset))
        coordinates = np.array([basis.coordinates(tables) for tables in shares])
        means = [sum(tables) / len(tables) for tables in zip(*shares, strict=True)]
        return cls(coordinates, means, np.mean(neighbours, axis=0))

    def projections(self, basis: Basis, difference: FloatArray) -> FloatArray:
        """Numbers through which each run moves what step 1 finds, shape ``(runs, 2 * blocks)``.

        In each block: how far the run lies along the inputs' difference, and its squared distance from
        the median run.
        """
        columns = []
        for part in basis.parts:
            coordinates = self.coordinates[:, part]
            distance = coordinates - np.median(coordinates, axis=0)
            columns += [coordinates @ difference[part], np.square(distance).sum(axis=1)]
        return np.column_stack(columns)


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """Results of step 1 that step 2 needs.

    Args:
        difference: Coordinates of the input's difference, high minus low.
        response: For each block, which part of its difference the output is expected to follow.
        aside: Coordinates of the output's difference that does not follow the input.
        centre: Mean coordinates of all outputs.
        shares: Mean marginals of all outputs.
        neighbours: Weights on ``neighbour_shares``.
    """

    basis: Basis
    blocks: tuple[BlockEvidence, ...]
    difference: FloatArray
    response: FloatArray
    aside: FloatArray
    centre: FloatArray
    shares: list[FloatArray]
    neighbours: FloatArray

    def towards(self, difference: FloatArray) -> Direction:
        """The direction along ``difference``, each block weighted by its expected reproduction.

        Output differences where the inputs are equal may follow any block, so they add to every weight.
        """
        # Length of ``aside`` in blocks in which the inputs do not differ, beside their difference.
        still = (self.aside[part] for part in self.basis.parts if not self.difference[part].any())
        length = sqrt(sum(float(aside @ aside) for aside in still))
        elsewhere = length / (float(np.linalg.norm(self.difference)) or 1.0)
        vector = np.zeros_like(difference)
        for part, response in zip(self.basis.parts, self.response, strict=True):
            before, now = (float(np.linalg.norm(d[part])) for d in (self.difference, difference))
            if before and now:
                strength = abs(response) + float(np.linalg.norm(self.aside[part])) / before
                vector[part] = (strength + elsewhere) * difference[part] / now
        return self.basis.direction(self.basis.tables(vector))


def explore(basis: Basis, pair: ExtremalPair, low: Sample, high: Sample) -> Findings:
    """Compare the outputs on the two sides of a pair, block by block."""
    difference = basis.difference(pair.low, pair.high)
    shares = [(one + other) / 2 for one, other in zip(low.shares, high.shares, strict=True)]
    weights = within_blocks(basis, difference, shares)
    change = high.coordinates - low.coordinates
    blocks = [_Block(change[:, part], difference[part], weights[part]) for part in basis.parts]
    p_values = holm([block.p_value for block in blocks])
    # Expected responses; the strongest block is kept also where all look like noise.
    noise = max(_NOISE_OF_Z, _WEAK * max(abs(block.z) for block in blocks))
    responses = np.array([_beyond(noise, block.z) * block.reproduced for block in blocks])
    if not responses.any() and not any(block.aside.any() for block in blocks):
        strongest = int(np.argmax([abs(block.z) if block.reference else -1.0 for block in blocks]))
        responses[strongest] = blocks[strongest].reproduced or 1.0
    listed = zip(blocks, basis.cliques, p_values, strict=True)
    return Findings(
        basis,
        tuple(block.evidence(clique, p_value) for block, clique, p_value in listed),
        difference,
        responses,
        np.concatenate([block.aside for block in blocks]),
        np.concatenate([low.coordinates, high.coordinates]).mean(axis=0),
        shares,
        # The share of one record keeps pairs of levels that never occur from a division by 0.
        (high.neighbours - low.neighbours) / (high.neighbours + low.neighbours + 1 / len(pair.low)),
    )


class _Block:
    """One block's statistics over the runs of step 1."""

    def __init__(self, change: FloatArray, difference: FloatArray, weights: FloatArray) -> None:
        self.dimension = len(difference)
        self.reference = float(difference @ weights)
        follows = change @ weights
        mean, error = float(follows.mean()), float(follows.std(ddof=1)) / sqrt(len(follows))
        # In standard errors, cut at LARGEST_Z; 0 where all values are.
        is_cut = abs(mean) >= LARGEST_Z * error
        self.z = float(np.sign(mean)) * LARGEST_Z if is_cut else mean / error
        self.reproduced = mean / self.reference if self.reference else 0.0
        self.p_value = 2 * float(scipy.special.stdtr(len(follows) - 1, -abs(self.z)))
        self.energy = _energy(change)
        rest = change - np.outer(change @ difference, difference) / (difference @ difference or 1.0)
        self.aside = _beyond(_NOISE_OF_ENERGY, _energy(rest)) * rest.mean(axis=0)

    def evidence(self, clique: Clique, p_value: float) -> BlockEvidence:
        reproduced = self.reproduced if self.reference else None
        return BlockEvidence(clique, self.dimension, self.z, reproduced, self.energy, p_value)


def _energy(change: FloatArray) -> float:
    """Mean product of the changes of two different runs, in standard errors.

    Without a leak each run's change is as likely as its opposite, so that the products of different
    pairs of runs are uncorrelated and of mean 0.
    """
    products = change @ change.T
    products[np.diag_indices_from(products)] = 0
    size = float(np.sqrt(2 * np.square(products).sum()))
    return float(products.sum()) / size if size else 0.0


def _beyond(noise: float, value: float) -> float:
    """The part of an estimate that noise of this size does not explain (James and Stein)."""
    return max(0.0, 1 - (noise / value) ** 2) if value else 0.0


def neighbour_shares(dataset: Dataset) -> FloatArray:
    """Return how often each level of an attribute follows each other one from row to row.

    Returns:
        The tables one after the other, each in shares of the pairs of neighbouring rows.
    """
    pairs = max(len(dataset) - 1, 1)
    tables = []
    for axis, size in enumerate(dataset.domain.sizes):
        levels = min(size, MOST_LEVELS)
        codes = dataset.codes[:, axis].astype(np.int64) * levels // size
        counts = np.bincount(codes[:-1] * levels + codes[1:], minlength=levels**2).astype(np.float64)
        tables.append(counts / pairs)
    return np.concatenate(tables)


def inverse_variance(table: FloatArray, shares: FloatArray) -> FloatArray:
    """Each entry divided by the expected share of its cell.

    The variance of a cell's count is nearly proportional to its expected share, so of all linear
    scores this one separates two sides that differ by ``table`` by most standard deviations (Fisher).
    """
    return table / ((1 - _UNIFORM) * shares + _UNIFORM / shares.size)


def within_blocks(basis: Basis, vector: FloatArray, shares: Sequence[FloatArray]) -> FloatArray:
    """Apply ``inverse_variance`` in each block and keep only the part inside the block.

    Args:
        shares: Expected marginal on each clique of the basis.
    """
    pairs = zip(basis.tables(vector), shares, strict=True)
    return basis.coordinates([inverse_variance(table, share) for table, share in pairs])
