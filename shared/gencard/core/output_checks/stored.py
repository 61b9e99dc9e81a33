"""Rules for means and quantiles of numbers as they are stored, and their rounding.

A stored number may be large, or known of one person. So

- sums are judged by the magnitude of what each record contributes, counted from 0 moved into the
  declared edges: what all records have at least is known. No record may contribute more than half.
- A mean that one record moves by more than the policy's limit, whichever group the record is put into,
  waits for a steward. A standard deviation tells the group of the largest value even better than the
  mean: where one record moves it so much, all groups have the one standard deviation within groups, and
  where this tells who is in the population, none.
- Quantiles are told at few shares: all that a group of its size may have are multiples of one step that
  holds the threshold, so those of several runs enclose enough records too. Each is told to a unit that
  holds the threshold around it, and so is its standard error: one record seldom moves either.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from math import ceil, log10

import numpy as np

from gencard.core.answers.answer import Answer, Table
from gencard.core.answers.design import Question
from gencard.core.answers.families.comparisons import quantile_shares
from gencard.core.answers.stored import ERRORS, StoredGroups, step_of, stored_answer
from gencard.core.coding import Edges, Labels
from gencard.core.output_checks import influence, models, rounding, tables
from gencard.core.output_checks.judgement import Judgement, clique_name
from gencard.core.output_checks.released import released
from gencard.core.output_checks.rules import Rule, Rules, Verdict, together
from gencard.core.statistics.formula import Analysis
from gencard.core.types import FloatArray

NO_OUTSIDE: FloatArray = np.zeros(0)
"""Numbers of records outside the population, where it has all."""

_SPREADS = ("var", "std", "std_mean", "lower", "upper")
"""Columns of a table of means that tell its standard deviations."""

_ONE_SPREAD = "one record would move the standard deviations: all groups have the one within groups"
_NO_SPREAD = "one record would move the standard deviations: they and the intervals are left out"
_COARSE = "quantiles and their standard errors are rounded so that many records have the same"


class Spreads(StrEnum):
    """Which standard deviations a table of means has."""

    OWN = "own"
    POOLED = "pooled"
    NONE = "none"


def judged_stored(
    question: Question,
    groups: Sequence[StoredGroups],
    rules: Rules,
    outside: FloatArray = NO_OUTSIDE,
) -> Judgement:
    """Judge what ``released_stored`` gives of these groups.

    Args:
        outside: Numbers of the records that the population leaves out.
    """
    records = float(groups[0].sizes.sum())
    parts = [("test", models.of_test(records, 1, rules))]
    origin = _origin(question)
    for one in groups:
        if question.kind is Analysis.QUANTILES:
            parts += _of_quantiles(one, quantile_shares(question), rules)
        else:
            parts.append((clique_name(one.term), _of_means(one, origin, rules, outside)))
    return Judgement(tuple(parts))


def contributed(question: Question, values: FloatArray) -> FloatArray:
    """Magnitudes of the response's numbers, from 0 moved into its declared edges."""
    return np.abs(values - _origin(question))


def _origin(question: Question) -> float:
    return origin_of(question.coding.attribute(question.formula.response or "").coding)


def origin_of(coding: Labels | Edges) -> float:
    """Return 0 moved into the declared edges; of dates the first edge, since no date is 0."""
    if not isinstance(coding, Edges):
        return 0.0
    low, high = coding.edges[0], coding.edges[-1]
    return low if coding.dates or coding.times else min(max(0.0, low), high)


def _of_means(groups: StoredGroups, origin: float, rules: Rules, outside: FloatArray) -> Verdict:
    """Dominance in magnitudes, so that it is defined also where some numbers are negative."""
    magnitudes = _contributions(replace(groups, values=np.abs(groups.values - origin)), rules)
    sums, spreads = tables.of_sums(magnitudes, rules), _contributions(groups, rules)
    sums[Rule.DOMINANCE] = sums[Rule.DOMINANCE] | (2 * magnitudes.largest > magnitudes.totals)
    return together(
        [
            *tables.verdicts(sums),
            *tables.verdicts(tables.of_spreads(spreads, rules)),
            influence.waits(_largest_change(groups, rules, outside), rules),
        ]
    )


def _largest_change(groups: StoredGroups, rules: Rules, outside: FloatArray) -> float:
    """Figure of the means; 0 where the policy has no limit."""
    if rules.influence is None:
        return 0.0
    return influence.of_means(groups.place, groups.values, cells=len(groups.names), outside=outside)


def _spreads(groups: StoredGroups, rules: Rules, outside: FloatArray) -> Spreads:
    """Which standard deviations may be told, by all groups that a record may have."""
    cells, limit = len(groups.names), rules.influence
    alone = cells == 1 and not len(outside)
    own = (groups.place, groups.values)
    if limit is None or alone or influence.of_spreads(*own, cells=cells, outside=outside) <= limit:
        return Spreads.OWN
    if cells > 1 and influence.of_pooled_spread(*own, outside, cells=cells) <= limit:
        return Spreads.POOLED
    return Spreads.NONE


