r"""Rounding of numbers about records to their sampling error.

A number is rounded to a multiple of the smallest of 1, 2 or 5 times a power of ten that is not below its
standard error. The standard error is

* of a share p of m records: :math:`\sqrt{\tilde p (1 - \tilde p) / m}`, where
  :math:`\tilde p = (m p + 2) / (m + 4)` (Agresti and Coull 1998), which is not 0 at p = 0; and never
  less than ten records, so that one record more or less seldom shows;
* of another number between bounds that are ``span`` apart: span / 2 / sqrt(m), the largest of any mean;
* of a number without bounds: its own size / sqrt(m), which no chi-squared statistic goes below.
"""

from collections.abc import Iterable
from math import ceil, floor, isfinite, log10, sqrt

from gencard.measures.privacy.attacks.attack import Proportion

Named = tuple[tuple[str, float | None], ...]
"""Numbers under their names in the literature; None for one that is not defined."""

_BETWEEN = {"JSD": 1.0, "SPECKS": 1.0, "dBhatt": 1.0, "MabsDD": 2.0, "PO50": 100.0}
"""Measures of tables that are bounded, and the width of their range."""

FEWEST = 10
"""Smallest number of records that a rounding step of a share represents."""


def step(error: float) -> float:
    """The smallest number of the form 1, 2 or 5 times a power of ten that is at least ``error``.

    >>> [step(error) for error in (0.0058, 0.2, 0.011, 3.0)]
    [0.01, 0.2, 0.02, 5.0]
    """
    power = floor(log10(error))
    return next(
        size
        for size in (float(f"{digit}e{power}") for digit in (1, 2, 5, 10))
        if size >= error * (1 - 1e-9)
    )


def rounded_share(share: float, size: int) -> float:
    """A share of ``size`` records.

    >>> [rounded_share(share, 1_000) for share in (0.0, 0.004, 0.3333, 1.0)]
    [0.0, 0.0, 0.34, 1.0]
    """
    middle = (size * share + 2) / (size + 4)
    return _nearest(share, max(sqrt(middle * (1 - middle) / size), FEWEST / size))


def rounded_between(value: float, size: int, span: float = 1.0) -> float:
    """A bounded number whose range has width ``span``."""
    return _nearest(value, span / 2 / sqrt(size))


def rounded_freely(value: float, size: int) -> float:
    """A number without bounds, such as a chi-squared statistic.

    >>> rounded_freely(3.2713, 900)
    3.2
    """
    return _nearest(value, abs(value) / sqrt(size)) if value and isfinite(value) else value


def rounded_count(count: int) -> int:
    """A number of records.

    >>> [rounded_count(count) for count in (0, 500, 32_561)]
    [0, 500, 32600]
    """
    return round(_nearest(count, max(sqrt(count), 1.0)))


def rounded_outward(low: float, high: float, size: int) -> tuple[float, float]:
    """An interval of shares, rounded outwards."""
    width = step(1 / 2 / sqrt(size))
    ends = floor(low / width + 1e-9) * width, ceil(high / width - 1e-9) * width
    return max(0.0, _clean(ends[0])), min(1.0, _clean(ends[1]))


def rounded_shares(shares: Iterable[float], size: int) -> tuple[float, ...]:
    """Several shares of ``size`` records."""
    return tuple(rounded_share(share, size) for share in shares)


def rounded_named_shares(shares: Named, size: int) -> Named:
    """Shares of ``size`` records with their names."""
    return tuple((name, None if value is None else rounded_share(value, size)) for name, value in shares)


def rounded_measures(measures: Named, size: int) -> Named:
    """Measures of a table, bounded or not, with their names."""
    return tuple((name, _rounded_measure(name, value, size)) for name, value in measures)


def _rounded_measure(name: str, value: float | None, size: int) -> float | None:
    if value is None:
        return None
    if name in _BETWEEN:
        return rounded_between(value, size, _BETWEEN[name])
    return rounded_freely(value, size)


def rounded_if_known(value: float | None, size: int) -> float | None:
    """A number between 0 and 1, or None."""
    return None if value is None else rounded_between(value, size)


def rounded_gaps(gaps: Iterable[float | None], sizes: Iterable[int]) -> tuple[float | None, ...]:
    """Gaps from -1 to 1, each of its own number of records; None where it is not defined.

    The gap of the rows in a level of fewer than ``FEWEST`` records is rounded as if it had so many.
    """
    return tuple(
        None if gap is None else rounded_between(gap, max(size, FEWEST), 2.0)
        for gap, size in zip(gaps, sizes, strict=True)
    )


def rounded_proportion(proportion: Proportion) -> Proportion:
    """A proportion with rounded attempts."""
    attempts = max(1, rounded_count(proportion.attempts))
    return Proportion(round(rounded_share(proportion.share, attempts) * attempts), attempts)


def _nearest(value: float, error: float) -> float:
    width = step(error)
    return _clean(round(value / width) * width)


def _clean(value: float) -> float:
    """Rounded to the significant digits of floating point; never -0."""
    return float(f"{value:.12g}") + 0.0
