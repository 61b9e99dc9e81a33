"""Facts that an output states about cells of a lattice: linear functions and their intervals.

Numbers of records are told to the nearest multiple of the rounding base. So are the counts of a table
from whose rounded counts all its numbers are computed. Means are told to two digits of their standard
errors. A model's coefficients solve linear equations in the counts, which hold as nearly as the
coefficients are told. Other numbers, and those of stored responses, are taken to tell how many records
they rest on and nothing else.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import scipy.linalg

from gencard.analysis.answers.design import CheckedQuestion
from gencard.analysis.answers.kinds import answered, kind_of, wants_stored
from gencard.analysis.answers.margins import RecordMargins
from gencard.analysis.answers.regressions import event_of
from gencard.analysis.output_checks import rounding
from gencard.analysis.output_checks.differencing import Kept, cell_numbers
from gencard.analysis.output_checks.judgement import COUNTED, GROUPED, SURVIVAL
from gencard.analysis.output_checks.lattice import CountFacts, Lattice, Sums
from gencard.analysis.output_checks.released import ROUNDED_FIRST, slopes_of
from gencard.core.card.privacy import Transform
from gencard.core.domain import Clique
from gencard.core.errors import GencardError
from gencard.core.policy import Rules
from gencard.core.statistics.formula import Analysis
from gencard.core.types import FloatArray, IntArray

_MOST_ENTRIES = 1_000
"""Numbers times cells of a lattice that a search for whole records can take account of.

Each number that depends on all cells makes the search much longer. In a larger lattice there are many
more tables that agree with an answer than answers; what single records do to it is judged by their
influence (``released``).
"""

_MOST_CELLS = 150
"""Cells of a lattice in which an answer has hardly few enough numbers for that."""

_MOST_MOVED = 20
"""Records whose change of a number stays inside half a unit of it where the number is left out."""


def counted(cliques: Sequence[Clique], lattice: Lattice) -> CountFacts:
    """Exact counts of everybody, as psi has them."""
    everybody = np.ones(len(lattice.counts), dtype=bool)
    return CountFacts.together(_exactly(cliques, everybody, lattice), len(lattice.changing))


def rounded(clique: Clique, checks: Transform, lattice: Lattice) -> CountFacts:
    """Counts of everybody that passed a threshold and were rounded, as psi of a card may have them."""
    sums = lattice.sums(clique, np.ones(len(lattice.counts), dtype=bool))
    empty = (sums.values == 0) & (2 * checks.threshold > checks.rounding)
    near_zero = ~empty & (2 * sums.values <= checks.rounding)
    parts = [
        CountFacts.near(sums.take(empty).rows, 0.0),  # a count that passed is not told as 0
        CountFacts.rounded(sums.take(near_zero), checks.rounding),
        CountFacts.rounded(sums.take(~empty & ~near_zero), checks.rounding, checks.threshold),
    ]
    return CountFacts.together(parts, len(lattice.changing))


def facts_of_answer(
    question: CheckedQuestion, kept: Kept, margins: RecordMargins, lattice: Lattice, rules: Rules
) -> CountFacts:
    """Return the facts in an answer that the rules let pass, about the lattice's attributes.

    Args:
        kept: True for the cells of the lattice that are in the answer's population.
        margins: Margins of the population, over the lattice.
    """
    terms = question.formula.terms if question.kind in GROUPED | {Analysis.QUANTILES} else ()
    if question.is_summed:  # numbers of records follow from standard errors
        terms = tuple(dict.fromkeys((*terms, *question.cliques)))
    parts = [_cells(clique, kept, lattice, rules) for clique in _inside(((), *terms), lattice)]
    if not wants_stored(question):
        if question.kind in ROUNDED_FIRST:
            parts += [
                _rounded(clique, kept, lattice, rules) for clique in _inside(question.cliques, lattice)
            ]
        elif question.kind in COUNTED:
            parts += _exactly(_inside(question.cliques, lattice), kept, lattice)
        if question.kind in GROUPED:
            parts += _means(question, kept, lattice)
        if lattice.told_apart.issuperset(question.formula.attributes):
            parts += _solved(question, margins, kept, lattice)
            parts += _of_numbers(question, margins, kept, lattice, rules)
    return CountFacts.together(parts, len(lattice.changing))


def _inside(cliques: Iterable[Clique], lattice: Lattice) -> Iterator[Clique]:
    """Select the cliques of attributes of the lattice whose levels it tells apart."""
    return filter(lattice.told_apart.issuperset, cliques)


def _cells(clique: Clique, kept: Kept, lattice: Lattice, rules: Rules) -> CountFacts:
    """The counts of a table; cells below the threshold are in none that passed."""
    checks, sums = rules.checks, lattice.sums(clique, kept)
    large = sums.take(sums.values >= max(checks.threshold, 1))
    return CountFacts.rounded(large, checks.rounding, checks.threshold)


def _rounded(clique: Clique, kept: Kept, lattice: Lattice, rules: Rules) -> CountFacts:
    """The counts of a table that is rounded first, and that nobody has the levels that it lacks."""
    sums = lattice.sums(clique, kept)
    empty = CountFacts.near(sums.take(sums.values == 0).rows, 0.0)
    return CountFacts.together([_cells(clique, kept, lattice, rules), empty], len(lattice.changing))


def _exactly(cliques: Iterable[Clique], kept: Kept, lattice: Lattice) -> Iterator[CountFacts]:
    """The counts of tables that an answer's numbers may determine."""
    return (CountFacts.near(lattice.sums(clique, kept).rows, 0.0) for clique in cliques)


