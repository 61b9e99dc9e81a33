"""Which attributes may be looked at together among the records."""

from collections.abc import Iterable
from dataclasses import dataclass

from gencard.core.domain import Clique


@dataclass(frozen=True, slots=True)
class Together:
    """What a policy allows to be looked at together.

    Args:
        forbidden: Attribute sets that nothing may hold together.
        largest_order: Most attributes in one table.
    """

    forbidden: tuple[Clique, ...]
    largest_order: int

    def allows(self, attributes: Iterable[str]) -> bool:
        """Whether numbers may be told that all these attributes decide together."""
        present = set(attributes)
        return not any(present.issuperset(clique) for clique in self.forbidden)

    def allows_table(self, attributes: Clique) -> bool:
        """Whether a table of these attributes could be asked for."""
        return len(set(attributes)) <= self.largest_order and self.allows(attributes)


EVERYTHING = Together((), 1_000_000)
"""For records that are nobody's secret."""
