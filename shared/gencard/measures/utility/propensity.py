r"""Distinction of synthetic from original records by a model: pMSE for whole datasets.

.. math:: pMSE = \frac{1}{N} \sum_i (\hat p_i - c)^2, \quad S\_pMSE = pMSE / E_0[pMSE]

with the probability :math:`\hat p_i` of being synthetic that the model gives to record i of the N
original and synthetic ones, and the share c of the synthetic ones. :math:`E_0` is what is expected where
synthetic records are drawn from the original ones: known exactly for the regression; for a tree half
of the mean over random permutations, in which both kinds are random.

Permutations of a tree are drawn until the standard error of :math:`E_0` is a tenth of it. Where hardly
any of them splits the tree, 500 do not suffice: the mean is that of a few large values, S_pMSE would
change by a factor of ten with the seed, and it is None.

References:
    J. Snoke, G. Raab, B. Nowok, C. Dibben, A. Slavkovic, "General and specific utility measures for
    synthetic data", Journal of the Royal Statistical Society A 181, 2018.
"""

from dataclasses import dataclass, replace
from itertools import chain, combinations
from math import inf, log, prod, sqrt

import numpy as np
import scipy
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidNumberError, TooLargeError
from gencard.core.types import FloatArray
from gencard.measures.utility.prediction import PooledCells, PredictorColumn, Values, cells_of, products
from gencard.measures.utility.table_utility import score_ranks

# A classification tree that tells synthetic records from original ones.
#
# CART with the Gini index: of all splits that leave enough records on either side the one that lowers
# the impurity most, numbers at a threshold, nominal attributes with their levels in the order of
# their original share in the node, which finds the best of all subsets for two classes (Breiman et
# al. 1984, section 4.2.2). A split stays where it lowers the number of misclassified records, less
# :math:`\alpha = cp \cdot R(root)` for each further leaf.
#
# What is not worth its price is found as the R package rpart does it: a node is not even split where
# what its parent and its sibling leave to be saved is too little. The trees are those of rpart, but
# where two cuts are equally good: here the first attribute and the lowest cut are taken, there
# rounding decides.
#
# References:
#     T. Therneau, E. Atkinson, "An Introduction to Recursive Partitioning Using the RPART Routines",
#     Mayo Foundation, 1997 and later.

_DEEPEST = 30
_LEAST_GAIN = 1e-9

Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class TreeSettings:
    """Limits on the growth of a tree.

    Args:
        leaf: Fewest records of a leaf; three times as many are needed for a split.
        price: cp, the share of the root's misclassified records that a split must save.
    """

    leaf: int = 5
    price: float = 1e-3


def tree_scores(cells: PooledCells, synthetic: FloatArray, settings: TreeSettings) -> FloatArray:
    """The synthetic share of each cell's leaf."""
    scores = np.empty(len(synthetic))
    _Tree(cells, synthetic, settings).grown(np.arange(len(synthetic)), inf, 0).fill(scores)
    return scores


@dataclass(slots=True, eq=False)
class _Node:
    """A node of the tree, in records.

    Args:
        share: The synthetic one of its records.
        risk: Records it would misclassify as a leaf.
        worth: How many of them its splits save for each further leaf.
        left: Those that its leaves misclassify.
        splits: How many are below it.
    """

    places: Places
    share: float
    risk: float
    worth: float
    left: float
    splits: int = 0
    children: "tuple[_Node, _Node] | None" = None

    def fill(self, scores: FloatArray) -> None:
        if self.children is None:
            scores[self.places] = self.share
            return
        for child in self.children:
            child.fill(scores)


