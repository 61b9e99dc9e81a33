"""Both predictions of Houssiau et al. (2022) at once, for any target: a regression and a forest."""

from dataclasses import dataclass

import numpy as np

from gencard.core.dataset import Dataset, check_same_domain
from gencard.core.utility.prediction.forest import (
    ForestReference,
    ForestUtility,
    forest_reference,
    forest_utility,
)
from gencard.core.utility.prediction.logistic import LogisticRegression
from gencard.core.utility.prediction.prediction import (
    Accuracies,
    Split,
    Task,
    accuracies,
    accuracy,
    split,
)


@dataclass(frozen=True, slots=True)
class Analyses:
    """What synthetic records are worth for predictions, beside what real ones are.

    Args:
        real_regression: Share of real test records that a regression taught by real ones predicts
            right.
        regression: What one taught by synthetic records does.
        real_forest: A forest taught by real records.
        forest: One taught by synthetic records.
    """

    real_regression: float
    regression: Accuracies
    real_forest: ForestReference
    forest: ForestUtility


def analyses(task: Task, real: Split, synthetic: Dataset, *, rng: np.random.Generator) -> Analyses:
    """Teach with three quarters of the synthetic records, test on the other quarter and on real ones.

    Args:
        real: The test part best holds records that the synthetic ones were not made from.

    Raises:
        DomainMismatchError: The domains differ.
        InvalidInputError: Too few records, values that do not fit, or scikit-learn is not installed.
        UnknownAttributeError: An attribute is not in the domain.
    """
    check_same_domain(real.test.domain, synthetic.domain)
    made = split(synthetic, task.target)
    learner = LogisticRegression()
    reference = forest_reference(task, real, rng=rng)
    return Analyses(
        real_regression=accuracy(learner.fit(task, real.training), real.test, task.target),
        regression=accuracies(
            learner.fit(task, made.training), task.target, real=real.test, synthetic=made.test
        ),
        real_forest=reference,
        forest=forest_utility(task, made, real.test, reference, rng=rng),
    )
