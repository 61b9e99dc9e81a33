r"""How well a model tells synthetic records from original ones: pMSE for whole datasets.

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
from math import inf, sqrt

import numpy as np

from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidNumberError
from gencard.core.types import FloatArray
from gencard.measures.utility.predictors import Cells, Values, cells_of
from gencard.measures.utility.propensity_regression import regression_basis, regression_scores
from gencard.measures.utility.propensity_tree import TreeSettings, tree_scores
from gencard.measures.utility.table_statistics import score_ranks

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
        synthetic_share: Of them.
        specks: Largest distance of the scores' distribution functions; 0 to 1. See
            ``propensity_ranks`` for this and the next two.
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

    @property
    def named(self) -> dict[str, float | None]:
        """Every measure under its name in synthpop; PO50 is in per cent."""
        return {
            "pMSE": self.pmse,
            "S_pMSE": self.standardised,
            "SPECKS": self.specks,
            "PO50": 100 * self.over_half_right,
            "U": self.mann_whitney,
        }


def regression_propensity(
    original: Dataset,
    synthetic: Dataset,
    values: Values,
    *,
    order: int = 2,
    most_parameters: int = MOST_PARAMETERS,
) -> Propensity:
    """By logistic regression on all interactions of up to ``order`` attributes.

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
    scores = regression_scores(basis, cells.totals, cells.synthetic_counts())
    share, records, parameters = cells.share, len(cells.places), basis.shape[1]
    expected = (parameters - 1) * share * (1 - share) ** 2 / records
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
    """By a classification tree; raises as ``regression_propensity`` does.

    Args:
        values: As there.
        rng: For the permutations.
        settings: How the tree grows.
        permutations: Drawn at a time, until their mean is known well enough; at most so many, or
            ``MOST_PERMUTATIONS``, if that is more.

    Raises:
        InvalidNumberError: There is no permutation, or the settings are out of range.
    """
    if permutations < 1:
        raise InvalidNumberError(field="permutations", expected="at least 1")
    _check(settings)
    cells = cells_of(original, synthetic, values)
    scores = tree_scores(cells, cells.synthetic_counts(), settings)
    expected, error = _expected(cells, settings, permutations, rng)
    return replace(_propensity(cells, scores, expected), expected_error=error)


def _expected(
    cells: Cells, settings: TreeSettings, batch: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Half of the mean pMSE of a tree over permutations, and its standard error."""
    permuted: list[float] = []
    while True:
        for _ in range(batch):
            scores = tree_scores(cells, cells.permuted_counts(rng=rng), settings)
            permuted.append(cells.pmse(scores))
        mean, error = _mean(np.array(permuted))
        # The error falls with the root of the number: stop where even all of them would not do.
        hope = error * sqrt(len(permuted) / MOST_PERMUTATIONS) / _OUT_OF_REACH
        if error <= LARGEST_ERROR * mean or hope > LARGEST_ERROR * mean:
            return mean / 2, error / 2
        if len(permuted) + batch > MOST_PERMUTATIONS:
            return mean / 2, error / 2


def _mean(values: FloatArray) -> tuple[float, float]:
    """The mean and its standard error; the error is infinite for a single value or where all are 0."""
    mean = float(values.mean())
    known = len(values) > 1 and mean
    return mean, float(values.std(ddof=1)) / sqrt(len(values)) if known else inf


def tree_pmse(
    original: Dataset, synthetic: Dataset, values: Values, *, settings: TreeSettings = _SETTINGS
) -> float:
    """The pMSE alone, by a classification tree; raises as ``tree_propensity`` does."""
    _check(settings)
    cells = cells_of(original, synthetic, values)
    return cells.pmse(tree_scores(cells, cells.synthetic_counts(), settings))


def _propensity(
    cells: Cells, scores: FloatArray, expected: float, parameters: int | None = None
) -> Propensity:
    """Summarise the scores of the cells."""
    synthetic = cells.synthetic_counts()
    return Propensity(
        cells.pmse(scores),
        expected,
        len(cells.places),
        cells.share,
        *score_ranks(scores, cells.totals - synthetic, synthetic),
        parameters,
    )


def _check(settings: TreeSettings) -> None:
    if settings.leaf < 1 or not 0 <= settings.price < 1:
        raise InvalidNumberError(field="tree", expected="a leaf of at least 1, a price from 0 to 1")
