"""Generators and black boxes by name: their facts, and the recipes by which jobs build them."""

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path

from gencard.boxes.reference import ReferenceKind, ReferenceRecipe
from gencard.boxes.registry import BOXES
from gencard.controller.boxes.entries import (
    AddsMarginalBox,
    BoxEntry,
    BuiltInBox,
    CopiesRowsBox,
    HonestBox,
    ProgramBox,
)
from gencard.controller.boxes.generator_facts import (
    GeneratorFacts,
    check_of_box,
    claim_of_box,
    description_of_box,
    parameters_of_box,
    privacy_of_box,
    reviewer_of_box,
)
from gencard.controller.sandbox.environment import CompiledCopies, Environment, python_environment
from gencard.controller.sandbox.limits import SandboxSettings
from gencard.controller.sandbox.recipes import (
    ProgramRecipe,
    Recipe,
    built_in_recipe,
    imports_of,
    program_recipe,
)
from gencard.core.card.terms import CardTerms, Tier
from gencard.core.catalogue import GeneratorEntry
from gencard.core.errors import (
    BoxNotReviewedError,
    GeneratorChangedError,
    InvalidInputError,
    NotFoundError,
)
from gencard.core.generators.registry import GENERATORS, generator_digest, most_cells, parameters_of
from gencard.core.statistics.linear import Statistic, divided
from gencard.core.typed_json import PLAIN
from gencard.wire.canonical import digest_of

OURS = "gencard"
"""Author of the generators and black boxes that come with Gencard."""


class Boxes:
    """All generators and black boxes by name; the settings give no black box a generator's name.

    Digests are computed at the start of the service, and not at the first request.

    Args:
        boxes: The black boxes of the settings.
        model_cells, memory_mib: Most cells of a generator's model, and memory of a job.
        cell: Sandbox in which programs and built-in boxes run.
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
        self._privacies = {name: privacy_of_box(box) for name, box in self._boxes.items()}

    def prepare(self) -> None:
        """Prepare recipes and compiled copies, which the first job would otherwise wait for.

        Raises:
            GeneratorChangedError: See ``recipe``.
        """
        if any(map(_is_python, self._in_cells.values())):
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
                box.description or description_of_box(box),
                facts.digest,
                parameters=dict(facts.parameters),
                claim=facts.claim,
                reviewed_by=facts.reviewed_by,
            )
            entries.append(entry)
        return sorted(entries, key=lambda entry: entry.name)

    def facts(self, name: str) -> GeneratorFacts:
        """Return the facts on a generator or black box that a card states.

        Raises:
            NotFoundError: No generator or black box has this name.
        """
        if name in GENERATORS:
            return GeneratorFacts(GENERATORS[name].tier, self._codes[name])
        if name not in self._boxes:
            raise NotFoundError(what=f"generator or black box '{name}'")
        box = self._boxes[name]
        privacy, digest = self._privacies[name], self.digest(name)
        return GeneratorFacts(
            Tier.AUDITED if privacy is None else Tier.PRIVATE,
            digest,
            tuple(sorted(parameters_of_box(box).items())),
            claim_of_box(box),
            privacy,
            reviewer_of_box(box, digest) if privacy is None else "",
            isinstance(box, BuiltInBox) and BOXES[box.box].within_workload,
            check_of_box(box),
        )

    def author(self, name: str) -> str:
        """Return the author of a generator or black box; empty if the settings name none.

        Families of black boxes are told apart by name and author, whatever their bytes.
        """
        box = self._boxes.get(name)
        return box.author if isinstance(box, ProgramBox) else OURS

    def check_unchanged(self, card: CardTerms) -> None:
        """Check, before a black box runs under a card, that its digest is that of the card.

        Raises:
            GeneratorChangedError: The digest differs, or no black box has this name any more.
        """
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
        """Check, before rows leave under a card of tier audited, that the black box was reviewed.

        Raises:
            BoxNotReviewedError: The settings name no reviewer of the digest that the card names.
        """
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

        Args:
            within: Seconds for which an earlier comparison of the environment is good enough, as for
                runs on made-up records: the job compares it again.

        Raises:
            NotFoundError: Neither a generator nor a black box of this name.
            GeneratorChangedError: A distribution or a compiled copy is not as it was.
        """
        if name not in self._in_cells:
            return self._reference(name, statistics)
        environment, moment = self._compared.get(name, (Environment(), -inf))
        if time.monotonic() - moment >= within:
            environment = self._environment_now(self._in_cells[name])
            self._compared[name] = environment, time.monotonic()
        cliques, linear = divided(statistics)
        return replace(
            self._in_cells[name],
            environment=environment,
            cliques=tuple(cliques),
            linear=tuple(linear),
        )

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

    def _environment_now(self, recipe: ProgramRecipe) -> Environment:
        """Return the environment compared again, with compiled copies."""
        if not _is_python(recipe):
            return recipe.environment
        try:
            return python_environment(recipe.libraries, self._copies.folder())
        except InvalidInputError:
            raise GeneratorChangedError from None


def _is_python(recipe: ProgramRecipe) -> bool:
    """Programs of the system have no distributions and no compiled copies."""
    return bool(recipe.environment.stamp)


def _read(box: ProgramBox | BuiltInBox) -> ProgramRecipe:
    """Return the recipe of a box that runs in a sandbox, with its present digest."""
    try:
        if isinstance(box, ProgramBox):
            return program_recipe(box.folder, box.command, box.parameters, box.libraries)
        return built_in_recipe(box.box, box.parameters)
    except InvalidInputError as error:
        problem = error.message.removesuffix(".")  # a text of ours, of settings alone
    raise InvalidInputError(field=f"black_boxes/{box.name}", problem=problem)
