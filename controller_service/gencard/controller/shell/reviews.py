"""audits, refusals, boxes: audit evidence, failures at the records, reviews of black boxes."""

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.markup import escape

from gencard.controller.boxes.boxes import Boxes
from gencard.controller.boxes.entries import BoxEntry, ReviewTable
from gencard.controller.boxes.generator_facts import GeneratorFacts
from gencard.controller.drafting.edits import review_line, write_review
from gencard.controller.operations.failures import Refused
from gencard.controller.records.catalogue import PREFIX
from gencard.controller.settings.settings import Settings
from gencard.controller.shell.terminal import (
    HERE,
    AsJson,
    ConfigFile,
    Emergency,
    Reason,
    StewardName,
    console,
    controller_state,
    local_desk,
    say_json,
    table,
)
from gencard.controller.state import results
from gencard.controller.state.results import AuditRow
from gencard.core.audit.report import Verdict
from gencard.core.card.terms import Tier
from gencard.core.errors import InvalidInputError
from gencard.shell import new_typer
from gencard.wire.documents.card_document import json_of
from gencard.wire.signatures.canonical import Document
from gencard.wire.signatures.identity import short_name
from gencard.wire.steward import Kind

audits_app = new_typer(help="Show or clear audit evidence, by black box.", invoke_without_command=True)

_COLUMNS = ("dataset", "black_box", "author", "tries", "leakage", "newest_verdict")


@audits_app.callback()
def show_audits(context: typer.Context, config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """Count the completed audits of each black box, and those that found leakage."""
    if context.invoked_subcommand is not None:
        return
    with controller_state(config) as state, state.database.reading() as tx:
        rows = sorted(results.counting_audits(tx), key=_family)
    families = [_family_document(list(tries)) for _, tries in groupby(rows, key=_family)]
    if as_json:
        say_json(families)
        return
    audits_table = table("Audits that count", *(name.replace("_", " ") for name in _COLUMNS))
    for family in families:
        audits_table.add_row(*(str(family[name]) for name in _COLUMNS))
    console.print(audits_table)


@audits_app.command()
def clear(
    black_box: Annotated[str, typer.Argument(help="Name of the black box in the settings.")],
    dataset: Annotated[str, typer.Option(help="Dataset whose audits of the box are cleared.")],
    remark: Annotated[str, typer.Option(help="Reason, recorded in the log.")],
    emergency: Emergency = False,
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Clear the evidence against a black box. Its next audit counts as the first attempt.

    Cards whose audit failed stay failed. Audits of the same code under another name still count.
    """
    name = PREFIX + dataset.removeprefix(PREFIX)
    with local_desk(config, steward, emergency=emergency) as desk:
        result = desk.decide(Kind.CLEAR_AUDITS, name, remark, black_box=black_box)
    if result is not None:
        tries = f"Cleared {result['tries']} audits of {black_box} on {name}"
        console.print(f"{tries}; the log records the reason.")


def _family(row: AuditRow) -> tuple[str, str, str]:
    return row.dataset, row.black_box, row.author or ""


def _family_document(tries: list[AuditRow]) -> dict[str, str | int]:
    """Return a family as a document; ``tries`` are ordered by their end."""
    newest = tries[-1]
    values = (
        newest.dataset,
        newest.black_box,
        newest.author or "unknown",
        len(tries),
        sum(row.verdict is Verdict.LEAKAGE for row in tries),
        str(newest.verdict),
    )
    return dict(zip(_COLUMNS, values, strict=True))


refusals_app = new_typer(
    help="Show or dismiss failures and refusals on the records.", invoke_without_command=True
)
Operation = Annotated[str, typer.Argument(help="Name of the operation or answer.")]


@refusals_app.callback()
def show_refusals(context: typer.Context, config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """List unreviewed operations that failed, and runs that were refused, on the records, oldest first.

    An analyst with limits.refusals of them on a dataset cannot start another operation there; nor can
    any analyst of a project with three times as many. Of a refused run the output rules are listed.
    """
    if context.invoked_subcommand is not None:
        return
    with controller_state(config) as state, state.database.reading() as tx:
        waiting = state.refusals.reviewable(tx)
    if as_json:
        say_json([_refusal_document(row) for row in waiting])
        return
    for row in waiting:
        document = _refusal_document(row)
        console.print(f"[bold]{row.name}[/]  {document['time']}  {document['reason']}", soft_wrap=True)
        console.print(f"  {short_name(row.owner)}  {row.kind} on {row.resource}", soft_wrap=True)
    if not waiting:
        console.print("No unreviewed failures on the records.")


@refusals_app.command()
def seen(
    operation: Operation,
    reason: Reason = None,
    emergency: Emergency = False,
    config: ConfigFile = HERE,
    steward: StewardName = None,
) -> None:
    """Mark a failure or refusal as reviewed: it no longer counts. Its price stays charged."""
    with local_desk(config, steward, emergency=emergency) as desk:
        if desk.decide(Kind.DISMISS_REFUSAL, operation, reason) is not None:
            console.print(f"{operation} no longer counts against its analyst.")


def _refusal_document(row: Refused) -> Document:
    about = {"operation": row.name, "analyst": row.owner}
    return {**about, **json_of(row, "time", "kind", "resource", "reason")}


boxes_app = new_typer(help="Show or review black boxes.", invoke_without_command=True)
_REVIEW_LIMITS = (
    "A review states that you trust the author: no audit finds what an author hides on purpose. "
    "It holds for this digest only."
)


@dataclass(frozen=True, slots=True)
class _Listed:
    """A black box of the settings."""

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


@boxes_app.callback()
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


@boxes_app.command()
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
