r"""Prediction tasks: models trained on synthetic records, tested on real ones.

A predictor is trained on three quarters of the synthetic records. Its accuracy on the last quarter is
what somebody without the real records would believe; its accuracy on real records is the truth.

scikit-learn comes with the extra ``utility`` and is imported only when a model is trained.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Codes, Dataset, check_same_domain
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError


def learning(name: str) -> ModuleType:
    """A module of scikit-learn.

    Raises:
        InvalidInputError: It is not installed.
    """
    try:
        return import_module(f"sklearn.{name}")
    except ModuleNotFoundError:
        problem = "predictions need scikit-learn: pip install 'gencard[utility]'"
        raise InvalidInputError(field="utility", problem=problem) from None


TEST_SHARE = 0.25
"""Share of the synthetic records that is kept from training."""


@dataclass(frozen=True, slots=True)
class Task:
    """Attribute to predict, and its predictors.

    Args:
        target: The attribute to predict; each of its codes is a class.
        predictors: The attributes it is predicted from.
        values: For those of them that are numbers, the number that each code stands for, NaN for
            missing; the others are nominal.

    Raises:
        InvalidInputError: There is no predictor, or the target is one.
    """

    target: str
    predictors: Clique
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.predictors or self.target in self.predictors:
            raise InvalidInputError(
                field="predictors", problem="must be one or more attributes other than the target"
            )


class Predictor(Protocol):
    """Model that a learner fitted."""

    def predict(self, records: Dataset) -> NDArray[Any]:
        """The target's likeliest code for each record, shape ``(n,)``; the target itself is not read."""
        ...


class Learner(Protocol):
    """A way to learn; a function of its arguments."""

    def fit(self, task: Task, records: Dataset) -> Predictor:
        """Learn from records.

        Raises:
            InvalidInputError: There is none, or scikit-learn is not installed.
            UnknownAttributeError: An attribute is not in the domain.
        """
        ...


@dataclass(frozen=True, slots=True)
class Split:
    """Records to learn from, and others to be tried on."""

    training: Dataset
    test: Dataset


@dataclass(frozen=True, slots=True)
class Accuracies:
    """Shares of the records that are predicted right by what synthetic records taught, from 0 to 1.

    Args:
        on_real: Of real records.
        on_synthetic: Of synthetic records kept from training.
    """

    on_real: float
    on_synthetic: float


def split(records: Dataset, target: str, *, seed: int = 0) -> Split:
    """Three quarters for training and a quarter for tests, each class of the target alike.

    Records that are alone in their class are trained on.

    Raises:
        InvalidInputError: Too few records for both parts, or scikit-learn is not installed.
        UnknownAttributeError: The target is not in the domain.
    """
    classes = records.column(target)
    several = np.flatnonzero(np.bincount(classes)[classes] > 1)
    alone = np.setdiff1d(np.arange(len(records)), several)
    fewest = len(np.unique(classes[several]))
    if not fewest or int(TEST_SHARE * len(several)) < fewest:
        raise InvalidInputError(
            field="records", problem="are too few to split into training and test sets"
        )
    training, test = learning("model_selection").train_test_split(
        several, test_size=TEST_SHARE, random_state=seed, stratify=classes[several]
    )
    return Split(records.take(np.concatenate([training, alone])), records.take(test))


def accuracy(predictor: Predictor, records: Dataset, target: str) -> float:
    """Share of the records whose class is predicted right, from 0 to 1.

    Raises:
        InvalidInputError: There is no record.
    """
    if not len(records):
        raise InvalidInputError(field="records", problem="must contain at least one record to predict")
    return float(np.mean(predictor.predict(records) == records.column(target)))


def accuracies(predictor: Predictor, target: str, *, real: Dataset, synthetic: Dataset) -> Accuracies:
    """Quality of predictions learnt from synthetic records; Houssiau et al. (2022), Table 2.

    Args:
        predictor: Taught by ``split(...).training`` of the synthetic records.
        real: Real records, none of which the synthetic ones were made from.
        synthetic: The part of the synthetic records that was kept for tests.

    Raises:
        DomainMismatchError: The domains differ.
        InvalidInputError: A dataset holds no record.
    """
    check_same_domain(real.domain, synthetic.domain)
    return Accuracies(accuracy(predictor, real, target), accuracy(predictor, synthetic, target))


def distinct(records: Dataset, attributes: Clique) -> tuple[Dataset, NDArray[np.intp]]:
    """The different records on some attributes, and which of them each record is.

    Predictions are made once for each: census records repeat.
    """
    projected = records.project(attributes)
    codes: Codes
    codes, places = np.unique(projected.codes, axis=0, return_inverse=True)
    return Dataset(projected.domain, codes), places.reshape(-1)
