r"""Means, deviations, quantiles, heaps and correlations of numbers, beside what is known of them.

What is known is psi, with bounds where it holds counts of cells and a standard error where it has noise;
or records. Rows differ from it by chance, too, so each figure has a sampling error:

* of a mean :math:`s / \sqrt n`, of a deviation :math:`\sqrt{(m_4 - s^4) / n} / (2 s)` with the fourth
  moment about the mean, of a share :math:`\sqrt{p (1 - p) / n}`;
* of a correlation the standard deviation of :math:`u v - r (u^2 + v^2) / 2` over :math:`\sqrt n`, with
  both numbers standardised: that of its influence function [1]_;
* of what psi tells, at least that of records with its deviation and fourth moment: rows may lack the
  rare large numbers of a long tail, and their own error with these; of a correlation, that of the
  deviations that it is divided by;
* of a quantile half the distance of the order statistics that are one binomial standard deviation of
  ranks below and above. It is judged by ranks: the share of the records up to it, and below it.

References:
    .. [1] S. Devlin, R. Gnanadesikan, J. Kettenring, "Robust Estimation and Outlier Detection with
       Correlation Coefficients", Biometrika 62(3), 1975.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import combinations
from math import ceil, hypot, sqrt
from typing import NamedTuple, Protocol

import numpy as np
import scipy

from gencard.core.coding import Coding, Edges
from gencard.core.dataset import NumbersOf
from gencard.core.domain import Clique
from gencard.core.json_codecs import written
from gencard.core.scale import Scale
from gencard.core.types import FloatArray

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

HEAP = 0.05
"""Least share of the records that have the same number and are compared; of zero, any share."""

MOST_HEAPS = 6
"""Heaps of one attribute that are compared, the largest ones."""

_FALSE_ALARMS = 0.01
"""About how often any figure of rows that follow what is known is beyond chance, or less."""


class Statistic(StrEnum):
    """Figure that is compared."""

    MEAN = "mean"
    SD = "sd"
    QUANTILE = "quantile"
    SHARE = "share"
    CORRELATION = "correlation"


class Source(StrEnum):
    """Source of a known figure."""

    SUMS = "sums"
    HISTOGRAM = "histogram"
    LEVELS = "levels"
    RECORDS = "records"


class Known(NamedTuple):
    """A figure as far as it is known.

    Args:
        value: The figure; from counts of cells, with numbers placed evenly inside them.
        low, high: Bounds of the figure; equal if it is known exactly, but for noise. Those of a quantile
            hold in at least 95 % of draws of the noise.
        noise: Standard deviation of the noise in it.
        stderr: Its own sampling error, if it is computed from records.
        scatter: Sampling error of the figure of n records drawn from what is known, times the root of n;
            0 if it is not known.
    """

    value: float
    low: float
    high: float
    source: Source
    noise: float = 0.0
    stderr: float = 0.0
    scatter: float = 0.0


class Ranks(NamedTuple):
    """Shares of the records that are below a number, and up to it, with their variance."""

    below: float
    upto: float
    variance: float


class KnownNumbers(Protocol):
    """Known figures of numbers; None for a figure that is not known."""

    def mean(self, name: str) -> Known | None: ...

    def sd(self, name: str) -> Known | None: ...

    def quantile(self, name: str, share: float) -> Known | None: ...

    def ranks(self, name: str, number: float, share: float) -> Ranks:
        """Ranks of a number, with the variance that a share of records has."""
        ...

    def heaps(self, name: str) -> list[tuple[float, Known]]:
        """Numbers that many records have, ascending, with their shares of the records with a number."""
        ...

    def correlation(self, one: str, other: str) -> Known | None: ...


@dataclass(frozen=True, slots=True)
class NumberFigure:
    """One figure of a number, or of a pair, as it is known and among the rows.

    Dates count in days since 1970-01-01, times of day in minutes since midnight.

    Args:
        attributes: One name; two of a correlation.
        at: The share that a quantile is of, or the number whose share it is; else None.
        known, low, high, source, noise: As in ``Known``.
        rows: The figure among the rows; None where it is not defined.
        stderr: Sampling error of the difference.
        spread: Standard deviation of the number among the rows, with which a difference can be compared;
            1 of shares and correlations.
        beyond_chance: Whether bounds, noise and sampling do not explain the difference.
    """

    attributes: Clique
    statistic: Statistic
    at: float | None
    known: float
    low: float
    high: float
    source: Source
    noise: float
    rows: float | None
    stderr: float
    spread: float
    beyond_chance: bool = False

    @property
    def difference(self) -> float | None:
        """The rows less what is known: 0 inside the bounds, else the distance from the nearer one."""
        return None if self.rows is None else self.rows - min(max(self.rows, self.low), self.high)


@dataclass(frozen=True, slots=True)
class NumberTable:
    """Figures of all numbers, attribute by attribute, and then of pairs.

    Args:
        without_sd: Attributes whose deviation is not known.
        without_correlation: Pairs whose correlation is not known.
        without_numbers: Attributes of which the rows have levels only.
    """

    figures: tuple[NumberFigure, ...]
    without_sd: Clique = field(default=(), metadata=written(omit=True))
    without_correlation: tuple[Clique, ...] = field(default=(), metadata=written(omit=True))
    without_numbers: Clique = field(default=(), metadata=written(omit=True))

    @property
    def unexplained(self) -> tuple[NumberFigure, ...]:
        """Figures whose difference chance does not explain."""
        return tuple(one for one in self.figures if one.beyond_chance)

    @property
    def drowned(self) -> tuple[NumberFigure, ...]:
        """Figures of which the noise is larger than the difference."""
        return tuple(one for one in self.figures if one.noise > abs(one.difference or 0.0))


def number_scale(coding: Coding, name: str) -> Scale | None:
    """Return the scale of an attribute; None if it has no step."""
    own = coding.attribute(name).coding
    return own.scale if isinstance(own, Edges) else None


def numbers_in(coding: Coding, attributes: Clique) -> Clique:
    """Return the attributes that have a step: whose numbers can be compared."""
    return tuple(name for name in attributes if number_scale(coding, name) is not None)


def compare_with_records(
    coding: Coding, attributes: Clique, rows: NumbersOf, records: NumbersOf
) -> NumberTable | None:
    """Compare the numbers of rows with those of records, as far as the records have them."""
    names = numbers_in(coding, attributes)
    known = {name: numbers for name in names if (numbers := records(name)) is not None}
    return compared(tuple(known), RecordNumbers(known), rows)


class _Judged(NamedTuple):
    """A figure before it is judged: its distance from what is known, and the error of that."""

    figure: NumberFigure
    distance: float
    error: float
    slack: float = 0.0


def compared(names: Clique, known: KnownNumbers, rows: NumbersOf) -> NumberTable | None:
    """Compare the numbers of some attributes among rows with what is known of them; None without one."""
    if not names:
        return None
    judged: list[_Judged] = []
    without_sd, without_numbers = [], []
    for name in names:
        numbers = rows(name)
        if numbers is None:
            without_numbers.append(name)
            continue
        of_name = list(_of_number(name, known, NumberSample.of(numbers)))
        judged += of_name
        if not any(one.figure.statistic is Statistic.SD for one in of_name):
            without_sd.append(name)
    with_numbers = [name for name in names if name not in without_numbers]
    pairs = {pair: known.correlation(*pair) for pair in combinations(with_numbers, 2)}
    judged += [_of_pair(pair, one, rows) for pair, one in pairs.items() if one is not None]
    limit = float(scipy.special.ndtri(1 - _FALSE_ALARMS / 2 / max(len(judged), 1)))
    return NumberTable(
        tuple(
            replace(figure, beyond_chance=distance > limit * error + slack)
            for figure, distance, error, slack in judged
        ),
        tuple(without_sd),
        tuple(pair for pair, one in pairs.items() if one is None),
        tuple(without_numbers),
    )


def _of_number(name: str, known: KnownNumbers, rows: "NumberSample") -> Iterator[_Judged]:
    spread, n = rows.sd or 0.0, max(len(rows.values), 1)
    if (one := known.mean(name)) is not None:
        error = max(rows.mean_error, one.scatter / sqrt(n))
        yield _judged((name,), Statistic.MEAN, None, one, rows.mean, error, spread)
    if (one := known.sd(name)) is not None:
        error = max(rows.sd_error, one.scatter / sqrt(n))
        yield _judged((name,), Statistic.SD, None, one, rows.sd, error, spread)
    for share in QUANTILES:
        if (one := known.quantile(name, share)) is not None:
            yield _quantile(name, share, known, one, rows)
    for number, one in known.heaps(name):
        error = _binomial(one.value, n)
        shown = _judged((name,), Statistic.SHARE, number, one, rows.share(number), error, 1.0)
        yield shown._replace(slack=1 / n)


def _of_pair(pair: Clique, known: Known, rows: NumbersOf) -> _Judged:
    one, other = (rows(name) for name in pair)
    if one is None or other is None:
        return _judged(pair, Statistic.CORRELATION, None, known, None, 0.0, 1.0)
    value, error = correlation(one, other)
    error = max(error, known.scatter / sqrt(_both(one, other)))
    return _judged(pair, Statistic.CORRELATION, None, known, value, error, 1.0)


def _judged(
    attributes: Clique,
    statistic: Statistic,
    at: float | None,
    known: Known,
    rows: float | None,
    error: float,
    spread: float,
) -> _Judged:
    stderr = hypot(error, known.stderr)
    figure = NumberFigure(
        attributes, statistic, at, known.value, known.low, known.high, known.source, known.noise, rows,
        stderr, spread,
    )  # fmt: skip
    rounding = 1e-9 * max(abs(known.low), abs(known.high), spread)
    return _Judged(figure, abs(figure.difference or 0.0), hypot(stderr, known.noise), rounding)


def _quantile(name: str, share: float, known: KnownNumbers, one: Known, rows: "NumberSample") -> _Judged:
    """A quantile of the rows differs if too few of the records are up to it, or too many below."""
    value, error = rows.quantile(share)
    figure = _judged((name,), Statistic.QUANTILE, share, one, value, error, rows.sd or 0.0).figure
    if value is None:
        return _Judged(figure, 0.0, 0.0)
    ranks, n = known.ranks(name, value, share), len(rows.values)
    distance = max(ranks.below - share, share - ranks.upto, 0.0)
    return _Judged(figure, distance, sqrt(share * (1 - share) / n + ranks.variance), 1 / n)


def _binomial(share: float, records: int) -> float:
    inside = min(max(share, 0.0), 1.0)
    return sqrt(inside * (1 - inside) / max(records, 1))


@dataclass(frozen=True, eq=False)
class NumberSample:
    """Numbers of an attribute, ascending, without missing ones."""

    values: FloatArray

    @classmethod
    def of(cls, numbers: FloatArray) -> "NumberSample":
        """Return the sample of numbers of shape ``(n,)``, of which NaN is "missing"."""
        return cls(np.sort(numbers[~np.isnan(numbers)]))

    @cached_property
    def mean(self) -> float | None:
        return float(self.values.mean()) if len(self.values) else None

    @cached_property
    def sd(self) -> float | None:
        """Standard deviation, with one degree of freedom less than numbers."""
        return float(self.values.std(ddof=1)) if len(self.values) > 1 else None

    @property
    def mean_error(self) -> float:
        return (self.sd or 0.0) / sqrt(max(len(self.values), 1))

    @cached_property
    def sd_error(self) -> float:
        if not self.sd:
            return 0.0
        fourth = float((((self.values - self.values.mean()) / self.sd) ** 4).mean())
        return self.sd * sqrt(max(fourth - 1, 0.0) / len(self.values)) / 2

    def quantile(self, share: float) -> tuple[float | None, float]:
        """The value of rank max(1, ceil(share n)), and its sampling error."""
        n = len(self.values)
        if not n:
            return None, 0.0
        wide = sqrt(n * share * (1 - share))
        low, middle, high = (
            self.values[min(max(ceil(round(rank, 9)), 1), n) - 1]
            for rank in (n * share - wide, n * share, n * share + wide)
        )
        return float(middle), float(high - low) / 2

    def ranks(self, number: float) -> tuple[float, float]:
        """Shares of the numbers that are below a number, and up to it."""
        low, high = (np.searchsorted(self.values, number, side) for side in ("left", "right"))
        return float(low) / len(self.values), float(high) / len(self.values)

    def share(self, number: float) -> float | None:
        """Share of the numbers that equal one; None without a number."""
        if not len(self.values):
            return None
        below, upto = self.ranks(number)
        return upto - below


def _both(one: FloatArray, other: FloatArray) -> int:
    """Number of records that have both numbers; at least 1."""
    return max(int(np.count_nonzero(~np.isnan(one + other))), 1)


def correlation(one: FloatArray, other: FloatArray) -> tuple[float | None, float]:
    """Return Pearson's correlation of the records that have both numbers, and its sampling error.

    Args:
        one, other: Shape ``(n,)``; NaN is "missing".

    Returns:
        None and 0 where either number does not vary.
    """
    both = ~(np.isnan(one) | np.isnan(other))
    centred = [numbers[both] - numbers[both].mean() for numbers in (one, other) if both.any()]
    if not centred or not all(np.any(numbers) for numbers in centred):
        return None, 0.0
    u, v = (numbers / numbers.std() for numbers in centred)
    r = float((u * v).mean())
    return r, float((u * v - r * (u**2 + v**2) / 2).std()) / sqrt(len(u))


@dataclass(frozen=True, slots=True, eq=False)
class RecordNumbers:
    """Figures of records; numbers by attribute, shape ``(n,)``, NaN is "missing"."""

    numbers: dict[str, FloatArray]
    _samples: dict[str, NumberSample] = field(default_factory=dict, repr=False)

    def _sample(self, name: str) -> NumberSample:
        if name not in self._samples:
            self._samples[name] = NumberSample.of(self.numbers[name])
        return self._samples[name]

    def mean(self, name: str) -> Known | None:
        sample = self._sample(name)
        return _measured(sample.mean, sample.mean_error, len(sample.values))

    def sd(self, name: str) -> Known | None:
        sample = self._sample(name)
        return _measured(sample.sd, sample.sd_error, len(sample.values))

    def quantile(self, name: str, share: float) -> Known | None:
        return _measured(*self._sample(name).quantile(share), 0)

    def ranks(self, name: str, number: float, share: float) -> Ranks:
        sample = self._sample(name)
        return Ranks(*sample.ranks(number), share * (1 - share) / len(sample.values))

    def heaps(self, name: str) -> list[tuple[float, Known]]:
        numbers, counts = np.unique(self._sample(name).values, return_counts=True)
        n = max(int(counts.sum()), 1)
        shares = dict(zip(numbers.tolist(), (counts / n).tolist(), strict=True))
        known = {
            number: Known(share, share, share, Source.RECORDS, stderr=_binomial(share, n))
            for number, share in shares.items()
        }
        return largest_heaps(known)

    def correlation(self, one: str, other: str) -> Known | None:
        pair = self.numbers[one], self.numbers[other]
        return _measured(*correlation(*pair), _both(*pair))


def _measured(value: float | None, stderr: float, records: int) -> Known | None:
    """Args: records, 0 where their error says nothing of rows."""
    if value is None:
        return None
    scatter = stderr * sqrt(records)
    return Known(value, value, value, Source.RECORDS, stderr=stderr, scatter=scatter)


def largest_heaps(shares: dict[float, Known]) -> list[tuple[float, Known]]:
    """The largest heaps among numbers with known shares."""
    heaps = [
        (number, known)
        for number, known in shares.items()
        if known.value >= HEAP or (number == 0 and known.value > 0)
    ]
    largest = sorted(heaps, key=lambda pair: (-pair[1].value, pair[0]))[:MOST_HEAPS]
    return sorted(largest)
