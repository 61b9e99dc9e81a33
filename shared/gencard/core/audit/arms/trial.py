"""Step 2: what is measured on fresh runs, with every weight fixed before the first of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gencard.core.audit.arms.exploration import Findings
from gencard.core.audit.pairs.direction import Basis, Direction
from gencard.core.audit.pairs.extremal_pair import ExtremalPair
from gencard.core.audit.pairs.neighbouring_rows import neighbour_shares
from gencard.core.audit.pairs.weights import inverse_variance, within_blocks
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.statistics.closure import maximal
from gencard.core.types import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Five numbers for each run of the box on one dataset, shape ``(runs,)`` each.

    Args:
        values: ``g = <beta*, table of the output>``.
        followed: How far the output follows the inputs' difference in the strongest block alone.
        scatter: Squared distance of the output from the centre of step 1's, outside Phi.
        order: How far neighbouring rows look like those of the high side in step 1.
        recognition: How far the output lies towards ``D*`` itself.
    """

    values: FloatArray
    followed: FloatArray
    scatter: FloatArray
    order: FloatArray
    recognition: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """The weights of the five numbers, and what the inputs themselves would give.

    Args:
        tested: The blocks that ``beta*`` weighs, the heaviest first.
        strongest: The strongest block of step 1 among those that the pair differs in.
        following: Weights on the coordinates, 0 outside that block.
        input_gap: ``g`` of the high side minus ``g`` of the low side.
        followed_gap: The same of ``followed``.
        recognised_gap: ``recognition`` of the dataset itself minus that of the high side.
    """

    findings: Findings
    beta: Direction
    tested: tuple[Clique, ...]
    strongest: Clique
    following: FloatArray
    towards_original: Direction
    input_gap: float
    followed_gap: float
    recognised_gap: float

    def scores(self, outputs: Iterable[Dataset]) -> Scores:
        return Scores(*np.array([self._score(output) for output in outputs]).T)

    def _score(self, output: Dataset) -> tuple[float, float, float, float, float]:
        basis = self.findings.basis
        shares = basis.shares(output)
        coordinates = basis.coordinates(shares)
        distance = coordinates - self.findings.centre
        marginals = dict(zip(basis.cliques, shares, strict=True))
        return (
            self.beta.product(marginals),
            float(self.following @ coordinates),
            float(distance @ distance),
            float(self.findings.neighbours @ neighbour_shares(output)),
            self.towards_original.product(marginals),
        )


def trial(findings: Findings, dataset: Dataset, pair: ExtremalPair) -> Trial:
    """Weights for fresh runs on a pair and on ``D*`` itself, from step 1 and the inputs alone.

    ``beta*`` is the difference that step 1 leads one to expect, every cell weighted by its inverse
    variance: the linear score that tells the two sides apart best.
    """
    basis = findings.basis
    low, high, original = (basis.shares(side) for side in (pair.low, pair.high, dataset))
    difference = basis.coordinates(high) - basis.coordinates(low)
    copied = min(1.0, float(np.abs(findings.response).max()))
    spread = _mixed(findings.shares, _mixed(low, high, 0.5), copied / (1 + copied))
    expected = _expected(findings, difference)
    beta = _weighted(basis, expected, spread)
    strongest = _strongest(findings, difference)
    following = _only(basis.parts[strongest], within_blocks(basis, difference, spread))
    recognised = basis.coordinates(original) - findings.centre
    towards_original = _weighted(basis, recognised, _mixed(findings.shares, original, 0.5))
    return Trial(
        findings,
        beta,
        _heaviest_first(basis, expected),
        basis.cliques[strongest],
        following,
        towards_original,
        beta.value(pair.high) - beta.value(pair.low),
        float(following @ difference),
        towards_original.value(dataset) - towards_original.value(pair.high),
    )


def _expected(findings: Findings, difference: FloatArray) -> FloatArray:
    """Coordinates of the difference that a linear box with step 1's responses makes of this one."""
    expected = np.zeros_like(difference)
    along = _along(difference, findings.difference)
    for part, response in zip(findings.basis.parts, findings.response, strict=True):
        before, now = findings.difference[part], difference[part]
        again = _along(now, before) if before.any() else along
        expected[part] = response * now + again * findings.aside[part]
    return expected


def _along(now: FloatArray, before: FloatArray) -> float:
    """How often a difference holds an earlier one."""
    return float(now @ before) / float(before @ before)


def _strongest(findings: Findings, difference: FloatArray) -> int:
    """Position of the strongest block of step 1 among those in which the inputs differ now."""
    pairs = zip(findings.blocks, findings.basis.parts, strict=True)
    return int(np.argmax([block.strength if difference[part].any() else -1.0 for block, part in pairs]))


def _only(part: slice, vector: FloatArray) -> FloatArray:
    kept = np.zeros_like(vector)
    kept[part] = vector[part]
    return kept


def _weighted(basis: Basis, vector: FloatArray, spread: Sequence[FloatArray]) -> Direction:
    """Each cell divided by its expected share, to which the variance of its count is proportional.

    On the largest cliques only: their marginals hold those of the smaller ones.
    """
    cliques = maximal(_heaviest_first(basis, vector))
    shares = dict(zip(basis.cliques, spread, strict=True))
    tables = zip(cliques, basis.marginals(vector, cliques), strict=True)
    return Direction(
        basis.domain, cliques, tuple(inverse_variance(table, shares[clique]) for clique, table in tables)
    )


def _mixed(one: Sequence[FloatArray], other: Sequence[FloatArray], share: float) -> list[FloatArray]:
    return [(1 - share) * left + share * right for left, right in zip(one, other, strict=True)]


def _heaviest_first(basis: Basis, vector: FloatArray) -> tuple[Clique, ...]:
    """The blocks in which ``vector`` is not 0, the longest part first."""
    lengths = [float(np.linalg.norm(vector[part])) for part in basis.parts]
    order = sorted(range(len(lengths)), key=lambda block: -lengths[block])
    return tuple(basis.cliques[block] for block in order if lengths[block] > 0)
