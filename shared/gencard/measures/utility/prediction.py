r"""Prediction tasks: models trained on synthetic records, their accuracy and importance on real ones.

A predictor is trained on three quarters of the synthetic records. Its accuracy on the last quarter is
what somebody without the real records would believe; its accuracy on real records is the truth.

scikit-learn comes with the extra ``utility`` and is imported only when a model is trained.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Codes, Dataset, check_same_domain
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError, TooLargeError
from gencard.core.types import FloatArray


def learning(name: str) -> ModuleType:
    """A module of scikit-learn."""
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
        target: Each of its codes is a class.
        values: For predictors that are numbers, the number that each code stands for, NaN for missing;
            the others are nominal.
    """

    target: str
    predictors: Clique
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.predictors or self.target in self.predictors:
            raise InvalidInputError(
                field="predictors", problem="must be one or more attributes other than the target"
            )


Predictor = Callable[[Dataset], NDArray[Any]]
"""A fitted model: the target's likeliest code for each record, shape ``(n,)``, without its target."""


@dataclass(frozen=True, slots=True)
class Split:
    """Records to learn from, and others to be tried on."""

    training: Dataset
    test: Dataset


@dataclass(frozen=True, slots=True)
class Accuracies:
    """Shares of the records that are predicted right by what synthetic records taught, from 0 to 1.

    Args:
        on_synthetic: Of synthetic records kept from training.
    """

    on_real: float
    on_synthetic: float


def split(records: Dataset, target: str, *, seed: int = 0) -> Split:
    """Three quarters for training and a quarter for tests, each class of the target alike.

    Records that are alone in their class are trained on.
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
    """Share of the records whose class is predicted right, from 0 to 1."""
    if not len(records):
        raise InvalidInputError(field="records", problem="must contain at least one record to predict")
    return float(np.mean(predictor(records) == records.column(target)))


def accuracies(predictor: Predictor, target: str, *, real: Dataset, synthetic: Dataset) -> Accuracies:
    """Quality of predictions learnt from synthetic records; Houssiau et al. (2022), Table 2.

    Args:
        predictor: Taught by ``split(...).training`` of the synthetic records.
        real: Real records, none of which the synthetic ones were made from.
        synthetic: The part of the synthetic records that was kept for tests.
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


# Attributes as columns of numbers, and the models of Applications 2 and 3 of Houssiau et al. (2022).
#
# ``PooledCells`` are the distinct records of the original and the synthetic dataset together.


Values = Mapping[str, tuple[float, ...]]
"""For each attribute that is a number, the number of each code, NaN for missing."""

MOST_ENTRIES = 60_000_000
"""Most entries of the table, records by columns: 480 MB."""

_LARGEST_NUMBER = 1e100
"""Squares are still numbers."""


def predictor_matrix(records: Dataset, attributes: Clique, values: Values) -> FloatArray:
    """One column for each level of a nominal attribute, one for a number; shape ``(n, p)``.

    A missing number is 0, and a column says so where the attribute has a code for it.
    """
    columns = sum(2 if name in values else records.domain.size(name) for name in attributes)
    if columns * len(records) > MOST_ENTRIES:
        raise TooLargeError(
            what="The table of predictors",
            limit=f"{MOST_ENTRIES} entries",
            advice="Compare fewer rows or attributes.",
        )
    return np.hstack([_indicators(records, name, values) for name in attributes])


def numbers_of(name: str, size: int, values: Values) -> FloatArray:
    """The numbers of an attribute's codes, NaN for missing; shape ``(size,)``."""
    numbers = np.asarray(values[name], dtype=np.float64)
    if numbers.shape != (size,) or np.any(np.abs(numbers) > _LARGEST_NUMBER):
        raise InvalidInputError(field=f"values.{name}", problem="need one number for each code")
    return numbers


def products(blocks: Sequence[FloatArray]) -> FloatArray:
    """Every product of one column of each block, those of the last block the fastest to change."""
    product = blocks[0]
    for block in blocks[1:]:
        product = (product[:, :, None] * block[:, None, :]).reshape(len(product), -1)
    return product


