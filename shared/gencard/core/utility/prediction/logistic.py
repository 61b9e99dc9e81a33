"""Multinomial logistic regression: Application 2 of Houssiau et al. (2022)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidInputError
from gencard.core.utility.extra import learning
from gencard.core.utility.prediction.prediction import Predictor, Task, distinct
from gencard.core.utility.propensity.predictor_matrix import Matrix, predictor_matrix


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
        return _Fitted(task, scale, model.fit(scale.of_matrix(matrix), classes, sample_weight=counts))


@dataclass(frozen=True, slots=True)
class OneClass:
    """What is learned where all records are of one class."""

    code: int

    def predict(self, records: Dataset) -> NDArray[Any]:
        """That class."""
        return np.full(len(records), self.code)


@dataclass(frozen=True, slots=True, eq=False)
class _Scale:
    mean: Matrix
    spread: Matrix

    @classmethod
    def of(cls, matrix: Matrix, counts: NDArray[Any]) -> "_Scale":
        """Of the columns that are not indicators; the others stay."""
        mean = np.average(matrix, axis=0, weights=counts)
        spread = np.sqrt(np.average((matrix - mean) ** 2, axis=0, weights=counts))
        plain = np.isin(matrix, (0, 1)).all(axis=0) | (spread == 0)
        return cls(np.where(plain, 0, mean), np.where(plain, 1, spread))

    def of_matrix(self, matrix: Matrix) -> Matrix:
        return np.asarray((matrix - self.mean) / self.spread)


@dataclass(frozen=True, slots=True, eq=False)
class _Fitted:
    task: Task
    scale: _Scale
    model: Any

    def predict(self, records: Dataset) -> NDArray[Any]:
        cells, places = distinct(records, self.task.predictors)
        matrix = predictor_matrix(cells, self.task.predictors, self.task.values)
        return np.asarray(self.model.predict(self.scale.of_matrix(matrix))[places])
