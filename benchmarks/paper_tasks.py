"""Tables 1 to 3 of Houssiau et al. (2022): what synthetic records are worth for three analyses."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from benchmarks import bench
from benchmarks.bench import once
from benchmarks.census import APPLICATION_1, APPLICATION_2, APPLICATION_3
from benchmarks.houssiau import GENDER_GAP
from benchmarks.paper_methods import METHODS, PREDICTION_ROWS, drawn, records
from gencard.core.dataset import Dataset
from gencard.measures.utility.fidelity import gap_error
from gencard.measures.utility.prediction import (
    Accuracies,
    ForestReference,
    ForestUtility,
    Split,
    Task,
    accuracies,
    accuracy,
    forest_reference,
    forest_utility,
    split,
    taught_regression,
)
from gencard.measures.utility.table_utility import marginal_error

SOCIAL_GRADE = Task("Approximated Social Grade", APPLICATION_2[:3])

HEALTH = Task(
    "Health",
    tuple(name for name in APPLICATION_3 if name != "Health"),
    {"Hours worked per week": (-9.0, 1.0, 2.0, 3.0, 4.0), "Age": tuple(map(float, range(1, 9)))},
)
"""Numbers are the census's codes: levels here are in the order of their text, -9 first."""


@dataclass(frozen=True, slots=True)
class Worth:
    """Measured utility of one synthetic dataset.

    Args:
        seconds: To fit and to draw it, for all applications.
        three: Root mean squared error of Application 1's three-way marginal, in shares.
        gap: Of its gender gap.
    """

    method: str
    seconds: float
    three: float
    gap: float
    regression: Accuracies
    forest: ForestUtility


@dataclass(frozen=True, slots=True)
class Marks:
    """Utility of real training records: the marks to reach."""

    regression: float
    forest: ForestReference


@cache
def marks() -> Marks:
    """Accuracies on the test records of what the training records teach."""
    grade, health = _real(APPLICATION_2), _real(APPLICATION_3)
    taught = taught_regression(SOCIAL_GRADE, grade.training)
    rng = np.random.default_rng(0)
    return Marks(
        accuracy(taught, grade.test, SOCIAL_GRADE.target), forest_reference(HEALTH, health, rng=rng)
    )


def worth(name: str, seed: int, reference: ForestReference) -> Worth:
    """Draw once, and do all three analyses."""
    method = next(one for one in METHODS if one.name == name)
    made: list[dict[str, Dataset]] = []
    seconds = once(lambda: made.append(drawn(method, seed)))
    (rows,) = made
    training = records()[0].project(APPLICATION_1)
    return Worth(
        method=name,
        seconds=seconds,
        three=marginal_error(training, rows["1"], APPLICATION_1),
        gap=bench.defined(gap_error(training, rows["1"], GENDER_GAP)),
        regression=_regression(_few(rows["2"])),
        forest=_forest(_few(rows["3"]), reference),
    )


def _regression(synthetic: Dataset) -> Accuracies:
    parts = split(synthetic, SOCIAL_GRADE.target)
    taught = taught_regression(SOCIAL_GRADE, parts.training)
    real = _real(APPLICATION_2).test
    return accuracies(taught, SOCIAL_GRADE.target, real=real, synthetic=parts.test)


def _forest(synthetic: Dataset, reference: ForestReference) -> ForestUtility:
    parts = split(synthetic, HEALTH.target)
    rng = np.random.default_rng(0)
    return forest_utility(HEALTH, parts, _real(APPLICATION_3).test, reference, rng=rng)


def _real(attributes: tuple[str, ...]) -> Split:
    training, test = records()
    return Split(training.project(attributes), test.project(attributes))


def _few(rows: Dataset) -> Dataset:
    return rows.take(np.arange(PREDICTION_ROWS))
