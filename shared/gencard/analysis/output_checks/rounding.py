r"""Numbers rounded to the digits that their standard error earns.

Two significant digits of the standard error are kept [1]_: with an error of 0.0234 a number is a
multiple of 0.001. More digits say nothing of the population, and everything of the records: the last
digits of a mean are the sum of its records. A number thus carries at most
:math:`\log_2(\text{range} / \text{error}) + 7` bits about them.

References:
    .. [1] *Evaluation of measurement data: guide to the expression of uncertainty in measurement*,
       JCGM 100:2008, section 7.2.6.
"""

from collections.abc import Sequence
from math import ceil, floor, isfinite, log10, sqrt

import numpy as np

from gencard.core.types import FloatArray

MOST_DIGITS = 6
"""Significant digits of any number, however small its standard error."""

_LEAST_UNIT = 1e-300
"""Below it, numbers have fewer digits than others."""

_LEAST_P = 1e-4
"""Below it, a p-value is 0: the tail says more of single records than of a test."""


def step(error: float) -> float:
    """The unit of the second significant digit of a standard error.

    >>> [step(error) for error in (0.0234, 0.5, 99.0, 1234.0)]
    [0.001, 0.01, 1.0, 100.0]
    """
    return float(f"1e{floor(log10(error)) - 1}")


def to_error(value: float, error: float) -> float:
    """A number as a multiple of the step of its standard error, of ``MOST_DIGITS`` digits at most.

    A number without a finite, positive error has two digits; what is not finite stays.

    >>> to_error(1.234567, 0.0234), to_error(1.234567, float("nan")), to_error(123456.789, 1e-9)
    (1.235, 1.2, 123457.0)
    """
    return to_unit(value, unit_by_error(value, error))


def to_unit(value: float, unit: float) -> float:
    """A number as a multiple of a unit, of ``MOST_DIGITS`` digits at most; what is not finite stays.

    >>> to_unit(7.26, 0.5), to_unit(float("inf"), 0.5)
    (7.5, inf)
    """
    if not isfinite(value):
        return value
    return to_digits(round(value / unit) * unit, MOST_DIGITS)


def unit_by_error(value: float, error: float) -> float:
    """Unit of ``to_error``: the smallest change of a number that its released form can show.

    >>> unit_by_error(1.234567, 0.0234), unit_by_error(1.234567, 0.0), unit_by_error(123456.789, 1e-9)
    (0.001, 0.1, 1.0)
    """
    if not isfinite(error) or error <= 0:
        return unit_by_digits(value, 2)
    return max(step(error), unit_by_digits(value, MOST_DIGITS))


def unit_by_digits(value: float, digits: int) -> float:
    """Unit of the last of so many significant digits; that of a number of size 1 for 0."""
    size = floor(log10(abs(value))) if value and isfinite(value) else 0
    return max(float(f"1e{size - digits + 1}"), _LEAST_UNIT)


def to_digits(value: float, digits: int) -> float:
    """A number of so many significant digits; never -0.

    >>> to_digits(0.012345, 2), to_digits(-0.0, 2)
    (0.012, 0.0)
    """
    return float(f"{value:.{digits}g}") + 0.0


def error_of_size(value: float, records: float) -> float:
    """Standard error of a number without bounds, such as a log-likelihood: its size / sqrt(records)."""
    return abs(value) / sqrt(max(records, 1.0))


def error_of_share(records: float, base: int = 1) -> float:
    """Standard error of a number between 0 and 1, or -1 and 1, at most 1 / 2 / sqrt(records).

    Args:
        base: Counts are told as multiples of it, so a share is told no finer: the error is at least ten
            times the share of so many records.

    >>> [to_error(0.123456, error_of_share(*of)) for of in ((10_000,), (10_000, 5), (500, 5))]
    [0.1235, 0.123, 0.12]
    """
    size = max(records, 1.0)
    unit = 10.0 ** ceil(log10(base / size) - 1e-9)
    return max(0.5 / sqrt(size), 10 * unit)


def error_of_test(statistic: float, degrees: Sequence[float]) -> float:
    """Standard deviation of a chi-squared statistic or an F ratio with its expectation.

    A noncentral chi-squared variable with k degrees of freedom and noncentrality l has the variance
    2 k + 4 l. A statistic near 0 thus has no more digits than others have.

    >>> round(error_of_test(3.0, (1.0,)), 3), round(error_of_test(1.0, (2.0, 90.0)), 3)
    (3.162, 1.0)
    """
    first = max(degrees[0], 1.0)
    scale = first if len(degrees) > 1 else 1.0
    return sqrt(2 * first + 4 * max(abs(statistic) * scale - first, 0.0)) / scale


def of_probability(value: float) -> float:
    """A p-value of two digits, 0 below one in ten thousand.

    >>> of_probability(0.012345), of_probability(3e-9)
    (0.012, 0.0)
    """
    return to_digits(value, 2) if value >= _LEAST_P else value * 0.0


def counts(table: FloatArray, base: int) -> FloatArray:
    """Counts as the nearest multiples of the card's rounding base.

    >>> counts(np.array([12.0, 13.0, 27.5]), 5).tolist()
    [10.0, 15.0, 30.0]
    """
    return np.round(table / base) * float(base)


def covariance(matrix: FloatArray) -> FloatArray:
    """A covariance matrix from standard errors of two digits and correlations of two decimals.

    Symmetric; no longer positive definite where it nearly was not.
    """
    errors = np.sqrt(np.diag(matrix))
    with np.errstate(divide="ignore", invalid="ignore"):
        related = np.round(matrix / np.outer(errors, errors), 2)
    np.fill_diagonal(related, 1.0)
    # Rounded by parts: two digits of a small covariance would say more of a correlation than two
    # decimals.
    digits = np.array([to_digits(float(error), 2) for error in errors])
    return np.asarray(np.nan_to_num(related) * np.outer(digits, digits))


def rounded_count(value: float | None, base: int) -> float | None:
    """A number of records as the nearest multiple of a base, as checked runs round it.

    >>> rounded_count(12.0, 5), rounded_count(None, 5), rounded_count(12.34, 1)
    (10.0, None, 12.34)
    """
    if value is None or base <= 1:
        return value
    return float(counts(np.array([value]), base)[0])
