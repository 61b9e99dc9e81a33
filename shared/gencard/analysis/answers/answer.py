"""The answer to an analysis, the same from psi, from a checked run and from a reviewed one."""

from dataclasses import dataclass, field

import numpy as np
import scipy

from gencard.core.domain import Clique
from gencard.core.json_codecs import Json, written
from gencard.core.typed_json import PLAIN
from gencard.core.types import FloatArray

EXACT = "exact"
"""Value of ``noise`` for an answer or number without noise."""

NOISE = "noise"
"""The table of what noise adds to standard errors, and of its spread in numbers without an interval."""


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Estimates of a model, under the names of statsmodels.

    Args:
        names: One for each coefficient, such as ``C(sex)[T.male]``.
        covariance: Covariance of the estimates, one row for each; includes the noise of psi, if any.
        statistic: "t" or "z".
        degrees: Residual degrees of freedom; None for z.

    >>> Coefficients(("x",), (1.96,), ((1.0,),)).pvalues.round(3).tolist()
    [0.05]
    """

    names: tuple[str, ...]
    params: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    statistic: str = "z"
    degrees: float | None = None

    @property
    def bse(self) -> FloatArray:
        """Standard errors."""
        return np.sqrt(np.diag(np.reshape(self.covariance, (len(self.names),) * 2)))

    @property
    def tvalues(self) -> FloatArray:
        """Estimates in units of their standard errors: t or z, as ``statistic`` says."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios: FloatArray = np.asarray(self.params) / self.bse
        return ratios

    @property
    def pvalues(self) -> FloatArray:
        """Two-sided p-values, by the normal or Student's distribution."""
        below = -np.abs(self.tvalues)
        if self.degrees is None:
            share = scipy.special.ndtr(below)
        else:
            share = scipy.special.stdtr(self.degrees, below)
        return np.asarray(2 * np.asarray(share, dtype=np.float64))

    def conf_int(self, alpha: float = 0.05) -> FloatArray:
        """Lower and upper ends of the 1 - ``alpha`` intervals, shape ``(coefficients, 2)``."""
        if alpha == 0:
            reach = np.inf
        elif self.degrees is None:
            reach = -float(scipy.special.ndtri(alpha / 2))
        else:
            reach = -float(scipy.special.stdtrit(self.degrees, alpha / 2))
        half = reach * self.bse
        return np.stack([np.asarray(self.params) - half, np.asarray(self.params) + half], axis=1)


@dataclass(frozen=True, slots=True)
class Scalar:
    """One number of an answer.

    Args:
        name: Name as in statsmodels or in statistics: llf, deviance, rsquared, chi2, cramers_v.
        value: The number; None if the records do not define it.
        standard_error: Standard error; None if the number has none.
        degrees: Degrees of freedom of a test: one number, or those of numerator and denominator.
        pvalue: P value, if the number is the statistic of a test.
    """

    name: str
    value: float | None
    standard_error: float | None = None
    degrees: tuple[float, ...] = ()
    pvalue: float | None = None


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """A table of numbers; None where the records do not define one."""

    name: str
    row_names: tuple[str, ...]
    column_names: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, slots=True)
class AnalysisAnswer:
    """Answer to an analysis.

    Args:
        kind: The analysis, such as "logistic".
        formula: Formula of the question, as it was read.
        n: Number of records that the answer is about.
        coefficients: Coefficients of the model; None if the answer has no model.
        rests_on: The measured marginals that were used.
        noise: "exact", or which noise the measurements have.
        notes: Notes for the reader, each a sentence.
        sums: The sums of numbers that were used, in words.
    """

    kind: str
    formula: str
    n: float
    coefficients: Coefficients | None = None
    scalars: tuple[Scalar, ...] = ()
    tables: tuple[AnswerTable, ...] = ()
    rests_on: tuple[Clique, ...] = ()
    noise: str = EXACT
    notes: tuple[str, ...] = ()
    sums: tuple[str, ...] = field(default=(), metadata=written(omit=True))

    def __getitem__(self, name: str) -> float | None:
        """The value of a scalar, such as ``answer["llf"]``.

        Raises:
            KeyError: There is none of this name.
        """
        return self.scalar(name).value

    def scalar(self, name: str) -> Scalar:
        """Raises KeyError where there is none of this name."""
        for scalar in self.scalars:
            if scalar.name == name:
                return scalar
        raise KeyError(name)

    def table(self, name: str) -> AnswerTable:
        """Raises KeyError where there is none of this name."""
        for table in self.tables:
            if table.name == name:
                return table
        raise KeyError(name)

    def to_json(self) -> Json:
        """The one form of documents, bundles and signed answers."""
        json: Json = _ANSWER.write(self)
        return json

    @classmethod
    def of_json(cls, json: object) -> "AnalysisAnswer":
        """The inverse of ``to_json``; raises InvalidInputError where the form is another one."""
        answer: AnalysisAnswer = _ANSWER.read(json, "answer")
        return answer


_ANSWER = PLAIN.codec(AnalysisAnswer)


def numbers_in_json(answer: object) -> int:
    """Count the numbers that a JSON value holds, at any depth; of a covariance matrix each pair once."""
    if isinstance(answer, dict):
        whole = sum(map(numbers_in_json, answer.values()))
        size = len(answer.get("covariance", ()))
        return whole - size * (size - 1) // 2
    if isinstance(answer, list):
        return sum(map(numbers_in_json, answer))
    return int(isinstance(answer, int | float) and not isinstance(answer, bool))


def finite(value: float) -> float | None:
    """A number that JSON can hold; None for what is not defined."""
    return float(value) if np.isfinite(value) else None


def table_of(
    name: str, rows: tuple[str, ...], columns: tuple[str, ...], values: FloatArray
) -> AnswerTable:
    """A table of an array of shape ``(rows, columns)``; NaN is not defined."""
    return AnswerTable(name, rows, columns, tuple(tuple(map(finite, row)) for row in values))


def coefficients_of(
    names: tuple[str, ...], params: FloatArray, covariance: FloatArray, degrees: float | None = None
) -> Coefficients:
    """Coefficients of arrays; t where degrees of freedom are given, else z."""
    rows = tuple(tuple(map(float, row)) for row in covariance)
    statistic = "z" if degrees is None else "t"
    return Coefficients(names, tuple(map(float, params)), rows, statistic, degrees)
