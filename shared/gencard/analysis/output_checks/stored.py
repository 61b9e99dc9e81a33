"""Rules for answers of numbers as they are stored, and the rounding of these answers.

A stored number may be large, or known of one person. So

- sums are judged by the magnitude of what each record contributes, counted from 0 moved into the range
  of the declared numbers: what all records have at least is known. No record may contribute more than
  half.
- Each cell by which counts or sums are needed holds as many records as the threshold says, or none.
- A mean, a difference of means, a coefficient or a correlation that one record moves by more than the
  policy's limit, whichever group the record is put into, waits for a steward. A standard deviation tells
  the group of the largest value even better than the mean: where one record moves it so much, all groups
  have the one standard deviation within groups, and where this tells who is in the population, none.
- Standard errors and correlations of coefficients tell means of a term's number in the groups of other
  terms. What one record moves by more than the limit waits as well.
- Quantiles are told at few shares: all that a group of its size may have are multiples of one step that
  holds the threshold, so those of several runs enclose enough records too. Each is told to a unit that
  holds the threshold around it, and so is its standard error: one record seldom moves either.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import chain, combinations, product
from math import ceil, log10, prod

import numpy as np

from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.analysis.answers.design import CheckedQuestion, Column, Design
from gencard.analysis.answers.groups import TESTS, cell_design, terms_of
from gencard.analysis.answers.kinds import (
    ERRORS,
    NOTE,
    StoredGroups,
    StoredRecords,
    answered,
    pooled_tables,
    quantiles_of,
    step_of,
    without_spreads,
)
from gencard.analysis.answers.levels import quantile_shares
from gencard.analysis.answers.margins import RecordMargins
from gencard.analysis.output_checks import influence, rounding, rule_checks
from gencard.analysis.output_checks.differencing import cell_numbers
from gencard.analysis.output_checks.judgement import (
    GROUPED,
    Judgement,
    clique_name,
    coded_cliques,
    fits_exactly,
    of_groups,
    parameters_of,
)
from gencard.analysis.output_checks.released import released
from gencard.core.coding import Edges, Labels
from gencard.core.domain import Clique
from gencard.core.policy import PASSED, Rule, Rules, RuleVerdict, breaking, together
from gencard.core.statistics.formula import Analysis
from gencard.core.types import FloatArray, IntArray

_ONE_SPREAD = "one record would move the standard deviations: all groups have the one within groups"
_NO_SPREAD = "one record would move the standard deviations: they and the intervals are left out"
_COARSE = "quantiles and their standard errors are rounded so that many records have the same"


class Spreads(StrEnum):
    """Return the standard deviations that a table of means has."""

    OWN = "own"
    POOLED = "pooled"
    NONE = "none"


def origin_of(coding: Labels | Edges, ends: Sequence[float] = ()) -> float:
    """Return 0 moved into the declared edges; of dates and times the first edge, since none is 0.

    Args:
        ends: Values at the first and the last edge of what is summed, if it is a function.
    """
    if not isinstance(coding, Edges):
        return 0.0
    first, last = ends or (coding.edges[0], coding.edges[-1])
    low, high = sorted((first, last))
    return first if coding.dates or coding.times else min(max(0.0, low), high)


def contributed(question: CheckedQuestion, values: FloatArray) -> FloatArray:
    """Magnitudes of a response's values, from 0 moved into the range that a summed one can have."""
    column, origin = question.summed_response, 0.0
    if column is not None:
        (slope,) = column.slopes
        cells = question.scales[slope.number].cells
        ends = [float(column.values + slope.values * float(cells[place])) for place in (0, -1)]
        origin = origin_of(question.coding.attribute(question.formula.response or "").coding, ends)
    return np.abs(np.asarray(values, dtype=np.float64) - origin)


