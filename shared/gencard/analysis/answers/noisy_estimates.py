"""Noise in answers from few tables: standard errors and intervals widened, by differences of counts.

Each count is moved by one standard deviation of its noise, up and down, and the analysis done again. The
difference is the derivative that first order needs; the curvature, what first order leaves out.

An interval is refused where noise moves what it divides by, such as the records of a rare cell, by
more than a quarter. That is decided on the noisy counts, for nothing else says how rare a cell is. A
cell that is too rare is answered when noise made it larger: among such answers an interval of first
order covers half as often as it says. An answer near the bound is therefore given an interval that also
covers what is usual among answers that passed the bound by luck.

With the quantity in units of its noise, z, answers need z of 4. The factors were chosen by simulation of
the logarithm of a count with Gaussian and Laplace noise: of rare counts that one draw in 100 answers, or
more, the intervals of the answers cover in 0.89 to 0.97; without the factors in 0 to 0.9.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isnan, sqrt

import numpy as np
from scipy import special

from gencard.analysis.answers.answer import (
    COEFFICIENTS,
    LOG,
    NOISE,
    RECORDS,
    Address,
    AnalysisAnswer,
    Coefficients,
    NoiseRule,
    Numbers,
    Use,
    coefficients_of,
    numbers_of,
    rebuilt,
    rule_of,
    table_of,
)
from gencard.analysis.answers.design import Block
from gencard.analysis.answers.margins import Margins, Units, check_size, summed
from gencard.analysis.answers.noisy_margins import covariance_of
from gencard.core.domain import Clique, Domain
from gencard.core.errors import GencardError, NoiseDrownsError
from gencard.core.statistics.formula import Analysis as Kind
from gencard.core.statistics.marginals import project
from gencard.core.types import FloatArray

MOST_CELLS = 1_000
"""Counts that are moved; intervals of answers from more take a bootstrap."""

_MOST_CURVED = 0.25
"""Largest shift that curvature makes, in standard errors."""

_ROUNDING = 1e-10

_TURNS = 12
"""Times that all counts are moved together."""

_OF_SQUARES = 2 / sqrt(3)
"""From the root mean square of half the curvature along random signs to 1 / z, for a logarithm."""

_WITHOUT_RULE = {
    COEFFICIENTS: NoiseRule(COEFFICIENTS, use=Use.INTERVAL),
    RECORDS: NoiseRule(RECORDS, use=Use.SPREAD),
}

MOST_MOVED = 0.25
"""Largest relative standard deviation of what an estimate divides by, 1 / z."""

_NEAR, _FAR = 5.2, 6.5
"""z up to which intervals are widened most, and from which not at all."""

_MOST_WIDENED = 5.0

Analysis = Callable[[Margins], AnalysisAnswer]


def widening(moved: float) -> float:
    """Factor of a standard error, by ``moved``, 1 / z.

    >>> [round(widening(1 / z), 2) for z in (4, 5.85, 7)]
    [5.0, 3.0, 1.0]
    """
    z = 1 / moved if moved > 0 else np.inf
    return float(np.interp(z, (_NEAR, _FAR), (_MOST_WIDENED, 1.0)))


Held = tuple[Clique, Clique]
"""A table: the numbers that it sums, none for counts, and the attributes of its cells."""


@dataclass(frozen=True, slots=True, eq=False)
class Moved(Margins):
    """Margins of the tables of an analysis; narrower ones are summed out of the first that has them."""

    whole: Margins
    tables: dict[Held, FloatArray]

    @property
    def domain(self) -> Domain:
        return self.whole.domain

    def counts(self, clique: Clique) -> FloatArray:
        counts = self._narrowed((), clique)
        return self.whole.counts(clique) if counts is None else counts

    def sums(self, of: Clique, by: Clique, present: Clique = ()) -> Units:
        sums = self._narrowed(of, by)
        return summed(self.whole).sums(of, by, present) if sums is None else sums.astype(object)

    def _narrowed(self, of: Clique, by: Clique) -> FloatArray | None:
        for (numbers, attributes), table in self.tables.items():
            if numbers == of and set(by) <= set(attributes):
                return np.asarray(project(table, attributes, tuple(by)), dtype=np.float64)
        return None

    def sum_variances(self, of: Clique, by: Clique, present: Clique = ()) -> FloatArray:
        return summed(self.whole).sum_variances(of, by, present)

    def variances(self, clique: Clique) -> FloatArray:
        return self.whole.variances(clique)

    def source(self, clique: Clique) -> Clique:
        return self.whole.source(clique)


@dataclass(frozen=True, slots=True, eq=False)
class NoiseMoves:
    """Effect of noise on some numbers, each on its scale.

    Args:
        covariance: First-order covariance of the numbers, shape ``(numbers, numbers)``.
        shift: Mean shift by curvature, shape ``(numbers,)``; NaN where a number vanished.
        bend: What curvature adds in a usual draw, as the logarithm of a sum of counts in units of its
            noise, z, has 1 / z squared; shape ``(numbers,)``.
    """

    covariance: FloatArray
    shift: FloatArray
    bend: FloatArray


def widened(
    answer: AnalysisAnswer,
    analysis: Analysis,
    margins: Margins,
    tables: Sequence[Held],
    *,
    kind: Kind,
    alpha: float,
) -> tuple[AnalysisAnswer, float]:
    """The answer with the noise in each number that its kind's rules name, and without the others.

    Returns:
        The answer, and the standard deviation of the noise in its number of records.

    Raises:
        NoiseDrownsError: The coefficients are not nearly linear over the noise, or no number is left.
        TooLargeError: Too many counts would be moved.
    """
    plain = numbers_of(answer)
    rules = {address: rule_of(kind, address) for address in plain}
    chosen = {
        address: rule or _WITHOUT_RULE[address.place]
        for address, rule in rules.items()
        if plain[address] is not None
        and (address.place in _WITHOUT_RULE or (rule and rule.use in {Use.INTERVAL, Use.SPREAD}))
    }
    numbers: Numbers = {at: plain[at] for at, rule in rules.items() if rule and rule.use is Use.GIVEN}
    if all(address.place == RECORDS for address in chosen):
        return rebuilt(answer, numbers), float(margins.variances(())) ** 0.5
    moves = _moves(list(chosen.items()), analysis, margins, tables)
    to_first_order = np.sqrt(np.maximum(np.diag(moves.covariance), 0.0))
    spreads = dict(zip(chosen, to_first_order, strict=True))
    noise: dict[str, float] = {}
    factors = np.ones(len(chosen))
    errors = _known_errors(answer)
    z = -float(special.ndtri(alpha / 2))
    for place, (address, rule) in enumerate(chosen.items()):
        if address.place == RECORDS:
            continue
        one = _Number(address, rule, plain, float(spreads[address]), errors.get(address), z)
        # A number that moves by rounding alone, such as a share of everything, has no noise to state.
        moves_at_all = one.spread > _ROUNDING * max(1.0, abs(one.value))
        bend = np.inf
        if moves_at_all:
            bend = max(float(moves.bend[place]) / one.spread, _of_size(one, spreads))
        curved = abs(float(moves.shift[place])) > _MOST_CURVED * one.total
        if isnan(moves.shift[place]) or curved or not bend <= MOST_MOVED:
            if address.place == COEFFICIENTS and kind is not Kind.CROSSTAB:
                raise NoiseDrownsError
            factors[place] = np.nan
            continue
        factors[place] = widening(bend)
        numbers |= one.widened(factors[place])
        if rule.scale is not LOG:  # the noise of a logarithm is not in units of the number
            noise[name_of(address)] = factors[place] * spreads[address]
    intervals = [address for address, rule in chosen.items() if rule.use is Use.INTERVAL]
    if intervals and kind is not Kind.CROSSTAB and not any(one in numbers for one in intervals):
        raise NoiseDrownsError
    known = rebuilt(answer, numbers)
    own = [place for place, address in enumerate(chosen) if address.place == COEFFICIENTS]
    coefficients = _coefficients(answer, moves.covariance, factors, own)
    known = replace(known, coefficients=coefficients)
    if noise:
        values = np.array(list(noise.values()))[:, None]
        table = table_of(NOISE, tuple(noise), ("std",), values)
        known = replace(known, tables=(*known.tables, table))
    return known, spreads[Address(RECORDS, "", "")]


def _moves(
    chosen: Sequence[tuple[Address, NoiseRule]],
    analysis: Analysis,
    margins: Margins,
    names: Sequence[Held],
) -> NoiseMoves:
    cells = sum(margins.domain.project(by).cells if by else 1 for _, by in names)
    advice = "Use fewer attributes, or bootstrap=400 to have intervals of an answer from psi."
    check_size(cells, MOST_CELLS, "The number of noisy counts of the analysis", advice)
    tables, steps = {}, {}
    for of, by in names:
        counts = summed(margins).sums(of, by) if of else margins.counts(by)
        variances = summed(margins).sum_variances(of, by) if of else margins.variances(by)
        tables[of, by], steps[of, by] = np.asarray(counts, dtype=np.float64), np.sqrt(variances)
    middle = _values(analysis, Moved(margins, tables), chosen)
    gradients, shift, bend = [], np.zeros(len(chosen)), np.zeros(len(chosen))
    for held, table in tables.items():
        slopes = np.zeros((len(chosen), table.size))
        for place, cell in enumerate(np.ndindex(table.shape)):
            step = float(steps[held][cell])
            if not step:
                continue
            moved = []
            for sign in (1, -1):
                shifted = table.copy()
                shifted[cell] += sign * step
                moved.append(_values(analysis, Moved(margins, {**tables, held: shifted}), chosen))
            up, down = moved
            slopes[:, place] = (up - down) / (2 * step)
            shift += (up + down - 2 * middle) / 2
            bend += (up + down - 2 * middle) ** 2
        of, by = held
        gradients.append(Block(by, np.arange(len(chosen)), np.nan_to_num(slopes), of))
    together = [
        _bent_together(analysis, margins, tables, steps, chosen, middle, turn) for turn in range(_TURNS)
    ]
    joint = _OF_SQUARES * np.sqrt(np.mean(np.square(together), axis=0))
    covariance = covariance_of(margins, gradients, len(chosen))
    return NoiseMoves(covariance, shift, np.maximum(np.sqrt(bend), joint))


def _bent_together(
    analysis: Analysis,
    margins: Margins,
    tables: dict[Held, FloatArray],
    steps: dict[Held, FloatArray],
    chosen: Sequence[tuple[Address, NoiseRule]],
    middle: FloatArray,
    turn: int,
) -> FloatArray:
    """The part that curvature adds when all counts move at once, each up or down.

    A sum of many counts may be near 0 though each count is far from moving it there.
    """
    values, start = [], 0
    signs = {}
    for held, table in tables.items():
        # Signs without a pattern that an analysis could meet; the same for each call.
        places = start + np.arange(table.size) + 1.0
        parts, _ = np.modf(np.sin(12.9898 * places + 78.233 * (turn + 1)) * 43758.5453)
        signs[held] = np.where(np.abs(parts) < 0.5, 1.0, -1.0).reshape(table.shape)
        start += table.size
    for side in (1, -1):
        moved = {held: table + side * signs[held] * steps[held] for held, table in tables.items()}
        values.append(_values(analysis, Moved(margins, moved), chosen))
    return (values[0] + values[1] - 2 * middle) / 2


def _values(
    analysis: Analysis, margins: Margins, chosen: Sequence[tuple[Address, NoiseRule]]
) -> FloatArray:
    """The numbers on their scales; NaN for one that the answer does not have."""
    try:
        with np.errstate(all="ignore"):
            numbers = numbers_of(analysis(margins))
    except (GencardError, ArithmeticError, ValueError):
        raise NoiseDrownsError from None
    return np.array([_scaled(numbers.get(address), rule) for address, rule in chosen])


def _scaled(value: float | None, rule: NoiseRule) -> float:
    try:
        return np.nan if value is None else rule.scale.there(value)
    except (ArithmeticError, ValueError):
        return np.nan


def _known_errors(answer: AnalysisAnswer) -> dict[Address, float]:
    if answer.coefficients is None:
        return {}
    pairs = zip(answer.coefficients.names, answer.coefficients.bse, strict=True)
    return {Address(COEFFICIENTS, name, ""): float(error) for name, error in pairs}


@dataclass(frozen=True, slots=True, eq=False)
class _Number:
    """A number with the spread of its noise, on its scale, and the numbers that belong to it."""

    address: Address
    rule: NoiseRule
    plain: Numbers
    spread: float
    known: float | None
    z: float

    @property
    def value(self) -> float:
        return _scaled(self.plain[self.address], self.rule)

    @property
    def ends(self) -> tuple[float, float]:
        """Distances of the ends of the interval without noise; NaN where there is none."""
        if self.rule.bounds is None:
            return np.nan, np.nan
        low, high = (_scaled(self.plain.get(self._at(one)), self.rule) for one in self.rule.bounds)
        return self.value - low, high - self.value

    @property
    def error(self) -> float:
        """Standard error without noise; 0 where nothing says what it is."""
        if self.known is not None:
            return self.known
        if self.rule.error is not None:
            return self.plain.get(self._at(self.rule.error)) or 0.0
        if self.rule.bounds is not None:
            below, above = self.ends
            return 0.0 if isnan(below + above) else max(below, above, 0.0) / self.z
        return self._tested_error

    @property
    def total(self) -> float:
        return sqrt(self.error**2 + self.spread**2)

    @property
    def _tested_error(self) -> float:
        """The standard error that a p value implies."""
        pvalue = None if self.rule.pvalue is None else self.plain.get(self._at(self.rule.pvalue))
        deviate = 0.0 if pvalue is None else -float(special.ndtri(pvalue / 2))
        return abs(self.value) / deviate if deviate > 0 else 0.0

    def widened(self, factor: float) -> Numbers:
        """The number, and those that belong to it, with the noise."""
        numbers: Numbers = {self.address: self.plain[self.address]}
        if self.rule.error is not None:
            numbers[self._at(self.rule.error)] = factor * self.total
        if self.rule.bounds is not None:
            below, above = (factor * sqrt(end**2 + (self.z * self.spread) ** 2) for end in self.ends)
            ends = (self.value - below, self.value + above)
            for at, end in zip(map(self._at, self.rule.bounds), ends, strict=True):
                numbers[at] = None if isnan(end) else self.rule.scale.back(end)
        if self.rule.pvalue is not None and self.plain.get(self._at(self.rule.pvalue)) is not None:
            sampling = self.error if self.rule.error else self._tested_error
            error = factor * sqrt(sampling**2 + self.spread**2)
            numbers[self._at(self.rule.pvalue)] = float(2 * special.ndtr(-abs(self.value) / error))
        return numbers

    def _at(self, beside: tuple[str, str]) -> Address:
        return self.rule.beside(self.address, beside)


def _of_size(one: _Number, spreads: dict[Address, float]) -> float:
    """Relative noise in the records that the row of a number rests on; infinite without any."""
    if not one.rule.size:
        return 0.0
    size = Address(one.address.place, one.address.row, one.rule.size)
    records = one.plain.get(size)
    return spreads[size] / records if records is not None and records > 0 else np.inf


def _coefficients(
    answer: AnalysisAnswer, covariance: FloatArray, factors: FloatArray, places: Sequence[int]
) -> Coefficients | None:
    """The coefficients with the noise; None where one of them is left out.

    Args:
        factors: Factors on the standard errors of all numbers; NaN for numbers that are left out.
        places: Positions of the coefficients among the numbers.
    """
    if answer.coefficients is None or np.isnan(factors[places]).any():
        return None
    size = len(places)
    known = np.reshape(answer.coefficients.covariance, (size, size)) + covariance[np.ix_(places, places)]
    known = known * np.outer(factors[places], factors[places])
    params = np.array(answer.coefficients.params)
    return coefficients_of(answer.coefficients.names, params, known, answer.coefficients.degrees)


def name_of(address: Address) -> str:
    """Row of the table ``NOISE`` with the noise in a number."""
    return f"{address.place}: {', '.join(part for part in (address.row, address.column) if part)}"
