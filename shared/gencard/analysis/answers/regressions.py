r"""Logistic, multinomial and Poisson regression, survival curves and Cox regression.

The likelihood of each depends on the records through :math:`X'y`, which the margins of response and
terms give, and through the joint table of the features alone (McCullagh and Nelder, 1989, 2.2.4).
"""

from dataclasses import dataclass, replace
from math import log

import numpy as np
from scipy import special, stats

from gencard.analysis.answers.answer import AnalysisAnswer, Scalar, finite, table_of
from gencard.analysis.answers.design import (
    INTERCEPT,
    CheckedQuestion,
    Column,
    Design,
    Response,
    occurring,
)
from gencard.analysis.answers.levels import numbers
from gencard.analysis.answers.linear import cross_products
from gencard.analysis.answers.loglinear import (
    Columns,
    Maximum,
    columns_of,
    diverging_levels,
    maximum,
    model_answer,
    sums_of,
)
from gencard.analysis.answers.margins import Margins, Occupied, records_of
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError, NoEstimateError
from gencard.core.types import FloatArray, IntArray

# Survival at coded times: Kaplan-Meier curves and Cox regression, from the joint table.
#
# A formula reads ``time ~ event + features``: the response is the time, and the first term says whether
# the event came then, by the last of its levels; all others are censored. Times are those of levels, so
# many records share one: ties are Efron's [1]_.
#
# References:
#     .. [1] B. Efron, "The Efficiency of Cox's Likelihood Function for Censored Data", *JASA* 72, 1977.


COLUMNS = ("time", "at_risk", "events", "survival", "std_err")
"""Columns of a curve's table: at risk just before the time; survival, Greenwood's error just after."""


@dataclass(frozen=True, slots=True, eq=False)
class _Spells:
    """One row for each cell that holds somebody; ``died`` if the event happened at its time."""

    times: FloatArray
    died: FloatArray
    features: IntArray
    counts: FloatArray


def event_of(question: CheckedQuestion) -> tuple[str, Clique]:
    """The attribute of the event, and the features.

    Raises:
        InvalidInputError: The first term is not one attribute.
    """
    terms = question.formula.terms
    if not terms or len(terms[0]) != 1:
        problem = "the first term must say whether the event occurred, as in time ~ event + sex"
        raise InvalidInputError(field="formula", problem=problem)
    features = tuple(dict.fromkeys(name for term in terms[1:] for name in term))
    return terms[0][0], tuple(name for name in features if name != terms[0][0])


def _spells(margins: Margins, question: CheckedQuestion, features: Clique, event: str) -> _Spells:
    time = question.formula.response or ""
    of_levels = numbers(question, time)
    names = tuple(dict.fromkeys((time, event, *features)))
    cells = margins.occupied(names)
    if is_noisy := bool(margins.variances(names).any()):
        counts = margins.counts(names)
        cells = Occupied(np.argwhere(np.ones_like(counts, dtype=bool)), counts.reshape(-1))
    times = of_levels[cells.codes[:, 0]]
    places = [names.index(name) for name in features]
    coding = question.coding.attribute(event).coding
    known = ~np.isnan(times) & (cells.codes[:, 1] < coding.size - coding.missing)
    died = (cells.codes[:, 1] == coding.size - coding.missing - 1).astype(np.float64)
    # Noise below 0 is kept: sums of counts from 0 up would have too many records.
    counts = cells.counts if is_noisy else np.maximum(cells.counts, 0)
    return _Spells(times[known], died[known], cells.codes[known][:, places], counts[known])


