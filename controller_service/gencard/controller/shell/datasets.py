"""dataset, caps, boxes: datasets on offer, the most that may be spent on them, and black boxes."""

import re
import shlex
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.markup import escape

from gencard.controller.boxes import NAME, BoxEntry, Boxes, GeneratorFacts, ReviewTable
from gencard.controller.drafting.edits import (
    add_dataset,
    edit_caps,
    remove_dataset,
    review_line,
    write_review,
)
from gencard.controller.drafting.folder import dataset_text, drafted_schema_text
from gencard.controller.drafting.schema_draft import draft_schema
from gencard.controller.people.enrolment import read_identities
from gencard.controller.people.keys import write_new
from gencard.controller.records.catalogue import PREFIX
from gencard.controller.records.schema_file import read_schema
from gencard.controller.records.table_address import name_of, records_at
from gencard.controller.settings import Settings
from gencard.controller.shell.schema import (
    MostRecords,
    Person,
    Weights,
    dataset_entry,
    say_columns,
    settling,
)
from gencard.controller.shell.terminal import (
    HERE,
    AsJson,
    ConfigFile,
    SheetName,
    SkippedRows,
    StewardName,
    caps_text,
    console,
    controller_state,
    note_rules,
    say,
    say_in_force,
    say_json,
    say_table,
    service_statement,
    table,
)
from gencard.controller.state.cards import ENDED, all_cards, as_of
from gencard.controller.state.database import Database
from gencard.controller.state.ledger import Ledger
from gencard.controller.state.log import EventLog
from gencard.controller.wiring.opening import caps_of
from gencard.controller.wiring.readiness import check_caps
from gencard.core.card.terms import Tier
from gencard.core.errors import GencardError, InvalidInputError, StorageError
from gencard.shell import new_typer
from gencard.wire.codec import card_of_bytes

dataset_app = new_typer(help="Add, list or remove datasets.")
caps_app = new_typer(
    help="Show or set caps: the most that may ever be spent on a dataset.", invoke_without_command=True
)


