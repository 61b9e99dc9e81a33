"""Step 2: what is tested on fresh runs, with every weight fixed before the first of them."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gencard.core.audit.exploration import Findings, inverse_variance
from gencard.core.audit.extremal_pair import ExtremalPair
from gencard.core.audit.neighbouring_rows import neighbour_shares
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.statistics.interactions import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """Four numbers for each run of the box on one dataset, shape ``(runs,)`` each.

    Args:
        values: ``g = <beta*, table of the output>``.
        scatter: Squared distance of the output from the centre of step 1's, outside Phi.
        order: How far neighbouring rows look like those of the high side in step 1.
        recognition: How far the output lies towards ``D*`` itself from the centre.
    """

    values: FloatArray
    scatter: FloatArray
    order: FloatArray
    recognition: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """The weights of the four numbers.

    Args:
        beta: One table for each block.
        weights: For each block, its part of ``reference``; 0 where it is not tested.
        towards_original: Weights of ``recognition``, one table for each block.
    """

    findings: Findings
    beta: list[FloatArray]
    weights: list[float]
    towards_original: list[FloatArray]

    @property
    def reference(self) -> float:
        """By how much ``g`` would differ between the sides if the output followed all of the input's
        difference.
        """
        return sum(self.weights)

    @property
    def tested(self) -> tuple[Clique, ...]:
        """The blocks that beta* weighs, the heaviest first."""
        pairs = zip(self.findings.basis.cliques, self.weights, strict=True)
        ordered = sorted((pair for pair in pairs if pair[1] > 0), key=lambda pair: -pair[1])
        return tuple(clique for clique, _ in ordered)

    def scores(self, outputs: Iterable[Dataset]) -> Scores:
        return Scores(*np.array([self._score(output) for output in outputs]).T)

    def _score(self, output: Dataset) -> tuple[float, float, float, float]:
        found = self.findings
        shares = found.basis.shares(output)
        distance = found.basis.coordinates(shares) - found.centre
        return (
            _product(self.beta, shares),
            float(distance @ distance),
            float(found.neighbours @ neighbour_shares(output)),
            _product(self.towards_original, shares),
        )


def trial(findings: Findings, dataset: Dataset, pair: ExtremalPair) -> Trial:
    """Weights for fresh runs on a pair and on ``D*`` itself, from step 1 and the inputs alone.

    ``beta*`` is the difference that step 1 leads one to expect, every cell weighted by its inverse
    variance: the best linear way to tell the two sides apart.
    """
    basis, least = findings.basis, 1 / len(dataset)
    low, high, original = (basis.shares(side) for side in (pair.low, pair.high, dataset))
    difference = basis.coordinates(high) - basis.coordinates(low)
    expected, whole = basis.tables(_expected(findings, difference)), basis.tables(difference)
    spread = _spread(findings, low, high)
    lengths = zip(_lengths(expected, spread, least), _lengths(whole, spread, least), strict=True)
    recognised = basis.tables(basis.coordinates(original) - findings.centre)
    between = [(one + other) / 2 for one, other in zip(findings.shares, original, strict=True)]
    return Trial(
        findings,
        inverse_variance(expected, spread, least),
        [one * other for one, other in lengths],
        inverse_variance(recognised, between, least),
    )


def _expected(findings: Findings, difference: FloatArray) -> FloatArray:
    """Coordinates of the difference that a linear box with step 1's responses makes of this one."""
    expected = np.zeros_like(difference)
    for part, response in zip(findings.basis.parts, findings.response, strict=True):
        before, now = findings.difference[part], difference[part]
        again = float(now @ before) / float(before @ before or 1.0)
        expected[part] = response * now + again * findings.aside[part]
    return expected


def _spread(findings: Findings, low: list[FloatArray], high: list[FloatArray]) -> list[FloatArray]:
    """Expected shares of the outputs: those of step 1, and as much of the inputs as comes out."""
    parts = zip(findings.shares, findings.response, low, high, strict=True)
    return [share + abs(response) * (one + other) / 2 for share, response, one, other in parts]


def _lengths(tables: list[FloatArray], spread: list[FloatArray], least: float) -> list[float]:
    """Length of each table in units of the noise."""
    return [
        float(np.sqrt(np.vdot(table, weighted)))
        for table, weighted in zip(tables, inverse_variance(tables, spread, least), strict=True)
    ]


def _product(tables: list[FloatArray], shares: list[FloatArray]) -> float:
    return sum(float(np.vdot(table, share)) for table, share in zip(tables, shares, strict=True))
