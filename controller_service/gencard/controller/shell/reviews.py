"""audits, refusals, boxes: what a steward reviews: evidence, failures at the records, black boxes."""

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.markup import escape

from gencard.controller.boxes.boxes import Boxes
from gencard.controller.boxes.generator_facts import GeneratorFacts
from gencard.controller.boxes.reviews import review_line, write_review
from gencard.controller.operations.failures import error_of_document
from gencard.controller.records.catalogue import PREFIX
from gencard.controller.settings.boxes import BoxEntry, ReviewTable
from gencard.controller.settings.settings import Settings
from gencard.controller.shell.terminal import (
    HERE,
    AsJson,
    ConfigFile,
    StewardName,
    console,
    controller_state,
    plain,
    say_json,
    steward_uri,
    stewardship,
    table,
)
from gencard.controller.state.audits import AuditRow, AuditStore
from gencard.controller.state.operations import OperationRow
from gencard.core.audit.report import Verdict
from gencard.core.card.terms import Tier
from gencard.core.errors import InvalidInputError
from gencard.wire.signatures.canonical import time_text

audits_app = typer.Typer(help="Evidence of audits, by black box.", invoke_without_command=True)

_COLUMNS = ("dataset", "black_box", "author", "tries", "leakage", "newest_verdict")


@audits_app.callback()
def show_audits(context: typer.Context, config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """Show how many ended audits count against each black box, and how many found leakage."""
    if context.invoked_subcommand is not None:
        return
    with controller_state(config) as opened, opened.database.reading() as tx:
        rows = sorted(AuditStore().counting(tx), key=_family)
    families = [_family_document(list(tries)) for _, tries in groupby(rows, key=_family)]
    if as_json:
        say_json(families)
        return
    shown = table("Audits that count", *(name.replace("_", " ") for name in _COLUMNS))
    for family in families:
        shown.add_row(*(str(family[name]) for name in _COLUMNS))
    console.print(shown)


@audits_app.command()
def clear(
    black_box: Annotated[str, typer.Argument(help="Name of the black box in the settings.")],
    dataset: Annotated[str, typer.Option(help="The dataset on which its audits count no more.")],
    remark: Annotated[str, typer.Option(help="Why; written into the log.")],
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Clear the evidence against a black box: its next audit is its first try again.

    Cards whose audit failed stay failed. Audits of the same bytes under another name keep counting.
    """
    name = PREFIX + dataset.removeprefix(PREFIX)
    with controller_state(config) as opened:
        clearing = opened.audit_clearing(steward_uri(opened.settings, steward))
        number = clearing.clear(name, black_box, remark)
    console.print(f"{number} audits of {black_box} on {name} count no more; the log says why.")


def _family(row: AuditRow) -> tuple[str, str, str]:
    return row.dataset, row.black_box, row.author or ""


def _family_document(tries: list[AuditRow]) -> dict[str, str | int]:
    """One family, its tries in the order of their ends."""
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


refusals_app = typer.Typer(help="What failed at the records.", invoke_without_command=True)
Operation = Annotated[str, typer.Argument(help="Name of the operation.")]


@refusals_app.callback()
def show_refusals(context: typer.Context, config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """Show analysts' operations that failed at the records, oldest first.

    After limits.refusals of them on one dataset an analyst can begin no other there.
    """
    if context.invoked_subcommand is not None:
        return
    with controller_state(config) as opened, opened.database.reading() as tx:
        waiting = opened.refusals.waiting(tx)
    if as_json:
        say_json([_refusal_document(row) for row in waiting])
        return
    for row in waiting:
        document = _refusal_document(row)
        console.print(f"[bold]{row.name}[/]  {document['time']}  {document['reason']}", soft_wrap=True)
        console.print(f"  {plain(row.owner)}  {row.kind} at {row.resource}", soft_wrap=True)
    if not waiting:
        console.print("Nothing failed at the records that no steward has looked at.")


@refusals_app.command()
def seen(operation: Operation, config: ConfigFile = HERE, steward: StewardName = None) -> None:
    """You looked why it failed: it does not count any more. Its price stays as it is."""
    with stewardship(config, steward) as steward_desk:
        steward_desk.look_at(operation)
    console.print(f"{operation} does not count any more.")


def _refusal_document(row: OperationRow) -> dict[str, str]:
    return {
        "operation": row.name,
        "time": time_text(row.changed),
        "analyst": row.owner,
        "kind": row.kind,
        "resource": row.resource,
        "reason": error_of_document(row.error).reason,
    }


boxes_app = typer.Typer(help="Black boxes: digests and reviews.", invoke_without_command=True)
_REVIEW_LIMITS = (
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


@boxes_app.callback()
def boxes(context: typer.Context, config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """List black boxes with their digests, and whether somebody reviewed them."""
    if context.invoked_subcommand is not None:
        return
    listed = _listed(config)
    if as_json:
        say_json([_box_document(one) for one in listed])
        return
    for one in listed:
        console.print(f"[bold]{escape(one.box.name)}[/]  {one.box.kind}, {one.facts.tier}")
        console.print(f"  sha256  {one.facts.digest}", soft_wrap=True)
        console.print(f"  review  {plain(one.review)}", soft_wrap=True)
    if not listed:
        console.print("The settings name no black boxes.")


@boxes_app.command()
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
    console.print(_REVIEW_LIMITS)
    console.print("A running service reads this when it is started again.")


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
