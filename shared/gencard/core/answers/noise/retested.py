r"""Tests with the noise of psi: t of a mean or a difference of means, F of terms by Wald's statistic.

Without noise, the F of a term is :math:`b^\top (s^2 C)^{-1} b / q` of its q coefficients, C the inverse
of :math:`X^\top X`. With noise of covariance V on the coefficients it is
:math:`b^\top (s^2 C + V)^{-1} b / q`; a difference of residual sums of squares has no such form.
"""

from dataclasses import replace

import numpy as np
from scipy import special

from gencard.core.answers.answer import Answer, Scalar, table_of
from gencard.core.answers.design import Design, Question
from gencard.core.answers.families.anova import (
    TESTS,
    adjusted_for,
    cell_design,
    of_columns,
    places_of_terms,
    terms_of,
    typ_of,
)
from gencard.core.answers.families.levels import choice, number, numbers, response_of
from gencard.core.answers.linear import Moments, linear_fit, moments
from gencard.core.answers.margins import Margins, within
from gencard.core.answers.noise.estimating import kept_blocks, linear_equations
from gencard.core.answers.noise.intervals import covariance_with_noise
from gencard.core.answers.noise.models import check_rank, one_number
from gencard.core.errors import NoEstimateError, NoiseDrownsError
from gencard.core.types import IntArray

_COLUMNS = ("df", "F", "PR(>F)")


def t_with_noise(margins: Margins, question: Question, known: Answer) -> Answer:
    """A t test from the estimate and its standard error with the noise; ranks have none."""
    del margins
    if known.coefficients is None:
        return known
    value = number(question, "value", 0.0)
    degrees = known.coefficients.degrees or np.inf
    t = (known.coefficients.params[0] - value) / float(known.coefficients.bse[0])
    pvalue = float(2 * special.stdtr(degrees, -abs(t)))
    tested = Scalar("tvalue", t, None, (degrees,), pvalue)
    return replace(known, scalars=(tested, *known.scalars))


def f_with_noise(margins: Margins, question: Question, known: Answer) -> Answer:
    """The table of Fisher's F, of each term with the noise; other tests have none."""
    if choice(question, "test", TESTS) != TESTS[0]:
        return known
    terms, typ = terms_of(question), typ_of(question)
    margins = _with_response(margins, question)
    design = cell_design(margins, question, terms)
    sums, places = moments(margins, design), places_of_terms(margins, terms)
    try:
        full = linear_fit(sums)
    except NoEstimateError:
        raise NoiseDrownsError from None
    if full.degrees <= 0 or not full.rss > 0:
        raise NoiseDrownsError
    rows = []
    for place in range(len(terms)):
        others = [places[1 + other] for other in adjusted_for(terms, place, typ)]
        columns = np.concatenate([places[0], *others, places[1 + place]])
        scale = full.rss / full.degrees
        rows.append(_tested(margins, design, sums, columns, places[1 + place], scale, full.degrees))
    names = tuple(":".join(term) for term in terms)
    table = table_of(
        "anova", (*names, "Residual"), _COLUMNS, np.array([*rows, (full.degrees, np.nan, np.nan)])
    )
    return replace(known, tables=(table, *known.tables))


def _with_response(margins: Margins, question: Question) -> Margins:
    """Margins of the records with a number for the response, as the table of means has them."""
    response = response_of(question)
    known = ~np.isnan(numbers(question, response))
    return margins if known.all() else within(margins, (response,), known)


def _tested(
    margins: Margins,
    design: Design,
    sums: Moments,
    columns: IntArray,
    own: IntArray,
    scale: float,
    degrees: float,
) -> tuple[float, float, float]:
    """Degrees of freedom, F and p value of a term.

    Args:
        columns: Of the model in which the term is tested.
        own: Those of the term.
        scale: Variance of the residuals.
        degrees: Of freedom of the residuals.
    """
    inside = of_columns(sums, columns)
    try:
        fit = linear_fit(inside)
    except NoEstimateError:
        raise NoiseDrownsError from None
    check_rank(inside, len(fit.kept))
    kept = columns[fit.kept]
    response = design.required_response()
    values = one_number(response.attribute, response.numbers(margins))
    blocks = kept_blocks(design, kept)
    equations = linear_equations(blocks, values, fit.params, fit.inverse, margins.domain)
    covariance = covariance_with_noise(equations, margins, fit.inverse * scale)
    tested = np.flatnonzero(np.isin(kept, own))
    if not len(tested):
        return 0.0, np.nan, np.nan
    b = fit.params[tested]
    f = float(b @ np.linalg.solve(covariance[np.ix_(tested, tested)], b)) / len(tested)
    return float(len(tested)), f, float(special.fdtrc(len(tested), degrees, f))
