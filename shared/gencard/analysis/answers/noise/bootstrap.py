"""Intervals of any number of an answer: the parametric bootstrap through the mechanism.

From psi alone: a maximum-entropy model is fitted to it, records are drawn from the model, noise like
that of psi is put on their tables, and the analysis is done again. How far these answers lie from that
of the model itself is how far the answer lies from the truth [1]_. What noise adds on average is taken
away, too: with noise, Cramér's V of independent attributes is well above zero.

References:
    .. [1] C. Ferrando, S. Wang, D. Sheldon, "Parametric Bootstrap for Differentially Private Confidence
       Intervals", AISTATS 2022.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from gencard.analysis.answers.answer import AnalysisAnswer, coefficients_of, table_of
from gencard.analysis.answers.margins import Margins, Occupied, occupied_of
from gencard.analysis.answers.noise.numbers import without_errors
from gencard.analysis.answers.noise.reconciled import NoisyMargins
from gencard.core.card.privacy import Mechanism
from gencard.core.domain import Clique, Domain
from gencard.core.errors import ComputationError, InvalidInputError, NoiseDrownsError
from gencard.core.generators.family import ipf
from gencard.core.statistics.marginals import project
from gencard.core.statistics.psi import Blocks, Measurement, Psi, interactions, marginal_of
from gencard.core.types import FloatArray, Progress, ignore_progress

REPLICATES = 400

INTERVALS = "intervals"
"""The table of an answer that has them."""

_COLUMNS = ("estimate", "std err", "[0.025", "0.975]")

_FEWEST_ANSWERED = 0.9
"""Share of the replicates that must have an answer: the others would not be missing at random."""

_MOST_CELLS = 2_000_000
"""Most cells of the model's table, which is drawn for each replicate."""

