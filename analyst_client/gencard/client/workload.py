"""Requested statistics: marginals and moments."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from gencard.client.arguments import checked, whole
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidNumberError
from gencard.core.moment import HIGHEST_ORDER, Moment, MomentKind


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


@checked()
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


@checked()
def mean(attribute: str) -> Moment:
    """The sum of an attribute's declared numbers."""
    return Moment(MomentKind.MEAN, (attribute,))


@checked()
def variance(attribute: str) -> Moment:
    """The sums of its numbers and of their squares."""
    return Moment(MomentKind.VARIANCE, (attribute,))


@checked(order=whole(1, HIGHEST_ORDER))
def moment(attribute: str, order: int) -> Moment:
    """The sum of its numbers to the power of the order, from 1 to 8."""
    return Moment(MomentKind.MOMENT, (attribute,), order)


@checked()
def covariance(one: str, other: str) -> Moment:
    """The sums of two attributes' numbers, and of their products."""
    return Moment(MomentKind.COVARIANCE, (one, other))


@checked()
def group_sums(attribute: str, *, by: str) -> Moment:
    """The sum of an attribute's numbers for each level of a group."""
    return Moment(MomentKind.GROUP_SUMS, (by, attribute))


@checked()
def group_means(attribute: str, *, by: str) -> Moment:
    """The same, with the number of records of each level."""
    return Moment(MomentKind.GROUP_MEANS, (by, attribute))
