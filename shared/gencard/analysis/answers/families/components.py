r"""Principal components of a matrix of correlations, and multiple correspondence analysis."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gencard.analysis.answers.answer import AnalysisAnswer, AnswerTable, table_of
from gencard.analysis.answers.design import CheckedQuestion
from gencard.analysis.answers.exact import centred_products
from gencard.analysis.answers.families.levels import (
    attributes_of,
    check_complete,
    choice,
    has_noise,
    level_names,
    number,
    number_gram,
    numbers,
)
from gencard.analysis.answers.margins import Margins, records_of
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError, NoEstimateError
from gencard.core.types import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Axes:
    """Eigenvalues, the largest first, and one unit vector for each, in columns.

    The largest entry of a vector is positive, as in scikit-learn, for its sign is arbitrary.
    """

    values: FloatArray
    vectors: FloatArray

    @classmethod
    def of(cls, matrix: FloatArray) -> "Axes":
        """Return the axes of a symmetric matrix."""
        values, vectors = np.linalg.eigh(matrix)
        values, vectors = values[::-1], vectors[:, ::-1]
        largest = vectors[np.argmax(np.abs(vectors).round(9), axis=0), np.arange(len(values))]
        return cls(values, vectors * np.where(largest < 0, -1.0, 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class Correspondence:
    """A multiple correspondence analysis of Q attributes with J categories.

    Args:
        attributes: Q.
        masses: Of the categories, shape ``(J,)``; they sum to 1.
        inertias: Principal inertias of the indicator matrix, the largest first; of the Burt table,
            they are the squares.
        coordinates: Principal coordinates of the categories in the indicator matrix, shape
            ``(J, axes)``.
        total: Inertia of the Burt table.
    """

    attributes: int
    masses: FloatArray
    inertias: FloatArray
    coordinates: FloatArray
    total: float

    @classmethod
    def of(cls, burt: FloatArray, attributes: int) -> "Correspondence":
        """Analyse a Burt table, shape ``(J, J)``, in which each category holds records."""
        shares = burt / burt.sum()
        masses = shares.sum(axis=1)
        scale = np.sqrt(np.outer(masses, masses))
        residuals = (shares - np.outer(masses, masses)) / scale
        axes = Axes.of(residuals)
        rank = len(masses) - attributes
        inertias = np.maximum(axes.values[:rank], 0.0)
        standard = axes.vectors[:, :rank] / np.sqrt(masses)[:, None]
        return cls(
            attributes, masses, inertias, standard * np.sqrt(inertias), float(np.sum(residuals**2))
        )

    @property
    def adjusted(self) -> FloatArray:
        r"""Greenacre's adjusted inertias: 0 for axes not above :math:`1 / Q`.

        .. math:: \left( \frac{Q}{Q - 1} \right)^2 \left( \lambda - \frac{1}{Q} \right)^2
        """
        q = self.attributes
        return np.where(self.inertias > 1 / q, (q / (q - 1) * (self.inertias - 1 / q)) ** 2, 0.0)

    @property
    def adjusted_total(self) -> float:
        """Average inertia of the tables off the diagonal of the Burt table."""
        q, categories = self.attributes, len(self.masses)
        return q / (q - 1) * (self.total - (categories - q) / q**2)

    @property
    def contributions(self) -> FloatArray:
        """Share of each category in the inertia of each axis; columns sum to 1."""
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = self.masses[:, None] * self.coordinates**2 / self.inertias
        return np.nan_to_num(shares)


def components_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """Principal components; ``matrix`` is "correlation" or "covariance", ``components`` how many."""
    attributes = attributes_of(question, 2)
    matrix = choice(question, "matrix", ("correlation", "covariance"))
    means, covariance = covariances(margins, question, attributes)
    deviations = np.sqrt(np.diag(covariance))
    if not deviations.min() > 0:
        constant = attributes[int(np.argmin(deviations))]
        raise NoEstimateError(kind=question.kind, problem=f"'{constant}' does not vary")
    scale = deviations if matrix == "correlation" else np.ones_like(deviations)
    axes = Axes.of(covariance / np.outer(scale, scale))
    count = _count(question, len(attributes))
    names = tuple(f"comp_{place}" for place in range(count))
    vectors = axes.vectors[:, :count]
    loadings = vectors * np.sqrt(np.maximum(axes.values[:count], 0))
    moments = np.column_stack([means, deviations])
    return AnalysisAnswer(
        question.kind,
        question.text,
        records_of(margins),
        tables=(
            _eigenvalues("explained_variance", names, axes.values[:count], float(axes.values.sum())),
            table_of("components", attributes, names, vectors),
            table_of("loadings", attributes, names, loadings),
            table_of("attributes", attributes, ("mean", "std"), moments),
        ),
    )


def covariances(
    margins: Margins, question: CheckedQuestion, attributes: Clique
) -> tuple[FloatArray, FloatArray]:
    """Means and covariances of some attributes' numbers, with n - 1 degrees of freedom.

    Raises:
        InvalidInputError: An attribute has no numbers, or a level that occurs has none.
        NoEstimateError: There are fewer than two records, or a summed number does not vary.
    """
    n = records_of(margins)
    if n <= 1:
        raise NoEstimateError(kind=question.kind, problem="there are fewer than two records")
    if question.columns:
        gram = number_gram(margins, question, attributes)
        sums = np.array([float(gram.product(0, 1 + place)) for place in range(len(attributes))])
        return sums / n, centred_products(gram).astype(np.float64) / (n - 1)
    keys = {name: numbers(question, name) for name in attributes}
    check_complete(margins, keys)
    values = [np.nan_to_num(key) for key in keys.values()]
    counts = [margins.counts((name,)) for name in attributes]
    means = np.array([value @ count / n for value, count in zip(values, counts, strict=True)])
    centred = [value - mean for value, mean in zip(values, means, strict=True)]
    matrix = np.diag([count @ value**2 for value, count in zip(centred, counts, strict=True)])
    for one, other in combinations(range(len(attributes)), 2):
        table = margins.counts((attributes[one], attributes[other]))
        matrix[one, other] = matrix[other, one] = centred[one] @ table @ centred[other]
    return means, matrix / (n - 1)


def correspondence_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """Multiple correspondence analysis of the Burt table; ``components`` says how many axes."""
    attributes = attributes_of(question, 2)
    burt, names = _burt(margins, question, attributes)
    if len(names) <= len(attributes):
        raise NoEstimateError(kind=question.kind, problem="no attribute varies")
    analysis = Correspondence.of(burt, len(attributes))
    count = _count(question, len(analysis.inertias))
    axes = tuple(f"dim_{place}" for place in range(count))
    adjusted = analysis.adjusted
    ratios = adjusted / analysis.adjusted_total
    inertias = np.column_stack([analysis.inertias, analysis.inertias**2, adjusted, ratios])
    columns = ("indicator", "burt", "adjusted", "adjusted_ratio")
    return AnalysisAnswer(
        question.kind,
        question.text,
        records_of(margins),
        tables=(
            table_of("inertias", axes, columns, inertias[:count]),
            table_of("coordinates", names, axes, analysis.coordinates[:, :count]),
            table_of("contributions", names, axes, analysis.contributions[:, :count]),
            table_of("masses", names, ("mass",), analysis.masses[:, None]),
        ),
    )


def _burt(
    margins: Margins, question: CheckedQuestion, attributes: Clique
) -> tuple[FloatArray, tuple[str, ...]]:
    """All two-way tables as one, of the levels that somebody has, and the names of these."""
    # Noise below 0 is kept in the pairs: sums of counts from 0 up would say that all pairs depend less.
    single = [np.maximum(margins.counts((name,)), 0) for name in attributes]
    occupied = np.concatenate([counts > 0 for counts in single])
    blocks = [
        [
            np.diag(single[i]) if i == j else _pair(margins, one, other)
            for j, other in enumerate(attributes)
        ]
        for i, one in enumerate(attributes)
    ]
    names = [f"{one}: {level}" for one in attributes for level in level_names(question, (one,))]
    occupied_names = tuple(name for name, some in zip(names, occupied, strict=True) if some)
    return np.block(blocks)[np.ix_(occupied, occupied)], occupied_names


def _pair(margins: Margins, one: str, other: str) -> FloatArray:
    counts = margins.counts((one, other))
    return counts if has_noise(margins, (one, other)) else np.maximum(counts, 0)


def _count(question: CheckedQuestion, most: int) -> int:
    """The option ``components``: how many axes; default all, at most 10."""
    count = number(question, "components", min(most, 10))
    if count != int(count) or not 1 <= count <= most:
        raise InvalidInputError(field="components", problem=f"must be from 1 to {most}")
    return int(count)


def _eigenvalues(name: str, axes: tuple[str, ...], values: FloatArray, total: float) -> AnswerTable:
    ratios = values / total
    columns = ("eigenvalue", "ratio", "cumulative")
    return table_of(name, axes, columns, np.column_stack([values, ratios, np.cumsum(ratios)]))