@dataset_app.command()
def add(
    name: Annotated[str, typer.Argument(help="Name of the dataset: a-z, 0-9, _ and -.")],
    file: Annotated[
        str,
        typer.Argument(
            help="The records: a file (.csv, .parquet, .xlsx, .dta, .sav and others), a folder of "
            "Parquet files, or the address of a database table."
        ),
    ],
    sheet: SheetName = "",
    skip: SkippedRows = 0,
    person: Person = None,
    most_records: MostRecords = None,
    weight: Weights = None,
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Add a dataset, with a drafted schema, policy and caps."""
    records = records_at(file, "file")
    schema_file = config.absolute().parent / f"{name}-schema.toml"
    if not re.fullmatch(NAME, name):
        problem = "must be a letter and at most 62 more of a-z, 0-9, _ and -"
        raise InvalidInputError(field="name", problem=problem)
    settings = Settings.load(config)
    if name in {entry.name for entry in settings.datasets} or schema_file.exists():
        problem = f"{name!r} is taken by a dataset or by {schema_file.name}; choose another"
        raise InvalidInputError(field="name", problem=problem)
    with console.status("Reading the records") as status:
        settled = settling(person, most_records, weight, status)
        drafted = settled(
            draft_schema(
                records,
                name_of(records),
                today=datetime.now(UTC).date(),
                sheet=sheet,
                skip=skip,
                progress=lambda column: status.update(f"Reading {escape(column)}"),
            )
        )
    write_new(schema_file, drafted_schema_text(drafted).encode(), private=False)
    try:
        most = settings.limits.marginals
        add_dataset(config, dataset_text(name, records, schema_file.name, drafted, most_statistics=most))
    except GencardError:
        schema_file.unlink()
        raise
    note_rules(config, steward)
    say_columns(drafted)
    options = f"--dataset {name} --config {shlex.quote(str(config))}"
    say("\nNext:")
    say(f"  1. Read {schema_file} line by line; change it with gencard-controller schema set ATTRIBUTE")
    say(f"  2. gencard-controller schema review {options}")
    say(f"  3. Read policy and caps of {name} in {config}.")
    say(f"  4. gencard-controller check --config {shlex.quote(str(config))}")
    say_in_force(config)


@dataset_app.command(name="list")
def list_datasets(config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """List datasets with records, schema, policy and caps."""
    documents: list[dict[str, Any]] = [
        {
            "name": entry.name,
            "records": str(entry.data),
            "schema": str(entry.schema_file),
            "reviewed": read_schema(entry.schema_file).reviewed,
            "policy": entry.policy.summary,
            "caps": caps_text(entry.caps.in_words()),
        }
        for entry in Settings.load(config).datasets
    ]
    for document in () if as_json else documents:
        document["reviewed"] = "reviewed" if document["reviewed"] else "not reviewed"
    say_table("Datasets", documents, as_json)


@dataset_app.command()
def remove(
    name: Annotated[str, typer.Argument(help="Name of the dataset.")],
    force: Annotated[
        bool, typer.Option("--force", help="Remove it even if cards on it have not ended.")
    ] = False,
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Remove a dataset from the settings. Records, schema file, cards and ledger are kept."""
    entry = dataset_entry(config, name)
    settings = Settings.load(config)
    database, now = Database(settings.state.database_url), datetime.now(UTC)
    database.migrate()
    with database.reading() as tx:
        if (last := EventLog.last(tx)) is not None:
            now = max(now, last.time)
        rows = all_cards(tx, f"{PREFIX}{entry.name}")
        cards = [as_of(card_of_bytes(row.body), now) for row in rows]
    database.close()
    open_cards = [card.name for card in cards if card.state not in ENDED]
    if open_cards and not force:
        problem = f"has {len(open_cards)} cards that have not ended, such as {open_cards[0]}; end them "
        problem += "with `gencard-controller emergency revoke` or `reject`, or use --force"
        raise InvalidInputError(field=f"{PREFIX}{entry.name}", problem=problem)
    remove_dataset(config, entry.name)
    note_rules(config, steward)
    say(f"{entry.name} is no longer in {config}. These files are still there:")
    for file in filter(None, (entry.data, entry.schema_file, entry.holdout)):
        say(f"  {file}")
    say(
        "What was spent counts again if a dataset of this name is added. Do not offer these "
        "records under another"
    )
    say("name: it would have a budget of its own. A running service serves it until a restart.")
    say_in_force(config)


@caps_app.callback()
def show_caps(context: typer.Context, config: ConfigFile = HERE) -> None:
    """Show caps, the most that may ever be spent; `emergency ledger` shows what was spent.

    If a service is running, also show what it enforces, and which settings it has not taken over.
    """
    if context.invoked_subcommand is not None:
        return
    statement = None
    with suppress(StorageError):  # ``say_in_force`` says that it is not known
        statement = service_statement(config)
    caps = table("Caps", "dataset", "of", "cap", *([] if statement is None else ["in force"]))
    wanted = {name: held.in_words() for name, held in caps_of(Settings.load(config)).items()}
    held = {} if statement is None else statement.caps
    for name in dict.fromkeys((*wanted, *held)):
        for holder in dict.fromkeys((*wanted.get(name, {}), *held.get(name, {}))):
            cells = [wanted.get(name, {}).get(holder, "none")]
            cells += [] if statement is None else [held.get(name, {}).get(holder, "none")]
            caps.add_row(name.removeprefix(PREFIX), holder, *cells)
    console.print(caps)
    say_in_force(config)


@caps_app.command(name="set")
def set_caps(
    dataset: Annotated[str, typer.Argument(help="Name of the dataset.")],
    rho: Annotated[str | None, typer.Option(help="Cap on rho, the budget of Gaussian noise.")] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Cap on epsilon, the budget of Laplace noise.")
    ] = None,
    statistics: Annotated[int | None, typer.Option(help="Cap on independent exact statistics.")] = None,
    project: Annotated[str | None, typer.Option(help="Cap of this project only.")] = None,
    analyst: Annotated[str | None, typer.Option(help="Cap of this analyst only.")] = None,
    each_project: Annotated[
        bool, typer.Option("--each-project", help="Cap of every project that has no cap of its own.")
    ] = False,
    each_analyst: Annotated[
        bool, typer.Option("--each-analyst", help="Cap of every analyst who has no cap of their own.")
    ] = False,
    steward: StewardName = None,
    config: ConfigFile = HERE,
) -> None:
    """Set a cap: of the dataset, or of a project or analyst, if named. What was spent stays spent."""
    options: dict[str, str | int | None] = {"statistics": statistics, "epsilon": epsilon, "rho": rho}
    amounts = {currency: amount for currency, amount in options.items() if amount is not None}
    if not amounts:
        raise InvalidInputError(field="caps", problem="give --rho, --epsilon or --statistics")
    accounts = [("project", project), ("analyst", analyst)]
    accounts += [("project", "")] * each_project + [("analyst", "")] * each_analyst
    accounts_named = [(scope, holder) for scope, holder in accounts if holder is not None]
    if len(accounts_named) > 1:
        problem = "applies to one project, one analyst or all of them; give one option"
        raise InvalidInputError(field="caps", problem=problem)
    scope, holder = accounts_named[0] if accounts_named else ("dataset", "")
    people = [one.identity for one in read_identities(Settings.load(config).signing.identities).values()]
    names = {person.project if scope == "project" else person.name for person in people}
    if holder and holder not in names:  # a cap of an unknown holder would be a mistake
        problem = f"nobody is enrolled as {holder!r}; enrolled: {', '.join(sorted(names)) or 'none'}"
        raise InvalidInputError(field=scope, problem=problem)
    name = dataset_entry(config, dataset).name
    with controller_state(config) as state, state.database.reading() as tx:

        def check(changed: Settings) -> None:
            caps = caps_of(changed)[f"{PREFIX}{name}"]
            check_caps(tx, Ledger({f"{PREFIX}{name}": caps}))

        edit_caps(config, name, (scope, holder), amounts, check)
    note_rules(config, steward)
    wanted = caps_of(Settings.load(config))[f"{PREFIX}{name}"].in_words()
    say(f"{name}: {caps_text(wanted)}")
    statement = say_in_force(config, f"{PREFIX}{name}")
    if statement is not None and statement.digest and statement.caps.get(f"{PREFIX}{name}") != wanted:
        say("The settings file has the new cap, but the running service does not enforce it.")
        raise typer.Exit(1)


