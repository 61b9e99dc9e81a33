"""Step 2: what is measured on fresh runs, with every weight fixed before the first of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gencard.core.audit.direction import Basis, Direction
from gencard.core.audit.exploration import (
    Comparison,
    Findings,
    brown_forsythe,
    inverse_variance,
    neighbour_shares,
    welch,
    within_blocks,
)
from gencard.core.audit.extremal_pair import ExtremalPair
from gencard.core.audit.plan import AuditPlan, Side
from gencard.core.audit.report import LARGEST_EFFECT, LEVEL_SHARES, Check, CheckResult, Effect
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.statistics.marginals import maximal
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

    @property
    def columns(self) -> tuple[FloatArray, ...]:
        """The five numbers, each of shape ``(runs,)``."""
        return self.values, self.followed, self.scatter, self.order, self.recognition


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
    # The strongest block of step 1 among those in which the inputs differ now.
    pairs = zip(findings.blocks, basis.parts, strict=True)
    strengths = [block.strength if difference[part].any() else -1.0 for block, part in pairs]
    strongest = int(np.argmax(strengths))
    part, following = basis.parts[strongest], np.zeros_like(difference)
    following[part] = within_blocks(basis, difference, spread)[part]
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
    """Return the coordinates of the difference that a linear box with step 1's responses would make."""
    expected = np.zeros_like(difference)
    along = _along(difference, findings.difference)
    for part, response in zip(findings.basis.parts, findings.response, strict=True):
        before, now = findings.difference[part], difference[part]
        again = _along(now, before) if before.any() else along
        expected[part] = response * now + again * findings.aside[part]
    return expected


def _along(now: FloatArray, before: FloatArray) -> float:
    """Return the component of a difference along an earlier one, as a multiple of the earlier one."""
    return float(now @ before) / float(before @ before)


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


def pair_checks(scores: dict[Side, Scores]) -> tuple[CheckResult, ...]:
    """The tests of step 2 on both sides of the pair and on the dataset itself."""
    low, high, original = (scores[side] for side in Side)
    directed = {
        Check.MEAN: welch(low.values, high.values),
        Check.ORDER: welch(low.order, high.order),
        Check.RECOGNITION: welch(high.recognition, original.recognition),
    }
    undirected = {
        Check.SPREAD: brown_forsythe(low.values, high.values),
        Check.SCATTER: welch(low.scatter, high.scatter).p_value,
    }
    p_values = undirected | {check: test.p_value for check, test in directed.items()}
    directions = {check: test.direction for check, test in directed.items()}
    return tuple(
        CheckResult(check, LEVEL_SHARES[check], p_values[check], directions.get(check, 0))
        for check in p_values
    )


def effect_of(scores: dict[Side, Scores], test: Trial, plan: AuditPlan) -> Effect:
    """Share of the strongest block's difference that came out again, and the least effect detected."""
    low, high = scores[Side.LOW], scores[Side.HIGH]
    followed, mean = welch(low.followed, high.followed), welch(low.values, high.values)
    below, above = followed.interval()
    gap = test.followed_gap
    return Effect(
        test.strongest,
        followed.gap / gap,
        below / gap,
        above / gap,
        _smallest(mean, Check.MEAN, test.input_gap, plan),
    )


def recognised_of(scores: dict[Side, Scores], test: Trial, plan: AuditPlan) -> float:
    """The smallest part of the dataset's own difference from the high side that is found."""
    compared = welch(scores[Side.HIGH].recognition, scores[Side.ORIGINAL].recognition)
    return _smallest(compared, Check.RECOGNITION, test.recognised_gap, plan)


def _smallest(compared: Comparison, check: Check, input_gap: float, plan: AuditPlan) -> float:
    """The smallest effect found in 8 of 10 audits, as a part of what the inputs themselves differ by."""
    if not input_gap:
        return LARGEST_EFFECT
    return min(
        LARGEST_EFFECT, compared.smallest_detectable(LEVEL_SHARES[check] * plan.level) / abs(input_gap)
    )
