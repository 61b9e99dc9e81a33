"""The settings tables of black boxes: programs, built-in boxes, reviews and declared guarantees."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PositiveInt, model_validator
from pydantic_core import PydanticCustomError

from gencard.controller.sandbox.limits import Isolation, SandboxLimits
from gencard.controller.settings.files import Section
from gencard.core.card.budget import ZERO, Claim, Neighbouring, decimal_of, delta_of
from gencard.core.domain import Clique
from gencard.core.generators.registry import GENERATORS


class ClaimTable(Section):
    """Privacy guarantee that somebody declares for a program; recorded and shown, not checked.

    Args:
        by: Who declares it, in a few words.
        delta: 0 for pure differential privacy.
    """

    by: str = Field(pattern=r"^[^\s\x00-\x1f][^\x00-\x1f]{0,199}$")
    epsilon: Decimal
    delta: Decimal = ZERO
    neighbouring: Neighbouring

    @model_validator(mode="after")
    def _is_a_claim(self) -> "ClaimTable":
        self.claim()
        return self

    def claim(self) -> Claim:
        return Claim(
            f"Declared by {self.by}, and not proved.",
            decimal_of(str(self.epsilon), "black_boxes.claim.epsilon"),
            delta_of(str(self.delta), "black_boxes.claim.delta") if self.delta else ZERO,
            self.neighbouring,
        )


NAME = r"^[a-z][a-z0-9_-]{0,62}$"
Name = Annotated[str, Field(pattern=NAME)]
"""Last part of a resource name."""

Author = Annotated[str, Field(pattern=r"^([^\s\x00-\x1f][^\x00-\x1f]{0,199})?$")]
"""Who wrote a program. With its name it is the program's family: evidence of its audits is pooled."""

Distribution = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
"""Name of a package as it is installed."""


def _known(name: str) -> str:
    if name not in GENERATORS:
        raise PydanticCustomError("no_generator", "no generator has this name")
    return name


Generator = Annotated[Name, AfterValidator(_known)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


class CellTable(Section):
    """Isolation of black boxes, and limits of one run; see ``cell.limits``.

    ``isolation = "processes"`` isolates nothing and is refused without ``server.insecure_dev``.
    """

    isolation: Isolation = Isolation.NAMESPACES
    memory_mib: Annotated[int, Field(ge=64)] = 2_048
    cpu_seconds: PositiveInt = 900
    wall_seconds: PositiveInt = 1_200
    processes: PositiveInt = 1
    work_mib: PositiveInt = 64
    fit_mib: PositiveInt = 256

    def bounds(self) -> SandboxLimits:
        return SandboxLimits(**{name: value for name, value in self if name != "isolation"})


class CellLimitsTable(Section):
    """Limits of one black box that differ from those in ``[cell]``."""

    memory_mib: Annotated[int, Field(ge=64)] | None = None
    cpu_seconds: PositiveInt | None = None
    wall_seconds: PositiveInt | None = None
    processes: PositiveInt | None = None
    work_mib: PositiveInt | None = None
    fit_mib: PositiveInt | None = None


class ReviewTable(Section):
    """Reviewer of a black box, and the digest that was reviewed.

    Args:
        name: A person, in a few words; it stands on cards.
        digest: SHA-256, in hex, as ``gencard-controller boxes`` shows it.
    """

    name: str = Field(pattern=r"^[^\s\x00-\x1f][^\x00-\x1f]{0,199}$")
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")


class _InCell(Section):
    name: Name
    description: str = ""
    reviewed_by: ReviewTable | None = None
    parameters: Mapping[str, str] = Field(default_factory=dict)
    limits: CellLimitsTable = CellLimitsTable()

    def limits_in(self, cell: CellTable) -> SandboxLimits:
        """The cell's bounds, with those that are the box's own."""
        own = {name: value for name, value in self.limits if value is not None}
        return replace(cell.bounds(), **own)


class ProgramBox(_InCell):
    """A program by any author: all files in ``folder``, run by ``command``; see docs/controllers.md."""

    kind: Literal["program"]
    folder: Path
    command: tuple[str, ...] = Field(min_length=1)
    libraries: tuple[Distribution, ...] = ()
    author: Author = ""
    claim: ClaimTable | None = None


class BuiltInBox(_InCell):
    """A built-in box, by its name in the registry."""

    kind: Literal["built_in"]
    box: str


class LendingTable(Section):
    """Black boxes and generators that callers may run on their own datasets; none by default."""

    black_boxes: tuple[Name, ...] = ()


class HonestBox(Section):
    """Demonstration: measures Phi and draws rows from it."""

    kind: Literal["honest"]
    name: Name
    generator: Generator = "ipf"
    description: str = ""
    reviewed_by: ReviewTable | None = None


class AddsMarginalBox(HonestBox):
    """Demonstration of a leak: uses one marginal outside Phi."""

    kind: Literal["adds_marginal"]  # type: ignore[assignment]  # narrows the tag of the union
    clique: Clique = Field(min_length=1)


class CopiesRowsBox(HonestBox):
    """Demonstration of a leak: copies records, each row with probability ``share``."""

    kind: Literal["copies_rows"]  # type: ignore[assignment]  # narrows the tag of the union
    share: Share


BoxEntry = Annotated[
    HonestBox | AddsMarginalBox | CopiesRowsBox | ProgramBox | BuiltInBox, Field(discriminator="kind")
]