Analysis = Callable[[Margins], AnalysisAnswer]


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Margins of drawn records, with the interactions of drawn noise added; of the model, without."""

    source_of: Margins
    attributes: Clique
    table: FloatArray
    noise: Blocks

    @property
    def domain(self) -> Domain:
        return self.source_of.domain

    def counts(self, clique: Clique) -> FloatArray:
        self.source(clique)  # the model has a table of all attributes; psi has not
        counts: FloatArray = project(self.table, self.attributes, clique).astype(np.float64)
        return counts + marginal_of(self.domain, tuple(clique), self.noise) if self.noise else counts

    def variances(self, clique: Clique) -> FloatArray:
        return self.source_of.variances(clique)

    def occupied(self, clique: Clique) -> Occupied:
        return occupied_of(self.counts(clique))

    def source(self, clique: Clique) -> Clique:
        return self.source_of.source(clique)


@dataclass(frozen=True, slots=True, eq=False)
class Bootstrap:
    """Settings of a bootstrap.

    Args:
        rng: The source of records and noise.
        mechanism: The law of the noise of psi; ``EXACT`` for counts that were rounded.
        replicates: How often they are drawn.
        progress: Called after each.
    """

    rng: np.random.Generator
    mechanism: Mechanism = Mechanism.LAPLACE
    replicates: int = REPLICATES
    progress: Progress = ignore_progress


def bootstrapped(
    analysis: Analysis, margins: NoisyMargins, cliques: tuple[Clique, ...], how: Bootstrap
) -> AnalysisAnswer:
    """The answer with a table of intervals: of each number, its estimate less the bias, and 95 %.

    Standard errors, intervals and p values that do not know the noise are left out.

    Args:
        analysis: From margins to an answer.
        cliques: The marginals that determine it.

    Raises:
        NoiseDrownsError: The analysis has no answer, on psi or on more than a tenth of the draws.
        ModelTooLargeError: The attributes have too many cells together.
        NotConvergedError: No model was found.
    """
    answer = without_errors(_answered(analysis, margins))
    model = fitted(margins, cliques)
    centre = _numbers(_answered(analysis, model))
    replicates = []
    for replicate in range(how.replicates):
        how.progress("bootstrap", replicate / how.replicates)
        try:
            replicates.append(_numbers(analysis(_replicate(model, margins, how.mechanism, rng=how.rng))))
        except (ComputationError, InvalidInputError, ArithmeticError, ValueError):
            continue
    if len(replicates) < _FEWEST_ANSWERED * how.replicates:
        raise NoiseDrownsError
    return _with_intervals(answer, centre, replicates)


def fitted(margins: NoisyMargins, cliques: tuple[Clique, ...]) -> Drawn:
    """The maximum-entropy model of some marginals, as a table of expected counts.

    Raises:
        ModelTooLargeError: The attributes have too many cells together.
        NotConvergedError: No model was found.
    """
    measurements = tuple(
        Measurement(clique, margins.counts(clique), sqrt(margins.variances(clique).max()))
        for clique in cliques
    )
    domain = margins.domain.covered_by(cliques)
    psi = Psi(domain, measurements)
    model = ipf(max_cells=_MOST_CELLS).fit_table(psi, domain)
    records = max(float(margins.counts(())), 1.0)
    return Drawn(margins, domain.attributes, model.probabilities * records, {})


def _replicate(
    model: Drawn, margins: NoisyMargins, mechanism: Mechanism, *, rng: np.random.Generator
) -> Drawn:
    records = round(float(model.table.sum()))
    shares = model.table.reshape(-1) / model.table.sum()
    table = rng.multinomial(records, shares).reshape(model.table.shape)
    psi = margins.measured.psi
    noise = tuple(
        Measurement(m.clique, simulated(m.values.shape, m.stddev, mechanism, rng=rng), m.stddev)
        for m in psi.measurements
    )
    counts = table.astype(np.float64)
    return replace(model, table=counts, noise=interactions(Psi(psi.domain, noise)))


def simulated(
    sizes: tuple[int, ...], stddev: float, mechanism: Mechanism, *, rng: np.random.Generator
) -> FloatArray:
    r"""Noise with the law of a mechanism, for simulation only: it protects nobody.

    Discrete Laplace noise of standard deviation s has :math:`2 q / (1 - q)^2 = s^2`.
    """
    if stddev == 0:
        return np.zeros(sizes)
    if mechanism is Mechanism.LAPLACE:
        variance = stddev**2
        share = 1 - (variance + 1 - sqrt(2 * variance + 1)) / variance
        one, other = rng.geometric(share, (2, *sizes))
        return np.asarray(one - other, dtype=np.float64)
    if mechanism is Mechanism.EXACT:
        return rng.uniform(-1.0, 1.0, sizes) * stddev * sqrt(3)
    if mechanism is Mechanism.GAUSSIAN:
        return np.rint(rng.normal(0.0, stddev, sizes))
    raise NotImplementedError(f"the bootstrap does not support {mechanism} noise")


def _answered(analysis: Analysis, margins: Margins) -> AnalysisAnswer:
    try:
        return analysis(margins)
    except (ComputationError, InvalidInputError, ArithmeticError, ValueError):
        raise NoiseDrownsError from None


def _numbers(answer: AnalysisAnswer) -> Mapping[str, float]:
    """Every number that an answer estimates, by a name."""
    numbers: dict[str, float] = {}
    if answer.coefficients is not None:
        numbers.update(zip(answer.coefficients.names, answer.coefficients.params, strict=True))
    numbers.update({one.name: one.value for one in answer.scalars if one.value is not None})
    for table in answer.tables:
        for row, values in zip(table.row_names, table.values, strict=True):
            for column, value in zip(table.column_names, values, strict=True):
                if value is not None:
                    numbers[f"{table.name}: {row}, {column}"] = value
    return numbers


def _with_intervals(
    answer: AnalysisAnswer, centre: Mapping[str, float], drawn: list[Mapping[str, float]]
) -> AnalysisAnswer:
    numbers = _numbers(answer)
    names = [name for name in numbers if name in centre and all(name in one for one in drawn)]
    errors = np.array([[one[name] - centre[name] for name in names] for one in drawn])
    values = np.array([numbers[name] for name in names])
    low, high = np.quantile(errors, [0.025, 0.975], axis=0)
    rows = np.stack(
        [values - errors.mean(axis=0), errors.std(axis=0, ddof=1), values - high, values - low]
    )
    covariance = np.cov(errors.T).reshape(len(names), len(names))
    note = f"intervals by parametric bootstrap through the mechanism, {len(drawn)} draws"
    table = table_of(INTERVALS, tuple(names), _COLUMNS, rows.T)
    known = answer.coefficients
    if known is not None and {*known.names} <= {*names}:
        places = [names.index(name) for name in known.names]
        own = covariance[np.ix_(places, places)]
        known = coefficients_of(known.names, np.array(known.params), own)
    else:  # some draw lacks a coefficient
        known = None
    return replace(
        answer,
        coefficients=known,
        tables=(*answer.tables, table),
        notes=(*answer.notes, note),
    )