@dataclass(frozen=True)
class StoredRun:
    """A run on stored numbers, with its records.

    Args:
        question: Read with the levels that its records have.
        inside: Its records; each has all numbers.
        outside: The other records of the file that have all numbers: in which population a person is,
            is a group as well.
    """

    question: CheckedQuestion
    inside: StoredRecords
    outside: StoredRecords

    @cached_property
    def _margins(self) -> RecordMargins:
        return self.inside.margins(self.question)

    @cached_property
    def answer(self) -> AnalysisAnswer:
        """The answer before it is rounded; raises as ``answered``."""
        if self.question.kind is Analysis.QUANTILES:
            return self._quantiles[1]
        answer = answered(self.question, self._margins)
        return replace(answer, notes=(*answer.notes, NOTE))

    @cached_property
    def _quantiles(self) -> tuple[StoredGroups, AnalysisAnswer]:
        return quantiles_of(self.question, self.inside)

    @cached_property
    def response(self) -> tuple[FloatArray, FloatArray]:
        """The response of the records inside, and outside; levels as their numbers."""
        one, name = self.question, self.question.formula.response or ""
        of_model = one.design.response if one.design is not None else None
        numbers = np.asarray(one.values.get(name, ())) if of_model is None else of_model.values
        column = one.summed_response or Column(name, (name,), np.nan_to_num(numbers))
        return self.inside.of(column), self.outside.of(column)

    def judged(self, rules: Rules) -> Judgement:
        """Judge the answer that ``released`` gives."""
        parts: dict[str, RuleVerdict] = {}
        for name, verdict in self._parts(rules):
            parts[name] = together([parts.get(name, PASSED), verdict])
        return Judgement(tuple(parts.items()))

    def released(self, rules: Rules) -> AnalysisAnswer:
        """Return the answer with rounded numbers: means to two digits of their standard errors."""
        question = self.question
        if question.kind is Analysis.QUANTILES:
            return _coarse_quantiles(*self._quantiles, rules)
        if question.kind not in GROUPED or not self._has_means:
            return released(self.answer, rules)
        spreads = {term: self.spreads(term, rules) for term in self._terms}
        pooled = [term for term, kind in spreads.items() if kind is Spreads.POOLED]
        answer = pooled_tables(self.answer, self.question, self._margins, pooled)
        if pooled:
            left = tuple(one for one in answer.scalars if one.name != "bartlett")
            answer = replace(answer, scalars=left)
        answer = released(answer, rules)
        hidden = [term for term, kind in spreads.items() if kind is Spreads.NONE]
        more = ((_ONE_SPREAD,) if pooled else ()) + ((_NO_SPREAD,) if hidden else ())
        return replace(without_spreads(answer, hidden), notes=(*answer.notes, *more))

    @property
    def _terms(self) -> tuple[Clique, ...]:
        return self.question.formula.terms or ((),)

    @property
    def _has_means(self) -> bool:
        """Whether the answer has a table of means for each term."""
        return self.question.kind is not Analysis.ANOVA or len(self._terms) == 1

    def _parts(self, rules: Rules) -> Iterator[tuple[str, RuleVerdict]]:
        question, n = self.question, float(len(self.inside.dataset))
        if question.kind is Analysis.QUANTILES:
            yield "test", rule_checks.of_test(n, 1, rules)
            groups, _ = self._quantiles
            cells, most = len(groups.names), max(rules.checks.dominance_count, 1)
            one = rule_checks.contributions(groups.place, groups.values, cells=cells, most=most)
            threshold = rules.checks.threshold
            for share in quantile_shares(question):
                # Order statistics of a standard error need enough records on either side.
                side = min(share, 1 - share)
                nearest = one.counts * side - np.sqrt(one.counts * share * (1 - share))
                apart = one.counts * (step_of(share) or 0.0) + 1e-9
                broken = {
                    Rule.THRESHOLD: one.counts < threshold,
                    Rule.RANK: (nearest < threshold) | (apart < threshold),
                    Rule.SAME: one.constant,
                }
                yield f"quantile {share:g}", together(rule_checks.verdicts(broken))
            return
        is_paired = question.kind is Analysis.CORRELATION
        sums = None if is_paired else contributed(question, self.response[0])
        yield from of_groups(self._margins, question, rules, sums)
        yield "test", rule_checks.of_test(n, parameters_of(self.answer), rules)
        if question.design is not None:
            yield from self._of_model(question.design, rules)
            if rules.influence is not None:
                yield "numbers of terms", influence.waits(self._told_of_terms(question.design), rules)
        elif question.kind in GROUPED:
            yield "cells", together(self._of_cells(clique, rules) for clique in question.cliques)
        if question.kind in GROUPED:
            for term in self._terms:
                yield clique_name(term), self._of_means(term, rules)
        if is_paired:
            yield from self._of_correlations(rules)
        elif not (question.kind in GROUPED and self._has_means):
            yield "influence", together(one._of_placed(rules) for one in (self, self._without_one))

    def _of_cells(self, clique: Clique, rules: Rules) -> RuleVerdict:
        """Judge the occupied cells of a clique by the threshold; empty cells are not in the answer."""
        cells, number = cell_numbers(self.inside.dataset, clique)
        counts = np.bincount(cells, minlength=number)
        few = (counts > 0) & (counts < rules.checks.threshold)
        return breaking([(Rule.THRESHOLD, bool(np.any(few)))])

    def _of_model(self, design: Design, rules: Rules) -> Iterator[tuple[str, RuleVerdict]]:
        rows = design.matrix(self.inside.codes(design.attributes), self.inside.numbers)
        n = float(len(self.inside.dataset))
        cells = None
        if not any(column.slopes for column in design.columns) and len(design.attributes) > 1:
            cells = len(np.unique(cell_numbers(self.inside.dataset, design.attributes)[0]))
        verdicts = [
            rule_checks.of_model(n, parameters_of(self.answer), cells, rules),
            rule_checks.of_features(rows, np.ones(len(rows)), rules),
            breaking([(Rule.SAME, fits_exactly(self.answer))]),
        ]
        yield "model", together(verdicts)
        # Attributes whose levels the model tells apart; others are numbers in it.
        coded = tuple(coded_cliques(RecordMargins.of(self.inside.dataset), design))
        for clique in coded:
            yield clique_name(clique), self._of_sums(clique, rules)
        varied = {name for clique in coded for name in clique}
        cells_of = (tuple(name for name in one if name in varied) for one in self.question.cliques)
        yield "cells", together(self._of_cells(clique, rules) for clique in dict.fromkeys(cells_of))

    @cached_property
    def _without_one(self) -> "StoredRun":
        """The run without the record whose response is most distant, inside or outside.

        Beside it, others move less: told with it and not without it would say where it is.
        """
        both = self.response
        centre = float(np.median(np.concatenate(both)))
        far = [float(np.abs(one - centre).max(initial=-1.0)) for one in both]
        parts = [self.inside, self.outside]
        place = int(far[1] > far[0])
        kept = np.arange(len(both[place])) != int(np.abs(both[place] - centre).argmax())
        parts[place] = parts[place].take(kept)
        return StoredRun(self.question, *parts)

    def _told_of_terms(self, design: Design) -> float:
        """The largest change by one record of what standard errors and correlations of estimates tell.

        These are means of a number in the groups of other columns, and with a slope for each group its
        spread in each.
        """
        figures = [0.0]
        groups = dict.fromkeys((*(one.attributes for one in design.columns if one.attributes), ()))
        for name in dict.fromkeys(one.number for column in design.columns for one in column.slopes):
            sloped = (one for one in design.columns if any(two.number == name for two in one.slopes))
            own = {one.attributes for one in sloped}
            inside, outside = (part.numbers[name] for part in (self.inside, self.outside))
            for attributes in groups:
                place, cells = self._groups(attributes)
                if cells == 1 and not len(outside):
                    continue
                kinds = [influence.of_means] + [influence.of_spreads] * (attributes in own - {()})
                figures += [one(place, inside, cells=cells, outside=outside) for one in kinds]
        return max(figures)

    def _groups(self, term: Clique) -> tuple[IntArray, int]:
        """The group of each record inside, from 0, and how many there are."""
        cells, _ = cell_numbers(self.inside.dataset, term)
        held, place = np.unique(cells, return_inverse=True)
        return place.reshape(-1), len(held)

    def _of_sums(self, term: Clique, rules: Rules) -> RuleVerdict:
        """Dominance in magnitudes, so that it is defined also where some numbers are negative.

        The largest contribution of the file is left out, and put into each group: which it is in must
        not decide.
        """
        place, cells = self._groups(term)
        inside, outside = (contributed(self.question, one) for one in self.response)
        most = max(rules.checks.dominance_count, 1)
        added = rule_checks.contributions(place, inside, cells=cells, most=most)
        broken = [rule_checks.of_magnitudes(added, rules)]
        if cells > 1 or len(outside):
            largest = max(inside.max(initial=0.0), outside.max(initial=0.0))
            kept = np.arange(len(inside)) != (inside.argmax() if inside.max() == largest else -1)
            rest = rule_checks.contributions(place[kept], inside[kept], cells=cells, most=most)
            fewer = rule_checks.contributions(place[kept], inside[kept], cells=cells, most=most - 1)
            more = replace(
                rest,
                counts=rest.counts + 1,
                totals=rest.totals + largest,
                largest=np.full(cells, largest),
                two_largest=rest.largest + largest,
                several_largest=fewer.several_largest + largest,
            )
            for one in (rest, more):
                judged = rule_checks.of_magnitudes(one, rules)
                broken.append({rule: judged[rule] for rule in (Rule.DOMINANCE, Rule.REMAINDER)})
        return together(verdict for one in broken for verdict in rule_checks.verdicts(one))

    def _of_means(self, term: Clique, rules: Rules) -> RuleVerdict:
        place, cells = self._groups(term)
        most = max(rules.checks.dominance_count, 1)
        spread = rule_checks.contributions(place, self.response[0], cells=cells, most=most)
        by_spread = rule_checks.verdicts(rule_checks.of_spreads(spread, rules))
        verdicts = [self._of_sums(term, rules), *by_spread]
        if rules.influence is not None and self._has_means:
            verdicts += [one._moved_means(term, rules) for one in (self, self._without_one)]
        return together(verdicts)

    def _moved_means(self, term: Clique, rules: Rules) -> RuleVerdict:
        """Judge the means of groups, and what a test tells of their spreads."""
        (place, cells), (inside, outside) = self._groups(term), self.response
        figure = influence.of_means(place, inside, cells=cells, outside=outside)
        if self.question.kind is not Analysis.MEANS:
            figure = max(figure, influence.of_contrasts(place, inside, cells=cells))
        # A test may tell standard deviations that one record would move.
        spreads, tells = self.spreads(term, rules), False
        if self.question.kind is not Analysis.MEANS and spreads is not Spreads.OWN:
            test = self.question.options.get("test", TESTS[0])
            tells = spreads is Spreads.NONE or test != TESTS[0]
        by_spreads = breaking([(Rule.INFLUENCE, tells)])
        return together([influence.waits(figure, rules), by_spreads])

    def spreads(self, term: Clique, rules: Rules) -> Spreads:
        """Return the standard deviations that may be disclosed, by all groups that a record may have."""
        (place, cells), limit = self._groups(term), rules.influence
        inside, outside = self.response
        alone = cells == 1 and not len(outside)
        own = (place, inside)
        if limit is None or alone or influence.of_spreads(*own, cells=cells, outside=outside) <= limit:
            return Spreads.OWN
        if cells > 1 and influence.of_pooled_spread(*own, outside, cells=cells) <= limit:
            return Spreads.POOLED
        return Spreads.NONE

    def _of_placed(self, rules: Rules) -> RuleVerdict:
        """Judge a linear model, or an analysis of variance of several terms, by each record of the file.

        A record is put into all levels that the model tells apart and keeps its numbers. Where a number
        has a slope for each level, differences of levels depend on it, and a bound of all contrasts
        counts.
        """
        question, margins = self.question, RecordMargins.of(self.inside.dataset)
        design = question.design
        if design is None:
            design = cell_design(margins, question, terms_of(question))
        varied = tuple(dict.fromkeys(chain.from_iterable(coded_cliques(margins, design))))
        levels = [np.flatnonzero(margins.counts((name,))) for name in varied]
        if prod(map(len, levels)) > influence.MOST_COMBINATIONS:
            return breaking([(Rule.INFLUENCE, True)])
        both = [self.inside, self.outside]
        names = self.inside.numbers
        numbers = {name: np.concatenate([one.numbers[name] for one in both]) for name in names}
        own = np.concatenate([one.codes(design.attributes) for one in both])
        axes = [design.attributes.index(name) for name in varied]

        def rows_in(cell: Sequence[int]) -> FloatArray:
            codes = own.copy()
            codes[:, axes] = cell
            return design.matrix(codes, numbers)

        inside, outside = self.response
        mixed = any(one.slopes and one.attributes for one in design.columns)
        figure, leverage = influence.of_model(
            design.matrix(self.inside.codes(design.attributes), self.inside.numbers),
            inside,
            map(rows_in, product(*map(np.ndarray.tolist, levels))),
            None if mixed else contrasts_of(design),
            outside,
            limit=np.inf if rules.influence is None else rules.influence,
            spreads=bool(len(outside)),
        )
        heavy = question.design is not None and rule_checks.is_heavy(leverage, rules)
        return together([influence.waits(figure, rules), breaking([(Rule.LEVERAGE, heavy)])])

    def _of_correlations(self, rules: Rules) -> Iterator[tuple[str, RuleVerdict]]:
        """Judge each number beside a constant as a model's, and each pair by its influence."""
        columns = {name: self._numbers(name) for name in self.question.formula.attributes}
        for name, one in columns.items():
            rows = np.column_stack([np.ones(len(one.inside)), one.inside])
            verdict = rule_checks.of_features(rows, np.ones(len(rows)), rules)
            beside = influence.leverage_beside(one.inside, one.outside)
            heavy = breaking([(Rule.LEVERAGE, rule_checks.is_heavy(beside, rules))])
            yield name, together([verdict, heavy])
        if rules.influence is not None:
            pairs = combinations(columns.values(), 2)
            figures = [influence.of_correlation(*pair) for pair in pairs]
            yield "influence", influence.waits(max(figures), rules)

    def _numbers(self, name: str) -> influence.Correlated:
        """An attribute's numbers inside and outside, and the numbers of its levels if it has levels."""
        one = self.question
        column = one.columns.get(name)
        if column is not None:
            return influence.Correlated(self.inside.of(column), self.outside.of(column))
        values = np.asarray(one.values[name], dtype=np.float64)
        inside, outside = (values[part.dataset.column(name)] for part in (self.inside, self.outside))
        return influence.Correlated(inside, np.nan_to_num(outside), np.unique(inside))


