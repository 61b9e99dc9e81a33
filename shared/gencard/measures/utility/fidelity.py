r"""Fidelity of released rows to psi, compared with the expected sampling error, and gaps of two groups.

The distance between a marginal's shares in psi and among the rows is their total variation: the share of
the rows that would have to move. It is compared with what n rows drawn from the
shares p of psi would have.

Total variation is :math:`TV = \frac{1}{2} \sum_i |p_i - q_i|` with the shares q of the rows. The count
of a cell is binomial, and its mean absolute deviation known in closed form [1]_:

.. math:: E |p_i - q_i| = \frac{2}{n} \nu_i (1 - p_i) P(B(n, p_i) = \nu_i), \quad
   \nu_i = \lfloor n p_i \rfloor + 1

With :math:`s_i^2 = p_i (1 - p_i) / n - (E |p_i - q_i|)^2`, the variance of :math:`|p_i - q_i|`, and the
squared correlation of two counts :math:`\rho_{ij}^2 = p_i p_j / ((1 - p_i)(1 - p_j))`,

.. math:: Var(TV) \approx \frac{1}{4} \Big( \sum_i s_i^2 + \sum_{i \ne j} \rho_{ij}^2 s_i s_j \Big)

which is exact for two cells, and for many rows an upper bound: absolute values of normal deviates are
correlated by at most :math:`\rho^2`.

References:
    .. [1] A. de Moivre, 1730; P. Diaconis, S. Zabell, "Closed Form Summation for Classical
       Distributions: Variations on a Theme of De Moivre", Statistical Science 6, 1991.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import pi, sqrt
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from gencard.core.card.sums import has_wide_levels
from gencard.core.coding import Coding
from gencard.core.dataset import Dataset, NumbersOf, check_same_domain
from gencard.core.derived_cells import invented_in
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError, InvalidPsiError
from gencard.core.json_codecs import written
from gencard.core.statistics.marginals import count, count_all
from gencard.core.statistics.psi import Measurement, Psi, check_consistent, reconcile
from gencard.core.types import FloatArray
from gencard.measures.utility.numbers import NumberTable
from gencard.measures.utility.psi_numbers import compare_with_psi

# Gaps between two groups, such as the gender gap of each occupation, and how well they are kept.
#
# The gap in level w is :math:`P(A = a \mid W = w) - P(A = b \mid W = w)` among the records looked at.
# The error of a synthetic dataset is the root mean square over the levels of W, each counted alike.
# Houssiau et al. (2022, Table 1) let the gap of a level without records be 0, as ``gaps`` does. Reports
# call it undefined, and leave such levels out of the error (``gap_error`` with ``fewest``).


@dataclass(frozen=True, slots=True)
class Gap:
    """Identity of a gap; levels are codes.

    Args:
        attribute: The attribute A.
        levels: Its two levels, a and b.
        within: The attribute W.
        among: An attribute, and those of its levels whose records are looked at; None for all records.
    """

    attribute: str
    levels: tuple[int, int]
    within: str
    among: tuple[str, tuple[int, ...]] | None = None


@dataclass(frozen=True, slots=True)
class GapWords:
    """Difference between the shares of two groups, which the evaluation ``gap`` compares.

    Args:
        attribute: Attribute that defines the two groups.
        first: Level of the first group.
        second: Level of the second group; its share is subtracted.
        within: Attribute in each level of which the difference is computed.
        among: Attribute that selects records; by default all records count. It needs ``levels``.
        levels: Levels of ``among`` whose records count.
    """

    attribute: str
    first: str
    second: str
    within: str
    among: str = ""
    levels: tuple[str, ...] = ()

    @property
    def attributes(self) -> Clique:
        """Attributes that the gap names."""
        return (self.attribute, self.within, *([self.among] if self.among else []))


def gap_of(words: GapWords, coding: Coding) -> Gap:
    """The gap that is meant.

    Raises:
        UnknownAttributeError: The schema has no such attribute.
        InvalidInputError: Two attributes or both levels are the same, there is no such level, or levels
            are named without an attribute or the other way round.
    """
    if len(set(words.attributes)) != len(words.attributes) or words.first == words.second:
        raise InvalidInputError(field="gap", problem="must not repeat an attribute or a level")
    if bool(words.among) != bool(words.levels):
        raise InvalidInputError(
            field="gap", problem="needs an attribute and levels for its subpopulation, or neither"
        )
    levels = _code(coding, words.attribute, words.first), _code(coding, words.attribute, words.second)
    among = tuple(_code(coding, words.among, level) for level in words.levels)
    coding.domain.axis(words.within)
    return Gap(words.attribute, levels, words.within, (words.among, among) if words.among else None)


def _code(coding: Coding, attribute: str, level: str) -> int:
    names = coding.attribute(attribute).coding.level_names
    if level not in names:
        raise InvalidInputError(field="gap", problem=f"names a level that {attribute} does not have")
    return names.index(level)


def gaps(dataset: Dataset, gap: Gap) -> NDArray[np.float64]:
    """The gap in each level of ``gap.within``, from -1 to 1; 0 in a level without records."""
    counts = _counts(dataset, gap)
    first, second = (counts[:, level] for level in gap.levels)
    return np.asarray((first - second) / np.maximum(counts.sum(axis=1), 1))


def records_within(dataset: Dataset, gap: Gap) -> NDArray[np.int64]:
    """Records looked at in each level of ``gap.within``."""
    return np.asarray(_counts(dataset, gap).sum(axis=1))


def _counts(dataset: Dataset, gap: Gap) -> NDArray[np.int64]:
    """Count the levels of W and of A, among the records of the population."""
    if gap.among is None:
        return count(dataset, (gap.within, gap.attribute))
    population, codes = gap.among
    return np.asarray(count(dataset, (population, gap.within, gap.attribute))[list(codes)].sum(axis=0))


def gap_error(original: Dataset, synthetic: Dataset, gap: Gap, *, fewest: int = 0) -> float | None:
    """Root mean squared difference of the gaps, from 0 to 2.

    Args:
        fewest: Fewest original records of a level that counts. If 1 or more, only levels count that
            have synthetic records too.

    Returns:
        None where no level counts.

    Raises:
        DomainMismatchError: The domains differ.
    """
    check_same_domain(original.domain, synthetic.domain)
    squares = (gaps(original, gap) - gaps(synthetic, gap)) ** 2
    if fewest:
        compared = records_within(synthetic, gap) > 0
        squares = squares[compared & (records_within(original, gap) >= fewest)]
    return float(np.sqrt(np.mean(squares))) if len(squares) else None


Shares = FloatArray
"""Shares of a marginal's cells; they sum to 1."""