def _means(question: CheckedQuestion, kept: Kept, lattice: Lattice) -> Iterator[CountFacts]:
    """Means of the coded response in the groups of each term."""
    response = question.formula.response or ""
    if response not in lattice.told_apart:
        return
    numbers = np.nan_to_num(np.asarray(question.values[response], dtype=np.float64))
    values = numbers[lattice.cells.column(response)]
    for term in _inside(question.formula.terms or ((),), lattice):
        groups, number = cell_numbers(lattice.cells, term)
        sizes, totals, squares = (
            np.bincount(groups[kept], (lattice.counts * power)[kept], minlength=number)
            for power in (np.ones(len(values)), values, values**2)
        )
        rows, several = lattice.sums(term, kept).rows, sizes > 1
        rows, sizes, totals, squares = rows[several], sizes[several], totals[several], squares[several]
        means = totals / sizes
        errors = np.sqrt(np.maximum(squares / sizes - means**2, 0.0) / (sizes - 1))
        rounded_means = np.array([rounding.to_error(*pair) for pair in zip(means, errors, strict=True)])
        centre, apart = totals - rounded_means * sizes, sizes * _units(errors) / 2
        changes = rows * (values[lattice.changing] - rounded_means[:, None])
        yield CountFacts.between(changes, -apart - centre, apart - centre)


def _of_numbers(
    question: CheckedQuestion, margins: RecordMargins, kept: Kept, lattice: Lattice, rules: Rules
) -> Iterator[CountFacts]:
    """The numbers that no function above has, each to the unit to which it is rounded.

    An answer that is too wide to be differentiated is taken to tell its tables; it waits for a steward.
    """
    if question.kind in COUNTED:
        return
    if question.kind in SURVIVAL:
        yield from _of_events(question, kept, lattice, rules)
    if len(lattice.changing) > _MOST_CELLS:
        return
    try:
        numbers = slopes_of(question, margins, rules)
    except GencardError:
        if kind_of(question.kind).equations is None:
            yield from _exactly(_inside(question.cliques, lattice), kept, lattice)
        return
    codes = [lattice.cells.column(name)[lattice.changing] for name in numbers.attributes]
    rows = numbers.slopes(np.stack(codes, axis=1)) * kept[lattice.changing]
    centre = np.round(numbers.values / numbers.units) - numbers.values / numbers.units
    rows = rows / numbers.units[:, None]
    if question.kind in GROUPED:  # means are linear functions of counts, which ``_means`` has
        others = np.array([name[-1] != "mean" for name in numbers.names])
        rows, centre = rows[others], centre[others]
    own = _independent(rows)
    if rows[own].size > _MOST_ENTRIES:
        return
    yield CountFacts.between(rows[own], centre[own] - 0.5, centre[own] + 0.5)


