"""Classifiers and trees of categorical attributes: naive Bayes, and the tree of Chow and Liu."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import log

import numpy as np
from scipy import special

from gencard.analysis.answers.answer import AnalysisAnswer, AnswerTable, Scalar, table_of
from gencard.analysis.answers.design import CheckedQuestion
from gencard.analysis.answers.families.contingency import freedom
from gencard.analysis.answers.families.levels import (
    LevelTable,
    attributes_of,
    class_tables,
    level_table,
    number,
    predictions,
    response_of,
)
from gencard.analysis.answers.margins import Margins, records_of
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidInputError
from gencard.core.generators.junction_tree import information_tree, mutual_information
from gencard.core.types import FloatArray, IntArray

_LEAST_SMOOTHING = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class NaiveBayes:
    """A naive Bayes classifier.

    Args:
        domain: Of the attributes.
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
        """The attributes of all terms, each once."""
        return tuple(dict.fromkeys(name for term in self.terms for name in term))

    @property
    def logarithms(self) -> list[FloatArray]:
        """Logarithms of the smoothed probability of each level in each class, for each feature."""
        return [np.log(_smoothed(table.counts, self.smoothing)) for table in self.tables]

    def scores(self, codes: IntArray) -> FloatArray:
        """Logarithm of the probability of each class with the features in some cells of them."""
        scores: FloatArray = np.tile(np.log(self.sizes / self.sizes.sum()), (len(codes), 1))
        for term, table, logs in zip(self.terms, self.tables, self.logarithms, strict=True):
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
    return AnalysisAnswer(
        question.kind,
        question.text,
        records_of(margins),
        scalars=(baseline, *predicted.scalars),
        tables=(*_model_tables(model, shown), *predicted.tables(classes.names)),
        notes=predicted.notes,
    )


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
    conditional = [_conditional(table, *edge) for table, edge in zip(signed, edges, strict=True)]
    return AnalysisAnswer(
        question.kind,
        question.text,
        records_of(margins),
        scalars=_likelihood(counts, tables, information),
        tables=(
            table_of("edges", arrows, ("mutual_information",), np.array(information).reshape(-1, 1)),
            _information_table(attributes, pairs),
            *conditional,
        ),
    )


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
        counts: Of each attribute.
        tables: Of each edge.
        information: Of each edge, in nats.
    """
    n = float(counts[0].sum())
    llnull = -n * sum(float(special.entr(one / one.sum()).sum()) for one in counts)
    llf = llnull + n * sum(information)
    parameters = sum(len(one) - 1 for one in counts) + sum(freedom(table.counts) for table in tables)
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


def _conditional(table: LevelTable, parent: str, child: str) -> AnswerTable:
    with np.errstate(divide="ignore", invalid="ignore"):  # noise leaves some rows at 0
        shares = table.counts / table.counts.sum(axis=1, keepdims=True)
    return table.table(f"probabilities[{child} | {parent}]", shares)
