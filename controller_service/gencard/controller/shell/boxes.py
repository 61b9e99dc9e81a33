"""boxes: black boxes of the settings, their digests, and who reviewed them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.markup import escape

from gencard.controller.boxes.boxes import Boxes
from gencard.controller.boxes.generator_facts import GeneratorFacts
from gencard.controller.boxes.reviews import review_line, write_review
from gencard.controller.settings.settings import Settings
from gencard.controller.settings.settings_boxes import BoxEntry, ReviewTable
from gencard.controller.shell.terminal import HERE, AsJson, ConfigFile, console, plain, say_json
from gencard.core.card.terms import Tier
from gencard.core.errors import InvalidInputError

app = typer.Typer(help="Black boxes: digests and reviews.", invoke_without_command=True)
_LIMITS = (
    "A review says that you trust the author: no audit finds what an author hides on purpose. It is for "
    "this digest alone."
)


@dataclass(frozen=True, slots=True)
class _Listed:
    """A black box of the settings."""

    box: BoxEntry
    facts: GeneratorFacts

    @property
    def review(self) -> str:
        """Whether cards may name it, in words."""
        if self.facts.tier is Tier.PRIVATE:
            return "not needed: the controller applies the noise"
        if self.facts.reviewed_by:
            return f"reviewed by {self.facts.reviewed_by}"
        if self.box.reviewed_by is not None:
            return f"not reviewed: {self.box.reviewed_by.name} reviewed another digest"
        return "not reviewed"


@app.callback()
def boxes(context: typer.Context, config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """List black boxes with their digests, and whether somebody reviewed them."""
    if context.invoked_subcommand is not None:
        return
    found = _listed(config)
    if as_json:
        say_json([_document(one) for one in found])
        return
    for one in found:
        console.print(f"[bold]{escape(one.box.name)}[/]  {one.box.kind}, {one.facts.tier}")
        console.print(f"  sha256  {one.facts.digest}", soft_wrap=True)
        console.print(f"  review  {plain(one.review)}", soft_wrap=True)
    if not found:
        console.print("The settings name no black boxes.")


@app.command()
def review(
    name: Annotated[str, typer.Argument(help="Its name in the settings.")],
    by: Annotated[str, typer.Option(help="Who reviewed it, in a few words; it stands on cards.")],
    show: Annotated[bool, typer.Option("--print", help="Print the line and write nothing.")] = False,
    config: ConfigFile = HERE,
) -> None:
    """Write into the settings who reviewed a black box, with the digest that it has now."""
    facts = next((one.facts for one in _listed(config) if one.box.name == name), None)
    if facts is None:
        raise InvalidInputError(field="name", problem="is not a black box of the settings")
    if facts.tier is Tier.PRIVATE:
        raise InvalidInputError(field="name", problem="is of tier private, which needs no review")
    try:
        reviewed = ReviewTable(name=by, digest=facts.digest)
    except ValidationError:
        reviewed = None
    if reviewed is None:
        raise InvalidInputError(field="by", problem="must be one line of at most 200 characters")
    if show:
        typer.echo(review_line(reviewed))
        return
    write_review(config, name, reviewed)
    console.print(f"{plain(by)} has reviewed {escape(name)}, sha256 {facts.digest}.", soft_wrap=True)
    console.print(_LIMITS)
    console.print("A running service reads this when it is started again.")


def _listed(config: Path) -> list[_Listed]:
    settings = Settings.load(config)
    entries = settings.black_boxes
    known = Boxes(entries, settings.limits.model_cells, settings.cell, settings.state.work)
    return [_Listed(box, known.facts(box.name)) for box in entries]


def _document(one: _Listed) -> dict[str, object]:
    facts = one.facts
    return {
        "name": one.box.name,
        "kind": one.box.kind,
        "tier": facts.tier,
        "sha256": facts.digest,
        "reviewedBy": facts.reviewed_by or None,
    }
