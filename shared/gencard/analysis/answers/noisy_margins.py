"""Margins of noisy statistics, the covariance of their noise, and the bootstrap through the mechanism.

Tables that overlap measure the same interactions several times. The estimate is the weighted least
squares of ``consistency``; its interactions are independent, and each has one variance in all
directions, so that the covariance of any linear functions of the counts follows in closed form. Sums of
a number by several attributes are tables of this kind, too: their noise is independent, as counts' is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod, sqrt

import numpy as np

from gencard.analysis.answers.answer import AnalysisAnswer, coefficients_of, table_of, without_errors
from gencard.analysis.answers.design import Block, lifted
from gencard.analysis.answers.margins import (
    Margins,
    Present,
    PsiMargins,
    SumSource,
    Units,
    Within,
    check_size,
)
from gencard.core.card.privacy import Mechanism
from gencard.core.coding import Coding
from gencard.core.domain import Clique, Domain
from gencard.core.errors import ComputationError, InvalidInputError, NoiseDrownsError
from gencard.core.generators.family import ipf
from gencard.core.statistics.marginals import project, subsets
from gencard.core.statistics.psi import (
    Blocks,
    Measurement,
    Psi,
    interactions,
    interactions_of,
    marginal_of,
)
from gencard.core.types import FloatArray, Progress, ignore_progress

_MOST_NUMBERS = 2 * 10**7
"""In one array of derivatives: cells of a table times coefficients."""


def margins_of(psi: Psi, coding: Coding | None = None) -> Margins:
    """Margins of released statistics: exact ones as they are, noisy ones reconciled.

    Raises:
        TooLargeError: The cliques of a noisy psi have too many subsets.
    """
    return PsiMargins(psi, coding) if psi.exact else NoisyMargins.of(psi, coding)


def reconciled(margins: Margins) -> Margins:
    """Margins as they are, those of noisy statistics reconciled: their noise must not be forgotten."""
    return margins_of(margins.psi, margins.coding) if isinstance(margins, PsiMargins) else margins


def measured_of(margins: Margins) -> PsiMargins | None:
    """The released statistics of which some margins are made; None for those of records."""
    whole = _whole(margins)
    whole = whole.measured if isinstance(whole, NoisyMargins) else whole
    return whole if isinstance(whole, PsiMargins) else None


def covariance_of(margins: Margins, gradients: Iterable[Block], functions: int) -> FloatArray:
    """Return the covariance by noise of linear functions of counts and sums, perhaps of some records.

    Args:
        gradients: See ``NoisyMargins.covariance``; those with ``of`` are derivatives by each sum.

    Returns:
        Shape ``(functions, functions)``; zero where the margins have no noise.
    """
    present: Clique = ()
    gradients = list(gradients)
    while isinstance(margins, Within | Present):
        if isinstance(margins, Within):
            gradients = [_inside(margins, part) for part in gradients]
        else:
            present = (*present, *margins.names)
        margins = margins.whole
    if not isinstance(margins, NoisyMargins):
        return np.zeros((functions, functions))
    summed: dict[Clique, list[Block]] = {}
    for part in gradients:
        if part.of or present:
            summed.setdefault(part.of, []).append(part)
    counted = [part for part in gradients if not part.of and not present]
    covariance = margins.covariance(counted, functions)
    for of, parts in summed.items():  # all are of one population: no two rest on one measurement
        agreed, *_ = [margins.agreed(of, part.attributes, present) for part in parts]
        covariance += agreed.covariance(parts, functions)
    return covariance


def noisy_whole(margins: Margins) -> "NoisyMargins | None":
    """The noisy margins of which some margins are a part; None where there are none."""
    whole = _whole(margins)
    return whole if isinstance(whole, NoisyMargins) else None


def _whole(margins: Margins) -> Margins:
    while isinstance(margins, Within | Present):
        margins = margins.whole
    return margins


def wider_clique(margins: Margins, clique: Clique) -> Clique:
    """The clique of the whole on which the counts of a clique of a part rest."""
    while isinstance(margins, Within):
        clique = (*clique, *(name for name in margins.attributes if name not in clique))
        margins = margins.whole
    return clique


def _inside(part: Within, block: Block) -> Block:
    """Functions of counts of a part, as functions of counts of the whole."""
    extra = tuple(name for name in part.attributes if name not in block.attributes)
    wider = (*block.attributes, *extra)
    sizes = tuple(part.domain.size(name) for name in wider)
    choice = Block(
        part.attributes, np.zeros(1, dtype=np.int64), part.chosen.reshape(1, -1).astype(float)
    )
    values = lifted(block, wider, sizes) * lifted(choice, wider, sizes)
    return Block(wider, block.places, values, block.of)


@dataclass(frozen=True, slots=True, eq=False)
class Agreed:
    """Tables that agree wherever they overlap, from noisy ones.

    Args:
        whole: The attributes with all levels.
        domain: The attributes with the levels that hold records; those left out are last ones.
        blocks: The estimate of each interaction, and its variance.
    """

    whole: Domain
    domain: Domain
    blocks: Blocks

    @classmethod
    def of_sums(cls, sources: Sequence[SumSource], domain: Domain) -> "Agreed":
        """Sums of one population; its records have no missing level of the attributes dropped."""
        dropped = {name for source in sources for name in source.dropped}
        sizes = {name: domain.size(name) - (name in dropped) for name in domain.attributes}
        tables = []
        for source in sources:
            own = tuple(slice(sizes[name]) for name in source.by)
            values = np.asarray(source.table(domain)[own], dtype=np.float64)
            tables.append(Measurement(source.by, values, source.stddev))
        inside = Domain.of(sizes)
        return cls(domain, inside, interactions_of(inside, tables))

    def table(self, clique: Clique) -> FloatArray:
        """The estimate, axes in the clique's order."""
        return self._padded(clique, marginal_of(self.domain, clique, self.blocks))

    def variances(self, clique: Clique) -> FloatArray:
        r""":math:`\sum_S v_S \prod_{i \in S} (1 - 1/n_i) / \prod_{i \notin S} n_i^2`, in every cell."""
        sizes = {name: self.domain.size(name) for name in clique}
        variance = sum(
            self.blocks[self._ordered(inside)].variance
            * prod(1 - 1 / sizes[name] if name in inside else sizes[name] ** -2.0 for name in clique)
            for inside in subsets(clique)
        )
        return self._padded(clique, np.full(tuple(sizes.values()), variance, dtype=np.float64))

    def _padded(self, clique: Clique, table: FloatArray) -> FloatArray:
        """A table with 0 in the cells that hold no record."""
        absent = [(0, self.whole.size(name) - self.domain.size(name)) for name in clique]
        return np.pad(table, absent) if clique else table

    def covariance(self, gradients: Iterable[Block], functions: int) -> FloatArray:
        """Return the covariance by noise of functions of the tables; see ``NoisyMargins.covariance``.

        Derivatives by cells that the tables do not have count for nothing.
        """
        sums: dict[Clique, FloatArray] = {}
        for part in gradients:
            check_size(part.values.size, _MOST_NUMBERS, "The number of derivatives of the analysis")
            for inside, values in self._pulled(part):
                if inside not in sums:
                    sums[inside] = np.zeros((functions, values.shape[1]))
                np.add.at(sums[inside], part.places, values)
        covariance = np.zeros((functions, functions))
        for inside, values in sums.items():
            covariance += self.blocks[inside].variance * (values @ values.T)
        return covariance

    def _ordered(self, inside: Iterable[str]) -> Clique:
        inside_names = set(inside)
        return tuple(name for name in self.domain.attributes if name in inside_names)

    def _pulled(self, part: Block) -> Iterator[tuple[Clique, FloatArray]]:
        """The derivatives by each interaction: what a linear function of a table sees of it."""
        ordered = self._ordered(part.attributes)
        sizes = [self.whole.size(name) for name in part.attributes]
        occupied = tuple(slice(self.domain.size(name)) for name in part.attributes)
        table = part.values.reshape(len(part.places), *sizes)[:, *occupied]
        axes = [part.attributes.index(name) for name in ordered]
        table = np.transpose(table, [0, *(1 + axis for axis in axes)])
        for inside in subsets(ordered):
            values = table
            for axis, name in enumerate(ordered, start=1):
                mean = values.mean(axis=axis, keepdims=True)
                values = values - mean if name in inside else mean
            yield self._ordered(inside), values.reshape(len(part.places), -1)


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMargins(Margins):
    """Margins that agree wherever they overlap; counts may be negative, and are unbiased for that."""

    measured: PsiMargins
    counted: Agreed
    _summed: dict[tuple[Clique, frozenset[str]], Agreed] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, psi: Psi, coding: Coding | None = None) -> "NoisyMargins":
        """Raises TooLargeError where the cliques have too many subsets."""
        counted = Agreed(psi.domain, psi.domain, interactions(psi.fitted))
        return cls(PsiMargins(psi, coding), counted)

    @property
    def domain(self) -> Domain:
        return self.measured.domain

    def counts(self, clique: Clique) -> FloatArray:
        self.source(clique)
        return self.counted.table(tuple(clique))

    def variances(self, clique: Clique) -> FloatArray:
        self.source(clique)
        return self.counted.variances(tuple(clique))

    def source(self, clique: Clique) -> Clique:
        return self.measured.source(clique)

    def sums(self, of: Clique, by: Clique, present: Clique = ()) -> Units:
        return self.agreed(of, by, present).table(tuple(by)).astype(object)

    def sum_variances(self, of: Clique, by: Clique, present: Clique = ()) -> FloatArray:
        return self.agreed(of, by, present).variances(tuple(by))

    def agreed(self, of: Clique, by: Clique, present: Clique) -> Agreed:
        """All that psi says of some sums over one population, by whichever attributes."""
        self.measured.sum_source(of, by, present)
        population = self.measured.population(of, present)
        if (of, population) not in self._summed:
            sources = self.measured.sum_sources(of, population)
            self._summed[of, population] = Agreed.of_sums(sources, self.domain)
        return self._summed[of, population]

    def covariance(self, gradients: Iterable[Block], functions: int) -> FloatArray:
        """Return the covariance by noise of linear functions of the counts.

        Args:
            gradients: Parts of the functions, each on the counts of some attributes: ``values`` is the
                derivative of the functions at ``places`` by each count.

        Returns:
            Shape ``(functions, functions)``.
        """
        parts = list(gradients)
        for part in parts:
            self.source(part.attributes)
        return self.counted.covariance(parts, functions)


