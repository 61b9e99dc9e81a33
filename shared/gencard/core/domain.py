"""Attributes and their sizes: what everybody knows before any record is read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from gencard.core.errors import InvalidCliqueError, InvalidDomainError, UnknownAttributeError, advice_on

Clique = tuple[str, ...]
"""Attribute names, in the order of the axes of the marginal."""

LARGEST_SIZE = 65_536
"""Largest number of levels of an attribute: codes are unsigned integers of at most 16 bits."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Attribute names and sizes. Public: declared by the controller, never inferred from records.
    The order is that of columns and table axes, so it decides digests of rows and of psi.

    >>> Domain.of({"sex": 2, "age": 8}).project(("age",))
    Domain(attributes=('age',), sizes=(8,))

    Raises:
        InvalidDomainError: Names repeat or are empty, or a size is outside 1..65536.
    """

    attributes: Clique
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.attributes) != len(self.sizes):
            raise InvalidDomainError(problem="each attribute needs one size")
        if len(set(self.attributes)) != len(self.attributes):
            raise InvalidDomainError(problem="attributes repeat")
        if not all(self.attributes):
            raise InvalidDomainError(problem="an attribute has no name")
        if not all(1 <= size <= LARGEST_SIZE for size in self.sizes):
            raise InvalidDomainError(problem=f"sizes must be from 1 to {LARGEST_SIZE}")

    @classmethod
    def of(cls, sizes: Mapping[str, int]) -> "Domain":
        return cls(tuple(sizes), tuple(sizes.values()))

    @property
    def cells(self) -> int:
        """Number of cells of the full table, exact at any size."""
        return prod(self.sizes)

    def __len__(self) -> int:
        return len(self.attributes)

    def __contains__(self, attribute: object) -> bool:
        return attribute in self.attributes

    def axis(self, attribute: str) -> int:
        """Position of an attribute.

        Raises:
            UnknownAttributeError: The attribute is not in the domain.
        """
        try:
            return self.attributes.index(attribute)
        except ValueError:
            advice = advice_on(attribute, self.attributes)
            raise UnknownAttributeError(attribute=attribute, advice=advice) from None

    def axes(self, clique: Clique) -> tuple[int, ...]:
        return tuple(self.axis(attribute) for attribute in clique)

    def size(self, attribute: str) -> int:
        return self.sizes[self.axis(attribute)]

    def project(self, clique: Clique) -> "Domain":
        """The domain of one clique, in the clique's own order."""
        return Domain(tuple(clique), tuple(self.size(attribute) for attribute in clique))

    def canonical(self, clique: Iterable[str]) -> Clique:
        """The clique in the domain's order, so that one set of attributes has one name.

        Raises:
            InvalidCliqueError: The clique is empty or names an attribute twice.
            UnknownAttributeError: An attribute is not in the domain.
        """
        names = tuple(clique)
        if not names:
            raise InvalidCliqueError(clique="", problem="it is empty")
        if len(set(names)) != len(names):
            raise InvalidCliqueError(clique=", ".join(names), problem="an attribute is repeated")
        return tuple(sorted(names, key=self.axis))

    def covered_by(self, cliques: Iterable[Clique]) -> "Domain":
        """The part of the domain that some clique names, in the domain's order."""
        names = {attribute for clique in cliques for attribute in clique}
        return self.project(tuple(name for name in self.attributes if name in names))
