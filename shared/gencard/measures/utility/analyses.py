r"""Utility for predictions: accuracy and importance of attributes, as in Houssiau et al. (2022).

Orders of importance are compared by Jaro's similarity. Symbols match where they are equal and at most
:math:`\lfloor \max(|a|, |b|) / 2 \rfloor - 1` places apart; with m matches, t of which stand in another
order,

.. math:: \frac{1}{3} \Big( \frac{m}{|a|} + \frac{m}{|b|} + \frac{m - t / 2}{m} \Big)

and 0 without a match. Half of t is not rounded down, as in the code that made Table 3 of Houssiau et al.
(2022) and unlike most libraries; nor are two sequences of one symbol ever found similar.

References:
    M. Jaro, "Advances in Record-Linkage Methodology as Applied to Matching the 1985 Census of Tampa,
    Florida", Journal of the American Statistical Association 84, 1989.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from gencard.core.dataset import Dataset, check_same_domain
from gencard.core.domain import Clique
from gencard.measures.utility.prediction import (
    Accuracies,
    LogisticRegression,
    Predictor,
    RandomForest,
    Split,
    Task,
    accuracies,
    accuracy,
    split,
)

REPEATS = 10
"""Permutations of each attribute."""

_FOREST = RandomForest()


@dataclass(frozen=True, slots=True)
class ForestReference:
    """Quality of a forest that learned from real records: the mark to reach.

    Args:
        accuracy: Share of the real test records that it predicts right.
        importances: Mean loss of that share where one attribute is permuted, in the order of the
            task's predictors.
    """

    accuracy: float
    importances: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ForestUtility:
    """Quality of a forest that learned from synthetic records.

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
    result = accuracy(taught, real.test, task.target)
    return ForestReference(result, importances(taught, real.test, task, rng=rng))


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
    result = accuracies(taught, task.target, real=real, synthetic=synthetic.test)
    theirs = importances(taught, synthetic.test, task, rng=rng)
    return ForestUtility(
        result, theirs, order_similarity(task.predictors, reference.importances, theirs)
    )


def importances(
    predictor: Predictor, records: Dataset, task: Task, *, rng: np.random.Generator
) -> tuple[float, ...]:
    """Mean loss of accuracy over ``REPEATS`` permutations of each predictor; Breiman (2001)."""
    right = accuracy(predictor, records, task.target)
    losses = []
    for name in task.predictors:
        own, codes = records.column(name), np.tile(records.codes, (REPEATS, 1))
        axis = records.domain.axis(name)
        codes[:, axis] = np.concatenate([rng.permutation(own) for _ in range(REPEATS)])
        permuted = Dataset(records.domain, codes)
        losses.append(right - accuracy(predictor, permuted, task.target))
    return tuple(losses)


def order_similarity(attributes: Clique, one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Jaro's similarity of the attributes in ascending order of two importances, one symbol each.

    Random orders of six attributes have 0.696 on average.
    """
    orders = ([attributes[place] for place in np.argsort(each, kind="stable")] for each in (one, other))
    return jaro(*orders)


def jaro(one: Sequence[Hashable], other: Sequence[Hashable]) -> float:
    """Similarity from 0 to 1; 1 where both are empty.

    >>> jaro(["age", "sex", "region", "work"], ["sex", "age", "region", "work"])
    0.9166666666666666
    """
    if not one and not other:
        return 1.0
    # Places of the symbols that match, in the order of ``one``; each is used once.
    apart = max(len(one), len(other)) // 2 - 1
    matched_places: set[int] = set()
    pairs = []
    for place, symbol in enumerate(one):
        near = range(max(0, place - apart), min(place + apart + 1, len(other)))
        result = next((at for at in near if at not in matched_places and other[at] == symbol), None)
        if result is not None:
            matched_places.add(result)
            pairs.append((place, result))
    if not pairs:
        return 0.0
    in_order = zip(pairs, sorted(place for _, place in pairs), strict=True)
    transposed = sum(one[ours] != other[place] for (ours, _), place in in_order)
    matched = len(pairs)
    return (matched / len(one) + matched / len(other) + (matched - transposed / 2) / matched) / 3


@dataclass(frozen=True, slots=True)
class Predictions:
    """Quality of predictions by synthetic records, beside predictions by real ones.

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


def analyses(task: Task, real: Split, synthetic: Dataset, *, rng: np.random.Generator) -> Predictions:
    """Teach with three quarters of the synthetic records, test on the other quarter and on real ones.

    Args:
        real: The test part best holds records that the synthetic ones were not made from.

    Raises:
        DomainMismatchError: The domains differ.
        InvalidInputError: Too few records, values that do not fit, or scikit-learn is not installed.
        UnknownAttributeError: An attribute is not in the domain.
    """
    check_same_domain(real.test.domain, synthetic.domain)
    synthetic_split = split(synthetic, task.target)
    learner = LogisticRegression()
    reference = forest_reference(task, real, rng=rng)
    return Predictions(
        real_regression=accuracy(learner.fit(task, real.training), real.test, task.target),
        regression=accuracies(
            learner.fit(task, synthetic_split.training),
            task.target,
            real=real.test,
            synthetic=synthetic_split.test,
        ),
        real_forest=reference,
        forest=forest_utility(task, synthetic_split, real.test, reference, rng=rng),
    )
