"""What an output tells of the cells of a lattice, as linear functions and their intervals.

Numbers of records are told to the nearest multiple of the rounding base. So are the counts of a table
from whose rounded counts all its numbers are computed. Means are told to two digits of their standard
errors. A model's coefficients solve linear equations in the counts, which hold as nearly as the
coefficients are told. Other numbers, and those of stored responses, are taken to tell how many records
they rest on and nothing else.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from gencard.core.answers.design import Question
from gencard.core.answers.kinds import answered, kind_of
from gencard.core.answers.margins import RecordMargins
from gencard.core.answers.noise.estimating import Equations
from gencard.core.answers.stored import wants_stored
from gencard.core.domain import Clique
from gencard.core.errors import GencardError
from gencard.core.output_checks import rounding
from gencard.core.output_checks.judgement import COUNTED, GROUPED
from gencard.core.output_checks.lattice import Facts, Lattice
from gencard.core.output_checks.populations import Kept, cell_numbers
from gencard.core.output_checks.released import ROUNDED_FIRST
from gencard.core.output_checks.rules import Rules
from gencard.core.statistics.formula import Analysis
from gencard.core.types import FloatArray


def counted(cliques: Sequence[Clique], lattice: Lattice) -> Facts:
    """Exact counts of everybody, as psi has them."""
    everybody = np.ones(len(lattice.counts), dtype=bool)
    parts = (Facts.near(lattice.sums(clique, everybody).rows, 0.0) for clique in cliques)
    return Facts.together(parts, len(lattice.changing))


def facts_of_answer(
    question: Question, kept: Kept, margins: RecordMargins, lattice: Lattice, rules: Rules
) -> Facts:
    """Of an answer that the rules let pass, as far as it is about the lattice's attributes.

    Args:
        kept: Which cells of the lattice are in its population.
        margins: Of the population, over the lattice.
    """
    terms = question.formula.terms if question.kind in GROUPED | {Analysis.QUANTILES} else ()
    parts = [_cells(clique, kept, lattice, rules) for clique in _inside(((), *terms), lattice)]
    if not wants_stored(question):
        if question.kind in ROUNDED_FIRST:
            parts += [
                _rounded(clique, kept, lattice, rules) for clique in _inside(question.cliques, lattice)
            ]
        elif question.kind in COUNTED:
            parts += [_exactly(clique, kept, lattice) for clique in _inside(question.cliques, lattice)]
        if question.kind in GROUPED:
            parts += _means(question, kept, lattice)
        if lattice.told_apart.issuperset(question.formula.attributes):
            parts += _solved(question, margins, kept, lattice)
    return Facts.together(parts, len(lattice.changing))


def _inside(cliques: Iterable[Clique], lattice: Lattice) -> Iterator[Clique]:
    """Those of attributes of the lattice whose levels it tells apart."""
    return filter(lattice.told_apart.issuperset, cliques)


def _cells(clique: Clique, kept: Kept, lattice: Lattice, rules: Rules) -> Facts:
    """The counts of a table; cells below the threshold are in none that passed."""
    checks, sums = rules.checks, lattice.sums(clique, kept)
    large = sums.take(sums.values >= max(checks.threshold, 1))
    return Facts.rounded(large, checks.rounding, checks.threshold)


def _rounded(clique: Clique, kept: Kept, lattice: Lattice, rules: Rules) -> Facts:
    """The counts of a table that is rounded first, and that nobody has the levels that it lacks."""
    sums = lattice.sums(clique, kept)
    empty = Facts.near(sums.take(sums.values == 0).rows, 0.0)
    return Facts.together([_cells(clique, kept, lattice, rules), empty], len(lattice.changing))


def _exactly(clique: Clique, kept: Kept, lattice: Lattice) -> Facts:
    """The counts of a table that an answer's numbers may determine."""
    return Facts.near(lattice.sums(clique, kept).rows, 0.0)


def _means(question: Question, kept: Kept, lattice: Lattice) -> Iterator[Facts]:
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
        yield Facts.between(changes, -apart - centre, apart - centre)


def _units(errors: FloatArray) -> FloatArray:
    """To multiples of what numbers with these standard errors are rounded."""
    return np.array([rounding.step(float(error)) if error > 0 else 0.0 for error in errors])


def _solved(question: Question, margins: RecordMargins, kept: Kept, lattice: Lattice) -> Iterator[Facts]:
    """The equations that coefficients solve, as nearly as they are told."""
    equations_of = kind_of(question.kind).equations
    if equations_of is None:
        return
    try:
        answer = answered(question, margins)
        equations = equations_of(margins, question, answer)
    except GencardError:  # no answer, or none with equations of its own
        return
    if answer.coefficients is None:
        return
    params, errors = np.array(answer.coefficients.params), answer.coefficients.bse
    rounded = np.array([rounding.to_error(*pair) for pair in zip(params, errors, strict=True)])
    apart = np.abs(equations.information) @ _units(errors) / 2
    centre = equations.information @ (rounded - params)
    rows = _rows(equations, lattice) * kept[lattice.changing]
    yield Facts.between(rows, centre - apart, centre + apart)


def _rows(equations: Equations, lattice: Lattice) -> FloatArray:
    """The derivative of each equation by the count of each cell that may change."""
    rows = np.zeros((len(equations.information), len(lattice.changing)))
    for block in equations.gradients:
        sizes = [lattice.domain.size(name) for name in block.attributes]
        codes = [lattice.cells.column(name)[lattice.changing] for name in block.attributes]
        places = np.zeros(rows.shape[1], dtype=np.int64)
        for code, size in zip(codes, sizes, strict=True):
            places = places * size + code
        np.add.at(rows, block.places, block.values[:, places])
    return rows
