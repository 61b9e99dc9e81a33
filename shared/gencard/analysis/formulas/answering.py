"""From a formula to its answer, from psi or from records, and the effect of noise on it beforehand.

An analysis without a model matrix knows attributes and the numbers of their levels. A function in its
formula is other numbers to it (``log(income)``), or the attribute itself (``C(age)``), or something that
it cannot have: that is refused, for an answer as if the function were not there would be wrong.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast

import numpy as np

from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.analysis.answers.design import CheckedQuestion, Option, observed_levels
from gencard.analysis.answers.kinds import AnalysisKind, answered, check_coded, kind_of, plain_answer
from gencard.analysis.answers.levels import (
    has_noise,
    histogram_quantiles,
    level_means,
    quantiles_inside_levels,
)
from gencard.analysis.answers.margins import Margins, Mask, check_determined, records_of, summed, within
from gencard.analysis.answers.noisy_margins import (
    Bootstrap,
    bootstrapped,
    margins_of,
    measured_of,
    noisy_whole,
    reconciled,
    wider_clique,
)
from gencard.analysis.formulas.formula_values import Levels, NotUsableError, evaluated
from gencard.analysis.formulas.formulas import read_factors
from gencard.analysis.formulas.model_matrix import (
    Values,
    numbers_of,
    read_condition,
    read_design,
    summed_columns,
    wrong_factor,
)
from gencard.analysis.formulas.numbers import Needs, NumbersUsed, centred_numbers, is_categorical
from gencard.analysis.formulas.summing import AnswerRequest, dropped_of, takes_ranks
from gencard.core.card.sums import Sum
from gencard.core.coding import Coding, Edges
from gencard.core.domain import Clique
from gencard.core.errors import GencardError, InvalidInputError, NoiseDrownsError
from gencard.core.scale import Scale, shortest, steps_of
from gencard.core.statistics.formula import Analysis, Formula, Written, sufficient_cliques, written_name
from gencard.core.statistics.linear import UnitSums, unit_bounds
from gencard.core.statistics.marginals import Counter
from gencard.core.statistics.psi import HistogramMeasurement, Measurement, Psi, SumMeasurement
from gencard.core.types import FloatArray, IntArray

_Numbers = Mapping[str, tuple[float, ...]]


def answer_of(  # noqa: PLR0913 - what a person may want to say of one question
    text: str,
    kind: Analysis,
    margins: Margins,
    coding: Coding,
    *,
    values: Values | None = None,
    where: str = "",
    missing: str = "level",
    options: Mapping[str, Option] | None = None,
    bootstrap: Bootstrap | None = None,
    levels: bool = False,
) -> AnalysisAnswer:
    """The answer to a formula.

    Args:
        values: Numbers of levels; see ``numbers_of``.
        where: Which records, such as ``region == 'North' and age < 40``; "" for all.
        missing: "level", or "drop" to leave out records with a missing value in the formula.
        bootstrap: Gives each number an interval by bootstrap; where the margins have noise, only.
        levels: Levels count as one number each, though the schema declares steps.

    Raises:
        LackingMarginalsError: The margins do not determine the answer; names all that are lacking.
        InvalidFormulaError, InvalidInputError, UnknownAttributeError, TooLargeError: What is wrong
            with the question.
        NoEstimateError, NotConvergedError: The model has no estimate.
        NoiseDrownsError: The margins have noise, and too much of it.
    """
    written = read_factors(text, coding)
    formula = written.formula
    sufficient_cliques(formula, kind, coding.domain)
    kind_of(kind, options or ())
    check_coded(options or {})
    margins = reconciled(margins)
    request = AnswerRequest(written, kind, coding, values or {}, where, missing, options or {})
    dropped_of(formula, coding, missing)
    if not levels and bootstrap is None:
        placed = _histogram_answer(margins, text, request)
        if placed is not None:
            return placed
    used = NumbersUsed() if levels else request.numbers()
    notes: tuple[str, ...] = ()
    if used.summed and bootstrap is not None:
        problem = "does not cover sums of numbers; standard errors have their noise without it"
        raise InvalidInputError(field="bootstrap", problem=problem)
    if used.summed:
        used, part, needs, notes = request.summed(margins, used)
        used = replace(used, means=_means(part, written, coding, used))
    else:
        part = _part(margins, formula, coding, values, where, missing)
        needs = Needs(sufficient_cliques(formula, kind, coding.domain))
    cliques = needs.cliques
    check_determined(part, cliques)
    attributes = coding.domain.covered_by((*cliques, *(one.by for one in needs.sums))).attributes
    question = read_question(
        text,
        kind,
        coding,
        values={**_histogram_means(margins, coding, used.grouped), **(values or {})},
        observed=observed_levels(part, attributes),
        options=options,
        used=used,
    )
    if used.summed:
        question = replace(question, needs=cliques, sums=needs.sums)
    notes = (*notes, *_notes(used, formula, where, coding, values))
    if bootstrap is None:
        answer = answered(question, part)
        if _counts_as_declared(request) and not any(has_noise(part, clique) for clique in cliques):
            answer = quantiles_inside_levels(part, question, answer)
        return replace(answer, notes=(*answer.notes, *notes))
    whole = noisy_whole(margins)
    if whole is None:
        problem = "applies to noisy counts only; these are exact"
        raise InvalidInputError(field="bootstrap", problem=problem)

    def analysis(drawn: Margins) -> AnalysisAnswer:
        return plain_answer(question, _part(drawn, formula, coding, values, where, missing))

    wider = tuple(coding.domain.canonical(wider_clique(part, clique)) for clique in cliques)
    answer = bootstrapped(analysis, whole, wider, bootstrap)
    return replace(answer, notes=(*answer.notes, *notes))


def _means(part: Margins, written: Written, coding: Coding, used: NumbersUsed) -> dict[str, Fraction]:
    """The means that ``center`` subtracts, of the records that count; without records 0."""
    means, records = {}, Fraction(records_of(part))
    for name in centred_numbers(written, used.summed):
        scale = cast("Scale", cast("Edges", coding.attribute(name).coding).scale)
        total = Fraction(summed(part).sums((name,), ()).item())
        means[name] = Fraction(scale.step) * (scale.centre + total / records) if records else Fraction(0)
    return means


def _histogram_answer(margins: Margins, text: str, request: AnswerRequest) -> AnalysisAnswer | None:
    """Quantiles of a whole column whose histogram psi has; None for any other question."""
    written, coding = request.written, request.coding
    name, measured = written.formula.response, measured_of(margins)
    whole = not written.formula.terms and not request.where
    if name is None or not whole or not _counts_as_declared(request):
        return None
    one = coding.attribute(name).coding
    histogram = measured.histogram(name) if measured else None
    if histogram is None or not isinstance(one, Edges) or one.scale is None:
        return None
    question = read_question(text, request.kind, coding, options=request.options)
    answer = histogram_quantiles(question, one, histogram)
    noise = f"noise of standard deviation {histogram.stddev:.3g} on each count"
    return replace(answer, rests_on=((name,),), noise=noise if histogram.stddev else answer.noise)


def _counts_as_declared(request: AnswerRequest) -> bool:
    """Whether quantiles are those of an attribute whose levels stand for the numbers declared."""
    name, written = request.written.formula.response, request.written.response
    is_plain = name is not None and written == written_name(name) and name not in request.values
    return is_plain and request.kind is Analysis.QUANTILES


def _histogram_means(margins: Margins, coding: Coding, names: Clique) -> dict[str, list[float]]:
    """For grouped numbers whose histogram psi has, the mean inside each level."""
    measured, means = measured_of(margins), {}
    for name in names:
        one, histogram = coding.attribute(name).coding, measured.histogram(name) if measured else None
        if histogram is not None and isinstance(one, Edges) and one.scale is not None:
            means[name] = level_means(one, histogram)
    return means


def _notes(
    used: NumbersUsed, formula: Formula, where: str, coding: Coding, values: Values | None
) -> Iterator[str]:
    """Notes on means that were subtracted, and on levels with other numbers than the schema declares."""
    if used.means:
        means = ", ".join(f"{float(mean):.10g} from {name}" for name, mean in used.means.items())
        yield f"center subtracts means of the records of the answer: {means}"
    names = {*formula.attributes, *(read_condition(where, coding, values)[0] if where else ())}
    declared, given = numbers_of(coding), numbers_of(coding, values)
    changed = [
        name
        for name in values or ()
        if name in names and not np.array_equal(declared.get(name, ()), given[name], equal_nan=True)
    ]
    if changed:
        listed = ", ".join(changed)
        yield f"the analyst gave the levels of {listed} numbers that the schema does not declare"


def read_question(
    text: str,
    kind: Analysis,
    coding: Coding,
    *,
    values: Values | None = None,
    observed: Mapping[str, Mask] | None = None,
    options: Mapping[str, Option] | None = None,
    used: NumbersUsed = NumbersUsed(),  # noqa: B008 - frozen
) -> CheckedQuestion:
    """A question, checked against the schema alone unless ``observed`` says which levels there are.

    Raises:
        InvalidFormulaError, InvalidInputError, UnknownAttributeError, TooLargeError: What is wrong.
    """
    written = read_factors(text, coding)
    formula, how, own_options = written.formula, kind_of(kind, options or ()), dict(options or {})
    columns = summed_columns(text, coding, used)
    declared = numbers_of(coding, values)
    notes = level_notes(written, kind, coding, declared, used, own_options)
    if not how.has_design:
        numbers = transformed_numbers(text, how, coding, values, centred=frozenset(used.means))
        return CheckedQuestion(
            kind, text, formula, coding, numbers, options=own_options, columns=columns, notes=notes
        )
    design = read_design(text, coding, values=values, observed=observed, used=used)
    columns = {name: one for name, one in columns.items() if name == formula.response}
    return CheckedQuestion(
        kind, text, formula, coding, declared, design, own_options, columns=columns, notes=notes
    )


_IN_ORDER = {
    Analysis.POLYCHORIC: ("response", "terms"),
    **dict.fromkeys((Analysis.ORDINAL, Analysis.KAPLAN_MEIER, Analysis.COX), ("response",)),
}
"""Sides of formulas whose levels count in their order."""

_OF_MODELS = {Analysis.LINEAR: ("response", "terms"), Analysis.POISSON: ("response", "terms")}
"""Sides of models whose levels are numbers; of all others, the terms."""

_MOST_NUMBERS = 12


def level_notes(
    written: Written,
    kind: Analysis,
    coding: Coding,
    numbers: _Numbers,
    used: NumbersUsed,
    options: Mapping[str, Option],
) -> tuple[str, ...]:
    """Say which attributes count by levels of several values, and with which numbers.

    Args:
        used: Numbers that count as the records have them.
    """
    how = kind_of(kind)
    of_numbers = _OF_MODELS.get(kind, ("terms",)) if how.has_design else how.numbers
    of_order = _IN_ORDER.get(kind, ())
    if takes_ranks(options):
        of_numbers, of_order = (), of_numbers
    factors = {
        "response": [] if written.response is None else [written.response],
        "terms": [factor for term in written.terms for factor in term],
    }
    groups = {
        text: _several_values(written, coding, [one for side in sides for one in factors[side]])
        for text, sides in (("numbers", of_numbers), ("order", of_order))
    }
    by_order = groups["order"] - used.attributes
    by_number = groups["numbers"].union(used.grouped) - used.attributes - by_order
    notes = []
    if names := [name for name in coding.domain.attributes if name in by_number]:
        listed = "; ".join(f"{name}: {_listed(numbers[name])}" for name in names)
        text = "each level counts as one number, so that effects inside levels are not in the answer"
        notes.append(f"{', '.join(names)}: {text} ({listed})")
    if names := [name for name in coding.domain.attributes if name in by_order]:
        text = "levels count in their order, without the order of values inside them"
        notes.append(f"{', '.join(names)}: {text}")
    return tuple(notes)


def _several_values(written: Written, coding: Coding, factors: Sequence[str]) -> frozenset[str]:
    """The attributes of some factors that are numbers with a level of several values."""
    names = {name for one in factors if not is_categorical(one) for name in written.attributes[one]}
    codings = {name: coding.attribute(name).coding for name in names}
    return frozenset(
        name
        for name, one in codings.items()
        if isinstance(one, Edges) and any(low != high for low, high in one.ends)
    )


def _listed(numbers: Sequence[float]) -> str:
    known = [f"{number:.6g}" for number in numbers if np.isfinite(number)]
    return ", ".join(known if len(known) <= _MOST_NUMBERS else [*known[:3], "...", known[-1]])


def _part(
    margins: Margins, formula: Formula, coding: Coding, values: Values | None, where: str, missing: str
) -> Margins:
    dropped = dropped_of(formula, coding, missing)
    part = margins
    if where:
        part = within(part, *read_condition(where, coding, values))
    for name in dropped:
        size = coding.domain.size(name)
        part = within(part, (name,), np.arange(size) != size - 1)
    return part


_SEVERAL = "this analysis does not support functions of several attributes"
_COMPARED = "this analysis uses the levels themselves; write the attribute without a function"
_INFINITE = (
    "this is not a finite number at every level; answers from psi take other numbers with values={...}"
)
_TWICE = "the attribute appears in two forms; use one of them"


def transformed_numbers(
    text: str,
    kind: AnalysisKind,
    coding: Coding,
    values: Values | None = None,
    *,
    centred: Set[str] = frozenset(),
) -> dict[str, tuple[float, ...]]:
    """``numbers_of``, where an attribute in a function has the function's values, NaN where it has none.

    Args:
        centred: Attributes that are summed and centred: a level of theirs has no value.
    """
    formula, numbers = read_factors(text, coding), numbers_of(coding, values)
    sides = {"response": [formula.response] if formula.response else []}
    sides["terms"] = [factor for term in formula.terms for factor in term]
    transformed: dict[str, tuple[float, ...]] = {}
    first: dict[str, str] = {}
    for side, factors in sides.items():
        for factor in factors:
            own = formula.attributes[factor]
            if len(own) == 1 and own[0] in centred:
                name, way = own[0], None
            else:
                name, way = _way(text, factor, formula, coding, numbers)
            if way is not None and side not in kind.numbers:
                raise wrong_factor(text, factor, _COMPARED)
            if first.setdefault(name, factor) != factor and (way or name in {*transformed, *centred}):
                raise wrong_factor(text, factor, _TWICE)
            if way is not None:
                transformed[name] = way
    return numbers | transformed


def _way(
    text: str, factor: str, written: Written, coding: Coding, numbers: _Numbers
) -> tuple[str, tuple[float, ...] | None]:
    """The attribute of a factor, and its numbers under a function; None for the attribute itself."""
    own = written.attributes[factor]
    if len(own) != 1:
        raise wrong_factor(text, factor, _SEVERAL)
    name = own[0]
    levels = Levels(np.arange(coding.domain.size(name)), coding.attribute(name).coding.level_names)
    level_numbers = np.array(numbers.get(name, (np.nan,) * len(levels.names)))
    try:
        value = evaluated(factor, {name: level_numbers} if name in numbers else {}, {name: levels})
    except NotUsableError as error:
        raise wrong_factor(text, factor, error.problem) from None
    if isinstance(value, Levels):
        if value.names != levels.names:
            raise wrong_factor(text, factor, _COMPARED)
        return name, None
    if np.array_equal(value.values, level_numbers, equal_nan=True):
        return name, None
    if not np.isfinite(value.values[np.isfinite(level_numbers)]).all():
        raise wrong_factor(text, factor, _INFINITE)
    return name, tuple(value.values.tolist())


# Prediction of the effect of a card's noise on an analysis, before anything is measured.
#
# Records are made up from the schema alone: independent attributes, levels equally frequent, numbers
# uniform in equally frequent cells of their histograms, nothing missing. Their statistics are counted as
# often as the dataset has records, by declaration, and the analysis is done on them with the noise that
# the card would have. No draw is needed: standard errors know the noise.


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

    @property
    def ratios(self) -> tuple[float, ...]:
        """The noise in units of the sampling error."""
        pairs = zip(self.noise or (), self.sampling, strict=False)
        return tuple(noise / error for noise, error in pairs if error > 0)

    def __str__(self) -> str:
        """One clause, for people."""
        if self.noise is None:
            return f"{_DROWNS}: take more budget, or fewer terms"
        low, high = min(self.ratios, default=0.0), max(self.ratios, default=0.0)
        near = f"; {_DROWNS}" if self.near else ""
        return f"adds {low:.2g} to {high:.2g} sampling errors{near}"


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
        records: How many there are, by declaration.
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
