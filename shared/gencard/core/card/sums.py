"""Statistics that a card may ask for besides marginals: moments, and sums over the records of groups.

A number counts in units: whole steps of its scale from the scale's centre (``Scale.units``).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import product
from math import nan, prod

from gencard.core.coding import Coding, Edges
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidCodingError, InvalidInputError, InvalidNumberError
from gencard.core.json_codecs import written
from gencard.core.scale import Scale

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
    values = dict[str, tuple[float, ...]]()
    for attribute in coding.attributes:
        own = attribute.coding
        absent = (nan,) * own.missing
        if isinstance(own, Edges):
            values[attribute.name] = own.midpoints + absent
        elif own.integer and own.ordered:
            values[attribute.name] = tuple(map(float, own.labels)) + absent
    return values


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of the numbers of an attribute by the cells of its scale."""

    attribute: str

    def __str__(self) -> str:
        """In words, for people.

        >>> str(Histogram("med"))
        'histogram of med'
        """
        return f"histogram of {self.attribute}"

    @property
    def attributes(self) -> Clique:
        return (self.attribute,)


@dataclass(frozen=True, slots=True)
class Sum:
    """For each cell of some attributes, the sum over its records of a product of one or two numbers.

    Only records of the population count: those in which all attributes of ``of`` and ``present`` are
    present.

    Args:
        of: The numbers, in the schema's order; one name twice for squares; empty for the number of
            records of the population.
        by: Attributes of the cells; none for all records together. A missing level is a cell as others.
        present: Attributes with a missing level, besides those of ``of``, that must be present.

    Raises:
        InvalidInputError: More than two numbers, a repeated name, a name in two places where one of
            them decides, or no number and no condition, which is a marginal.
    """

    of: Clique
    by: Clique = ()
    present: Clique = field(default=(), metadata=written(omit=True))

    def __post_init__(self) -> None:
        if len(self.of) > 2:
            raise InvalidInputError(field="sums.of", problem="must be at most two attributes")
        for name in ("by", "present"):
            names = getattr(self, name)
            if len(set(names)) != len(names):
                raise InvalidInputError(field=f"sums.{name}", problem="must not repeat an attribute")
            if set(names) & set(self.of):
                raise InvalidInputError(field=f"sums.{name}", problem="must name no attribute of 'of'")
        if not self.of and not self.present:
            problem = "must name an attribute; numbers of records by groups are a marginal"
            raise InvalidInputError(field="sums.of", problem=problem)

    def __str__(self) -> str:
        """In words, for people.

        >>> str(Sum(("med", "med"), by=("sex",), present=("age",)))
        'sum of med * med by sex where age is present'
        """
        numbers = f"sum of {' * '.join(self.of)}" if self.of else "records"
        groups = f" by {', '.join(self.by)}" if self.by else ""
        verb = "are" if len(self.present) > 1 else "is"
        where = f" where {' and '.join(self.present)} {verb} present" if self.present else ""
        return numbers + groups + where

    @property
    def attributes(self) -> Clique:
        """All attributes that the sum looks at, each once."""
        return tuple(dict.fromkeys((*self.of, *self.by, *self.present)))

    def in_order_of(self, domain: Domain) -> "Sum":
        """Return the sum with all names in the schema's order.

        Raises:
            UnknownAttributeError: An attribute is not in the domain.
        """
        sides = self.of, self.by, self.present
        of, by, present = (tuple(sorted(names, key=domain.axis)) for names in sides)
        return Sum(of, by, present)

    def place(self, domain: Domain) -> tuple[int | tuple[int, ...], ...]:
        """Return what the sums of a card are sorted by."""
        axes = domain.axes
        return len(self.of), axes(self.of), len(self.by), axes(self.by), axes(self.present)

    def population(self, coding: Coding) -> Clique:
        """Return the attributes that can be missing and must be present, in the schema's order."""
        names = {*self.of, *self.present}
        return tuple(one.name for one in coding.attributes if one.name in names and one.coding.missing)

    def counts_beside(self, marginals: Iterable[Clique], coding: Coding) -> bool:
        """Return whether psi has counts of the population beside the sum: no marginal has them."""
        names = {*self.by, *self.population(coding)}
        return bool(self.of) and not any(names <= set(clique) for clique in marginals)

    def check(self, coding: Coding) -> None:
        """Refuse a sum that the schema's attributes do not have.

        Raises:
            UnknownAttributeError: An attribute is not declared.
            InvalidCodingError: A number of ``of`` has no step or is derived, or an attribute of
                ``present`` cannot be missing.
        """
        for name in self.attributes:
            coding.attribute(name)
        for name in self.of:
            scale_of(coding, name)
        for name in self.present:
            if not coding.attribute(name).coding.missing:
                raise InvalidCodingError(attribute=name, problem="it is always present")


def check_numbers(coding: Coding, histograms: Iterable[str], sums: Iterable[Sum]) -> None:
    """Refuse histograms and sums of what is no declared number; raises as ``Sum.check``."""
    for name in histograms:
        scale_of(coding, name)
    for one in sums:
        one.check(coding)


def scale_of(coding: Coding, name: str) -> Scale:
    """Return the scale of an attribute whose numbers can be summed.

    Raises:
        UnknownAttributeError: The attribute is not declared.
        InvalidCodingError: The attribute has no step, or is derived from others.
    """
    attribute = coding.attribute(name)
    scale = attribute.coding.scale if isinstance(attribute.coding, Edges) else None
    if scale is None or attribute.derivation is not None:
        problem = "it has no step in the schema" if scale is None else "it is derived from others"
        raise InvalidCodingError(attribute=name, problem=problem)
    return scale


def has_wide_levels(coding: Coding, name: str) -> bool:
    """Return whether an attribute has a step, and some level holds more than one number."""
    own = coding.attribute(name).coding
    if not isinstance(own, Edges) or own.scale is None:
        return False
    first, last = own.scale.ends
    return last - first + 1 > len(own.edges) - 1


def cell_names(coding: Coding, name: str) -> tuple[str, ...]:
    """Return the names of the cells of an attribute's histogram, for people; raises as ``scale_of``."""
    scale, own = scale_of(coding, name), coding.attribute(name).coding
    dates = isinstance(own, Edges) and own.dates
    return Edges.of_scale(scale.cells[:-1], scale, missing=own.missing, dates=dates).level_names


def product_ends(coding: Coding, names: Sequence[str]) -> tuple[int, int]:
    """Return the least and largest product of units by declaration, or 0 if that lies beyond them."""
    ends = [scale_of(coding, name).unit_ends for name in dict.fromkeys(names)]
    power = 2 if len(ends) < len(names) else 1  # one name twice
    products = [prod(one) ** power for one in product(*ends)]
    return min(0, *products), max(0, *products)
