"""Short ways to say which marginals are wanted."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidNumberError


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


Marginals = AllMarginals | Iterable[Sequence[str]]
"""What ``propose`` takes."""


def all_marginals(order: int = 2, attributes: Iterable[str] | None = None) -> AllMarginals:
    """Every marginal of an order.

    >>> all_marginals(order=2, attributes=["a", "b", "c"]).cliques(Domain.of({"a": 2, "b": 2, "c": 3}))
    (('a', 'b'), ('a', 'c'), ('b', 'c'))
    """
    return AllMarginals(order, None if attributes is None else tuple(attributes))


def cliques_of(marginals: Marginals, domain: Domain) -> tuple[Clique, ...]:
    """The cliques, as they were asked for."""
    if isinstance(marginals, AllMarginals):
        return marginals.cliques(domain)
    return tuple((clique,) if isinstance(clique, str) else tuple(clique) for clique in marginals)
