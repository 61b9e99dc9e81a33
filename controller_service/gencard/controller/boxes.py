"""Generators and black boxes by name: settings, facts, and the recipes by which jobs build them.

In: the settings. Out: facts for cards and policies, with the digest of the code and who reviewed it.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainSerializer, PositiveInt
from pydantic_core import PydanticCustomError

from gencard.boxes.reference import ReferenceKind, ReferenceRecipe
from gencard.boxes.registry import BOXES, complete
from gencard.controller.base.files import Section, Stated, TableOf
from gencard.controller.sandbox.boxes import (
    ProgramRecipe,
    Recipe,
    built_in_recipe,
    imports_of,
    program_recipe,
)
from gencard.controller.sandbox.environment import CompiledCopies, Environment, python_environment
from gencard.controller.sandbox.limits import SandboxLimits, SandboxSettings
from gencard.core.card.budget import (
    NO_CLAIM,
    ZERO,
    Claim,
    Neighbouring,
    decimal_of,
    decimal_text,
    delta_of,
    person_words,
)
from gencard.core.card.privacy import InsideGenerator, Privacy
from gencard.core.card.terms import CardTerms, Tier
from gencard.core.catalogue import GeneratorEntry
from gencard.core.domain import Clique, Domain
from gencard.core.errors import (
    BoxNotReviewedError,
    GeneratorChangedError,
    InvalidInputError,
    NotFoundError,
)
from gencard.core.generators.registry import GENERATORS, generator_digest, most_cells, parameters_of
from gencard.core.statistics.linear import Statistic, divided
from gencard.core.statistics.noise import epsilon_of
from gencard.core.typed_json import PLAIN
from gencard.wire.canonical import digest_of

# Tables of the settings: programs, built-in boxes, reviews and declared guarantees.


_DECLARED = "Declared by {}, and not proved."

_BEFORE, _AFTER = _DECLARED.split("{}")
_EPSILON, _DELTA = "black_boxes.claim.epsilon", "black_boxes.claim.delta"

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
        PlainSerializer(lambda sentence: sentence.removeprefix(_BEFORE).removesuffix(_AFTER)),
    ],
    epsilon=(Annotated[Decimal, AfterValidator(lambda one: decimal_of(str(one), _EPSILON))], ...),
    delta=Annotated[Decimal, AfterValidator(lambda one: delta_of(str(one), _DELTA) if one else ZERO)],
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


# Facts, as a card states and a policy uses them; no record enters.


@dataclass(frozen=True, slots=True)
class GeneratorFacts:
    """Facts on a generator or black box that cards and policies use.

    Args:
        privacy: Privacy that one fit spends; of tier private only.
        reviewed_by: Name of the reviewer of a black box with this digest; empty if it was not reviewed.
        within_workload: Whether a fit uses no marginal outside the card's workload.
        check: Function of workload and domain that raises TooLargeError or ModelTooLargeError if no fit
            is possible; None if there is no bound.
    """

    tier: Tier
    digest: str
    parameters: tuple[tuple[str, str], ...] = ()
    claim: Claim | None = None
    privacy: Privacy | None = None
    reviewed_by: str = ""
    within_workload: bool = False
    check: Callable[[tuple[Clique, ...], Domain], None] | None = None


def is_black_box(name: str) -> bool:
    """Whether a generator reads records; a name that is not in the catalogue would be one."""
    return name not in GENERATORS


def facts_of_generators(name: str) -> GeneratorFacts:
    """Facts of a generator without the digest of its code; NotFoundError for any other name."""
    if name not in GENERATORS:
        raise NotFoundError(what=f"generator or black box '{name}'")
    return GeneratorFacts(GENERATORS[name].tier, "")


Facts = Callable[[str], GeneratorFacts]
"""By the name of a generator or black box; raises NotFoundError."""


def for_persons(facts: Facts, most_records: int) -> Facts:
    """Return the facts for persons with at most ``most_records`` records; unchanged if that is 0.

    A box protects one record; the returned facts state the privacy that one fit spends for a person.
    """

    def of_persons(name: str) -> GeneratorFacts:
        one = facts(name)
        if not isinstance(one.privacy, InsideGenerator):
            return one
        privacy = InsideGenerator(one.privacy.guarantee.for_person(most_records))
        return replace(one, privacy=privacy, claim=one.claim and _claim_for_person(one.claim, privacy))

    return of_persons if most_records else facts


def _claim_for_person(claim: Claim, privacy: InsideGenerator) -> Claim:
    guarantee, delta = privacy.guarantee, claim.delta
    epsilon = (
        guarantee.budget if guarantee.currency == "epsilon" else epsilon_of(guarantee.budget, delta)
    )
    person = person_words(guarantee.most_records or 1)
    sentence = f"For {person}: {guarantee.currency} {decimal_text(guarantee.budget)}. For one record: "
    return Claim(f"{sentence}{claim}", epsilon, delta, claim.neighbouring)


def parameters_of_box(box: BoxEntry) -> dict[str, str]:
    match box:
        case AddsMarginalBox():
            return {"generator": box.generator, "marginal": ", ".join(box.clique)}
        case CopiesRowsBox():
            return {"generator": box.generator, "share": str(box.share)}
        case ProgramBox():
            return dict(box.parameters)
        case BuiltInBox():
            return dict(complete(BOXES[box.box], box.parameters))
    return {"generator": box.generator}


def reviewer_of_box(box: BoxEntry, digest: str) -> str:
    """Return the name of the reviewer of a box with this digest; empty if it was not reviewed."""
    review = box.reviewed_by
    return review.name if review is not None and review.digest == digest else ""


# All of them by name, and the recipes by which jobs build them.


OURS = "gencard"
"""Author of the generators and black boxes that come with Gencard."""


class Boxes:
    """All generators and black boxes by name; the settings give no black box a generator's name.

    Digests are computed at the start of the service, and not at the first request.

    Args:
        model_cells, memory_mib: Most cells of a generator's model, and memory of a job.
        work: A private folder for compiled copies.

    Raises:
        InvalidInputError: A program cannot be read, a built-in box is unknown, a parameter is wrong, or
            a distribution differs from its RECORD.
        GeneratorChangedError: A distribution changes while it is read.
    """

    def __init__(
        self,
        boxes: Iterable[BoxEntry],
        model_cells: int,
        sandbox: SandboxSettings,
        work: Path,
        memory_mib: int = 4_096,
    ) -> None:
        self._most_cells = partial(most_cells, model_cells=model_cells, memory_mib=memory_mib)
        self._codes = {name: generator_digest(name) for name in GENERATORS}
        self._boxes = {box.name: box for box in boxes}
        built_in = [box.box for box in self._boxes.values() if isinstance(box, BuiltInBox)]
        self._in_cells = {
            name: replace(_read(box), limits=box.limits_in(sandbox.limits), isolation=sandbox.isolation)
            for name, box in self._boxes.items()
            if isinstance(box, ProgramBox | BuiltInBox)
        }
        programs = [
            self._in_cells[name] for name, box in self._boxes.items() if isinstance(box, ProgramBox)
        ]
        imports = [name for recipe in programs for name in imports_of(recipe)]
        entries = [path for recipe in programs for path in recipe.environment.distributions]
        self._copies = CompiledCopies(work, built_in, imports=imports, entries=entries)
        self._compared: dict[str, tuple[Environment, float]] = {}
        """Environment of a box in a sandbox, and the moment at which it was last compared."""
        self._privacies = {
            name: BOXES[box.box].privacy(complete(BOXES[box.box], box.parameters))
            for name, box in self._boxes.items()
            if isinstance(box, BuiltInBox)
        }
        """Privacy that one fit of a built-in box spends, if the controller applies the noise."""

    def prepare(self) -> None:
        """Prepare recipes and compiled copies for the first job; raises GeneratorChangedError."""
        # a program of the system has no distributions, and no compiled copies
        if any(recipe.environment.stamp for recipe in self._in_cells.values()):
            self._copies.folder()

    @property
    def names(self) -> frozenset[str]:
        """All names that a card may name its generator by."""
        return frozenset(GENERATORS) | frozenset(self._boxes)

    def catalogue(self) -> list[GeneratorEntry]:
        """Return every entry, by name."""
        entries = [
            GeneratorEntry(
                name,
                one.tier,
                one.description,
                self._codes[name],
                needs=one.needs,
                bound=one.bound,
                most_cells=self._most_cells(name),
                cell_bytes=one.cell_bytes,
                parameters=parameters_of(name),
            )
            for name, one in GENERATORS.items()
        ]
        for name, box in self._boxes.items():
            facts = self.facts(name)
            entry = GeneratorEntry(
                name,
                facts.tier,
                box.description or (BOXES[box.box].description if isinstance(box, BuiltInBox) else ""),
                facts.digest,
                parameters=dict(facts.parameters),
                claim=facts.claim,
                reviewed_by=facts.reviewed_by,
            )
            entries.append(entry)
        return sorted(entries, key=lambda entry: entry.name)

    def facts(self, name: str) -> GeneratorFacts:
        """Return the facts on a generator or black box that a card states; raises NotFoundError."""
        if name in GENERATORS:
            return GeneratorFacts(GENERATORS[name].tier, self._codes[name])
        if name not in self._boxes:
            raise NotFoundError(what=f"generator or black box '{name}'")
        box = self._boxes[name]
        privacy, digest = self._privacies.get(name), self.digest(name)
        facts = GeneratorFacts(
            Tier.AUDITED if privacy is None else Tier.PRIVATE,
            digest,
            tuple(sorted(parameters_of_box(box).items())),
            box.claim or NO_CLAIM if isinstance(box, ProgramBox) else NO_CLAIM,
            privacy,
            reviewer_of_box(box, digest) if privacy is None else "",
        )
        if not isinstance(box, BuiltInBox):
            return facts
        entry = BOXES[box.box]
        parameters = complete(entry, box.parameters)
        check, claim = partial(entry.check, parameters), entry.claim(parameters)
        return replace(facts, claim=claim, within_workload=entry.within_workload, check=check)

    def author(self, name: str) -> str:
        """Return the author of a generator or black box; empty if the settings name none.

        Families of black boxes differ by name and author; their bytes do not count.
        """
        box = self._boxes.get(name)
        return box.author if isinstance(box, ProgramBox) else OURS

    def check_unchanged(self, card: CardTerms) -> None:
        """Raise GeneratorChangedError before a run if the digest is not that of the card."""
        name = card.terms.generator
        if card.tier is Tier.BY_CONSTRUCTION:
            return
        if name not in self._boxes:
            raise GeneratorChangedError
        box, digest = self._boxes[name], ""
        if not isinstance(box, ProgramBox | BuiltInBox):
            digest = self.digest(name)
        else:  # of the present files; jobs check the very bytes that they run again
            with suppress(InvalidInputError, GeneratorChangedError):
                digest = _read(box).digest
        if digest != card.generator_digest:
            raise GeneratorChangedError

    def check_reviewed(self, card: CardTerms) -> None:
        """Raise BoxNotReviewedError before rows leave if no reviewer of the card's digest is named."""
        box = self._boxes.get(card.terms.generator)
        if box is None or not reviewer_of_box(box, card.generator_digest):
            raise BoxNotReviewedError

    def digest(self, name: str) -> str:
        """SHA-256, in hex, that cards name it by: of program or generator, and not of its name here."""
        if name in self._in_cells:
            return self._in_cells[name].digest
        recipe = self._reference(name, ())
        return digest_of({"code": self._codes[recipe.generator], "recipe": PLAIN.write(recipe)})

    def recipe(self, name: str, statistics: Sequence[Statistic] = (), *, within: float = 0.0) -> Recipe:
        """Return the recipe by which a job builds the box for a card with these statistics.

        An environment that was compared ``within`` so many seconds is good enough for runs on
        made-up records: the job compares it again. Raises NotFoundError or GeneratorChangedError.
        """
        if name not in self._in_cells:
            return self._reference(name, statistics)
        recipe = self._in_cells[name]
        environment, moment = self._compared.get(name, (Environment(), -inf))
        if time.monotonic() - moment >= within:
            environment = recipe.environment
            if environment.stamp:  # a program of the system has none: it has no distributions
                try:
                    environment = python_environment(recipe.libraries, self._copies.folder())
                except InvalidInputError:
                    raise GeneratorChangedError from None
            self._compared[name] = environment, time.monotonic()
        cliques, linear = divided(statistics)
        return replace(recipe, environment=environment, cliques=tuple(cliques), linear=tuple(linear))

    def _reference(self, name: str, statistics: Sequence[Statistic]) -> ReferenceRecipe:
        """Return the recipe of a generator, or of a black box without sandbox; raises NotFoundError."""
        if name not in self.names:
            raise NotFoundError(what=f"generator or black box '{name}'")
        marginals, sums = divided(statistics)
        cliques, linear = tuple(marginals), tuple(sums)
        box = self._boxes.get(name)
        if not isinstance(box, HonestBox):
            return ReferenceRecipe(ReferenceKind.HONEST, name, cliques, linear)
        return ReferenceRecipe(
            ReferenceKind(box.kind),
            box.generator,
            cliques,
            linear,
            extra=tuple(box.clique) if isinstance(box, AddsMarginalBox) else None,
            share=box.share if isinstance(box, CopiesRowsBox) else None,
        )


def _read(box: ProgramBox | BuiltInBox) -> ProgramRecipe:
    """Return the recipe of a box that runs in a sandbox, with its present digest."""
    try:
        if isinstance(box, ProgramBox):
            return program_recipe(box.folder, box.command, box.parameters, box.libraries)
        return built_in_recipe(box.box, box.parameters)
    except InvalidInputError as error:
        problem = error.message.removesuffix(".")  # a text of ours, of settings alone
    raise InvalidInputError(field=f"black_boxes/{box.name}", problem=problem)
