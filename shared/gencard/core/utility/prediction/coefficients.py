r"""The coefficients of a regression on one table.

With the diagonal matrix W of the records of each kind, or of the weights that the fit ended with, least
squares have

.. math:: \hat\beta = (X^T W X)^{-1} X^T W y, \quad V = \hat\sigma^2 (X^T W X)^{-1}

where :math:`\hat\sigma^2` is the sum of squared residuals by the records less the parameters; it is 1
in a logistic regression. The figures are those of R's ``lm`` and ``glm``.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, solve_triangular

from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidInputError
from gencard.core.utility.prediction.coefficient_table import CoefficientTable, Row
from gencard.core.utility.prediction.regression import Design, Kind, Regression
from gencard.core.utility.propensity.binomial_fit import binomial_fit
from gencard.core.utility.propensity.predictor_matrix import Matrix

_DEPENDENT = 1e-9
_EXACT = 1e-24
"""Share of the sum of squares; residuals as small are rounding."""

_LONGEST_STEP = 0.1
"""Of log odds, at the end. Where some cell has no likeliest ones, each step adds about 1."""


@dataclass(frozen=True, slots=True, eq=False)
class Coefficients(CoefficientTable):
    """What one table says.

    Args:
        regression: What was asked.
        values: The coefficients, shape ``(p,)``, named by ``regression.names``.
        covariance: Of them, shape ``(p, p)``.
        records: All of the table, those left out too.
        complete: Those that lack no attribute of the regression.
    """

    regression: Regression
    values: Matrix
    covariance: Matrix
    records: int
    complete: int

    @property
    def errors(self) -> Matrix:
        """Standard errors, shape ``(p,)``."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def title(self) -> str:
        return f"{self.regression.formula}, {self.regression.kind.value}, {self.complete:,} records"

    @property
    def heads(self) -> tuple[str, ...]:
        return "coefficient", "standard error", "z"

    @property
    def rows(self) -> tuple[Row, ...]:
        numbers = zip(self.values, self.errors, self.values / self.errors, strict=True)
        return tuple(zip(self.regression.names, numbers, strict=True))


def coefficients(regression: Regression, records: Dataset) -> Coefficients:
    """Fit a regression to one table.

    Raises:
        DomainMismatchError: An attribute has other levels there than in the schema.
        InvalidInputError: Too few complete records, parameters that others determine (a level without
            records is one), a response explained without error or told apart entirely.
        TooLargeError: Too many different records for so many parameters.
        UnknownAttributeError: An attribute is not there.
    """
    design = regression.design(records)
    complete = int(design.counts.sum())
    if complete <= len(regression.names):
        raise InvalidInputError(field="records", problem="too few lack no attribute of the regression")
    basis = _basis(design)
    solve = _linear if regression.kind is Kind.LEAST_SQUARES else _logistic
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        values, covariance = solve(design, basis)
    if not (np.isfinite(values).all() and np.isfinite(covariance).all()):
        raise InvalidInputError(field="records", problem="numbers are too large or too small")
    return Coefficients(regression, values, covariance, len(records), complete)


def _basis(design: Design) -> Matrix:
    """An orthonormal basis of the columns; refuses those that others determine."""
    lengths = np.linalg.norm(design.matrix, axis=0)
    scaled = design.matrix / np.where(lengths > 0, lengths, 1.0)
    basis, triangle, _ = qr(scaled, mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(triangle))
    if len(diagonal) < len(lengths) or diagonal[-1] <= _DEPENDENT * diagonal[0]:
        problem = "a parameter is determined by the others, as that of a level without records"
        raise InvalidInputError(field="records", problem=problem)
    return np.asarray(basis)


def _linear(design: Design, _: Matrix) -> tuple[Matrix, Matrix]:
    values, inverse = _solved(design.matrix, design.counts, design.response)
    residuals = design.response - design.matrix @ values
    squares = float(design.counts @ residuals**2)
    if squares <= _EXACT * float(design.counts @ design.response**2):
        raise InvalidInputError(field="formula", problem="explains the response without error")
    return values, inverse * (squares / (design.counts.sum() - len(values)))


def _logistic(design: Design, basis: Matrix) -> tuple[Matrix, Matrix]:
    fit = binomial_fit(basis, design.counts, design.counts * design.response)
    if fit.step > _LONGEST_STEP:
        problem = "tells some responses apart entirely, so that no coefficients are likeliest"
        raise InvalidInputError(field="formula", problem=problem)
    return _solved(design.matrix, fit.weights, fit.predicted)


def _solved(matrix: Matrix, weights: Matrix, response: Matrix) -> tuple[Matrix, Matrix]:
    """Coefficients of weighted least squares, and the inverse of the normal equations' matrix."""
    roots = np.sqrt(weights)
    lengths = np.linalg.norm(matrix, axis=0)
    basis, triangle = qr(matrix / lengths * roots[:, None], mode="economic")
    inverse = solve_triangular(triangle, np.eye(len(lengths))) / lengths[:, None]
    return np.asarray(inverse @ (basis.T @ (roots * response))), np.asarray(inverse @ inverse.T)