FALSE_ALARMS = 0.01
"""About how often rows drawn from psi itself exceed the bound of any marginal, or less."""

WORST_CELLS = 5


@dataclass(frozen=True, slots=True)
class CellFidelity:
    """One cell of a marginal, in shares of 1.

    Args:
        codes: The cell, one code for each attribute of the clique.
        target: Its share in psi.
        released: Its share among the rows.
        stderr: Standard deviation of the latter where rows are drawn from psi.
    """

    codes: tuple[int, ...]
    target: float = field(metadata=written("asked"))
    released: float
    stderr: float


@dataclass(frozen=True, slots=True)
class MarginalFidelity:
    """One marginal of psi beside that of the rows, in shares of 1.

    Args:
        stddev: Noise on each count of psi, in records; not part of the distances.
        total_variation: Between psi and the rows.
        expected: Total variation expected from sampling alone.
        bound: What sampling alone exceeds in no marginal but for about ``FALSE_ALARMS`` of releases.
        worst: Cells that differ most, the worst first.
    """

    clique: Clique
    cells: int
    stddev: float
    total_variation: float
    expected: float
    bound: float
    worst: tuple[CellFidelity, ...]

    @property
    def beyond_chance(self) -> bool:
        """Whether it is further from psi than rows drawn from psi are."""
        return self.total_variation > self.bound