class _Tree:
    """Limits on its growth."""

    def __init__(self, cells: PooledCells, synthetic: FloatArray, settings: TreeSettings) -> None:
        self.cells, self.synthetic, self.settings = cells, synthetic, settings
        fewer = min(synthetic.sum(), cells.totals.sum() - synthetic.sum())
        self.alpha = float(settings.price * fewer)

    def grown(self, places: Places, bound: float, depth: int) -> _Node:
        """The node of these cells with all that is worth its price below it."""
        totals, synthetic = self.cells.totals[places].sum(), self.synthetic[places].sum()
        risk = float(min(synthetic, totals - synthetic))
        node = _Node(places, float(synthetic / totals), risk, self.alpha, risk)
        hope = min(risk, bound)
        if totals < 3 * self.settings.leaf or hope <= self.alpha or depth >= _DEEPEST:
            return node
        side = self._best_split(places)
        if side is None:
            return node
        one = self.grown(places[side], hope - self.alpha, depth + 1)
        hope = max((risk - one.left) / (one.splits + 1), risk - one.risk)
        other = self.grown(places[~side], min(hope, bound) - self.alpha, depth + 1)
        left, splits = _cheapest(risk, one, other)
        worth = (risk - left) / (splits + 1)
        if worth > self.alpha:
            node.worth, node.left, node.splits = worth, left, splits + 1
            node.children = (one, other)
        return node

    def _best_split(self, places: Places) -> NDArray[np.bool_] | None:
        """Return the cells of one side; None if no split leaves enough records or gains anything."""
        totals, synthetic = self.cells.totals[places], self.synthetic[places]
        best, side = _LEAST_GAIN, None
        for column in self.cells.columns:
            levels = column.levels[places]
            counts, of_synthetic = (
                np.bincount(levels, each).astype(np.float64) for each in (totals, synthetic)
            )
            occupied = np.flatnonzero(counts)
            ours, theirs = counts[occupied], of_synthetic[occupied]
            order = np.arange(len(occupied))
            if column.numbers is None:
                order = np.argsort((ours - theirs) / ours, kind="stable")
            gains = _gains(ours[order], theirs[order], self.settings.leaf)
            if len(gains) and gains.max() > best + _LEAST_GAIN:
                place = int(np.argmax(gains > gains.max() - _LEAST_GAIN))
                best, side = float(gains[place]), np.isin(levels, occupied[order[: place + 1]])
        return side


def _gains(totals: FloatArray, synthetic: FloatArray, leaf: int) -> FloatArray:
    """Return the fall of the Gini index at each cut, times the records; 0 if a side is too small."""
    ours, theirs = np.cumsum(totals), np.cumsum(synthetic)
    (ours, every), (theirs, of_all) = (ours[:-1], ours[-1]), (theirs[:-1], theirs[-1])
    rest, theirs_rest = every - ours, of_all - theirs
    enough = (ours >= leaf) & (rest >= leaf)
    pure = theirs * (ours - theirs) / ours + theirs_rest * (rest - theirs_rest) / rest
    return np.asarray(np.where(enough, of_all * (every - of_all) / every - pure, 0.0))


def _cheapest(risk: float, one: _Node, other: _Node) -> tuple[float, int]:
    """Misclassified records and splits below a node, once children worth less than it are leaves."""
    parts = {id(node): (node.left, node.splits) for node in (one, other)}
    for node in sorted((one, other), key=lambda child: child.worth):
        left, splits = (sum(each) for each in zip(*parts.values(), strict=True))
        if (risk - left) / (splits + 1) <= node.worth:
            break
        parts[id(node)] = (node.risk, 0)
    left, splits = (sum(each) for each in zip(*parts.values(), strict=True))
    return float(left), int(splits)


# Logistic regression that tells synthetic records from original ones, interactions included.
#
# The columns are an intercept, indicators of all levels but one, numbers, and the products of these for
# every set of up to ``order`` attributes. Columns that others determine are left out; what is left has
# rank r. Where synthetic records are drawn from the original ones, the expected pMSE is
# :math:`(r - 1) c (1 - c)^2 / N` (Snoke et al. 2018, with the original taken as given).
#
# The maximum-likelihood log odds are found by iterated least squares (``binomial_fit``).

MOST_ENTRIES = 40_000_000
"""Most entries of the matrix, cells by columns: 320 MB."""

_DEPENDENT = 1e-9


def regression_basis(cells: PooledCells, order: int, most_parameters: int) -> NDArray[np.float64]:
    """An orthonormal basis of the columns, one row for each cell; its width is the rank."""
    if order < 1:
        raise InvalidNumberError(field="order", expected="at least 1")
    varying = [column for column in cells.columns if column.levels.any()]
    widths = [1 if column.numbers is not None else int(column.levels.max()) for column in varying]
    sets, columns = [], 1
    wide = range(1, min(order, len(widths)) + 1)
    for axes in chain.from_iterable(combinations(range(len(widths)), k) for k in wide):
        sets.append(axes)
        columns += prod(widths[axis] for axis in axes)
        if columns > most_parameters:
            raise TooLargeError(
                what="The number of parameters",
                limit=most_parameters,
                advice="Compare fewer attributes, or attributes with fewer levels.",
            )
    if columns * len(cells.totals) > MOST_ENTRIES:
        raise TooLargeError(
            what="The regression",
            limit=f"{MOST_ENTRIES} entries",
            advice="Compare fewer rows or attributes.",
        )
    blocks = [_block(column) for column in varying]
    parts = [
        np.ones((len(cells.totals), 1)),
        *(products([blocks[axis] for axis in axes]) for axes in sets),
    ]
    matrix = np.hstack(parts)
    lengths = np.linalg.norm(matrix, axis=0)
    scaled = matrix[:, lengths > 0] / lengths[lengths > 0]
    basis, triangle, _ = scipy.linalg.qr(scaled, mode="economic", pivoting=True, overwrite_a=True)
    diagonal = np.abs(np.diag(triangle))
    return np.asarray(basis[:, : int(np.sum(diagonal > _DEPENDENT * diagonal[0]))])


