"""The settings tables of black boxes: programs, built-in boxes, reviews and declared guarantees."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainSerializer, PositiveInt
from pydantic_core import PydanticCustomError

from gencard.controller.base.files import Section, Stated, TableOf
from gencard.controller.sandbox.limits import SandboxLimits
from gencard.core.card.budget import ZERO, Claim, Neighbouring, decimal_of, delta_of
from gencard.core.domain import Clique
from gencard.core.generators.registry import GENERATORS

_DECLARED = "Declared by {}, and not proved."


def _person(sentence: str) -> str:
    before, after = _DECLARED.split("{}")
    return sentence.removeprefix(before).removesuffix(after)


def _epsilon(number: Decimal) -> Decimal:
    return decimal_of(str(number), "black_boxes.claim.epsilon")


def _delta(number: Decimal) -> Decimal:
    return delta_of(str(number), "black_boxes.claim.delta") if number else ZERO


CLAIM = TableOf(
    "Privacy guarantee that a person declares for a program. It is shown as a claim and not checked.",
    sentence=Annotated[
        str,
        Field(
            alias="by",
            pattern=r"^[^\s\x00-\x1f][^\x00-\x1f]{0,199}$",
            description="Who declares it, in up to 200 characters.",
        ),
        AfterValidator(_DECLARED.format),
        PlainSerializer(_person),
    ],
    epsilon=(Annotated[Decimal, AfterValidator(_epsilon)], ...),
    delta=Annotated[Decimal, AfterValidator(_delta)],
    neighbouring=(Neighbouring, ...),
)
"""Table of ``Claim``."""


NAME = r"^[a-z][a-z0-9_-]{0,62}$"
Name = Annotated[str, Field(pattern=NAME)]
"""Last part of a resource name."""

Author = Annotated[str, Field(pattern=r"^([^\s\x00-\x1f][^\x00-\x1f]{0,199})?$")]
"""Author of a program. Evidence of audits is pooled over its family: all of one name and author."""

Distribution = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
"""Name of a package as it is installed."""


def _known(name: str) -> str:
    if name not in GENERATORS:
        raise PydanticCustomError("no_generator", "no generator has this name")
    return name


Generator = Annotated[Name, AfterValidator(_known)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


_LIMITS: dict[str, Any] = {
    "memory_mib": Annotated[int, Field(ge=64)],
    **dict.fromkeys(("cpu_seconds", "wall_seconds", "processes", "work_mib", "fit_mib"), PositiveInt),
}

SANDBOX = TableOf(**_LIMITS)
"""Table of ``SandboxSettings``."""

LIMITS = TableOf(
    "Limits of one black box. A limit that is not set is that of ``[cell]``.",
    **{name: (form | None, None) for name, form in _LIMITS.items()},
)
"""Table of ``SandboxLimits``; a box may state some of them."""


class ReviewTable(Section):
    """Review of a black box; ``gencard-controller boxes review`` writes it."""

    name: str = Field(pattern=r"^[^\s\x00-\x1f][^\x00-\x1f]{0,199}$")
    """Reviewer, in up to 200 characters; cards show it."""
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Digest that was reviewed, SHA-256 in hex, as ``gencard-controller boxes`` shows it. After a change
    of the black box it no longer matches, and a new review is needed."""


class _InCell(Section):
    name: Name
    """Name: a letter, then up to 62 of a-z, 0-9, ``_`` and ``-``. It must not be that of a generator."""
    description: str = ""
    """Description for analysts; a built-in black box has one by default."""
    reviewed_by: ReviewTable | None = None
    """The review, which a black box of tier ``audited`` needs before cards can name it."""
    parameters: Mapping[str, str] = Field(default_factory=dict)
    """Parameters by name; all values are text in quotes."""
    limits: Annotated[Stated[SandboxLimits], LIMITS] = Field(default={}, validate_default=True)
    """Limits of the box in the sandbox."""

    def limits_in(self, limits: SandboxLimits) -> SandboxLimits:
        """Return the limits of ``[cell]``, with those that are the box's own."""
        own = {name: value for name, value in self.limits.values.items() if value is not None}
        return replace(limits, **own)


class ProgramBox(_InCell):
    """A program by any author, which runs in the sandbox."""

    kind: Literal["program"]
    folder: Path
    """Folder of the program; all files in it belong to the program and to its digest."""
    command: tuple[str, ...] = Field(min_length=1)
    """Command line. It begins with ``python``, an interpreter of the system such as
    ``/usr/bin/Rscript``, or ``./`` and a file of the folder."""
    libraries: tuple[Distribution, ...] = ()
    """Python packages that the program imports besides numpy and scipy, by the names under which they
    are installed."""
    author: Author = ""
    """Author, in up to 200 characters. Evidence of audits is pooled over black boxes of one name and
    author on one dataset."""
    claim: Annotated[Claim, CLAIM] | None = None
    """Privacy guarantee that the author or another person declares."""


class BuiltInBox(_InCell):
    """A black box that comes with Gencard, which runs in the sandbox."""

    kind: Literal["built_in"]
    box: str
    """Name of the method in the table of built-in black boxes below, such as ``synthpop``."""


class LendingTable(Section):
    """Black boxes that callers may run on datasets of their own. Their rows leave without an audit."""

    black_boxes: tuple[Name, ...] = ()
    """Names of black boxes of these settings, or of generators; all others are refused with
    ``BOX_NOT_LENT``."""


class HonestBox(Section):
    """Demonstration of a black box without a leak: it measures Phi, fits a generator and draws rows."""

    kind: Literal["honest"]
    name: Name
    """Name: a letter, then up to 62 of a-z, 0-9, ``_`` and ``-``. It must not be that of a generator."""
    generator: Generator = "ipf"
    """Name of the generator that it fits."""
    description: str = ""
    """Description for analysts."""
    reviewed_by: ReviewTable | None = None
    """The review, which a black box of tier ``audited`` needs before cards can name it."""


class AddsMarginalBox(HonestBox):
    """Demonstration of a leak: the black box uses a marginal that is not in Phi."""

    kind: Literal["adds_marginal"]  # type: ignore[assignment]  # narrows the tag of the union
    clique: Clique = Field(min_length=1)
    """Attributes of that marginal, such as ``["sex", "age"]``."""


class CopiesRowsBox(HonestBox):
    """Demonstration of a leak: some of its rows are copies of records."""

    kind: Literal["copies_rows"]  # type: ignore[assignment]  # narrows the tag of the union
    share: Share
    """Probability that a row is a copy: above 0, at most 1."""


BoxEntry = Annotated[
    HonestBox | AddsMarginalBox | CopiesRowsBox | ProgramBox | BuiltInBox, Field(discriminator="kind")
]
