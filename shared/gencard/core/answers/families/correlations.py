"""Correlations of all pairs of attributes: Pearson's, Spearman's, Kendall's and polychoric."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from gencard.core.answers.answer import CODED, Answer, Scalar, Table, coefficients_of, finite, table_of
from gencard.core.answers.design import Question
from gencard.core.answers.families import association
from gencard.core.answers.families.levels import (
    LevelTable,
    attributes_of,
    choice,
    level,
    level_table,
    missing_note,
    numbers,
    order,
    test_scalar,
)
from gencard.core.answers.families.polychoric import polychoric
from gencard.core.answers.margins import Margins
from gencard.core.domain import Clique
from gencard.core.errors import NoEstimateError
from gencard.core.types import FloatArray

_NAMES = {"pearson": "pearsonr", "spearman": "spearmanr", "kendall": "kendalltau"}


def correlation_answer(margins: Margins, question: Question) -> Answer:
    """Correlations of all pairs; ``method`` is "pearson", "spearman" or "kendall" (tau-b).

    Each pair is of the records that have both values, as in pandas. Pearson's needs numbers, the others
    an order of the levels. Pearson's interval is Fisher's.
    """
    attributes = attributes_of(question, 2)
    method = choice(question, "method", tuple(_NAMES))
    tables, answer = _pairs(margins, question, attributes, numbers if method == "pearson" else order)
    correlations = [_correlation(method, table) for table in tables]
    pvalues = [_pvalue(method, *pair) for pair in zip(tables, correlations, strict=True)]
    parts = {"correlation": correlations, "pvalues": pvalues, "nobs": [table.n for table in tables]}
    if method == "pearson":
        pairs = zip(correlations, tables, strict=True)
        ends = [association.correlation_interval(r, table.n, level(question)) for r, table in pairs]
        parts |= {"lower": [low for low, _ in ends], "upper": [high for _, high in ends]}
    answer = replace(answer, tables=_squares(attributes, parts))
    if len(attributes) > 2:
        return answer
    scalar = Scalar(_NAMES[method], finite(correlations[0]), None, (), finite(pvalues[0]))
    return replace(answer, scalars=(scalar,))


def polychoric_answer(margins: Margins, question: Question) -> Answer:
    """Polychoric correlations of all pairs of ordered attributes, with standard errors."""
    attributes = attributes_of(question, 2)
    tables, answer = _pairs(margins, question, attributes, order)
    estimates = [polychoric(table.counts) for table in tables]
    parts = {
        "correlation": [one.rho for one in estimates],
        "standard errors": [one.standard_error for one in estimates],
        "nobs": [table.n for table in tables],
    }
    answer = replace(answer, tables=_squares(attributes, parts))
    if len(attributes) > 2:
        return answer
    estimate = estimates[0]
    rho = Scalar("rho", estimate.rho, estimate.standard_error)
    fit = () if estimate.fit is None else (test_scalar("normality", estimate.fit),)
    covariance = np.array([[estimate.standard_error**2]])
    coefficients = coefficients_of(("rho",), np.array([estimate.rho]), covariance)
    return replace(answer, coefficients=coefficients, scalars=(rho, *fit))


def _pairs(
    margins: Margins,
    question: Question,
    attributes: Clique,
    key: Callable[[Question, str], FloatArray],
) -> tuple[list[LevelTable], Answer]:
    """The table of each pair, by ascending keys, and the answer that they begin.

    Raises:
        NoEstimateError: An attribute has a single level.
    """
    keys = {name: key(question, name) for name in attributes}
    tables = []
    for one, other in combinations(attributes, 2):
        table = level_table(margins, question, (one,), (other,), keys)
        if min(table.counts.shape) < 2:
            problem = f"'{one}' or '{other}' does not vary"
            raise NoEstimateError(kind=question.kind, problem=problem)
        tables.append(table)
    n = max(table.n for table in tables)
    return tables, Answer(question.kind, question.text, n, notes=(CODED, *missing_note(margins, keys)))


def _correlation(method: str, table: LevelTable) -> float:
    if method == "kendall":
        return association.kendall_tau(table.counts)
    if method == "spearman":
        return association.spearman_correlation(table.counts)
    return association.pearson_correlation(table.counts, table.rows.keys, table.columns.keys)


def _pvalue(method: str, table: LevelTable, correlation: float) -> float:
    if method == "kendall":
        return association.kendall_pvalue(table.counts)
    return association.correlation_pvalue(correlation, table.n)


def _squares(attributes: Clique, parts: Mapping[str, Sequence[float]]) -> tuple[Table, ...]:
    """Numbers of pairs as symmetric tables; on the diagonal, what an attribute has with itself."""
    tables = []
    for name, pairs in parts.items():
        of_itself = 1.0 if name == "correlation" else np.nan
        square = np.full((len(attributes), len(attributes)), of_itself)
        square[np.triu_indices(len(attributes), 1)] = pairs
        square = np.where(np.tri(len(attributes), k=-1, dtype=bool), square.T, square)
        tables.append(table_of(name, attributes, attributes, square))
    return tuple(tables)