def _indicators(records: Dataset, name: str, values: Values) -> FloatArray:
    size, codes = records.domain.size(name), records.column(name)
    if name not in values:
        return np.asarray(codes[:, None] == np.arange(size), dtype=np.float64)
    numbers = numbers_of(name, size, values)
    absent = np.isnan(numbers)
    levels = np.where(absent, 0, numbers)[:, None]
    if absent.any():
        levels = np.column_stack([levels, absent])
    return np.asarray(levels[codes])


@dataclass(frozen=True, slots=True, eq=False)
class PredictorColumn:
    """One attribute of the cells.

    Args:
        levels: Which of its levels each cell has, from 0 without gaps, numbers in ascending order.
        numbers: Of each cell, where it is a number; a missing one is 0.
    """

    levels: NDArray[np.intp]
    numbers: FloatArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PooledCells:
    """The m different records among N, original and synthetic ones.

    Args:
        columns: A number that is missing somewhere has a second column that says where.
        places: The cell of each record, shape ``(N,)``, the synthetic ones first.
        totals: Records of either kind in each cell.
    """

    columns: tuple[PredictorColumn, ...]
    places: NDArray[np.intp]
    totals: FloatArray
    synthetic: int

    @property
    def share(self) -> float:
        """Synthetic records by all, c."""
        return self.synthetic / len(self.places)

    def synthetic_counts(self) -> FloatArray:
        """Synthetic records in each cell."""
        return self.counts(self.places[: self.synthetic])

    def pmse(self, scores: FloatArray) -> float:
        """Mean squared difference of the records' scores from c, given those of the cells."""
        return float(np.sum(self.totals * (scores - self.share) ** 2) / len(self.places))

    def counts(self, places: NDArray[np.intp]) -> FloatArray:
        """Records in each cell, of some records' cells."""
        return np.bincount(places, minlength=len(self.totals)).astype(np.float64)


def cells_of(original: Dataset, synthetic: Dataset, values: Values) -> PooledCells:
    """Put the records together."""
    domain = original.domain
    check_same_domain(domain, synthetic.domain)
    if not (len(original) and len(synthetic) and len(domain)):
        raise InvalidInputError(field="dataset", problem="contains no records or no attributes")
    numbers = {name: numbers_of(name, domain.size(name), values) for name in values}
    stacked = np.vstack([synthetic.codes, original.codes])
    codes, places = np.unique(stacked, axis=0, return_inverse=True)
    columns = (
        column
        for axis, name in enumerate(domain.attributes)
        for column in _columns(codes[:, axis], numbers.get(name))
    )
    totals = np.bincount(places.reshape(-1)).astype(np.float64)
    return PooledCells(tuple(columns), places.reshape(-1), totals, len(synthetic))


def _columns(codes: NDArray[Any], numbers: FloatArray | None) -> Iterator[PredictorColumn]:
    if numbers is None:
        yield PredictorColumn(_ranks(codes))
        return
    values = numbers[codes]
    absent = np.isnan(values)
    filled = np.where(absent, 0.0, values)
    yield PredictorColumn(_ranks(filled), filled)
    if absent.any():
        yield PredictorColumn(_ranks(absent), absent.astype(np.float64))


def _ranks(values: NDArray[Any]) -> NDArray[np.intp]:
    return np.unique(values, return_inverse=True)[1].reshape(-1)


def taught_regression(task: Task, records: Dataset) -> Predictor:
    """Logistic regression with scikit-learn's usual penalty, half the sum of squared coefficients.

    It is fitted to the end; the paper's fits stopped after 100 steps. Numbers are standardised first.
    Equal records are fitted once, with their number as weight: the same sum, and so the same
    coefficients.
    """
    _check_taught(records)
    cells, places = distinct(records, (*task.predictors, task.target))
    counts, classes = np.bincount(places), cells.column(task.target)
    if len(np.unique(classes)) == 1:
        return lambda others: np.full(len(others), int(classes[0]))
    matrix = predictor_matrix(cells, task.predictors, task.values)
    mean = np.average(matrix, axis=0, weights=counts)
    spread = np.sqrt(np.average((matrix - mean) ** 2, axis=0, weights=counts))
    plain = np.isin(matrix, (0, 1)).all(axis=0) | (spread == 0)  # indicators stay as they are
    mean, spread = np.where(plain, 0, mean), np.where(plain, 1, spread)
    model = learning("linear_model").LogisticRegression(max_iter=2_000, tol=1e-6)
    model.fit((matrix - mean) / spread, classes, sample_weight=counts)

    def predict(others: Dataset) -> NDArray[Any]:
        cells, places = distinct(others, task.predictors)
        matrix = predictor_matrix(cells, task.predictors, task.values)
        return np.asarray(model.predict((matrix - mean) / spread)[places])

    return predict


