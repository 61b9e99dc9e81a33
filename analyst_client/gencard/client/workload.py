"""Requested statistics and numbers: marginals, moments, rows and seeds, checked before they are sent."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import index

from gencard.core.card.terms import MOST_ROWS
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidNumberError
from gencard.core.moment import Moment, MomentKind

LARGEST_WORD = 2**64 - 1
"""Of seeds and of positions in the log: unsigned 64-bit numbers on the wire."""


@dataclass(frozen=True, slots=True)
class AllMarginals:
    """Every set of ``order`` attributes, among those named or among all."""

    order: int
    attributes: Clique | None = None

    def cliques(self, domain: Domain) -> tuple[Clique, ...]:
        """Raises UnknownAttributeError, InvalidCliqueError or InvalidNumberError."""
        names = domain.attributes if self.attributes is None else domain.canonical(self.attributes)
        if not 1 <= self.order <= len(names):
            raise InvalidNumberError(field="order", expected=f"from 1 to {len(names)}")
        return tuple(combinations(names, self.order))


Statistic = Sequence[str] | Moment | AllMarginals

Marginals = AllMarginals | Iterable[Statistic]
"""Cliques and moments, as ``propose`` takes them."""


def all_marginals(order: int = 2, attributes: Iterable[str] | None = None) -> AllMarginals:
    """Every marginal of an order.

    >>> all_marginals(order=2, attributes=["a", "b", "c"]).cliques(Domain.of({"a": 2, "b": 2, "c": 3}))
    (('a', 'b'), ('a', 'c'), ('b', 'c'))
    """
    return AllMarginals(order, None if attributes is None else tuple(attributes))


def phi_of(marginals: Marginals, domain: Domain) -> tuple[tuple[Clique, ...], tuple[Moment, ...]]:
    """The cliques and the moments, in the order given."""
    cliques: list[Clique] = []
    moments: list[Moment] = []
    for statistic in [marginals] if isinstance(marginals, AllMarginals) else marginals:
        match statistic:
            case Moment():
                moments.append(statistic)
            case AllMarginals():
                cliques.extend(statistic.cliques(domain))
            case _:
                cliques.append((statistic,) if isinstance(statistic, str) else tuple(statistic))
    return tuple(cliques), tuple(moments)


def mean(attribute: str) -> Moment:
    """The sum of an attribute's declared numbers."""
    return Moment(MomentKind.MEAN, (attribute,))


def variance(attribute: str) -> Moment:
    """The sums of its numbers and of their squares."""
    return Moment(MomentKind.VARIANCE, (attribute,))


def moment(attribute: str, order: int) -> Moment:
    """The sum of its numbers to the power of the order, from 1 to 8."""
    return Moment(MomentKind.MOMENT, (attribute,), order)


def covariance(one: str, other: str) -> Moment:
    """The sums of two attributes' numbers, and of their products."""
    return Moment(MomentKind.COVARIANCE, (one, other))


def group_sums(attribute: str, *, by: str) -> Moment:
    """The sum of an attribute's numbers for each level of a group."""
    return Moment(MomentKind.GROUP_SUMS, (by, attribute))


def group_means(attribute: str, *, by: str) -> Moment:
    """The same, with the number of records of each level."""
    return Moment(MomentKind.GROUP_MEANS, (by, attribute))


def checked_number(field: str, value: int, least: int, most: int) -> int:
    """A whole number within bounds.

    >>> checked_number("rows", 7, 1, 10)
    7

    Raises:
        InvalidNumberError: It is not a whole number, or out of bounds.
    """
    expected = f"a whole number from {least} to {most}"
    try:
        number = index(value)
    except TypeError:
        raise InvalidNumberError(field=field, expected=expected) from None
    if not least <= number <= most:
        raise InvalidNumberError(field=field, expected=expected)
    return number


def checked_rows(rows: int) -> int:
    """The number of rows of a release or of a run; raises InvalidNumberError."""
    return checked_number("rows", rows, 1, MOST_ROWS)


def checked_seed(seed: int) -> int:
    """A seed; raises InvalidNumberError."""
    return checked_number("seed", seed, 0, LARGEST_WORD)