# boxes: black boxes of the settings, and their reviews.


boxes_app = new_typer(help="Show or review black boxes.", invoke_without_command=True)


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


@boxes_app.callback()
def boxes(context: typer.Context, config: ConfigFile = HERE, as_json: AsJson = False) -> None:
    """List black boxes with digest and review."""
    if context.invoked_subcommand is not None:
        return
    entries = _listed(config)
    if as_json:
        say_json(
            [
                {
                    "name": one.box.name,
                    "kind": one.box.kind,
                    "tier": one.facts.tier,
                    "sha256": one.facts.digest,
                    "reviewedBy": one.facts.reviewed_by or None,
                }
                for one in entries
            ]
        )
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
        problem = "must be one line of at most 200 characters"
        raise InvalidInputError(field="by", problem=problem) from None
    if show:
        typer.echo(review_line(reviewed))
        return
    write_review(config, name, reviewed)
    console.print(
        f"Recorded: {escape(by)} reviewed {escape(name)}, sha256 {facts.digest}.", soft_wrap=True
    )
    console.print(
        "A review states that you trust the author: no audit finds what an author hides on purpose. "
        "It holds for this digest only."
    )
    console.print("A running service reads this after a restart.")


def _listed(config: Path) -> list[_Listed]:
    settings = Settings.load(config)
    entries = settings.black_boxes
    known = Boxes(entries, settings.limits.model_cells, settings.cell, settings.state.work)
    return [_Listed(box, known.facts(box.name)) for box in entries]