def taught_forest(task: Task, records: Dataset, *, trees: int = 100) -> Predictor:
    """Random forest, its classes weighted by their inverse shares in each bootstrap."""
    _check_taught(records)
    matrix = _tree_matrix(records, task)
    model = learning("ensemble").RandomForestClassifier(
        n_estimators=trees, random_state=0, class_weight="balanced_subsample"
    )
    model.fit(matrix, records.column(task.target))

    def predict(others: Dataset) -> NDArray[Any]:
        cells, places = distinct(others, task.predictors)
        return np.asarray(model.predict(_tree_matrix(cells, task))[places])

    return predict


def _check_taught(records: Dataset) -> None:
    if not len(records):
        raise InvalidInputError(
            field="records", problem="must contain at least one record to learn from"
        )


def _tree_matrix(records: Dataset, task: Task) -> NDArray[np.float32]:
    """Return the matrix that trees cut: numbers of 4 bytes, and so put on a scale from 0 to 1 before."""
    scaled: dict[str, tuple[float, ...]] = {}
    for name in task.predictors:
        if name not in task.values:
            continue
        numbers = numbers_of(name, records.domain.size(name), task.values)
        known = numbers[~np.isnan(numbers)]
        if len(known):
            numbers = (numbers - known.min()) / (np.ptp(known) or 1.0)
        scaled[name] = tuple(numbers.tolist())
    return predictor_matrix(records, task.predictors, scaled).astype(np.float32)


# Utility for predictions: accuracy and importance of attributes, as in Houssiau et al. (2022).
#
# Orders of importance are compared by Jaro's similarity. Symbols match where they are equal and at most
# :math:`\lfloor \max(|a|, |b|) / 2 \rfloor - 1` places apart; with m matches, t of which stand in
# another order,
#
# .. math:: \frac{1}{3} \Big( \frac{m}{|a|} + \frac{m}{|b|} + \frac{m - t / 2}{m} \Big)
#
# and 0 without a match. Half of t is not rounded down, as in the code that made Table 3 of Houssiau et
# al. (2022) and unlike most libraries; nor are two sequences of one symbol ever found similar.
#
# References:
#     M. Jaro, "Advances in Record-Linkage Methodology as Applied to Matching the 1985 Census of Tampa,
#     Florida", Journal of the American Statistical Association 84, 1989.


REPEATS = 10
"""Permutations of each attribute."""


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
        importances: As in ``ForestReference``, but of synthetic records kept from training.
        similarity: Jaro's, of the two orders of importance; 0 to 1.
    """

    accuracies: Accuracies
    importances: tuple[float, ...]
    similarity: float


def forest_reference(
    task: Task, real: Split, *, rng: np.random.Generator, trees: int = 100
) -> ForestReference:
    """Learn from real records, and be tried on others."""
    taught = taught_forest(task, real.training, trees=trees)
    result = accuracy(taught, real.test, task.target)
    return ForestReference(result, importances(taught, real.test, task, rng=rng))


def forest_utility(
    task: Task,
    synthetic: Split,
    real: Dataset,
    reference: ForestReference,
    *,
    rng: np.random.Generator,
    trees: int = 100,
) -> ForestUtility:
    """Learn from synthetic records; Houssiau et al. (2022), Table 3.

    Importances are measured on synthetic records. The paper's text has the real test records here;
    the code that its figures are from does this.
    """
    taught = taught_forest(task, synthetic.training, trees=trees)
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
    reference = forest_reference(task, real, rng=rng)
    return Predictions(
        real_regression=accuracy(taught_regression(task, real.training), real.test, task.target),
        regression=accuracies(
            taught_regression(task, synthetic_split.training),
            task.target,
            real=real.test,
            synthetic=synthetic_split.test,
        ),
        real_forest=reference,
        forest=forest_utility(task, synthetic_split, real.test, reference, rng=rng),
    )