# Intervals of any number of an answer: the parametric bootstrap through the mechanism.
#
# From psi alone: a maximum-entropy model is fitted to it, records are drawn from the model, noise like
# that of psi is put on their tables, and the analysis is done again. How far these answers lie from that
# of the model itself is how far the answer lies from the truth [1]_. What noise adds on average is taken
# away, too: with noise, Cramér's V of independent attributes is well above zero.
#
# References:
#     .. [1] C. Ferrando, S. Wang, D. Sheldon, "Parametric Bootstrap for Differentially Private
#        Confidence Intervals", AISTATS 2022.


REPLICATES = 400

INTERVALS = "intervals"
"""The table of an answer that has them."""

_COLUMNS = ("estimate", "std err", "[0.025", "0.975]")

_FEWEST_ANSWERED = 0.9
"""Share of the replicates that must have an answer: the others would not be missing at random."""

_MOST_FITTED_CELLS = 2_000_000
"""Most cells of the model's table, which is drawn for each replicate."""

Analysis = Callable[[Margins], AnalysisAnswer]


@dataclass(frozen=True, slots=True, eq=False)
class Drawn(Margins):
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

    def source(self, clique: Clique) -> Clique:
        return self.source_of.source(clique)


@dataclass(frozen=True, slots=True, eq=False)
class Bootstrap:
    """Settings of a bootstrap.

    Args:
        mechanism: The law of the noise of psi; ``EXACT`` for counts that were rounded.
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
    """The maximum-entropy model of some marginals, as a table of expected counts."""
    measurements = tuple(
        Measurement(clique, margins.counts(clique), sqrt(margins.variances(clique).max()))
        for clique in cliques
    )
    domain = margins.domain.covered_by(cliques)
    model = ipf(max_cells=_MOST_FITTED_CELLS).fit_table(Psi(domain, measurements), domain)
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
        answer, coefficients=known, tables=(*answer.tables, table), notes=(*answer.notes, note)
    )