def contrasts_of(design: Design) -> FloatArray:
    """Return what a model tells: each coefficient but the constant, each difference of two of a term.

    Returns:
        Shape ``(contrasts, columns)``.
    """
    terms: dict[tuple[Clique, Clique], list[int]] = {}
    for place, column in enumerate(design.columns):
        numbers = tuple(slope.number for slope in column.slopes)
        if column.attributes or numbers:
            terms.setdefault((column.attributes, numbers), []).append(place)
    unit = np.eye(len(design.columns))
    rows = [
        row
        for places in terms.values()
        for row in (*unit[places], *(unit[i] - unit[j] for i, j in combinations(places, 2)))
    ]
    return np.reshape(rows, (len(rows), len(design.columns)))


def _coarse_quantiles(groups: StoredGroups, answer: AnalysisAnswer, rules: Rules) -> AnalysisAnswer:
    rounded = released(answer, rules)
    quantiles, errors = answer.table("quantiles"), answer.table(ERRORS)
    values, widths = [], []
    for group, rows in enumerate(zip(quantiles.values, errors.values, strict=True)):
        numbers = np.sort(groups.values[groups.place == group])
        pairs = [
            _coarse(value or 0.0, error or 0.0, numbers, rules.checks.threshold)
            for value, error in zip(*rows, strict=True)
        ]
        values.append(tuple(value for value, _ in pairs))
        widths.append(tuple(width for _, width in pairs))
    tables_told = (replace(quantiles, values=tuple(values)), replace(errors, values=tuple(widths)))
    return replace(rounded, tables=tables_told, notes=(*rounded.notes, _COARSE))


def _coarse(value: float, error: float, numbers: FloatArray, threshold: int) -> tuple[float, float]:
    """A quantile to a unit that enough of the ascending numbers round to; its error likewise."""
    width = float(numbers[-1] - numbers[0])
    unit = rounding.step(error) if error > 0 else width / 1_000
    while True:
        unit = _next_unit(unit)
        centre = round(value / unit) * unit
        low, high = np.searchsorted(numbers, [centre - unit / 2, centre + unit / 2])
        if high - low >= threshold or unit > 4 * width:
            break
    width, digits = unit * max(ceil(error / unit - 1e-9), 1), rounding.MOST_DIGITS
    return rounding.to_digits(centre, digits), rounding.to_digits(width, digits)


def _next_unit(unit: float) -> float:
    """The least of 1, 2, 5, 10, ... and their tenths that is larger.

    >>> [_next_unit(unit) for unit in (0.1, 0.2, 0.5, 3.0)]
    [0.2, 0.5, 1.0, 5.0]
    """
    decade = 10.0 ** np.floor(log10(unit) + 1e-9)
    return float(next(step * decade for step in (2.0, 5.0, 10.0) if step * decade > unit * (1 + 1e-9)))
