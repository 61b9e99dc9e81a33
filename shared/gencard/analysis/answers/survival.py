r"""Survival at coded times: Kaplan-Meier curves and Cox regression, from the joint table.

A formula reads ``time ~ event + features``: the response is the time, and the first term says whether
the event came then, by the last of its levels; all others are censored. Times are those of levels, so
many records share one: ties are Efron's [1]_.

References:
    .. [1] B. Efron, "The Efficiency of Cox's Likelihood Function for Censored Data", *JASA* 72, 1977.
"""

from dataclasses import dataclass

import numpy as np

from gencard.analysis.answers.answer import (
    AnalysisAnswer,
    AnswerTable,
    Scalar,
    coefficients_of,
    table_of,
)
from gencard.analysis.answers.design import INTERCEPT, CheckedQuestion
from gencard.analysis.answers.linear import aliased_note
from gencard.analysis.answers.loglinear import columns_of, maximum
from gencard.analysis.answers.margins import Margins, Occupied
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError
from gencard.core.types import FloatArray, IntArray

COLUMNS = ("time", "at_risk", "events", "survival", "std_err")
"""Columns of a curve's table: at risk just before the time; survival, Greenwood's error just after."""


@dataclass(frozen=True, slots=True, eq=False)
class _Spells:
    """The joint table, one row for each cell that holds somebody.

    Args:
        times: Time of each cell.
        died: True if the event happened at that time.
        features: Codes of the features.
        counts: Records in each cell.
    """

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
    if time not in question.values:
        problem = f"'{time}' needs a number for each of its levels; answers from psi take values="
        raise InvalidInputError(field="formula", problem=problem)
    names = tuple(dict.fromkeys((time, event, *features)))
    cells = margins.occupied(names)
    if is_noisy := bool(margins.variances(names).any()):
        counts = margins.counts(names)
        cells = Occupied(np.argwhere(np.ones_like(counts, dtype=bool)), counts.reshape(-1))
    times = np.asarray(question.values[time], dtype=np.float64)[cells.codes[:, 0]]
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
    groups, place = np.unique(spells.features, axis=0, return_inverse=True)
    tables = []
    for number, codes in enumerate(groups):
        names = [question.levels(name)[code] for name, code in zip(features, codes, strict=True)]
        name = f"survival[{', '.join(names)}]" if names else "survival"
        tables.append(_curve(spells, np.ravel(place) == number, name))
    n = float(spells.counts.sum())
    return AnalysisAnswer(question.kind.value, question.text, n, tables=tuple(tables))


def _curve(spells: _Spells, inside: FloatArray, name: str) -> AnswerTable:
    times, place = np.unique(spells.times[inside], return_inverse=True)
    counts = spells.counts[inside]
    died = np.bincount(place, counts * spells.died[inside], minlength=len(times))
    at_risk = np.cumsum(np.bincount(place, counts, minlength=len(times))[::-1])[::-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        survival = np.cumprod(1 - died / at_risk)
        errors = survival * np.sqrt(np.cumsum(died / (at_risk * (at_risk - died))))
    errors = np.where(survival == 0, 0.0, errors)
    numbers = np.column_stack([times, at_risk, died, survival, errors])
    return table_of(name, tuple(f"{time:g}" for time in times), COLUMNS, numbers)


def cox_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """Logarithms of hazard ratios, as ``PHReg`` of statsmodels with ties "efron" has them.

    Raises:
        InvalidInputError: There is no feature, or no event.
        NoEstimateError: A level has no event.
    """
    event, _ = event_of(question)
    design = question.model()
    features = design.attributes
    spells = _spells(margins, question, features, event)
    of_event = [one.name for one in design.columns if event in one.attributes]
    cells = Occupied(spells.features, spells.counts)
    columns = columns_of(design, cells, without=(INTERCEPT, *of_event))
    if not len(columns.kept) or not np.any(spells.died * spells.counts):
        raise InvalidInputError(
            field="formula", problem="needs a feature that varies, and at least one event"
        )
    fit = maximum(
        lambda b: _likelihood(spells, columns.matrix, b),
        np.zeros(len(columns.kept)),
        columns.kept_names,
        question.kind.value,
    )
    null = _likelihood(spells, columns.matrix, np.zeros(len(columns.kept)))[0]
    linear_fit = fit.linear(columns.back)
    events = float((spells.died * spells.counts).sum())
    return AnalysisAnswer(
        question.kind.value,
        question.text,
        float(spells.counts.sum()),
        coefficients_of(columns.kept_names, linear_fit.params, linear_fit.covariance),
        (Scalar("llf", fit.llf), Scalar("llnull", null), Scalar("nevents", events)),
        notes=aliased_note(columns.names, columns.kept),
    )


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