@dataclass(frozen=True, slots=True)
class DrownedMarginal:
    """A marginal of which the noise in psi is larger than the distance of the rows.

    Args:
        noise: Total variation between the records and psi that is expected from noise alone, before
            marginals are reconciled, in shares of 1.
        total_variation: Between psi and the rows.
    """

    clique: Clique
    noise: float
    total_variation: float


@dataclass(frozen=True, slots=True)
class Unseen:
    """Properties of records that a comparison of rows with psi does not see.

    Args:
        invented: Attributes whose values inside levels are invented, as psi has no histogram of them.
        by_levels: Pairs in a marginal of psi of which at least one is a number in wider levels, and of
            whose effect on each other inside levels psi says nothing.
        by_sums: Such pairs of which psi has a sum; rows follow levels, and have none of these effects.
        drowned: The largest noise first.
    """

    invented: Clique = ()
    by_levels: tuple[Clique, ...] = ()
    by_sums: tuple[Clique, ...] = ()
    drowned: tuple[DrownedMarginal, ...] = ()


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Fidelity of rows to psi.

    Args:
        marginals: In psi's order.
        numbers: Figures of numbers; None where the rows' numbers or the schema are not known.
        unseen: What these do not see; None if nothing, or where the schema is not known.
    """

    rows: int
    marginals: tuple[MarginalFidelity, ...]
    numbers: NumberTable | None = field(default=None, metadata=written(omit=True))
    unseen: Unseen | None = field(default=None, metadata=written(omit=True))

    @property
    def largest(self) -> MarginalFidelity:
        """The marginal with the largest total variation."""
        return max(self.marginals, key=lambda marginal: marginal.total_variation)

    @property
    def unexplained(self) -> tuple[MarginalFidelity, ...]:
        """Marginals that are further from psi than chance explains."""
        return tuple(marginal for marginal in self.marginals if marginal.beyond_chance)


def fidelity(
    psi: Psi,
    rows: Dataset,
    *,
    worst: int = WORST_CELLS,
    coding: Coding | None = None,
    numbers: NumbersOf | None = None,
) -> Fidelity:
    """Compare rows with the marginals of psi; noisy ones are reconciled first, as for a fit.

    Args:
        psi: All measurements, if numbers are compared.
        worst: At most so many cells are named for each marginal.
        coding: The schema, to say what the comparison does not see.
        numbers: Numbers of the rows, which are compared with psi, too, if there is a schema.

    Raises:
        DomainMismatchError: The rows are not over psi's domain.
        InvalidInputError: There is no row.
        InvalidPsiError: psi contradicts itself, or it holds linear statistics and no marginal.
    """
    known, psi = psi, psi.fitted
    check_same_domain(psi.domain, rows.domain)
    if not len(rows):
        raise InvalidInputError(
            field="rows", problem="must contain at least one row to compare with psi"
        )
    if not psi.measurements:
        raise InvalidPsiError(problem="it has no marginal to compare rows with")
    plain = Psi(psi.domain, psi.measurements)
    if plain.exact:
        check_consistent(plain)
    else:
        plain = reconcile(plain)
    pairs = zip(plain.measurements, count_all(rows, psi.cliques), strict=True)
    share = FALSE_ALARMS / len(psi.cliques)
    marginals = tuple(_compared(one, counts, share, worst) for one, counts in pairs)
    if coding is None:
        return Fidelity(len(rows), marginals)
    return Fidelity(
        len(rows),
        marginals,
        None if numbers is None else compare_with_psi(known, coding, rows.domain.attributes, numbers),
        _unseen(known, coding, marginals),
    )


def _unseen(psi: Psi, coding: Coding, marginals: Sequence[MarginalFidelity]) -> Unseen | None:
    """Effects that the comparison cannot show; None if there are none."""
    names = psi.fitted.domain.attributes
    histograms = tuple(one.attribute for one in psi.histograms)
    wide = {name for name in names if has_wide_levels(coding, name)}
    pairs = dict.fromkeys(pair for clique in psi.cliques for pair in combinations(clique, 2))
    summed = {
        pair
        for one in psi.sums
        for pair in combinations(coding.domain.canonical(tuple({*one.sum.of, *one.sum.by})), 2)
        if wide.intersection(one.sum.of, pair)
    }
    inside = [pair for pair in pairs if wide.intersection(pair)]
    records = {one.clique: float(one.values.sum()) for one in psi.measurements}

    def noise_of(marginal: MarginalFidelity) -> float:
        """Half the sum of the mean absolute deviations of all counts, in shares; at most 1."""
        deviation, size = marginal.stddev * sqrt(2 / pi), records[marginal.clique]
        return min(marginal.cells * deviation / 2 / size, 1.0) if size > 0 and deviation else 0.0

    drowned = [
        DrownedMarginal(one.clique, noise, one.total_variation)
        for one in marginals
        if (noise := noise_of(one)) > one.total_variation
    ]
    unseen = Unseen(
        invented_in(coding, names, histograms),
        tuple(pair for pair in inside if pair not in summed),
        tuple(pair for pair in inside if pair in summed),
        tuple(sorted(drowned, key=lambda one: -one.noise)),
    )
    return None if unseen == Unseen() else unseen


def _compared(
    measurement: Measurement, counts: NDArray[Any], false_alarms: float, worst: int
) -> MarginalFidelity:
    rows = int(counts.sum())
    target, shares = measurement.values / measurement.values.sum(), counts / rows
    expected, bound = sampling_variation(target, rows, false_alarms)
    apart = np.abs(target - shares).ravel()
    places = [place for place in np.argsort(-apart, kind="stable")[:worst] if apart[place] > 0]
    cells = [tuple(map(int, np.unravel_index(place, target.shape))) for place in places]
    return MarginalFidelity(
        clique=measurement.clique,
        cells=counts.size,
        stddev=measurement.stddev,
        total_variation=float(np.abs(target - shares).sum() / 2),
        expected=expected,
        bound=bound,
        worst=tuple(
            CellFidelity(
                codes=cell,
                target=float(target[cell]),
                released=float(shares[cell]),
                stderr=sqrt(float(target[cell] * (1 - target[cell])) / rows),
            )
            for cell in cells
        ),
    )


def sampling_variation(shares: Shares, rows: int, probability: float) -> tuple[float, float]:
    """Total variation between ``shares`` and those of so many rows drawn from them: mean and bound.

    The bound is exceeded with about this probability, or less: the quantile of the gamma distribution
    with the mean and the variance above, and one row more, since counts are whole. It is an
    approximation: ``tests/core/test_sampling_error.py`` tries it.
    """
    uncertain = shares[(shares > 0) & (shares < 1)]  # counts that are not known in advance
    nearest = np.minimum(np.floor(rows * uncertain) + 1, rows)
    log_chance = (
        scipy.special.xlogy(nearest, uncertain)
        + scipy.special.xlog1py(rows - nearest, -uncertain)
        - scipy.special.betaln(rows - nearest + 1, nearest + 1)
        - np.log(rows + 1)
    )
    # The mean absolute deviation of each cell's share.
    deviations: Shares = 2 * nearest * (1 - uncertain) * np.exp(log_chance) / rows
    mean = float(deviations.sum() / 2)
    stddevs = np.sqrt(np.maximum(uncertain * (1 - uncertain) / rows - deviations**2, 0.0))
    shared = stddevs * uncertain / (1 - uncertain)
    # The sum over pairs is a square less its diagonal.
    variance = float((stddevs @ stddevs + shared.sum() ** 2 - shared @ shared) / 4)
    if variance == 0:
        return mean, mean + 1 / rows
    quantile = scipy.special.gammainccinv(mean**2 / variance, probability)
    return mean, float(quantile * variance / mean + 1 / rows)
