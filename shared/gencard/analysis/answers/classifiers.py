r"""Classifiers: linear discriminant analysis, naive Bayes, and the tree of Chow and Liu.

A discriminant analysis needs pairs: classes by means, and sums of products inside the classes.

References:
    K. V. Mardia, J. T. Kent, J. M. Bibby, *Multivariate Analysis*, 1979, chapters 11 and 12.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import log

import numpy as np
from scipy import linalg, special

from gencard.analysis.answers.answer import AnalysisAnswer, AnswerTable, Scalar, table_of
from gencard.analysis.answers.crosstabs import table_freedom
from gencard.analysis.answers.design import CheckedQuestion, Column, independent
from gencard.analysis.answers.levels import (
    LevelTable,
    Predicted,
    TableSide,
    attributes_of,
    check_complete,
    choice,
    class_tables,
    has_noise,
    level_names,
    level_table,
    number,
    number_columns,
    number_gram,
    numbers,
    predictions,
    response_of,
)
from gencard.analysis.answers.linear import centred_products, cross_products
from gencard.analysis.answers.margins import Margins, records_of
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidInputError, NoEstimateError
from gencard.core.generators.junction_tree import information_tree, mutual_information
from gencard.core.types import FloatArray, IntArray

# Classifiers and trees of categorical attributes: naive Bayes, and the tree of Chow and Liu.


_LEAST_SMOOTHING = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class NaiveBayes:
    """A naive Bayes classifier.

    Args:
        terms: The features; one of several attributes has a level for each of their cells.
        tables: Classes by levels of each feature.
        sizes: Records of each class.
        smoothing: Added to each count.
    """

    domain: Domain
    terms: tuple[Clique, ...]
    tables: tuple[LevelTable, ...]
    sizes: FloatArray
    smoothing: float

    @property
    def features(self) -> Clique:
        return tuple(dict.fromkeys(name for term in self.terms for name in term))

    def scores(self, codes: IntArray) -> FloatArray:
        """Logarithm of the probability of each class with the features in some cells of them."""
        scores: FloatArray = np.tile(np.log(self.sizes / self.sizes.sum()), (len(codes), 1))
        for term, table in zip(self.terms, self.tables, strict=True):
            logs = np.log(_smoothed(table.counts, self.smoothing))
            inside = codes[:, [self.features.index(name) for name in term]]
            cells = np.ravel_multi_index(tuple(inside.T), self.domain.project(term).sizes)
            # Noise may leave a level out of one table and not of the joint one: the next stands for it.
            places = np.searchsorted(table.columns.places, cells)
            scores += logs[:, np.minimum(places, logs.shape[1] - 1)].T
        return scores


def _smoothed(counts: FloatArray, smoothing: float) -> FloatArray:
    """Probabilities of the levels in each class."""
    smoothed = counts + max(smoothing, _LEAST_SMOOTHING)
    with np.errstate(divide="ignore", invalid="ignore"):  # noise leaves some classes at 0
        shares: FloatArray = smoothed / smoothed.sum(axis=1, keepdims=True)
    return shares


def naive_bayes_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """Naive Bayes of the response by each term; ``smoothing`` is added to each count, default 1.

    A term of several attributes counts as one feature. Names are those of scikit-learn's CategoricalNB,
    with levels that somebody has.
    """
    response, terms = response_of(question), question.formula.terms
    smoothing = number(question, "smoothing", 1.0)
    if not terms:
        raise InvalidInputError(field="formula", problem="needs at least one predictor")
    if smoothing < 0:
        raise InvalidInputError(field="smoothing", problem="must not be negative")
    tables = class_tables(margins, question, response, terms)
    classes = tables[0].rows
    # From the class's own counts: sums of a table from which noise below 0 is taken are too large.
    sizes = np.maximum(margins.counts((response,))[classes.places], 0)
    model = NaiveBayes(margins.domain, terms, tables, sizes, smoothing)
    shown = class_tables(margins, question, response, terms, signed=True)
    predicted = predictions(margins, response, model.features, classes.places, model.scores)
    baseline = Scalar("baseline", float(model.sizes.max() / model.sizes.sum()))
    answer = AnalysisAnswer(question.kind, question.text, records_of(margins))
    return predicted.beside(answer, (baseline,), _model_tables(model, shown), classes.names)


def _model_tables(model: NaiveBayes, shown: Sequence[LevelTable]) -> tuple[AnswerTable, ...]:
    """Tables of a model.

    Args:
        shown: Counts of classes by levels of each feature, also below 0 where noise made them so: shares
            of counts from 0 up are too large where records are few.
    """
    names = [":".join(term) for term in model.terms]
    prior = np.stack([model.sizes, model.sizes / model.sizes.sum()], axis=1)
    # What each feature alone says about the response.
    features = [
        (mutual_information(table.counts), table.counts.max(axis=0).sum() / table.n)
        for table in model.tables
    ]
    columns = ("mutual_information", "accuracy_alone")
    return (
        table_of("class_prior", model.tables[0].rows.names, ("nobs", "prior"), prior),
        table_of("features", tuple(names), columns, np.array(features)),
        *(
            table.table(f"probabilities[{name}]", _smoothed(table.counts, model.smoothing))
            for name, table in zip(names, shown, strict=True)
        ),
    )


def chow_liu_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """The tree of pairs of largest likelihood, away from the response or the first attribute.

    Its likelihood follows from pairs: that of independent attributes, and n times the mutual information
    of each edge.
    """
    attributes = attributes_of(question, 2)
    pairs = {
        (one, other): level_table(margins, question, (one,), (other,))
        for one, other in combinations(attributes, 2)
    }
    edges = _from_root(
        attributes, information_tree({pair: table.counts for pair, table in pairs.items()})
    )
    tables = [level_table(margins, question, (parent,), (child,)) for parent, child in edges]
    signed = [level_table(margins, question, (one,), (child,), signed=True) for one, child in edges]
    information = [mutual_information(table.counts) for table in tables]
    counts = [level_table(margins, question, (name,), ()).counts[:, 0] for name in attributes]
    arrows = tuple(f"{parent} → {child}" for parent, child in edges)
    conditional = []
    with np.errstate(divide="ignore", invalid="ignore"):  # noise leaves some rows at 0
        for (parent, child), table in zip(edges, signed, strict=True):
            shares = table.counts / table.counts.sum(axis=1, keepdims=True)
            conditional.append(table.table(f"probabilities[{child} | {parent}]", shares))
    parts = (
        table_of("edges", arrows, ("mutual_information",), np.array(information).reshape(-1, 1)),
        _information_table(attributes, pairs),
        *conditional,
    )
    scalars = _likelihood(counts, tables, information)
    return AnalysisAnswer(question.kind, question.text, records_of(margins), None, scalars, parts)


def _from_root(attributes: Clique, edges: Sequence[Clique]) -> list[Clique]:
    """The edges from parent to child, parents first; the first attribute of each part is its root."""
    directed: list[Clique] = []
    order: list[str] = []
    for root in attributes:
        if root in order:
            continue
        waiting = [root]
        while waiting:
            parent = waiting.pop(0)
            order.append(parent)
            beside = [
                one if other == parent else other for one, other in edges if parent in (one, other)
            ]
            children = [name for name in beside if name not in order]
            directed += [(parent, child) for child in children]
            waiting += children
    return directed


def _likelihood(
    counts: Sequence[FloatArray], tables: Sequence[LevelTable], information: Sequence[float]
) -> tuple[Scalar, ...]:
    """Return the likelihood of the tree and of independent attributes.

    Args:
        information: Of each edge, in nats.
    """
    n = float(counts[0].sum())
    llnull = -n * sum(float(special.entr(one / one.sum()).sum()) for one in counts)
    llf = llnull + n * sum(information)
    parameters = sum(len(one) - 1 for one in counts) + sum(
        table_freedom(table.counts) for table in tables
    )
    return (
        Scalar("llf", llf),
        Scalar("llnull", llnull),
        Scalar("aic", 2 * parameters - 2 * llf),
        Scalar("bic", log(n) * parameters - 2 * llf),
    )


def _information_table(attributes: Clique, tables: Mapping[tuple[str, str], LevelTable]) -> AnswerTable:
    square = np.full((len(attributes), len(attributes)), np.nan)
    for (one, other), table in tables.items():
        places = attributes.index(one), attributes.index(other)
        square[places] = square[places[::-1]] = mutual_information(table.counts)
    return table_of("mutual_information", attributes, attributes, square)


# Principal components of a matrix of correlations, and multiple correspondence analysis.


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
    values = axes.values[:count]
    ratios = values / float(axes.values.sum())
    variance = np.column_stack([values, ratios, np.cumsum(ratios)])
    tables = (
        table_of("explained_variance", names, ("eigenvalue", "ratio", "cumulative"), variance),
        table_of("components", attributes, names, vectors),
        table_of("loadings", attributes, names, loadings),
        table_of("attributes", attributes, ("mean", "std"), moments),
    )
    return AnalysisAnswer(question.kind, question.text, records_of(margins), tables=tables)


def covariances(
    margins: Margins, question: CheckedQuestion, attributes: Clique
) -> tuple[FloatArray, FloatArray]:
    """Means and covariances of some attributes' numbers, with n - 1 degrees of freedom."""
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
    tables = (
        table_of("inertias", axes, columns, inertias[:count]),
        table_of("coordinates", names, axes, analysis.coordinates[:, :count]),
        table_of("contributions", names, axes, analysis.contributions[:, :count]),
        table_of("masses", names, ("mass",), analysis.masses[:, None]),
    )
    return AnalysisAnswer(question.kind, question.text, records_of(margins), tables=tables)


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


