"""Prediction of the effect of a card's noise on an analysis, before anything is measured.

Records are made up from the schema alone: independent attributes, levels equally frequent, numbers
uniform in equally frequent cells of their histograms, nothing missing. Their statistics are counted as
often as the dataset has records, by declaration, and the analysis is done on them with the noise that
the card would have. No draw is needed: standard errors know the noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gencard.analysis.answers.noise.reconciled import margins_of
from gencard.analysis.formulas.answering import answer_of
from gencard.core.card.sums import Sum
from gencard.core.coding import Coding, Edges
from gencard.core.domain import Clique
from gencard.core.errors import GencardError, NoiseDrownsError
from gencard.core.scale import shortest, steps_of
from gencard.core.statistics.formula import Analysis
from gencard.core.statistics.marginals import Counter
from gencard.core.statistics.psi import HistogramMeasurement, Measurement, Psi, SumMeasurement
from gencard.core.statistics.unit_sums import UnitSums, unit_bounds
from gencard.core.types import FloatArray, IntArray

_MOST_RECORDS = 20_000
_STANDARD_ERROR = "std_mean"
"""Column of tables of means."""

_DROWNS = "will probably drown this analysis (NOISE_DROWNS)"
_NEAR = 1.25
"""Noise so many times larger drowns what probably drowns: the limit 1/4 becomes 1/5."""


Measured = tuple[Mapping[Clique, float], Mapping[str, float], Mapping[Sum, tuple[float, float]]]
"""Marginals and histograms with the standard deviation of each count; sums with those of each sum and of
each count beside it."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Standard errors of an analysis of made-up records.

    Args:
        names: Of the numbers that have one.
        sampling: The standard error that the records alone leave.
        noise: What the noise adds, as another standard error; None if it drowns the analysis.
        near: It probably drowns the analysis.
    """

    names: tuple[str, ...]
    sampling: tuple[float, ...]
    noise: tuple[float, ...] | None
    near: bool = False

    def __str__(self) -> str:
        """One clause, for people."""
        if self.noise is None:
            return f"{_DROWNS}: take more budget, or fewer terms"
        low, high = min(self.ratios, default=0.0), max(self.ratios, default=0.0)
        near = f"; {_DROWNS}" if self.near else ""
        return f"adds {low:.2g} to {high:.2g} sampling errors{near}"

    @property
    def ratios(self) -> tuple[float, ...]:
        """The noise in units of the sampling error."""
        pairs = zip(self.noise or (), self.sampling, strict=False)
        return tuple(noise / error for noise, error in pairs if error > 0)


def predicted(
    text: str,
    kind: Analysis,
    coding: Coding,
    measured: Measured,
    records: int,
    *,
    rng: np.random.Generator,
    where: str = "",
    missing: str = "level",
) -> Prediction | None:
    """The standard errors of an analysis under the noise of a card.

    Args:
        measured: What the card would measure, and with which noise.
        records: How many there are, by declaration.
        rng: Makes up the records.
        where, missing: As in ``answer_of``.

    Returns:
        None where the analysis has no standard errors and the noise does not drown it, or no answer on
        made-up records.
    """
    made = _MadeUp.of(coding, records, rng=rng)

    def errors(times: float) -> dict[str, float]:
        margins = margins_of(made.psi(measured, times), coding)
        answer = answer_of(text, kind, margins, coding, where=where, missing=missing)
        if answer.coefficients is not None:
            return dict(zip(answer.coefficients.names, map(float, answer.coefficients.bse), strict=True))
        means = [table for table in answer.tables if _STANDARD_ERROR in table.column_names]
        return {
            f"mean of {row}": float(values[table.column_names.index(_STANDARD_ERROR)] or np.nan)
            for table in means
            for row, values in zip(table.row_names, table.values, strict=True)
        }

    try:
        sampling = errors(0.0)
    except GencardError:
        return None
    has_errors = any(map(np.isfinite, sampling.values()))  # means without squares by groups have none
    names, own = (tuple(sampling), tuple(sampling.values())) if has_errors else ((), ())
    try:
        total = errors(1.0)
    except NoiseDrownsError:
        return Prediction(names, own, None, True)
    except GencardError:
        return None
    if not has_errors:
        return None
    noise = tuple(max(total.get(name, np.inf) ** 2 - sampling[name] ** 2, 0.0) ** 0.5 for name in names)
    try:
        errors(_NEAR)
    except NoiseDrownsError:
        return Prediction(names, own, noise, True)
    return Prediction(names, own, noise)


@dataclass(frozen=True, slots=True, eq=False)
class _MadeUp:
    coding: Coding
    codes: Mapping[str, IntArray]
    numbers: Mapping[str, FloatArray]
    records: int

    @classmethod
    def of(cls, coding: Coding, records: int, *, rng: np.random.Generator) -> "_MadeUp":
        size = min(records, _MOST_RECORDS)
        codes: dict[str, IntArray] = {}
        numbers: dict[str, FloatArray] = {}
        for attribute in coding.attributes:
            one = attribute.coding
            if isinstance(one, Edges) and one.scale is not None:
                scale = one.scale
                firsts, lasts = np.array(unit_bounds(scale, scale.cells[:-1]), dtype=np.int64).T
                cell = rng.integers(0, len(firsts), size)
                steps = rng.integers(firsts[cell], lasts[cell] + 1) + scale.centre
                numbers[attribute.name] = scale.numbers(steps)
                starts = [steps_of(shortest(edge), scale.step) for edge in one.edges[:-1]]
                codes[attribute.name] = np.searchsorted(starts, steps, side="right") - 1
            else:
                codes[attribute.name] = rng.integers(0, one.size - one.missing, size)
        return cls(coding, codes, numbers, records)

    def psi(self, measured: Measured, times: float) -> Psi:
        """The statistics of as many records as there are, with so many times the noise."""
        cliques, fine, sums_of = measured
        size = len(next(iter(self.codes.values())))
        counter = Counter(self.coding.domain, list(cliques))
        counter.add([self.codes[name] for name in self.coding.domain.attributes])
        sums = UnitSums(self.coding, list(sums_of), list(fine))
        sums.add(self.codes, self.numbers)

        def scaled(values: Sequence[int]) -> tuple[int, ...]:
            return tuple(int(value) * self.records // size for value in values)

        marginals = tuple(
            Measurement(clique, table * self.records // size, times * stddev)
            for (clique, stddev), table in zip(cliques.items(), counter.marginals(), strict=True)
        )
        histograms = tuple(
            HistogramMeasurement(name, scaled(counts.tolist()), times * stddev)
            for (name, stddev), counts in zip(fine.items(), sums.fine_counts(), strict=True)
        )
        added = tuple(
            SumMeasurement(
                one,
                scaled(cells.values),
                times * stddev,
                scaled(cells.counts) if one.counts_beside(cliques, self.coding) else (),
                times * beside,
            )
            for (one, (stddev, beside)), cells in zip(sums_of.items(), sums.totals(), strict=True)
        )
        return Psi(self.coding.domain, marginals, (), histograms, added)