def _contributions(groups: StoredGroups, rules: Rules) -> tables.Contributions:
    most = max(rules.checks.dominance_count, 1)
    return tables.contributions(groups.place, groups.values, cells=len(groups.names), most=most)


def _of_quantiles(
    groups: StoredGroups, shares: Sequence[float], rules: Rules
) -> Iterator[tuple[str, Verdict]]:
    """Also the order statistics of a standard error have enough records on either side."""
    one = _contributions(groups, rules)
    threshold = rules.checks.threshold
    for share in shares:
        side = min(share, 1 - share)
        nearest = one.counts * side - np.sqrt(one.counts * share * (1 - share))
        apart = one.counts * (step_of(share) or 0.0) + 1e-9
        broken = {
            Rule.THRESHOLD: one.counts < threshold,
            Rule.RANK: (nearest < threshold) | (apart < threshold),
            Rule.SAME: one.constant,
            Rule.MISSING: one.missing & rules.missing,
        }
        yield f"quantile {share:g}", together(tables.verdicts(broken))


def released_stored(
    question: Question,
    groups: Sequence[StoredGroups],
    rules: Rules,
    outside: FloatArray = NO_OUTSIDE,
) -> Answer:
    """Compute the answer with rounded numbers: means to two digits of their standard errors.

    Args:
        outside: As in ``judged_stored``.
    """
    if question.kind is Analysis.QUANTILES:
        return _coarse_quantiles(question, groups[0], rules)
    spreads = [_spreads(one, rules, outside) for one in groups]
    pooled = [
        replace(one, pooled=kind is Spreads.POOLED) for one, kind in zip(groups, spreads, strict=True)
    ]
    answer = released(stored_answer(question, pooled), rules)
    notes = {Spreads.POOLED: _ONE_SPREAD, Spreads.NONE: _NO_SPREAD}
    more = [note for kind, note in notes.items() if kind in spreads]
    shown = [
        _without(table, _SPREADS) if kind is Spreads.NONE else table
        for table, kind in zip(answer.tables, spreads, strict=True)
    ]
    return replace(answer, tables=tuple(shown), notes=(*answer.notes, *more))


def _without(table: Table, columns: Sequence[str]) -> Table:
    """A table in which some columns have no numbers."""
    kept = [name not in columns for name in table.column_names]
    rows = (
        tuple(value if keep else None for value, keep in zip(row, kept, strict=True))
        for row in table.values
    )
    return replace(table, values=tuple(rows))


def _coarse_quantiles(question: Question, groups: StoredGroups, rules: Rules) -> Answer:
    answer = stored_answer(question, (groups,))
    rounded = released(answer, rules)
    quantiles, errors = answer.table("quantiles"), answer.table(ERRORS)
    values, widths = [], []
    for group, rows in enumerate(zip(quantiles.values, errors.values, strict=True)):
        numbers = np.sort(groups.values[(groups.place == group) & ~np.isnan(groups.values)])
        pairs = [
            _coarse(value or 0.0, error or 0.0, numbers, rules.checks.threshold)
            for value, error in zip(*rows, strict=True)
        ]
        values.append(tuple(value for value, _ in pairs))
        widths.append(tuple(width for _, width in pairs))
    tables_told = (replace(quantiles, values=tuple(values)), replace(errors, values=tuple(widths)))
    return replace(rounded, tables=tables_told, notes=(*rounded.notes, _COARSE))


def _coarse(value: float, error: float, numbers: FloatArray, threshold: int) -> tuple[float, float]:
    """A quantile as the nearest multiple of a unit that enough numbers round to; its error likewise.

    Args:
        numbers: Of the group, in ascending order.
    """
    width = float(numbers[-1] - numbers[0])
    unit = rounding.step(error) if error > 0 else width / 1_000
    while True:
        unit = _next_unit(unit)
        centre = round(value / unit) * unit
        low, high = np.searchsorted(numbers, [centre - unit / 2, centre + unit / 2])
        if high - low >= threshold or unit > 4 * width:
            break
    digits = rounding.MOST_DIGITS
    return (
        rounding.to_digits(centre, digits),
        rounding.to_digits(unit * max(ceil(error / unit - 1e-9), 1), digits),
    )


def _next_unit(unit: float) -> float:
    """The least of 1, 2, 5, 10, ... and their tenths that is larger.

    >>> [_next_unit(unit) for unit in (0.1, 0.2, 0.5, 3.0)]
    [0.2, 0.5, 1.0, 5.0]
    """
    decade = 10.0 ** np.floor(log10(unit) + 1e-9)
    return float(next(step * decade for step in (2.0, 5.0, 10.0) if step * decade > unit * (1 + 1e-9)))