def _block(column: PredictorColumn) -> FloatArray:
    """A number, standardised; or an indicator of each level but the first."""
    if column.numbers is None:
        return np.asarray(np.eye(int(column.levels.max()) + 1)[column.levels][:, 1:])
    centred = column.numbers - column.numbers.mean()
    scaled = centred / (np.abs(centred).max() or 1.0)  # squares of the smallest numbers are 0
    return np.asarray((scaled / (scaled.std() or 1.0))[:, None])


_CONVERGED = 1e-8
_MOST_STEPS = 200
_MOST_HALVINGS = 30
_LEAST_WEIGHT = 2.0**-52
_FIRST = 0.25 / 0.1875 + log(3)
"""The first response of a record: its probability starts at 3/4 where it is a one, else at 1/4."""


def binomial_fit(matrix: FloatArray, totals: FloatArray, ones: FloatArray) -> FloatArray:
    """Explain the share of ones in each cell by the columns of a matrix: its log odds, ``(cells,)``.

    Start and end are those of R's ``glm``, so that figures agree with R's: where a cell can be told
    apart entirely, its probability never arrives at 0 or 1, and the end decides how near it comes. But a
    step that makes the fit worse is halved; R goes on, and may end far from any most likely one.

    Args:
        matrix: Shape ``(cells, p)``.
        totals: Records of each cell, shape ``(cells,)``, none of them 0.
        ones: Those among them whose response is one.
    """
    weights = 0.1875 * totals
    predicted = _least_squares(matrix, weights, _FIRST * (2 * ones / totals - 1))
    deviance = _deviance(predicted, totals, ones)
    for _ in range(_MOST_STEPS):
        scores = scipy.special.expit(predicted)
        weights = totals * np.maximum(scores * (1 - scores), _LEAST_WEIGHT)
        target = _least_squares(matrix, weights, predicted + (ones - totals * scores) / weights)
        before = deviance
        for _ in range(_MOST_HALVINGS):  # until the step raises the deviance no more
            deviance_after = _deviance(target, totals, ones)
            if deviance_after <= before + _CONVERGED * (before + 0.1):
                predicted, deviance = target, deviance_after
                break
            target = (predicted + target) / 2
        if abs(deviance - before) < _CONVERGED * (abs(deviance) + 0.1):
            break
    return predicted


def _least_squares(matrix: FloatArray, weights: FloatArray, response: FloatArray) -> FloatArray:
    roots = np.sqrt(weights)
    result = scipy.linalg.lstsq(matrix * roots[:, None], response * roots, lapack_driver="gelsy")
    return np.asarray(matrix @ result[0])


def _deviance(predicted: FloatArray, totals: FloatArray, ones: FloatArray) -> float:
    scores, others = scipy.special.expit(predicted), scipy.special.expit(-predicted)
    return float(
        -2 * np.sum(scipy.special.xlogy(ones, scores) + scipy.special.xlogy(totals - ones, others))
    )


MOST_PARAMETERS = 400
PERMUTATIONS = 50
"""Permutations of a tree that are drawn at a time; as a rule the first ones suffice."""

MOST_PERMUTATIONS = 500

LARGEST_ERROR = 0.1
"""Largest standard error of what is expected by chance, as a share of it, to state S_pMSE."""

_OUT_OF_REACH = 1.5
"""No further permutation is drawn if with all of them the error would be so much too large."""

_SETTINGS = TreeSettings()


