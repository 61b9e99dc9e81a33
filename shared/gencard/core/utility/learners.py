"""Multinomial logistic regression and random forest: Applications 2 and 3 of Houssiau et al. (2022)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidInputError
from gencard.core.types import FloatArray
from gencard.core.utility.prediction import Predictor, Task, distinct, learning
from gencard.core.utility.predictors import numbers_of, predictor_matrix


@dataclass(frozen=True, slots=True)
class LogisticRegression:
    """With scikit-learn's usual penalty, half the sum of squared coefficients, fitted to the end.

    The paper's fits stopped after 100 steps. Equal records are fitted once, with their number as weight:
    the same sum, and so the same coefficients.

    Args:
        steps: At most so many of L-BFGS.
    """

    steps: int = 2_000

    def fit(self, task: Task, records: Dataset) -> Predictor:
        """As ``Learner`` says; numbers are standardised first."""
        if not len(records):
            raise InvalidInputError(
                field="records", problem="must contain at least one record to learn from"
            )
        cells, places = distinct(records, (*task.predictors, task.target))
        counts, classes = np.bincount(places), cells.column(task.target)
        if len(np.unique(classes)) == 1:
            return OneClass(int(classes[0]))
        matrix = predictor_matrix(cells, task.predictors, task.values)
        scale = _Scale.of(matrix, counts)
        model = learning("linear_model").LogisticRegression(max_iter=self.steps, tol=1e-6)
        return _FittedRegression(
            task, scale, model.fit(scale.of_matrix(matrix), classes, sample_weight=counts)
        )


@dataclass(frozen=True, slots=True)
class OneClass:
    """What is learned where all records are of one class."""

    code: int

    def predict(self, records: Dataset) -> NDArray[Any]:
        """That class."""
        return np.full(len(records), self.code)


@dataclass(frozen=True, slots=True, eq=False)
class _Scale:
    mean: FloatArray
    spread: FloatArray

    @classmethod
    def of(cls, matrix: FloatArray, counts: NDArray[Any]) -> "_Scale":
        """Of the columns that are not indicators; the others stay."""
        mean = np.average(matrix, axis=0, weights=counts)
        spread = np.sqrt(np.average((matrix - mean) ** 2, axis=0, weights=counts))
        plain = np.isin(matrix, (0, 1)).all(axis=0) | (spread == 0)
        return cls(np.where(plain, 0, mean), np.where(plain, 1, spread))

    def of_matrix(self, matrix: FloatArray) -> FloatArray:
        return np.asarray((matrix - self.mean) / self.spread)


@dataclass(frozen=True, slots=True, eq=False)
class _FittedRegression:
    task: Task
    scale: _Scale
    model: Any

    def predict(self, records: Dataset) -> NDArray[Any]:
        cells, places = distinct(records, self.task.predictors)
        matrix = predictor_matrix(cells, self.task.predictors, self.task.values)
        return np.asarray(self.model.predict(self.scale.of_matrix(matrix))[places])


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
        matrix = _tree_matrix(records, task)
        forest = learning("ensemble").RandomForestClassifier(
            n_estimators=self.trees, random_state=self.seed, class_weight="balanced_subsample"
        )
        return _FittedForest(task, forest.fit(matrix, records.column(task.target)))


@dataclass(frozen=True, slots=True, eq=False)
class _FittedForest:
    task: Task
    forest: Any

    def predict(self, records: Dataset) -> NDArray[Any]:
        cells, places = distinct(records, self.task.predictors)
        return np.asarray(self.forest.predict(_tree_matrix(cells, self.task))[places])


def _tree_matrix(records: Dataset, task: Task) -> NDArray[np.float32]:
    """What trees cut: numbers of 4 bytes, which is why they are put on a scale from 0 to 1 before."""
    scaled = {
        name: _scaled(numbers_of(name, records.domain.size(name), task.values))
        for name in task.predictors
        if name in task.values
    }
    return predictor_matrix(records, task.predictors, scaled).astype(np.float32)


def _scaled(numbers: FloatArray) -> tuple[float, ...]:
    """By the declared range; missing stays missing."""
    known = numbers[~np.isnan(numbers)]
    if not len(known):
        return tuple(numbers.tolist())
    return tuple(((numbers - known.min()) / (np.ptp(known) or 1.0)).tolist())