def kaplan_meier_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """A curve for each cell of the features, told at every level of the time."""
    event, features = event_of(question)
    spells = _spells(margins, question, features, event)
    groups, group = np.unique(spells.features, axis=0, return_inverse=True)
    tables = []
    for number, codes in enumerate(groups):
        names = [question.levels(name)[code] for name, code in zip(features, codes, strict=True)]
        name = f"survival[{', '.join(names)}]" if names else "survival"
        inside = np.ravel(group) == number
        times, place = np.unique(spells.times[inside], return_inverse=True)
        counts = spells.counts[inside]
        died = np.bincount(place, counts * spells.died[inside], minlength=len(times))
        at_risk = np.cumsum(np.bincount(place, counts, minlength=len(times))[::-1])[::-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            survival = np.cumprod(1 - died / at_risk)
            errors = survival * np.sqrt(np.cumsum(died / (at_risk * (at_risk - died))))
        errors = np.where(survival == 0, 0.0, errors)
        curve = np.column_stack([times, at_risk, died, survival, errors])
        tables.append(table_of(name, tuple(f"{time:g}" for time in times), COLUMNS, curve))
    n = float(spells.counts.sum())
    return AnalysisAnswer(question.kind.value, question.text, n, tables=tuple(tables))


def cox_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """Logarithms of hazard ratios, as ``PHReg`` of statsmodels with ties "efron" has them."""
    event, _ = event_of(question)
    design = question.model()
    spells = _spells(margins, question, design.attributes, event)
    of_event = [one.name for one in design.columns if event in one.attributes]
    cells = Occupied(spells.features, spells.counts)
    columns = columns_of(design, cells, without=(INTERCEPT, *of_event))
    if not len(columns.kept) or not np.any(spells.died * spells.counts):
        problem = "needs a feature that varies, and at least one event"
        raise InvalidInputError(field="formula", problem=problem)
    fit = maximum(
        lambda b: _likelihood(spells, columns.matrix, b),
        np.zeros(len(columns.kept)),
        columns.kept_names,
        question.kind.value,
    )
    null = _likelihood(spells, columns.matrix, np.zeros(len(columns.kept)))[0]
    events = float((spells.died * spells.counts).sum())
    scalars = (Scalar("llf", fit.llf), Scalar("llnull", null), Scalar("nevents", events))
    n = float(spells.counts.sum())
    return model_answer(question, n, columns, fit.linear(columns.back), columns.kept_names, scalars)


def _likelihood(spells: _Spells, x: FloatArray, b: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Efron's log partial likelihood, its gradient and information."""
    risk = spells.counts * np.exp(x @ b)
    value, gradient, information = 0.0, np.zeros(len(b)), np.zeros((len(b), len(b)))
    for time in np.unique(spells.times[(spells.died * spells.counts) > 0]):
        left, now = spells.times >= time, (spells.times == time) & (spells.died > 0)
        tied = round(float(spells.counts[now].sum()))
        if tied <= 0:  # noise below 0 in other cells
            continue
        share = np.arange(tied) / tied
        sums = [np.array([risk[one].sum(), *(risk[one] @ x[one])]) for one in (left, now)]
        squares = [(x[one] * risk[one][:, None]).T @ x[one] for one in (left, now)]
        s = sums[0][None] - share[:, None] * sums[1][None]
        means = s[:, 1:] / s[:, :1]
        value += float(spells.counts[now] @ (x[now] @ b)) - float(np.log(s[:, 0]).sum())
        gradient += spells.counts[now] @ x[now] - means.sum(axis=0)
        information += (1 / s[:, 0]).sum() * squares[0] - (share / s[:, 0]).sum() * squares[1]
        information -= means.T @ means
    return value, gradient, information


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Statistics of the records that a likelihood needs.

    Args:
        sums: Sums of the columns times each function of the response, shape ``(functions, kept)``, in
            the units of ``columns.matrix``.
    """

    cells: Occupied
    columns: Columns
    sums: FloatArray
    n: float


def features_of(margins: Margins, design: Design, sums: FloatArray) -> Features:
    """The features, and ``sums`` of the design's columns times functions, ``(functions, columns)``."""
    cells = margins.occupied(design.attributes)
    columns = columns_of(design, cells)
    return Features(cells, columns, sums[:, columns.kept] @ columns.back, records_of(margins))


def logistic_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """Logistic regression: of the second of two levels, or of a response of zeros and ones.

    Raises:
        InvalidInputError: The response has more levels.
        NoEstimateError: Features separate the levels of the response.
    """
    design = question.model()
    response = design.required_response()
    events = events_of(margins, response)
    shares = margins.counts((response.attribute,))
    ones = float(shares @ events)
    if not 0 < ones < shares.sum():
        raise NoEstimateError(kind="logistic", problem="the response is the same in all records")
    features = features_of(margins, design, sums_of(margins, design, response.attribute, events[None]))
    fit = _multinomial(features, (), "logistic", question)
    return _answer(question, features, fit, features.columns.kept_names, (features.n - ones, ones))


def multinomial_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """Multinomial logit, each level against the first one that somebody has; raises as logistic."""
    design = question.model()
    response = design.required_response()
    counts = margins.counts((response.attribute,))
    levels = np.flatnonzero(occurring(margins, (response.attribute,)))
    if len(levels) < 2:
        raise InvalidInputError(field="formula", problem="the response has a single level")
    weights = np.eye(len(counts))[levels[1:]]
    features = features_of(margins, design, sums_of(margins, design, response.attribute, weights))
    names = tuple(
        f"{response.name}={response.levels[level]}:{column}"
        for level in levels[1:]
        for column in features.columns.kept_names
    )
    fit = _multinomial(features, names, "multinomial", question)
    return _answer(question, features, fit, names, tuple(map(float, counts[levels])))


def poisson_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """Poisson regression with the log link.

    Raises:
        InvalidInputError: A level of the response stands for no number, or for one below 0.
        NoEstimateError: The response is 0 in all records of a column.
    """
    if question.summed_response is not None:
        return _poisson_of_sums(margins, question, question.summed_response)
    design = question.model()
    response = design.required_response()
    values = response.numbers(margins)
    counts = margins.counts((response.attribute,))
    if np.any((values < 0) & occurring(margins, (response.attribute,))):
        raise InvalidInputError(field="formula", problem="a Poisson response must be 0 or more")
    features = features_of(margins, design, sums_of(margins, design, response.attribute, values[None]))
    total, n = float(values @ counts), features.n
    constant = float(special.gammaln(values + 1) @ counts)
    fit = _poisson(features, total / n, constant, question)
    null = total * log(total / n) - total - constant if total > 0 else 0.0
    saturated = float(special.xlogy(values, values) @ counts) - total
    deviance = 2 * (saturated - fit.llf - constant)
    back = fit.linear(features.columns.back)
    names = features.columns.kept_names
    scalars = (*fit_scalars(fit.llf, null, len(names), 1, n), Scalar("deviance", finite(deviance)))
    return model_answer(question, features.n, features.columns, back, names, scalars)


def _poisson_of_sums(margins: Margins, question: CheckedQuestion, column: Column) -> AnalysisAnswer:
    """Poisson regression of a response that is summed: the sums of each term are all that it needs.

    The likelihood has another part, a sum of a function of each record's number. It is the same in each
    model, so that their ratio is known.
    """
    design = question.model()
    n = records_of(margins)
    if n <= 0:
        raise NoEstimateError(kind="poisson", problem="there are no records")
    one = Column(INTERCEPT, (), np.ones(()))
    products = cross_products(margins, (*design.columns, one), [column], question.scales)
    *sums, total = products[:, 0].astype(np.float64).tolist()
    features = features_of(margins, design, np.array([sums]))
    fit = _poisson(features, total / n, 0.0, question)
    null = total * log(total / n) - total
    names = features.columns.kept_names
    scalars = fit_scalars(fit.llf, null, len(names), 1, n)
    ratio = tuple(scalar for scalar in scalars if scalar.name == "llr")
    back = fit.linear(features.columns.back)
    answer = model_answer(question, features.n, features.columns, back, names, ratio)
    note = "deviance and likelihood are left out: sums of the response do not determine them"
    return replace(answer, notes=(*answer.notes, note))


def events_of(margins: Margins, response: Response) -> FloatArray:
    """1 for the levels of the response that are the event, else 0."""
    levels = np.flatnonzero(occurring(margins, (response.attribute,)))
    if not np.isnan(response.values).all():
        values = response.numbers(margins)
        if set(values[levels]) <= {0.0, 1.0}:
            return values
    if len(levels) != 2:
        problem = (
            f"'{response.name}' has neither two levels nor the values 0 and 1; write the event "
            "as the response, "
            f"such as I({response.attribute} == '{response.levels[-1]}'), or use kind multinomial"
        )
        raise InvalidInputError(field="formula", problem=problem)
    events = np.zeros(len(response.levels))
    events[levels[1]] = 1.0
    return events


def _multinomial(
    features: Features, names: tuple[str, ...], kind: str, question: CheckedQuestion
) -> Maximum:
    """Maximise the likelihood over centred columns; each function of the response has its parameters."""
    x, n, sums = features.columns.matrix, features.cells.counts, features.sums
    equations, size = sums.shape
    labels = names or features.columns.kept_names

    def objective(params: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        eta = x @ params.reshape(equations, size).T
        top = np.maximum(eta.max(axis=1), 0.0)
        weights = np.exp(eta - top[:, None])
        rest = np.exp(-top)
        total = weights.sum(axis=1) + rest
        shares = weights / total[:, None]
        value = float((sums * params.reshape(equations, size)).sum() - n @ (top + np.log(total)))
        gradient = sums - (shares * n[:, None]).T @ x
        return value, gradient.reshape(-1), _information(x, n, shares, rest / total)

    def where(params: FloatArray) -> str:
        eta = x @ params.reshape(equations, size).T
        return diverging_levels(eta, features.cells.codes, question.model().attributes, question.levels)

    return maximum(objective, np.zeros(sums.size), labels, kind, where)


def _information(x: FloatArray, n: FloatArray, shares: FloatArray, rest: FloatArray) -> FloatArray:
    """Return the information matrix of a multinomial logit.

    Each diagonal weight p (1 - p) keeps its digits where p is near 1.
    """
    equations, size = shares.shape[1], x.shape[1]
    information = np.empty((equations, size, equations, size))
    for one in range(equations):
        others = np.delete(shares, one, axis=1).sum(axis=1) + rest
        for other in range(one, equations):
            weight = shares[:, one] * (others if one == other else -shares[:, other])
            block = (x.T * (n * weight)) @ x
            information[one, :, other], information[other, :, one] = block, block.T
    return information.reshape(equations * size, -1)


def _poisson(features: Features, mean: float, constant: float, question: CheckedQuestion) -> Maximum:
    x, n, sums = features.columns.matrix, features.cells.counts, features.sums[0]
    if mean <= 0:
        raise NoEstimateError(kind="poisson", problem="the response is 0 in all records")

    def objective(params: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        with np.errstate(over="ignore"):
            means = n * np.exp(x @ params)
            value = float(params @ sums - means.sum() - constant)
        return value, sums - means @ x, (x.T * means) @ x

    start = np.linalg.lstsq((x.T * n) @ x, log(mean) * (n @ x), rcond=None)[0].astype(np.float64)

    def where(params: FloatArray) -> str:
        eta = (x @ params)[:, None]
        return diverging_levels(eta, features.cells.codes, question.model().attributes, question.levels)

    return maximum(objective, start, features.columns.kept_names, "poisson", where)


def _answer(
    question: CheckedQuestion,
    features: Features,
    fit: Maximum,
    names: tuple[str, ...],
    counts: tuple[float, ...],
) -> AnalysisAnswer:
    equations = len(counts) - 1
    back = np.kron(np.eye(equations), features.columns.back).astype(np.float64)
    null = float(special.xlogy(counts, np.array(counts) / features.n).sum())
    scalars = fit_scalars(fit.llf, null, len(names), equations, features.n)
    return model_answer(question, features.n, features.columns, fit.linear(back), names, scalars)


def fit_scalars(llf: float, null: float, params: int, equations: int, n: float) -> tuple[Scalar, ...]:
    """Return what statsmodels reports of a fit by maximum likelihood, beside the constant alone."""
    degrees = params - equations
    ratio = 2 * (llf - null)
    return (
        Scalar("llf", finite(llf)),
        Scalar("llnull", finite(null)),
        Scalar("prsquared", finite(1 - llf / null) if null else None),
        Scalar(
            "llr",
            finite(ratio),
            degrees=(float(degrees),),
            pvalue=finite(float(stats.chi2.sf(ratio, degrees))) if degrees > 0 else None,
        ),
        Scalar("aic", finite(2 * params - 2 * llf)),
        Scalar("bic", finite(log(n) * params - 2 * llf)),
    )
