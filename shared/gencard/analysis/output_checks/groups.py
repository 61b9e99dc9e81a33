"""Groups that functions of a formula make: ``I(age < 40)``, ``C(floor(age / 10))``.

An answer tells of such a group what it tells of a level: how many records it has, and sums over them. So
each group passes the threshold alone and crossed with each other term, and each is a population, which
may not differ by a few records from that of another output.
"""

from collections.abc import Iterator
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.analysis.answers.design import CheckedQuestion, Crossed, Grouping
from gencard.analysis.answers.margins import Mask, RecordMargins
from gencard.analysis.output_checks import tables
from gencard.analysis.output_checks.populations import Condition
from gencard.core.domain import Clique
from gencard.core.policy import Rule, Rules, RuleVerdict, together
from gencard.core.statistics.formula import Analysis
from gencard.core.types import FloatArray, IntArray

_MOST_CELLS = 2**20
"""Cells of the attributes of two parts of a formula together; a group in more is refused."""

_MOST_POPULATIONS = 100
"""Most groups of one run that are checked; only runs of older versions, without a limit, make more."""

_COUNTED = {
    *(Analysis.LOGISTIC, Analysis.MULTINOMIAL, Analysis.ORDINAL, Analysis.DISCRIMINANT),
    *(Analysis.CROSSTAB, Analysis.LOGLINEAR, Analysis.NAIVE_BAYES, Analysis.CORRESPONDENCE),
    *(Analysis.QUANTILES, Analysis.CHOW_LIU, Analysis.CORRELATION, Analysis.POLYCHORIC),
    Analysis.COMPONENTS,
}
"""Kinds that may tell counts of the response's levels in a group."""


def of_groups(
    margins: RecordMargins, question: CheckedQuestion, rules: Rules, response: FloatArray | None = None
) -> Iterator[tuple[str, RuleVerdict]]:
    """Verdicts on all tables of groups that an answer may tell.

    Args:
        response: The response of each record; None where it is the number of its level.
    """
    if question.grouping is None:
        return
    for table in _tables(question, question.grouping):
        yield table.name, _of_cells(margins, table, rules)
    design = question.design
    if response is None and design is not None and design.response is not None:
        levels = np.nan_to_num(design.response.values)
        response = levels[margins.dataset.column(design.response.attribute)]
    if response is not None and question.kind not in _COUNTED:
        for term in question.grouping.terms:
            if term.groups:
                yield term.name, _of_sums(margins, term, response, rules)


def _tables(question: CheckedQuestion, grouping: Grouping) -> Iterator[Crossed]:
    """Each part with a group, alone and crossed with each other part of the formula."""
    for part in grouping.parts:
        if part.groups:
            yield part
    for one, other in combinations(grouping.parts, 2):
        if not (one.groups or other.groups):
            continue
        is_sum = one is grouping.response and not one.groups and not _is_counted(question)
        if not is_sum:
            yield one.with_(other)


def _is_counted(question: CheckedQuestion) -> bool:
    """Whether sums of the response count its levels: by the kind, or where it has two of them."""
    coding = question.coding.attribute(question.formula.response or "").coding
    return question.kind in _COUNTED or coding.size - coding.missing <= 2


def _cells(part: Crossed, margins: RecordMargins) -> tuple[Clique, IntArray]:
    """Number the cells of a crossed part.

    Returns:
        Attributes in the domain's order, and the number of the table's cell that each cell of these
        attributes belongs to; -1 for cells that the population cannot have.
    """
    attributes = margins.domain.canonical(part.attributes)
    shape = [margins.domain.size(name) for name in attributes]
    cells: IntArray = np.zeros(shape, dtype=np.int64)
    possible: Mask = np.ones(shape, dtype=bool)
    for name in part.levels:
        size = margins.domain.size(name)
        cells = cells * size + _spread(np.arange(size), (name,), attributes)
    for group in part.groups:
        codes = _spread(group.codes, group.attributes, attributes)
        cells, possible = cells * (int(group.codes.max()) + 1) + codes, possible & (codes >= 0)
    return attributes, np.where(possible, cells, -1)


def _spread(codes: NDArray[Any], own: Clique, attributes: Clique) -> NDArray[Any]:
    """An array over some attributes, in their order, with an axis for each of more attributes."""
    shape = iter(codes.shape)
    return codes.reshape([next(shape) if name in own else 1 for name in attributes])


def _of_cells(margins: RecordMargins, part: Crossed, rules: Rules) -> RuleVerdict:
    """Judge the number of records in each cell of a table, without levels that no record has."""
    if _is_wide(part, margins):
        return RuleVerdict((Rule.THRESHOLD,))
    attributes, cells = _cells(part, margins)
    counts = margins.counts(attributes)
    possible = cells >= 0
    for axis, name in enumerate(attributes):
        if name in part.levels:
            others = tuple(other for other in range(counts.ndim) if other != axis)
            held = counts.sum(axis=others) > 0
            possible = possible & _spread(held, (name,), attributes)
    _, place = np.unique(cells[possible], return_inverse=True)
    records = np.bincount(place, counts[possible])
    return together(tables.verdicts(tables.of_counts(records, rules)))


def _of_sums(margins: RecordMargins, part: Crossed, response: FloatArray, rules: Rules) -> RuleVerdict:
    """Judge sums of the response in each group."""
    if _is_wide(part, margins):
        return RuleVerdict((Rule.THRESHOLD,))
    attributes, cells = _cells(part, margins)
    own = cells[tuple(margins.dataset.column(name) for name in attributes)]
    held, place = np.unique(own, return_inverse=True)
    groups = tables.contributions(
        place,
        response,
        cells=len(held),
        most=max(rules.checks.dominance_count, 1),
    )
    return together(tables.verdicts(tables.of_sums(groups, rules)))


def _is_wide(part: Crossed, margins: RecordMargins) -> bool:
    return prod(margins.domain.size(name) for name in part.attributes) > _MOST_CELLS


def group_cliques(question: CheckedQuestion) -> tuple[Clique, ...]:
    """Attributes of each table of groups that an answer may tell."""
    if question.grouping is None:
        return ()
    return tuple(table.attributes for table in _tables(question, question.grouping))


def group_populations(question: CheckedQuestion) -> tuple[Condition, ...]:
    """Conditions of the groups: the answer tells of the records of each."""
    if question.grouping is None:
        return ()
    conditions = [
        Condition(group.attributes, group.codes == code)
        for part in question.grouping.parts
        for group in part.groups
        for code in range(int(group.codes.max(initial=-1)) + 1)
    ]
    return tuple(conditions[:_MOST_POPULATIONS])
