r"""Gaps between two groups, such as the gender gap of each occupation, and how well they are kept.

The gap in level w is :math:`P(A = a \mid W = w) - P(A = b \mid W = w)` among the records looked at. The
error of a synthetic dataset is the root mean square over the levels of W, each counted alike. Houssiau
et al. (2022, Table 1) let the gap of a level without records be 0, as ``gaps`` does. Reports call it
undefined, and leave such levels out of the error (``gap_error`` with ``fewest``).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.coding import Coding
from gencard.core.dataset import Dataset, check_same_domain
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError
from gencard.core.statistics.marginals import count


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
    """The gap in each level of ``gap.within``, from -1 to 1; 0 in a level without records.

    Raises:
        TooLargeError: More cells than may be counted.
        UnknownAttributeError: An attribute is not in the domain.
    """
    counts = _counts(dataset, gap)
    first, second = (counts[:, level] for level in gap.levels)
    return np.asarray((first - second) / np.maximum(counts.sum(axis=1), 1))


def records_within(dataset: Dataset, gap: Gap) -> NDArray[np.int64]:
    """Records looked at in each level of ``gap.within``; raises as ``gaps`` does."""
    return np.asarray(_counts(dataset, gap).sum(axis=1))


def _counts(dataset: Dataset, gap: Gap) -> NDArray[np.int64]:
    """Count the levels of W and of A, among the records of the population."""
    if gap.among is None:
        return count(dataset, (gap.within, gap.attribute))
    population, codes = gap.among
    return np.asarray(count(dataset, (population, gap.within, gap.attribute))[list(codes)].sum(axis=0))


def gap_error(original: Dataset, synthetic: Dataset, gap: Gap, *, fewest: int = 0) -> float | None:
    """Root mean squared difference of the gaps, from 0 to 2; raises as ``gaps`` does.

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