@dataclass(frozen=True, slots=True)
class Propensity:
    """Propensity scores of a model, summarised.

    Args:
        pmse: 0 to 1/4; 0 where it cannot tell them apart at all.
        expected: What it is expected to be for synthetic records drawn from the original ones.
        records: Original and synthetic records together.
        specks: Largest distance of the scores' distribution functions; 0 to 1. See ``score_ranks``
            for this and the next two.
        over_half_right: PO50, in shares of the records; -1/2 to 1/2.
        mann_whitney: U, in pairs of a synthetic and an original record.
        parameters: Of the regression, without those that others determine; None for a tree.
        expected_error: Standard error of ``expected``, from a tree's permutations; 0 where it is exact,
            infinite where none of them says how large it is.
    """

    pmse: float
    expected: float
    records: int
    synthetic_share: float
    specks: float
    over_half_right: float
    mann_whitney: float
    parameters: int | None = None
    expected_error: float = 0.0

    @property
    def standardised(self) -> float | None:
        """S_pMSE; about 1 for synthetic records as good as a resample.

        None where nothing can differ, or where it is not known well enough what chance makes.
        """
        if not self.expected or self.expected_error > LARGEST_ERROR * self.expected:
            return None
        return self.pmse / self.expected


def regression_propensity(
    original: Dataset,
    synthetic: Dataset,
    values: Values,
    *,
    order: int = 2,
    most_parameters: int = MOST_PARAMETERS,
) -> Propensity:
    """Tell records apart by logistic regression on all interactions of up to ``order`` attributes.

    Args:
        values: For each attribute that is a number, the number of each code, NaN for missing; a
            missing number is 0 and one more attribute. The others are nominal.

    Raises:
        DomainMismatchError: The domains differ.
        InvalidInputError: A dataset holds no record, there is no attribute, or values do not fit.
        InvalidNumberError: The order is below 1.
        TooLargeError: More parameters than may be.
        UnknownAttributeError: There are values for an attribute that is not in the domain.
    """
    cells = cells_of(original, synthetic, values)
    basis = regression_basis(cells, order, most_parameters)
    scores = scipy.special.expit(binomial_fit(basis, cells.totals, cells.synthetic_counts()))
    parameters = basis.shape[1]
    expected = (parameters - 1) * cells.share * (1 - cells.share) ** 2 / len(cells.places)
    return _propensity(cells, scores, expected, parameters)


def tree_propensity(
    original: Dataset,
    synthetic: Dataset,
    values: Values,
    *,
    rng: np.random.Generator,
    settings: TreeSettings = _SETTINGS,
    permutations: int = PERMUTATIONS,
) -> Propensity:
    """Tell records apart by a classification tree; raises as ``regression_propensity`` does.

    Args:
        permutations: Drawn at a time, until their mean is known well enough; at most so many, or
            ``MOST_PERMUTATIONS``, if that is more.

    Raises:
        InvalidNumberError: There is no permutation, or the settings are out of range.
    """
    if permutations < 1:
        raise InvalidNumberError(field="permutations", expected="at least 1")
    if settings.leaf < 1 or not 0 <= settings.price < 1:
        raise InvalidNumberError(field="tree", expected="a leaf of at least 1, a price from 0 to 1")
    cells = cells_of(original, synthetic, values)
    scores = tree_scores(cells, cells.synthetic_counts(), settings)
    expected, error = _expected(cells, settings, permutations, rng)
    return replace(_propensity(cells, scores, expected), expected_error=error)


def _propensity(
    cells: PooledCells, scores: FloatArray, expected: float, parameters: int | None = None
) -> Propensity:
    synthetic = cells.synthetic_counts()
    ranks = score_ranks(scores, cells.totals - synthetic, synthetic)
    return Propensity(cells.pmse(scores), expected, len(cells.places), cells.share, *ranks, parameters)


def _expected(
    cells: PooledCells, settings: TreeSettings, batch: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Half of the mean pMSE of a tree over permutations, and its standard error."""
    permuted: list[float] = []
    while True:
        for _ in range(batch):
            # As if as many of all records, at random, had been the synthetic ones.
            counts = cells.counts(rng.permutation(cells.places)[: cells.synthetic])
            permuted.append(cells.pmse(tree_scores(cells, counts, settings)))
        values = np.array(permuted)
        mean = float(values.mean())
        # The error is infinite for a single value or where all are 0.
        known = len(values) > 1 and mean
        error = float(values.std(ddof=1)) / sqrt(len(values)) if known else inf
        # The error falls with the root of the number: stop where even all of them would not do.
        hope = error * sqrt(len(permuted) / MOST_PERMUTATIONS) / _OUT_OF_REACH
        settled = error <= LARGEST_ERROR * mean or hope > LARGEST_ERROR * mean
        if settled or len(permuted) + batch > MOST_PERMUTATIONS:
            return mean / 2, error / 2
