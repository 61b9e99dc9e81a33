"""Short ways to say which statistics are wanted."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidNumberError
from gencard.core.moment import Moment


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


Asked = Sequence[str] | Moment | AllMarginals

Marginals = AllMarginals | Iterable[Asked]
"""What ``propose`` takes: cliques, and among them moments."""


def all_marginals(order: int = 2, attributes: Iterable[str] | None = None) -> AllMarginals:
    """Every marginal of an order.

    >>> all_marginals(order=2, attributes=["a", "b", "c"]).cliques(Domain.of({"a": 2, "b": 2, "c": 3}))
    (('a', 'b'), ('a', 'c'), ('b', 'c'))
    """
    return AllMarginals(order, None if attributes is None else tuple(attributes))


def phi_of(marginals: Marginals, domain: Domain) -> tuple[tuple[Clique, ...], tuple[Moment, ...]]:
    """The cliques and the moments, as they were asked for."""
    cliques: list[Clique] = []
    moments: list[Moment] = []
    for asked in [marginals] if isinstance(marginals, AllMarginals) else marginals:
        match asked:
            case Moment():
                moments.append(asked)
            case AllMarginals():
                cliques.extend(asked.cliques(domain))
            case _:
                cliques.append((asked,) if isinstance(asked, str) else tuple(asked))
    return tuple(cliques), tuple(moments)
