"""Sums of numbers, and of products of two numbers, over the records of groups: what they are called.

A number counts in units: whole steps of its scale from the scale's centre (``Scale.units``).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

from gencard.core.coding import Coding, Edges
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidCodingError, InvalidInputError
from gencard.core.json_codecs import written
from gencard.core.scale import Scale


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
        """The attribute, as a clique."""
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
        of, by, present = (
            tuple(sorted(names, key=domain.axis)) for names in (self.of, self.by, self.present)
        )
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
    """Return the least and the largest product of units by declaration, or 0 if that lies beyond them.

    Args:
        names: One or two names of attributes, as in ``Sum.of``.
    """
    ends = [scale_of(coding, name).unit_ends for name in dict.fromkeys(names)]
    power = 2 if len(ends) < len(names) else 1  # one name twice
    products = [prod(one) ** power for one in product(*ends)]
    return min(0, *products), max(0, *products)
