"""boxes: black boxes of the settings, and their reviews."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.markup import escape

from gencard.controller.boxes import BoxEntry, Boxes, GeneratorFacts, ReviewTable
from gencard.controller.drafting.edits import review_line, write_review
from gencard.controller.settings import Settings
from gencard.controller.shell.terminal import HERE, AsJson, ConfigFile, console, say_json
from gencard.core.card.terms import Tier
from gencard.core.errors import InvalidInputError
from gencard.shell import new_typer

app = new_typer(help="Show or review black boxes.", invoke_without_command=True)
_REVIEW_LIMITS = (
    "A review states that you trust the author: no audit finds what an author hides on purpose. "
    "It holds for this digest only."
)


@dataclass(frozen=True, slots=True)
class _Listed:
    box: BoxEntry
    facts: GeneratorFacts

    @property
    def review(self) -> str:
        """State of the review that lets cards name the box, as text."""
        if self.facts.tier is Tier.PRIVATE:
            return "not needed: the controller applies the noise"
        if self.facts.reviewed_by:
            return f"reviewed by {self.facts.reviewed_by}"
        if self.box.reviewed_by is not None:
            return f"not reviewed: {self.box.reviewed_by.name} reviewed another digest"
        return "not reviewed"


@app.callback()
def boxes(context: typer.Context, config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """List black boxes with digest and review."""
    if context.invoked_subcommand is not None:
        return
    entries = _listed(config)
    if as_json:
        say_json([_box_document(one) for one in entries])
        return
    for one in entries:
        console.print(f"[bold]{escape(one.box.name)}[/]  {one.box.kind}, {one.facts.tier}")
        console.print(f"  sha256  {one.facts.digest}", soft_wrap=True)
        console.print(f"  review  {escape(one.review)}", soft_wrap=True)
    if not entries:
        console.print("No black boxes are configured.")


@app.command()
def review(
    name: Annotated[str, typer.Argument(help="Name of the black box in the settings.")],
    by: Annotated[str, typer.Option(help="Name of the reviewer, as shown on cards.")],
    show: Annotated[
        bool, typer.Option("--print", help="Print the settings line and write nothing.")
    ] = False,
    config: ConfigFile = HERE,
) -> None:
    """Record in the settings who reviewed a black box. The review holds for its present digest."""
    listed = _listed(config)
    facts = next((one.facts for one in listed if one.box.name == name), None)
    if facts is None:
        names = ", ".join(one.box.name for one in listed) or "none"
        problem = f"{name!r} is not a black box of the settings, which have {names}"
        raise InvalidInputError(field="name", problem=problem)
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
    console.print(
        f"Recorded: {escape(by)} reviewed {escape(name)}, sha256 {facts.digest}.", soft_wrap=True
    )
    console.print(_REVIEW_LIMITS)
    console.print("A running service reads this after a restart.")


def _listed(config: Path) -> list[_Listed]:
    settings = Settings.load(config)
    entries = settings.black_boxes
    known = Boxes(entries, settings.limits.model_cells, settings.cell, settings.state.work)
    return [_Listed(box, known.facts(box.name)) for box in entries]


def _box_document(one: _Listed) -> dict[str, object]:
    facts = one.facts
    return {
        "name": one.box.name,
        "kind": one.box.kind,
        "tier": facts.tier,
        "sha256": facts.digest,
        "reviewedBy": facts.reviewed_by or None,
    }
