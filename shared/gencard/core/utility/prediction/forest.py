"""A random forest, and which attributes it leans on: Application 3 of Houssiau et al. (2022)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError
from gencard.core.utility.extra import learning
from gencard.core.utility.prediction.jaro import jaro
from gencard.core.utility.prediction.prediction import (
    Accuracies,
    Predictor,
    Split,
    Task,
    accuracies,
    accuracy,
    distinct,
)
from gencard.core.utility.propensity.predictor_matrix import Matrix, numbers_of, predictor_matrix

REPEATS = 10
"""Permutations of each attribute."""


@dataclass(frozen=True, slots=True)
class RandomForest:
    """100 trees, classes weighted by their inverse shares in each bootstrap.

    Args:
        trees: How many.
        seed: Of scikit-learn's own random numbers.
    """

    trees: int = 100
    seed: int = 0

    def fit(self, task: Task, records: Dataset) -> Predictor:
        """As ``Learner`` says."""
        if not len(records):
            raise InvalidInputError(
                field="records", problem="must contain at least one record to learn from"
            )
        matrix = _matrix(records, task)
        forest = learning("ensemble").RandomForestClassifier(
            n_estimators=self.trees, random_state=self.seed, class_weight="balanced_subsample"
        )
        return _Fitted(task, forest.fit(matrix, records.column(task.target)))


_FOREST = RandomForest()


@dataclass(frozen=True, slots=True)
class ForestReference:
    """What a forest that learned from real records does: the mark to reach.

    Args:
        accuracy: Share of the real test records that it predicts right.
        importances: Mean loss of that share where one attribute is permuted, in the order of the
            task's predictors.
    """

    accuracy: float
    importances: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ForestUtility:
    """What a forest that learned from synthetic records is worth.

    Args:
        accuracies: In shares of the records.
        importances: As in ``ForestReference``, but of synthetic records kept from training.
        similarity: Jaro's, of the two orders of importance; 0 to 1.
    """

    accuracies: Accuracies
    importances: tuple[float, ...]
    similarity: float


def forest_reference(
    task: Task, real: Split, *, rng: np.random.Generator, forest: RandomForest = _FOREST
) -> ForestReference:
    """Learn from real records, and be tried on others; raises as ``Learner.fit`` does."""
    taught = forest.fit(task, real.training)
    found = accuracy(taught, real.test, task.target)
    return ForestReference(found, importances(taught, real.test, task, rng=rng))


def forest_utility(
    task: Task,
    synthetic: Split,
    real: Dataset,
    reference: ForestReference,
    *,
    rng: np.random.Generator,
    forest: RandomForest = _FOREST,
) -> ForestUtility:
    """Learn from synthetic records; Houssiau et al. (2022), Table 3.

    Importances are measured on synthetic records. The paper's text has the real test records here;
    the code that its figures are from does this.

    Raises:
        DomainMismatchError: The domains differ.
        InvalidInputError: A part holds no record, or scikit-learn is not installed.
        UnknownAttributeError: An attribute is not in the domain.
    """
    taught = forest.fit(task, synthetic.training)
    found = accuracies(taught, task.target, real=real, synthetic=synthetic.test)
    theirs = importances(taught, synthetic.test, task, rng=rng)
    return ForestUtility(found, theirs, order_similarity(task.predictors, reference.importances, theirs))


def importances(
    predictor: Predictor, records: Dataset, task: Task, *, rng: np.random.Generator
) -> tuple[float, ...]:
    """Mean loss of accuracy over ``REPEATS`` permutations of each predictor; Breiman (2001)."""
    right = accuracy(predictor, records, task.target)
    permuted = (_permuted(records, name, rng) for name in task.predictors)
    return tuple(right - accuracy(predictor, each, task.target) for each in permuted)


def order_similarity(attributes: Clique, one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Jaro's similarity of the attributes in ascending order of two importances, one symbol each.

    Random orders of six attributes have 0.696 on average.
    """
    orders = ([attributes[place] for place in np.argsort(each, kind="stable")] for each in (one, other))
    return jaro(*orders)


def _permuted(records: Dataset, name: str, rng: np.random.Generator) -> Dataset:
    """The records ``REPEATS`` times, each time with one attribute permuted."""
    codes = np.tile(records.codes, (REPEATS, 1))
    axis = records.domain.axis(name)
    own = records.column(name)
    codes[:, axis] = np.concatenate([rng.permutation(own) for _ in range(REPEATS)])
    return Dataset(records.domain, codes)


@dataclass(frozen=True, slots=True, eq=False)
class _Fitted:
    task: Task
    forest: Any

    def predict(self, records: Dataset) -> NDArray[Any]:
        cells, places = distinct(records, self.task.predictors)
        return np.asarray(self.forest.predict(_matrix(cells, self.task))[places])


def _matrix(records: Dataset, task: Task) -> NDArray[np.float32]:
    """What trees cut: numbers of 4 bytes, which is why they are put on a scale from 0 to 1 before."""
    scaled = {
        name: _scaled(numbers_of(name, records.domain.size(name), task.values))
        for name in task.predictors
        if name in task.values
    }
    return predictor_matrix(records, task.predictors, scaled).astype(np.float32)


def _scaled(numbers: Matrix) -> tuple[float, ...]:
    """By the declared range; missing stays missing."""
    known = numbers[~np.isnan(numbers)]
    if not len(known):
        return tuple(numbers.tolist())
    return tuple(((numbers - known.min()) / (np.ptp(known) or 1.0)).tolist())
