"""Rules that an answer from the records breaks: by its kind and the groups that its formula makes.

Every number is judged by what it can tell. Counts, and what determines them, are judged cell by cell, as
are the coefficients of dummies: those of a logistic model with its features' table are the counts. Means
are judged by what single records contribute. All else has degrees of freedom, and its model matrix.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, combinations
from math import prod

import numpy as np

from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.analysis.answers.design import CheckedQuestion, Crossed, Design, Grouping
from gencard.analysis.answers.kinds import wants_stored_quantiles
from gencard.analysis.answers.margins import Mask, Occupied, RecordMargins, along, every_cell
from gencard.analysis.answers.regressions import event_of
from gencard.analysis.output_checks import rule_checks
from gencard.analysis.output_checks.differencing import Condition, cell_numbers
from gencard.analysis.output_checks.influence import waits
from gencard.analysis.output_checks.released import ROUNDED_FIRST, slopes_of
from gencard.core.domain import Clique
from gencard.core.errors import GencardError
from gencard.core.policy import PASSED, Colour, Mark, Rule, Rules, RuleVerdict, breaking, together
from gencard.core.statistics.formula import Analysis
from gencard.core.types import FloatArray, IntArray

# Groups that functions of a formula make: ``I(age < 40)``, ``C(floor(age / 10))``.
#
# An answer tells of such a group what it tells of a level: how many records it has, and sums over them.
# So each group passes the threshold alone and crossed with each other term, and each is a population,
# which may not differ by a few records from that of another output.


_MOST_GROUPED_CELLS = 2**20
"""Cells of the attributes of two parts of a formula together; a group in more is refused."""

_MOST_POPULATIONS = 100
"""Most groups of one run that are checked; only runs of older versions, without a limit, make more."""

COUNTED = ROUNDED_FIRST | {Analysis.LOGLINEAR, Analysis.QUANTILES}
"""Tell the cells of the marginals that they need."""

_CLASSES = {Analysis.LOGISTIC, Analysis.MULTINOMIAL, Analysis.ORDINAL}
PAIRED = {Analysis.CORRELATION, Analysis.COMPONENTS, Analysis.POLYCHORIC}
_COUNTED = COUNTED | PAIRED | _CLASSES | {Analysis.DISCRIMINANT}
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
        yield table.name, _of_group_cells(margins, table, rules)
    design = question.design
    if response is None and design is not None and design.response is not None:
        levels = np.nan_to_num(design.response.values)
        response = levels[margins.dataset.column(design.response.attribute)]
    if response is not None and question.kind not in _COUNTED:
        for term in question.grouping.terms:
            if term.groups:
                yield term.name, _of_group_sums(margins, term, response, rules)


def _tables(question: CheckedQuestion, grouping: Grouping) -> Iterator[Crossed]:
    """Each part with a group, alone and crossed with each other part of the formula."""
    for part in grouping.parts:
        if part.groups:
            yield part
    for one, other in combinations(grouping.parts, 2):
        if not (one.groups or other.groups):
            continue
        is_sum = one is grouping.response and not one.groups and question.kind not in _COUNTED
        if is_sum:  # sums of a response with two levels count them
            coding = question.coding.attribute(question.formula.response or "").coding
            is_sum = coding.size - coding.missing > 2
        if not is_sum:
            levels = tuple(dict.fromkeys((*one.levels, *other.levels)))
            yield Crossed(levels, (*one.groups, *other.groups))


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
        cells = cells * size + along(np.arange(size), (name,), attributes)
    for group in part.groups:
        codes = along(group.codes, group.attributes, attributes)
        cells, possible = cells * (int(group.codes.max()) + 1) + codes, possible & (codes >= 0)
    return attributes, np.where(possible, cells, -1)


def _of_group_cells(margins: RecordMargins, part: Crossed, rules: Rules) -> RuleVerdict:
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
            possible = possible & along(held, (name,), attributes)
    _, place = np.unique(cells[possible], return_inverse=True)
    records = np.bincount(place, counts[possible])
    return together(rule_checks.verdicts(rule_checks.of_counts(records, rules)))


def _of_group_sums(
    margins: RecordMargins, part: Crossed, response: FloatArray, rules: Rules
) -> RuleVerdict:
    if _is_wide(part, margins):
        return RuleVerdict((Rule.THRESHOLD,))
    attributes, cells = _cells(part, margins)
    own = cells[tuple(margins.dataset.column(name) for name in attributes)]
    held, place = np.unique(own, return_inverse=True)
    most = max(rules.checks.dominance_count, 1)
    groups = rule_checks.contributions(place, response, cells=len(held), most=most)
    return together(rule_checks.verdicts(rule_checks.of_sums(groups, rules)))


def _is_wide(part: Crossed, margins: RecordMargins) -> bool:
    return prod(margins.domain.size(name) for name in part.attributes) > _MOST_GROUPED_CELLS


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


_NO_ERROR = 1e-9
"""Standard errors that are 0 but for rounding."""

GROUPED = {Analysis.MEANS, Analysis.TTEST, Analysis.ANOVA}
SUMMED = {*GROUPED, Analysis.LINEAR, Analysis.POISSON}
"""Determine the sums of the response in the cells of ``output_cliques``."""

SURVIVAL = {Analysis.KAPLAN_MEIER, Analysis.COX}


@dataclass(frozen=True, slots=True)
class Judgement:
    """Verdict of the rules on an answer, for a steward: it depends on the records.

    Args:
        parts: What was looked at, such as "model" or "sex × edu", and the verdict on all numbers that
            rest on it.
    """

    parts: tuple[tuple[str, RuleVerdict], ...]

    @property
    def verdict(self) -> RuleVerdict:
        """On the answer as a whole: one number that must stay keeps all of them."""
        return together(verdict for _, verdict in self.parts)

    @property
    def colour(self) -> Colour:
        return self.verdict.colour

    @property
    def marks(self) -> tuple[Mark, ...]:
        return tuple(Mark(part, verdict.colour, verdict.broken) for part, verdict in self.parts)


def judged(
    margins: RecordMargins, question: CheckedQuestion, answer: AnalysisAnswer, rules: Rules
) -> Judgement:
    """The judgement of an answer that was computed from these margins.

    Raises:
        TooLargeError: A table would have too many cells.
    """
    parts: dict[str, RuleVerdict] = {}
    for name, verdict in _parts(margins, question, answer, rules):
        parts[name] = together([parts.get(name, PASSED), verdict])
    return Judgement(tuple(parts.items()))


def _parts(
    margins: RecordMargins, question: CheckedQuestion, answer: AnalysisAnswer, rules: Rules
) -> Iterator[tuple[str, RuleVerdict]]:
    kind, response = question.kind, question.formula.response or ""
    yield from of_groups(margins, question, rules)
    yield "test", rule_checks.of_test(answer.n, parameters_of(answer), rules)
    if question.design is not None:
        yield "model", _of_design(margins, question.design, answer, rules)
        yield from _told_by_dummies(margins, question, question.design, rules)
    cliques = question.cliques if kind in COUNTED | PAIRED else ()
    counted = (one for one in cliques if kind in COUNTED or _is_fourfold(margins, one))
    yield from ((clique_name(clique), _of_cells(margins, clique, rules)) for clique in counted)
    if kind in GROUPED:
        numbers = np.asarray(question.values[response], dtype=np.float64)
        for term in question.formula.terms or ((),):
            yield clique_name(term), _of_sums(margins, term, response, numbers, rules, spreads=True)
    if kind is Analysis.QUANTILES:
        yield from _of_quantiles(margins, question, answer, rules)
    if kind in SURVIVAL:
        yield from _of_survival(margins, question, answer, rules)
    if kind is Analysis.DISCRIMINANT:
        for name in dict.fromkeys(chain.from_iterable(question.formula.terms)):
            values = np.asarray(question.values[name], dtype=np.float64)
            yield clique_name((response, name)), _of_sums(margins, (response,), name, values, rules)
    if kind in {Analysis.DISCRIMINANT, *_CLASSES}:
        yield clique_name((response,)), _of_cells(margins, (response,), rules)
    if kind not in COUNTED and rules.influence is not None:
        yield "influence", _of_influence(margins, question, rules)


def _of_influence(margins: RecordMargins, question: CheckedQuestion, rules: Rules) -> RuleVerdict:
    """Judge all numbers that are not judged cell by cell; an answer too wide to differentiate waits."""
    try:
        slopes = slopes_of(question, margins, rules)
        return waits(slopes.influence(margins.counts(slopes.attributes)), rules)
    # Fail closed: what cannot be differentiated waits for a steward, although nothing shows that it is
    # unsafe.
    except GencardError:
        return breaking([(Rule.UNKNOWN, True)])


def _of_survival(
    margins: RecordMargins, question: CheckedQuestion, answer: AnalysisAnswer, rules: Rules
) -> Iterator[tuple[str, RuleVerdict]]:
    """Judge curves step by step, and of a model the events in each cell that has its own coefficient."""
    if question.kind is Analysis.KAPLAN_MEIER:
        yield "curves", rule_checks.of_curves(answer, rules)
    elif question.design is not None:
        event, _ = event_of(question)
        for clique in coded_cliques(margins, question.design):
            table = (event, *(name for name in clique if name != event))
            yield clique_name(table), _of_cells(margins, table, rules)


def clique_name(clique: Clique) -> str:
    return " × ".join(clique) or "all"


def parameters_of(answer: AnalysisAnswer) -> int:
    """Estimated coefficients; for tests without any, 1, as of a mean."""
    return 1 if answer.coefficients is None else len(answer.coefficients.names)


def _of_cells(margins: RecordMargins, clique: Clique, rules: Rules) -> RuleVerdict:
    """Judge all cells of a marginal, without levels of no record, which no table shows, as in ACRO."""
    counts = margins.counts(clique)
    occupied = [
        counts.sum(axis=tuple(other for other in range(counts.ndim) if other != axis)) > 0
        for axis in range(counts.ndim)
    ]
    return together(rule_checks.verdicts(rule_checks.of_counts(counts[np.ix_(*occupied)], rules)))


def _is_fourfold(margins: RecordMargins, clique: Clique) -> bool:
    """Whether a pair has two levels each: one number about it is then its table."""
    return len(clique) == 2 and all(np.count_nonzero(margins.counts((name,))) == 2 for name in clique)


def _occupied(margins: RecordMargins, clique: Clique) -> Occupied:
    """The cells that hold somebody; of no attributes, the one cell of all."""
    if clique:
        return margins.occupied(clique)
    return Occupied(np.zeros((1, 0), dtype=np.int64), margins.counts(()).reshape(1))


def _of_design(
    margins: RecordMargins, design: Design, answer: AnalysisAnswer, rules: Rules
) -> RuleVerdict:
    cells = _occupied(margins, design.attributes)
    saturable = len(cells.counts) if len(design.attributes) > 1 else None
    verdicts = [
        rule_checks.of_model(answer.n, parameters_of(answer), saturable, rules),
        rule_checks.of_features(design.matrix(cells.codes), cells.counts, rules),
        breaking([(Rule.SAME, fits_exactly(answer))]),
    ]
    return together(verdicts)


def fits_exactly(answer: AnalysisAnswer) -> bool:
    """Whether a model leaves no residual: it then says of everybody what their response is."""
    coefficients = answer.coefficients
    return coefficients is not None and not np.all(coefficients.bse > _NO_ERROR)


def output_cliques(question: CheckedQuestion, possible: Mapping[str, Mask]) -> tuple[Clique, ...]:
    """Marginals in whose cells an answer tells counts or means; none for models of numbers alone."""
    if question.kind in GROUPED or wants_stored_quantiles(question):
        return question.formula.terms or ((),)
    if question.kind in COUNTED or question.kind in PAIRED:
        return question.cliques
    if question.kind is Analysis.KAPLAN_MEIER:
        return (event_of(question)[1],)
    is_classified = question.kind in _CLASSES and question.formula.response is not None
    response = (question.formula.response or "",) if is_classified else ()
    if question.design is None:
        return (response,)
    coded = _fully_coded(
        question.design,
        lambda clique: prod(int(possible[name].sum()) for name in clique),
        lambda clique: every_cell([np.flatnonzero(possible[name]) for name in clique]),
    )
    return tuple((*response, *clique) for clique in coded)


def _told_by_dummies(
    margins: RecordMargins, question: CheckedQuestion, design: Design, rules: Rules
) -> Iterator[tuple[str, RuleVerdict]]:
    """Judge the tables that coefficients determine: response by each term with a value for each cell."""
    response = design.response
    if response is None or question.kind in SURVIVAL:
        return
    for clique in coded_cliques(margins, design):
        if question.kind in _CLASSES:
            table = (response.attribute, *clique)
            yield clique_name(table), _of_cells(margins, table, rules)
        else:
            numbers = np.where(np.isnan(response.values), 0.0, response.values)
            yield clique_name(clique), _of_sums(margins, clique, response.attribute, numbers, rules)


def coded_cliques(margins: RecordMargins, design: Design) -> Iterator[Clique]:
    """The sets of attributes for whose occupied cells a model has a fitted value of their own each."""
    codes_held = {one.attributes: _occupied(margins, one.attributes).codes for one in design.columns}
    return _fully_coded(design, lambda clique: len(codes_held[clique]), codes_held.__getitem__)


def _fully_coded(
    design: Design, number_of: Callable[[Clique], int], cells_of: Callable[[Clique], IntArray]
) -> Iterator[Clique]:
    """Sets of attributes for each of whose cells the model has a fitted value of its own.

    Args:
        number_of: How many cells there are; they are listed only where a model may be so wide.
        cells_of: Their codes, shape ``(cells, attributes)``.
    """
    columns = [one for one in design.columns if not one.slopes]
    for clique in dict.fromkeys(column.attributes for column in columns):
        inside = [one for one in columns if {*one.attributes} <= {*clique}]
        # The rank can be full only with as many columns as cells; the test is cheap and keeps wide
        # products of levels from being listed.
        if number_of(clique) > len(inside):
            continue
        codes, values = cells_of(clique), []
        for one in inside:
            places = tuple(codes[:, clique.index(name)] for name in one.attributes)
            values.append(np.broadcast_to(one.values[places], len(codes)))
        if np.linalg.matrix_rank(np.column_stack(values)) == len(codes):
            yield clique


def _of_sums(
    margins: RecordMargins,
    clique: Clique,
    response: str,
    numbers: FloatArray,
    rules: Rules,
    *,
    spreads: bool = False,
) -> RuleVerdict:
    """Judge sums of a response in the cells of a clique that hold a record."""
    dataset = margins.dataset
    values = numbers[dataset.column(response)]
    cells, _ = cell_numbers(dataset, clique)
    occupied, place = np.unique(cells, return_inverse=True)
    most = max(rules.checks.dominance_count, 1)
    sums = rule_checks.contributions(place, values, cells=len(occupied), most=most)
    verdicts = rule_checks.verdicts(rule_checks.of_sums(sums, rules))
    if spreads:
        verdicts += rule_checks.verdicts(rule_checks.of_spreads(sums, rules))
    return together(verdicts)


def _of_quantiles(
    margins: RecordMargins, question: CheckedQuestion, answer: AnalysisAnswer, rules: Rules
) -> Iterator[tuple[str, RuleVerdict]]:
    term = question.formula.terms[0] if question.formula.terms else ()
    counts = _occupied(margins, term).counts
    for name in answer.table("quantiles").column_names:
        broken = rule_checks.of_quantiles(counts, float(name), rules)
        yield f"quantile {name}", together(rule_checks.verdicts(broken))
