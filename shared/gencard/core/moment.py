"""Linear statistics by name: what a card may ask for besides marginals."""

from dataclasses import dataclass, field
from enum import StrEnum
from math import nan, prod

from gencard.core.coding import Coding, Edges, Labels
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidInputError, InvalidNumberError
from gencard.core.json_codecs import written

HIGHEST_ORDER = 8


class MomentKind(StrEnum):
    """Kind of sum, of attributes whose levels are declared numbers."""

    MEAN = "mean"
    VARIANCE = "variance"
    MOMENT = "moment"
    COVARIANCE = "covariance"
    GROUP_SUMS = "group-sums"
    GROUP_MEANS = "group-means"

    @property
    def attributes(self) -> int:
        """Number of attributes that it is about."""
        alone = (MomentKind.MEAN, MomentKind.VARIANCE, MomentKind.MOMENT)
        return 1 if self in alone else 2


_WORDS = {
    MomentKind.MEAN: "mean of {0}",
    MomentKind.VARIANCE: "variance of {0}",
    MomentKind.MOMENT: "moment {order} of {0}",
    MomentKind.COVARIANCE: "covariance of {0} and {1}",
    MomentKind.GROUP_SUMS: "sums of {1} by {0}",
    MomentKind.GROUP_MEANS: "means of {1} by {0}",
}


@dataclass(frozen=True, slots=True)
class Moment:
    """A linear statistic, as people name it; ``statistics.linear`` says which functions it sums.

    Args:
        attributes: Those it is about; of sums and means by group, the group first.
        order: Of the kind "moment", from 1 to 8; 0 with all other kinds.

    Raises:
        InvalidInputError: Not as many attributes as the kind has, or one attribute twice.
        InvalidNumberError: The order is out of its range.
    """

    kind: MomentKind
    attributes: Clique
    order: int = field(default=0, metadata=written(omit=True))

    def __post_init__(self) -> None:
        if len(set(self.attributes)) != len(self.attributes):
            raise InvalidInputError(field="moments", problem="must not repeat an attribute")
        if len(self.attributes) != self.kind.attributes:
            problem = f"of kind {self.kind} need {self.kind.attributes} attributes"
            raise InvalidInputError(field="moments", problem=problem)
        orders = (1, HIGHEST_ORDER) if self.kind is MomentKind.MOMENT else (0, 0)
        if not orders[0] <= self.order <= orders[1]:
            raise InvalidNumberError(field="moments.order", expected=f"from {orders[0]} to {orders[1]}")

    def __str__(self) -> str:
        """In words, for people.

        >>> str(Moment(MomentKind.GROUP_MEANS, ("sex", "age")))
        'means of age by sex'
        """
        return _WORDS[self.kind].format(*self.attributes, order=self.order)

    @property
    def numbers(self) -> Clique:
        """Attributes whose numbers are summed, not those of groups."""
        grouped = (MomentKind.GROUP_SUMS, MomentKind.GROUP_MEANS)
        return self.attributes[1:] if self.kind in grouped else self.attributes

    def in_order_of(self, domain: Domain) -> "Moment":
        """With its attributes in the schema's order, where their order says nothing.

        Raises:
            UnknownAttributeError: An attribute is not in the domain.
        """
        canonical = domain.canonical(self.attributes)
        if self.kind is not MomentKind.COVARIANCE:
            return self
        return Moment(self.kind, canonical)

    def place(self, domain: Domain) -> tuple[int, tuple[int, ...], int]:
        """Return the key by which the moments of a card are sorted."""
        return list(MomentKind).index(self.kind), domain.axes(self.attributes), self.order

    def functions(self, domain: Domain) -> int:
        """Sums that it releases at most, besides the number of records."""
        groups = domain.size(self.attributes[0])
        return {
            MomentKind.MEAN: 2,
            MomentKind.VARIANCE: 3,
            MomentKind.MOMENT: 2,
            MomentKind.COVARIANCE: 4,
            MomentKind.GROUP_SUMS: groups,
            MomentKind.GROUP_MEANS: 2 * groups,
        }[self.kind]

    def values(self, domain: Domain) -> int:
        """Values of all its functions together: each has one for every cell."""
        cells = prod(domain.project(self.attributes).sizes)
        return (1 + self.functions(domain)) * cells


def level_values(coding: Coding) -> dict[str, tuple[float, ...]]:
    """For each attribute that is a number, the number that each code stands for, NaN for "missing".

    Intervals stand for their midpoints, ordered whole numbers for themselves; others are not there.
    """
    numbers = {attribute.name: _values(attribute.coding) for attribute in coding.attributes}
    return {name: values for name, values in numbers.items() if values}


def _values(coding: Labels | Edges) -> tuple[float, ...]:
    """Empty where the levels are no numbers."""
    absent = (nan,) * coding.missing
    if isinstance(coding, Edges):
        return coding.midpoints + absent
    if coding.integer and coding.ordered:
        return tuple(map(float, coding.labels)) + absent
    return ()
