r"""A regression on synthetic tables beside the same one on records.

A coefficient's difference is given in standard errors of the records' own. The overlap of two confidence
intervals is the mean of its shares of either one,

.. math:: \frac{1}{2} \left( \frac{o}{l_{records}} + \frac{o}{l_{syntheses}} \right)

which is 1 where they agree, and below 0 where they leave a gap. The lack of fit is
:math:`d^T C^{-1} d` for the differences d of all p coefficients together. With the covariance V of
the records' coefficients :math:`C = V n / (k m)`, and where syntheses come from a right model the
statistic is chi-squared with p degrees of freedom. Where some attributes were not synthesised, C is the
covariance between the m tables by m, and :math:`(m - p) / (p (m - 1))` of the statistic has an F
distribution with p and m - p.

References:
    A. Karr, C. Kohnen, A. Oganian, J. Reiter, A. Sanil, "A Framework for Evaluating the Utility of Data
    Altered to Protect Confidentiality", The American Statistician 60, 2006: the overlap.
    B. Nowok, G. Raab, C. Dibben, "Inference from fitted models in synthpop", vignette of the R package:
    the rest.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, fdtrc, ndtri

from gencard.core.errors import InvalidInputError, InvalidNumberError
from gencard.core.utility.prediction.coefficient_table import CoefficientTable, Row
from gencard.core.utility.prediction.coefficients import Coefficients
from gencard.core.utility.prediction.inference import Combined, Rule
from gencard.core.utility.propensity.predictor_matrix import Matrix


@dataclass(frozen=True, slots=True)
class LackOfFit:
    """Whether all coefficients together differ by more than chance.

    Args:
        statistic: 0 or more.
        freedom: Degrees of freedom: one number for chi-squared, two for F.
        p_value: Chance of a statistic as large from a right model; 0 to 1.
    """

    statistic: float
    freedom: tuple[int, ...]
    p_value: float


@dataclass(frozen=True, slots=True, eq=False)
class InferenceComparison(CoefficientTable):
    """Synthetic tables beside records, coefficient by coefficient; arrays have shape ``(p,)``.

    Args:
        original: What the records say.
        values: What the tables say, on average.
        overlaps: Of the confidence intervals; 1 at most.
        confidence: Of the intervals, between 0 and 1.
        rule: What the tables' intervals are about.
        lack_of_fit: None where tables that keep some attributes are no more than coefficients.
    """

    original: Coefficients
    values: Matrix
    overlaps: Matrix
    confidence: float
    rule: Rule
    lack_of_fit: LackOfFit | None

    @property
    def differences(self) -> Matrix:
        """Synthetic less original coefficients."""
        return np.asarray(self.values - self.original.values)

    @property
    def standardised(self) -> Matrix:
        """The same in standard errors of the original coefficients."""
        return np.asarray(self.differences / self.original.errors)

    @property
    def mean_overlap(self) -> float:
        """Of all coefficients, the constant among them."""
        return float(self.overlaps.mean())

    @property
    def mean_difference(self) -> float:
        """Mean absolute standardised difference of all coefficients, the constant among them."""
        return float(np.abs(self.standardised).mean())

    @property
    def title(self) -> str:
        asked = f"{self.original.regression.formula}, {self.original.regression.kind.value}"
        return f"{asked}; synthetic tables beside {self.original.complete:,} records"

    @property
    def heads(self) -> tuple[str, ...]:
        return "synthetic", "original", "difference", "standardised", "overlap"

    @property
    def rows(self) -> tuple[Row, ...]:
        columns = self.values, self.original.values, self.differences, self.standardised, self.overlaps
        numbers = zip(*columns, strict=True)
        return tuple(zip(self.original.regression.names, numbers, strict=True))

    @property
    def notes(self) -> tuple[str, ...]:
        means = (
            f"mean overlap of {100 * self.confidence:.4g} % intervals {self.mean_overlap:.4g}, "
            f"mean absolute standardised difference {self.mean_difference:.4g}"
        )
        if self.lack_of_fit is None:
            return (means, "lack of fit: needs more tables than coefficients")
        fit = self.lack_of_fit
        freedom = " and ".join(map(str, fit.freedom))
        return (
            means,
            f"lack of fit {fit.statistic:.4g} with {freedom} degrees of freedom, p {fit.p_value:.4g}",
        )


def inference_comparison(
    original: Coefficients,
    synthetic: Combined,
    rule: Rule = Rule.RECORDS,
    *,
    confidence: float = 0.95,
) -> InferenceComparison:
    """Compare what synthetic tables say with what records do.

    The tables' confidence intervals have the standard errors that the rule gives to the records' own
    variances, so that the overlap tells of the coefficients.

    Raises:
        InvalidInputError: The regressions differ, or there is one table where the rule needs several.
        InvalidNumberError: The confidence is not between 0 and 1.
    """
    if original.regression != synthetic.regression:
        raise InvalidInputError(field="synthetic", problem="another regression than that on the records")
    if not 0 < confidence < 1:
        raise InvalidNumberError(field="confidence", expected="between 0 and 1")
    errors = synthetic.errors(np.diag(original.covariance), original.records, rule)
    far = float(ndtri((1 + confidence) / 2))
    return InferenceComparison(
        original=original,
        values=synthetic.values,
        overlaps=_overlaps(original.values, far * original.errors, synthetic.values, far * errors),
        confidence=confidence,
        rule=rule,
        lack_of_fit=_lack_of_fit(original, synthetic, rule),
    )


def _overlaps(one: Matrix, its: Matrix, other: Matrix, others: Matrix) -> Matrix:
    """Of intervals with these centres and half lengths."""
    common = np.minimum(one + its, other + others) - np.maximum(one - its, other - others)
    return np.asarray((common / (2 * its) + common / (2 * others)) / 2)


def _lack_of_fit(original: Coefficients, synthetic: Combined, rule: Rule) -> LackOfFit | None:
    difference = synthetic.values - original.values
    tables, parameters = synthetic.tables, len(difference)
    if rule is not Rule.INCOMPLETE:
        spread = original.covariance * (original.records / (synthetic.rows * tables))
        statistic = _distance(difference, spread)
        return LackOfFit(statistic, (parameters,), float(chdtrc(parameters, statistic)))
    freedom = parameters, tables - parameters
    if freedom[1] < 1:
        return None
    squared = _distance(difference, synthetic.between / tables)
    statistic = squared * freedom[1] / (parameters * (tables - 1))
    return LackOfFit(statistic, freedom, float(fdtrc(*freedom, statistic)))


def _distance(difference: Matrix, covariance: Matrix) -> float:
    """Squared, in units of the covariance; scaled first, as numbers may be of any size."""
    errors = np.sqrt(np.diag(covariance))
    scaled = difference / errors
    return float(scaled @ np.linalg.solve(covariance / np.outer(errors, errors), scaled))