def _independent(rows: FloatArray) -> IntArray:
    """The numbers from which all others nearly follow, those that single records change most first.

    Many numbers of an answer are functions of fewer ones: eigenvectors and loadings of correlations.
    A number is left out where ``_MOST_MOVED`` records cannot change it by half a unit without changing
    those before it: it would tell hardly more, and each makes the search longer.

    Args:
        rows: Changes of each number by a record in each cell, in units of the number.
    """
    if not rows.size:
        return np.zeros(0, dtype=np.int64)
    _, right, order = scipy.linalg.qr(rows.T, mode="economic", pivoting=True)
    rest = np.abs(np.diag(right)) / np.sqrt(rows.shape[1])
    return np.asarray(order[: int((rest * _MOST_MOVED > 0.5).sum())], dtype=np.int64)


def _of_events(
    question: CheckedQuestion, kept: Kept, lattice: Lattice, rules: Rules
) -> Iterator[CountFacts]:
    """Events, and people at risk at the times that are told, by cells of the features.

    A curve is told at the first time by which there are enough events since the last one. So it also
    tells that there were fewer by the time before.
    """
    event, features = event_of(question)
    cells, base, least = lattice.cells, rules.checks.rounding, rules.survival
    levels = question.coding.attribute(event).coding
    times = np.asarray(question.values[question.formula.response or ""], dtype=np.float64)
    time, occurred = times[cells.column(question.formula.response or "")], cells.column(event)
    known = kept & ~np.isnan(time) & (occurred < levels.size - levels.missing)
    died = known & (occurred == levels.size - levels.missing - 1)
    if question.kind is Analysis.COX:
        yield CountFacts.rounded(lattice.sums((), died), base)
        return
    groups, number = cell_numbers(cells, features)
    for group in range(number):
        begin, before = -np.inf, None
        inside = groups == group
        for now in np.unique(time[inside & known & (lattice.counts > 0)]):
            left = lattice.sums((), inside & known & (time >= now))
            events = lattice.sums((), inside & died & (time > begin) & (time <= now))
            if left.values[0] < least:
                continue
            if events.values[0] < least:
                before = events
                continue
            yield CountFacts.rounded(left, base, least)
            yield CountFacts.rounded(events, base, least)
            if before is not None:
                yield _fewer(before, least)
            begin, before = now, None
        if before is not None:
            yield _fewer(before, least)


def _fewer(sums: Sums, least: int) -> CountFacts:
    """That some counts are below a number."""
    values = sums.values.astype(np.float64)
    return CountFacts.between(sums.rows, -values, least - 1.0 - values)


def _units(errors: FloatArray) -> FloatArray:
    """To multiples of what numbers with these standard errors are rounded."""
    return np.array([rounding.step(float(error)) if error > 0 else 0.0 for error in errors])


def _solved(
    question: CheckedQuestion, margins: RecordMargins, kept: Kept, lattice: Lattice
) -> Iterator[CountFacts]:
    """The equations that coefficients solve, as nearly as they are told."""
    equations_of = kind_of(question.kind).equations
    if equations_of is None:
        return
    try:
        answer = answered(question, margins)
        with np.errstate(divide="ignore", invalid="ignore"):
            equations = equations_of(margins, question, answer)
    except GencardError:  # no answer, or none with equations of its own
        return
    if answer.coefficients is None or not np.isfinite(equations.information).all():
        return  # a fit without residuals has no equations; rule SAME refuses it
    params, errors = np.array(answer.coefficients.params), answer.coefficients.bse
    rounded = np.array([rounding.to_error(*pair) for pair in zip(params, errors, strict=True)])
    apart = np.abs(equations.information) @ _units(errors) / 2
    centre = equations.information @ (rounded - params)
    # The derivative of each equation by the count of each cell that may change.
    rows = np.zeros((len(equations.information), len(lattice.changing)))
    for block in equations.gradients:
        places, _ = lattice.numbers(block.attributes)
        np.add.at(rows, block.places, block.values[:, places])
    yield CountFacts.between(rows * kept[lattice.changing], centre - apart, centre + apart)
