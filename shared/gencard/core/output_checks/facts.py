"""What an output tells of the cells of a lattice, as linear functions and their intervals.

Numbers of records are told to the nearest multiple of the rounding base, means to two digits of their
standard errors. A table's tests and residuals tell its counts exactly. A model's coefficients solve
linear equations in the counts, which hold as nearly as the coefficients are told. Other numbers, and
those of stored responses, are taken to tell how many records they rest on and nothing else.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from gencard.core.answers.design import Question
from gencard.core.answers.kinds import answered, kind_of
from gencard.core.answers.margins import RecordMargins
from gencard.core.answers.noise.estimating import Equations
from gencard.core.answers.stored import wants_stored
from gencard.core.domain import Clique
from gencard.core.errors import GencardError
from gencard.core.output_checks import rounding
from gencard.core.output_checks.inference import Facts, Lattice
from gencard.core.output_checks.judgement import COUNTED, GROUPED
from gencard.core.output_checks.populations import Kept
from gencard.core.output_checks.rules import Rules
from gencard.core.statistics.formula import Analysis
from gencard.core.types import FloatArray


def counted(cliques: Sequence[Clique], lattice: Lattice) -> Facts:
    """Exact counts of everybody, as psi has them."""
    everybody = np.ones(len(lattice.counts), dtype=bool)
    parts = [
        Facts.near(lattice.indicators(clique, everybody), lattice.counts, 0.0) for clique in cliques
    ]
    return Facts.together(parts, len(lattice.counts))


def facts_of_answer(
    question: Question, kept: Kept, margins: RecordMargins, lattice: Lattice, rules: Rules
) -> Facts:
    """Of an answer that the rules let pass.

    Args:
        kept: Which cells of the lattice are in its population.
        margins: Of the population, over the lattice.
    """
    terms = question.formula.terms if question.kind in GROUPED | {Analysis.QUANTILES} else ()
    parts = [_cells(clique, kept, lattice, rules) for clique in ((), *terms)]
    if not wants_stored(question):
        if question.kind in COUNTED:
            parts += [_exactly(clique, kept, lattice) for clique in question.cliques]
        if question.kind in GROUPED:
            parts += _means(question, kept, lattice)
        parts += _solved(question, margins, kept, lattice)
    return Facts.together(parts, len(lattice.counts))


def _cells(clique: Clique, kept: Kept, lattice: Lattice, rules: Rules) -> Facts:
    """The counts of a table; cells below the threshold are in none that passed."""
    rows = lattice.indicators(clique, kept)
    checks = rules.checks
    large = rows @ lattice.counts >= max(checks.threshold, 1)
    return Facts.rounded(rows[large], lattice.counts, checks.rounding, checks.threshold)


def _exactly(clique: Clique, kept: Kept, lattice: Lattice) -> Facts:
    """The counts of a table beside which residuals and test statistics undo their rounding."""
    return Facts.near(lattice.indicators(clique, kept), lattice.counts, 0.0)


def _means(question: Question, kept: Kept, lattice: Lattice) -> Iterator[Facts]:
    """Means of the coded response in the groups of each term."""
    response = question.formula.response or ""
    numbers = np.nan_to_num(np.asarray(question.values[response], dtype=np.float64))
    values = numbers[lattice.cells.column(response)]
    for term in question.formula.terms or ((),):
        rows = lattice.indicators(term, kept)
        sizes = rows @ lattice.counts
        rows, sizes = rows[sizes > 1], sizes[sizes > 1]
        means = rows @ (values * lattice.counts) / sizes
        variances = rows @ (values**2 * lattice.counts) / sizes - means**2
        errors = np.sqrt(np.maximum(variances, 0.0) / (sizes - 1))
        rounded_means = np.array([rounding.to_error(*pair) for pair in zip(means, errors, strict=True)])
        apart = sizes * _units(errors) / 2
        yield Facts(rows * (values - rounded_means[:, None]), -apart, apart)


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
    yield Facts(_rows(equations, lattice) * kept, centre - apart, centre + apart)


def _rows(equations: Equations, lattice: Lattice) -> FloatArray:
    """The derivative of each equation by the count of each cell."""
    rows = np.zeros((len(equations.information), len(lattice.counts)))
    for block in equations.gradients:
        sizes = [lattice.domain.size(name) for name in block.attributes]
        codes = [lattice.cells.column(name).astype(np.int64) for name in block.attributes]
        places = np.ravel_multi_index(codes, sizes) if codes else np.zeros(len(lattice.counts), int)
        np.add.at(rows, block.places, block.values[:, places])
    return rows
