"""Public description of the offer: datasets with their declared attributes, generators."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gencard.core.card.budget import FREE, Claim, decimal_text
from gencard.core.card.terms import Tier
from gencard.core.coding import PLAIN, Attribute, Coding, Edges, Reading, StructuralZeros
from gencard.core.json_codecs import written
from gencard.core.policy import Policy


@dataclass(frozen=True, slots=True)
class DeclaredAttribute:
    """One attribute of the public schema, with what is declared of its values besides the levels.

    Args:
        groups: The level above the labels: names of groups -> labels.
    """

    attribute: Attribute
    reading: Reading = PLAIN
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.attribute.name

    @property
    def type(self) -> str:
        """Integer, decimal, date, boolean, ordered or nominal, with what qualifies it."""
        how = self.attribute.derivation
        per_person = ", per person" if how is not None and how.per_person else ""
        derived = "" if how is None else f", derived from {', '.join(how.sources)}{per_person}"
        drafted = f", drafted from the {self.attribute.drafted}" if self.attribute.drafted else ""
        return f"{self._type_of_values}{derived}{drafted}"

    @property
    def _type_of_values(self) -> str:
        coding = self.attribute.coding
        if isinstance(coding, Edges):
            return self._type_of_edges(coding)
        if coding.boolean:
            return "boolean"
        if coding.ordered:
            return "integer" if coding.integer else "ordered"
        other = self.reading.other
        return "nominal" if other is None else f"nominal, others are '{other}'"

    def _type_of_edges(self, coding: Edges) -> str:
        reading = self.reading
        zone = f" in {reading.zone}" if reading.zone else ""
        if coding.times:
            return f"time of day of {reading.time_of}{zone}"
        if coding.dates:
            return f"date{zone}"
        if reading.age_at is not None:
            return f"integer, age on {reading.age_at.isoformat()}"
        if coding.decimals == 0 and (coding.scale is None or coding.scale.step == 1):
            return "integer"
        if coding.scale is not None:
            return f"decimal, step {decimal_text(coding.scale.step)}"
        return "decimal" if coding.decimals is None else f"decimal, {coding.decimals} places"

    @property
    def missing(self) -> str:
        """Values that are missing; empty if none may be missing."""
        return ", ".join(("empty", *self.reading.absent)) if self.attribute.coding.missing else ""


NO_POLICY = Policy(0, 0, 0, 0, generators=(), most_per_card=FREE)
"""In an entry of a list, which has no policy; it permits nothing."""


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """Public description of a dataset. Entries of a list have no attributes and no policy.

    Args:
        name: datasets/{dataset}.
        version: Salted digest of the records' version, in hex.
        records: Number of records as the steward declares it; None if it is not declared.
        most_records: Records of one person that count; 0 if each record counts by itself.

    Raises:
        InvalidCodingError: Attributes and structural zeros do not make a coding.
    """

    name: str
    title: str
    description: str
    declared_by: str
    version: str
    attributes: tuple[DeclaredAttribute, ...] = ()
    structural_zeros: tuple[StructuralZeros, ...] = ()
    policy: Policy = field(default=NO_POLICY, metadata=written(omit=True))
    records: int | None = None
    most_records: int = 0
    coding: Coding = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        attributes = tuple(one.attribute for one in self.attributes)
        object.__setattr__(self, "coding", Coding(attributes, self.structural_zeros))

    @property
    def not_declared(self) -> str:
        """Time of day and zone of dates that the schema leaves out, in words; empty if there are none.

        Dates of schemas with a step have neither, unless they have a zone.
        """
        dates = {
            one.name: one.reading.zone
            for one in self.attributes
            if isinstance(coding := one.attribute.coding, Edges) and coding.dates
            if one.reading.zone or (coding.scale is None and one.attribute.derivation is None)
        }
        with_times = {one.reading.time_of for one in self.attributes}
        times = ", ".join(name for name in dates if name not in with_times)
        zones = ", ".join(name for name, zone in dates.items() if not zone)
        parts = [f"time of day of {times}"] if times else []
        return "; ".join([*parts, *([f"zone of {zones}, which is read in UTC"] if zones else [])])


@dataclass(frozen=True, slots=True)
class GeneratorEntry:
    """A generator or a black box.

    Args:
        digest: SHA-256, in hex, of the code and parameters that run.
        needs: Requirements of a generator on psi; empty for a black box.
        bound: Size of the model that is compared with ``most_cells`` before any record is read.
        cell_bytes: Largest memory of a fit per cell, in bytes.
        claim: Privacy guarantee declared for a black box; None for a generator.
        reviewed_by: Reviewer of this digest of a black box of tier audited; if empty, cards that name
            the box are refused.
    """

    name: str
    tier: Tier
    description: str
    digest: str
    needs: str = ""
    bound: str = ""
    most_cells: int = 0
    cell_bytes: int = 0
    parameters: Mapping[str, str] = field(default_factory=dict)
    claim: Claim | None = None
    reviewed_by: str = ""