@dataclass(frozen=True, slots=True, eq=False)
class Discriminant:
    """Linear discriminant analysis of K classes by p numbers.

    Args:
        sizes: Records of each class, shape ``(K,)``.
        means: Of each class, shape ``(K, p)``.
        within: Sums of products about the means of the classes, shape ``(p, p)``; positive definite.
    """

    sizes: FloatArray
    means: FloatArray
    within: FloatArray

    @property
    def priors(self) -> FloatArray:
        return np.asarray(self.sizes / self.sizes.sum())

    @property
    def centred(self) -> FloatArray:
        """Means less the overall mean."""
        return np.asarray(self.means - self.priors @ self.means)

    @property
    def covariance(self) -> FloatArray:
        """Inside the classes, by n as in scikit-learn; R's ``lda`` divides by n less the classes."""
        return np.asarray(self.within / self.sizes.sum())

    @property
    def roots(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues of between in terms of within, the largest first, and scalings in columns.

        The scalings have variance 1 inside the classes, and their largest entry is positive.
        """
        count = min(len(self.sizes) - 1, len(self.within))
        between = (self.centred.T * self.sizes) @ self.centred
        values, vectors = linalg.eigh(between, self.within)
        values, vectors = np.maximum(values[::-1][:count], 0), vectors[:, ::-1][:, :count]
        vectors = vectors * np.sqrt(self.sizes.sum())
        largest = vectors[np.argmax(np.abs(vectors).round(9), axis=0), np.arange(count)]
        return values, vectors * np.where(largest < 0, -1.0, 1.0)

    @property
    def scores(self) -> tuple[FloatArray, FloatArray]:
        """Linear functions, the largest of which is the class: ``(K, p)``, and intercepts ``(K,)``."""
        coefficients = linalg.solve(self.covariance, self.centred.T, assume_a="pos").T
        intercepts = np.log(self.priors) - np.sum(coefficients * self.centred, axis=1) / 2
        return coefficients, intercepts - coefficients @ (self.priors @ self.means)

    @property
    def distances(self) -> FloatArray:
        """Mahalanobis' distance of each two classes, shape ``(K, K)``."""
        gaps = self.means[:, None, :] - self.means[None, :, :]
        inverse = linalg.inv(self.covariance)
        return np.asarray(np.sqrt(np.einsum("abi,ij,abj->ab", gaps, inverse, gaps)))

    @property
    def wilks(self) -> tuple[float, float, tuple[float, float]]:
        """Wilks' lambda, Rao's F and its degrees of freedom: do the classes' means differ."""
        roots, _ = self.roots
        n, k, p = self.sizes.sum(), len(self.sizes), len(self.within)
        value = float(np.prod(1 / (1 + roots)))
        hypothesis = p * (k - 1)
        crossed = p**2 + (k - 1) ** 2 - 5
        power = np.sqrt((hypothesis**2 - 4) / crossed) if crossed > 0 and hypothesis > 2 else 1.0
        rest = power * (n - 1 - (p + k) / 2) - hypothesis / 2 + 1
        root = value ** (1 / power)
        return value, float((1 - root) / root * rest / hypothesis), (float(hypothesis), float(rest))


def normal_error(discriminant: Discriminant) -> float:
    """Share that two normal classes of one covariance would have classified wrong."""
    (one, other), distance = discriminant.priors, discriminant.distances[0, 1]
    shift = np.log(one / other) / distance
    return float(one * special.ndtr(-distance / 2 - shift) + other * special.ndtr(-distance / 2 + shift))


def discriminant_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """Fisher's linear discriminant of the response by numeric attributes."""
    response, features = response_of(question), attributes_of(question, 2)[1:]
    if question.columns:
        classes, analysis = _of_sums(margins, question, response, features)
        why = "accuracy is not given: it needs the numbers of each record together, not their sums"
        return _answer(margins, question, classes, analysis, Predicted(None, why))
    tables = class_tables(margins, question, response, [(name,) for name in features])
    classes, analysis = tables[0].rows, _discriminant(margins, question, features, tables)
    values = [numbers(question, name) for name in features]
    coefficients, intercepts = analysis.scores

    def scores(codes: IntArray) -> FloatArray:
        numeric = np.column_stack([value[codes[:, i]] for i, value in enumerate(values)])
        return np.asarray(numeric @ coefficients.T + intercepts)

    predicted = predictions(margins, response, features, classes.places, scores)
    return _answer(margins, question, classes, analysis, predicted)


def _answer(
    margins: Margins,
    question: CheckedQuestion,
    classes: TableSide,
    analysis: Discriminant,
    predicted: Predicted,
) -> AnalysisAnswer:
    features = attributes_of(question, 2)[1:]
    value, f, degrees = analysis.wilks
    test = Scalar("fvalue", f, None, degrees, float(special.fdtrc(*degrees, f)))
    scalars = [Scalar("wilks_lambda", value), test]
    if len(analysis.sizes) == 2:
        scalars.append(Scalar("normal_error", normal_error(analysis)))
    answer = AnalysisAnswer(question.kind, question.text, records_of(margins))
    names = classes.names
    coefficients, intercepts = analysis.scores
    roots, scalings = analysis.roots
    axes = tuple(f"ld_{place}" for place in range(len(roots)))
    functions = np.column_stack([intercepts, coefficients])
    tables = (
        table_of("priors", names, ("prior",), analysis.priors[:, None]),
        table_of("means", names, features, analysis.means),
        table_of("covariance", features, features, analysis.covariance),
        table_of("coef", names, ("Intercept", *features), functions),
        table_of("scalings", features, axes, scalings),
        table_of("explained_variance_ratio", axes, ("ratio",), (roots / roots.sum())[:, None]),
        table_of("distances", names, names, analysis.distances),
    )
    return predicted.beside(answer, tuple(scalars), tables, names)


def _of_sums(
    margins: Margins, question: CheckedQuestion, response: str, features: Clique
) -> tuple[TableSide, Discriminant]:
    """The classes, and their analysis by numbers as the records have them where they are summed."""
    table = level_table(margins, question, (response,), ())
    classes, sizes = table.rows, table.counts[:, 0]
    gram, columns = number_gram(margins, question, features), number_columns(margins, question, features)
    indicators = np.eye(margins.domain.size(response))[classes.places]
    each = [Column(name, (response,), own) for name, own in zip(classes.names, indicators, strict=True)]
    sums = cross_products(margins, each, columns[1:], question.scales)
    places = range(1, len(columns))
    within = np.array([[gram.product(i, j) for j in places] for i in places], dtype=object)
    for own, size in zip(sums, sizes.tolist(), strict=True):
        within -= np.multiply.outer(own, own) / Fraction(size)
    by_class = sums.astype(np.float64) / sizes[:, None]
    return classes, _checked(question, sizes, by_class, within.astype(np.float64))


def _discriminant(
    margins: Margins, question: CheckedQuestion, features: Clique, tables: Sequence[LevelTable]
) -> Discriminant:
    means, covariance = covariances(margins, question, features)
    sizes: FloatArray = tables[0].counts.sum(axis=1)
    by_class = np.column_stack(
        [
            table.counts @ numbers(question, name)[table.columns.places] / table.counts.sum(axis=1)
            for name, table in zip(features, tables, strict=True)
        ]
    )
    centred = by_class - means
    within = covariance * (records_of(margins) - 1) - (centred.T * sizes) @ centred
    return _checked(question, sizes, by_class, within)


def _checked(
    question: CheckedQuestion, sizes: FloatArray, by_class: FloatArray, within: FloatArray
) -> Discriminant:
    """Raises NoEstimateError where the numbers do not tell classes apart."""
    if len(sizes) < 2 or len(independent(within)) < len(within) or sizes.sum() <= len(sizes):
        problem = "there is only one class, or attributes are collinear within the classes"
        raise NoEstimateError(kind=question.kind, problem=problem)
    return Discriminant(sizes, by_class, within)
