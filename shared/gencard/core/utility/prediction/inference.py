r"""One regression on m synthetic tables, and what follows from all of them together.

With the mean :math:`\bar q` of the m coefficients, the mean :math:`\bar v` of their variances times k/n
(k rows in each table, made from n records) and the variance :math:`b` between the tables,
:math:`\bar q` has the squared standard error

.. math:: \bar v, \quad \bar v (1 + n / (k m)), \quad \bar v (1 + (n / k + 1) / m), \quad b / m + \bar v

by the four ``Rule``s. z is :math:`\bar q` by its standard error, and p that of a normal distribution.

References:
    G. Raab, B. Nowok, C. Dibben, "Practical Data Synthesis for Large Samples", Journal of Privacy and
    Confidentiality 7(3), 2016. The last rule is that of J. Reiter, "Inference for Partially Synthetic,
    Public Use Microdata Sets", Survey Methodology 29, 2003.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy.special import ndtr

from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidInputError, InvalidNumberError
from gencard.core.utility.prediction.coefficient_table import CoefficientTable, Row
from gencard.core.utility.prediction.coefficients import coefficients
from gencard.core.utility.prediction.regression import Regression
from gencard.core.utility.propensity.predictor_matrix import Matrix


class Rule(Enum):
    """What coefficients and standard errors are about, and how the tables were made."""

    RECORDS = "what the records would give"
    POPULATION = "the population the records are a sample of"
    PROPER = "the population, with tables drawn from models that were drawn themselves"
    INCOMPLETE = "the population, with tables that keep some attributes of the records"


@dataclass(frozen=True, slots=True, eq=False)
class Inference(CoefficientTable):
    """What all tables say together.

    Args:
        regression: What was asked.
        values: Mean coefficients, shape ``(p,)``, named by ``regression.names``.
        errors: Their standard errors by the rule, shape ``(p,)``.
        rule: What they are about.
        tables: How many there are.
    """

    regression: Regression
    values: Matrix
    errors: Matrix
    rule: Rule
    tables: int

    @property
    def z(self) -> Matrix:
        """Coefficients by their standard errors."""
        return np.asarray(self.values / self.errors)

    @property
    def p_values(self) -> Matrix:
        """Two-sided, were the coefficient 0."""
        return np.asarray(2 * ndtr(-np.abs(self.z)))

    @property
    def title(self) -> str:
        asked = f"{self.regression.formula}, {self.regression.kind.value}"
        return f"{asked}, synthetic tables: {self.tables}; about {self.rule.value}"

    @property
    def heads(self) -> tuple[str, ...]:
        return "coefficient", "standard error", "z", "p"

    @property
    def rows(self) -> tuple[Row, ...]:
        numbers = zip(self.values, self.errors, self.z, self.p_values, strict=True)
        return tuple(zip(self.regression.names, numbers, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Combined:
    """The same regression on every table.

    Args:
        regression: What was asked.
        each: Its coefficients on each table, shape ``(m, p)``.
        variances: Mean of their variances, shape ``(p,)``; as fitted, without k/n.
        rows: Those of each table, k.
    """

    regression: Regression
    each: Matrix
    variances: Matrix
    rows: int

    @property
    def tables(self) -> int:
        """How many there are, m."""
        return len(self.each)

    @property
    def values(self) -> Matrix:
        """Mean coefficients, shape ``(p,)``."""
        return np.asarray(self.each.mean(axis=0))

    @property
    def between(self) -> Matrix:
        """Covariance of the coefficients between the tables, shape ``(p, p)``; two are needed.

        Raises:
            InvalidInputError: There is one table.
        """
        if self.tables < 2:
            raise InvalidInputError(field="syntheses", problem="two or more are needed")
        centred = self.each - self.values
        return np.asarray(centred.T @ centred / (self.tables - 1))

    def inference(self, records: int, rule: Rule = Rule.RECORDS) -> Inference:
        """Standard errors by a rule, from the synthetic tables alone.

        Args:
            records: n, those the tables were made from.
            rule: What the standard errors are about.

        Raises:
            InvalidInputError: There is one table where the rule needs several.
            InvalidNumberError: There is no record.
        """
        if records < 1:
            raise InvalidNumberError(field="records", expected="at least 1")
        expected = self.variances * (self.rows / records)
        errors = self.errors(expected, records, rule)
        return Inference(self.regression, self.values, errors, rule, self.tables)

    def errors(self, variances: Matrix, records: int, rule: Rule) -> Matrix:
        """Standard errors by a rule, shape ``(p,)``.

        Args:
            variances: Those that the records' own coefficients have, or are expected to have.
            records: n.
            rule: What the standard errors are about.

        Raises:
            InvalidInputError: There is one table where the rule needs several.
        """
        if rule is Rule.INCOMPLETE:
            return np.sqrt(np.diag(self.between) / self.tables + variances)
        ratio = records / self.rows
        more = {Rule.RECORDS: 0.0, Rule.POPULATION: ratio, Rule.PROPER: ratio + 1}[rule]
        return np.sqrt(variances * (1 + more / self.tables))


def combined(regression: Regression, syntheses: Sequence[Dataset]) -> Combined:
    """Fit a regression to every synthetic table; raises as ``coefficients`` does.

    Raises:
        InvalidInputError: There is no table, or their numbers of rows differ.
    """
    if len({len(table) for table in syntheses}) != 1:
        raise InvalidInputError(field="syntheses", problem="need one or more, of equally many rows")
    fits = [coefficients(regression, table) for table in syntheses]
    return Combined(
        regression,
        each=np.array([fit.values for fit in fits]),
        variances=np.mean([np.diag(fit.covariance) for fit in fits], axis=0),
        rows=len(syntheses[0]),
    )
