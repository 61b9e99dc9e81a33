"""schema: show, change and review what everybody may know of a dataset."""

import csv
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.status import Status

from gencard.controller.base.files import Table, read_table, toml_text
from gencard.controller.drafting.edits import AttributeEdit, edit_attribute, edit_schema
from gencard.controller.drafting.schema_draft import (
    DraftedAttribute,
    SchemaDraft,
    with_person,
    with_weights,
)
from gencard.controller.drafting.units import NO_WEIGHT, CodeList, are_texts, codes_in
from gencard.controller.records.catalogue import PREFIX
from gencard.controller.records.declarations import SCALE_KEYS
from gencard.controller.records.file_format import USUAL, FileFormat
from gencard.controller.records.schema_file import UNDECLARED, PublicSchema, read_schema
from gencard.controller.settings import DatasetTable, Settings
from gencard.controller.shell.terminal import HERE, ConfigFile, console, say, say_in_force, table
from gencard.core.card.budget import decimal_text
from gencard.core.coding import Edges, Labels
from gencard.core.errors import InvalidInputError
from gencard.core.scale import CLAMPS
from gencard.shell import new_typer, several
from gencard.wire.psi import coding_digest

app = new_typer(help="Show, change or review the public schema of a dataset.")

DatasetName = Annotated[
    str | None, typer.Option("--dataset", help="Name of the dataset, where there is more than one.")
]


@app.command(name="show")
def show_schema(dataset: DatasetName = None, config: ConfigFile = HERE) -> None:
    """Show attributes and levels as everybody sees them."""
    _say_schema(dataset_entry(config, dataset))


@app.command(name="set")
def set_attribute(
    attribute: Annotated[str, typer.Argument(help="Name of the attribute.")],
    labels: Annotated[
        str | None,
        typer.Option(help='All labels, such as "low,mid,high"; put a label with a comma in quotes.'),
    ] = None,
    labels_from: Annotated[
        Path | None,
        typer.Option(
            help="All labels from a file, in its order: a .txt with one a line, or a .csv or .tsv with "
            "a header such as code,label: codes, and what they are in words."
        ),
    ] = None,
    add_label: Annotated[
        list[str] | None, typer.Option(help="One more label, after the others. Repeatable.")
    ] = None,
    edges: Annotated[
        str | None, typer.Option(help="Edges of intervals, such as 0,18,65 or 2019-01-01,2020-12-31.")
    ] = None,
    ordered: Annotated[
        bool | None,
        typer.Option("--ordered/--not-ordered", help="Declare that the labels are in order."),
    ] = None,
    integer: Annotated[
        bool | None,
        typer.Option("--integer/--not-integer", help="Declare that values are whole numbers."),
    ] = None,
    text: Annotated[
        bool | None,
        typer.Option("--text/--not-text", help="Compare labels as texts: 01 and 1 are two labels."),
    ] = None,
    decimals: Annotated[int | None, typer.Option(help="Largest number of decimals of a value.")] = None,
    step: Annotated[
        str | None, typer.Option(help="Values are multiples of it, such as 1 or 0.01.")
    ] = None,
    points: Annotated[
        str | None, typer.Option(help='Values that are levels of their own, such as 0,40; "" for none.')
    ] = None,
    fine: Annotated[
        str | None,
        typer.Option(
            help='Cells of the histogram: ten-a-decade, a width, or a list of edges; "" for the levels.'
        ),
    ] = None,
    fine_points: Annotated[
        str | None, typer.Option(help="Values that are cells of their own in the histogram alone.")
    ] = None,
    above: Annotated[
        bool | None,
        typer.Option("--above/--not-above", help="Values above the last edge count as the last edge."),
    ] = None,
    below: Annotated[
        bool | None,
        typer.Option("--below/--not-below", help="Values below the first edge count as the first edge."),
    ] = None,
    missing: Annotated[
        bool | None,
        typer.Option("--missing/--not-missing", help="Make empty values a level of their own."),
    ] = None,
    absent: Annotated[
        list[str] | None, typer.Option(help="A value that stands for missing, such as -9. Repeatable.")
    ] = None,
    other: Annotated[str | None, typer.Option(help="Label of all values that are not declared.")] = None,
    age_at: Annotated[
        str | None, typer.Option(help="Values are dates of birth; levels are ages on this day.")
    ] = None,
    zone: Annotated[
        str | None,
        typer.Option(help="Zone in which instants have their date, such as America/New_York."),
    ] = None,
    time_of: Annotated[
        str | None,
        typer.Option(help="Attribute of whose instants this is the time of day; edges are HH:MM."),
    ] = None,
    description: Annotated[str | None, typer.Option(help="Public description of the attribute.")] = None,
    leave_out: Annotated[
        bool, typer.Option("--leave-out", help="Remove the attribute from the schema.")
    ] = False,
    new: Annotated[bool, typer.Option("--new", help="Add an attribute that was left out.")] = False,
    dataset: DatasetName = None,
    config: ConfigFile = HERE,
) -> None:
    """Change an attribute of a schema file; comments are kept. The schema then needs a new review."""
    if labels_from is not None and (labels, edges) != (None, None):
        raise InvalidInputError(field="--labels-from", problem="goes without --labels and --edges")
    listed = CodeList() if labels_from is None else codes_in(labels_from, attribute)
    if listed.header:
        say(f"Line 1, {listed.header!r}, is the header; {len(listed.codes):,} codes follow.")
    values = _replacing(listed.codes) if listed.codes else _levels(labels, edges)
    values |= {"text": True} if are_texts(listed.codes) else {}
    values |= {"age_at": _day(age_at), "step": 1} if age_at else {}
    values |= _scale(step, points, fine, fine_points)
    flags = {"above": above, "below": below}
    values |= {name: CLAMPS[name] if on else None for name, on in flags.items() if on is not None}
    options: Table = {"ordered": ordered, "integer": integer, "text": text, "missing": missing}
    options |= {"integer": False} if text or values.get("text") else {}
    values |= {name: flag or None for name, flag in options.items() if flag is not None}
    texts: Table = {"decimals": decimals, "other": other, "description": description}
    values |= {name: value for name, value in texts.items() if value is not None}
    zones = {"zone": zone, "time_of": time_of}  # an empty one takes the key away
    values |= {name: value or None for name, value in zones.items() if value is not None}
    edit = AttributeEdit(attribute, values, listed.words, add_label or (), absent or (), leave_out, new)
    if not (values or add_label or absent or leave_out):
        raise InvalidInputError(field="attribute", problem="nothing to change was given; see --help")
    _change(dataset_entry(config, dataset), edit, config)


@app.command()
def describe(
    title: Annotated[str | None, typer.Option(help="Public title of the dataset.")] = None,
    description: Annotated[
        str | None, typer.Option(help="What the dataset is, where it comes from, and under which terms.")
    ] = None,
    dataset: DatasetName = None,
    config: ConfigFile = HERE,
) -> None:
    """Set title and description of a dataset, which everybody sees. The schema then needs a review."""
    options = {"title": title, "description": description}
    texts = {name: text for name, text in options.items() if text is not None}
    if not texts:
        raise InvalidInputError(field="describe", problem="needs --title or --description")
    entry = dataset_entry(config, dataset)
    schema = edit_schema(entry.schema_file, {**texts, "reviewed": False})
    _say_about(schema)
    _say_review(entry, config)


@app.command()
def review(
    declared_by: Annotated[
        str | None, typer.Option(help="Who declares the schema, as shown on cards.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Confirm, without a question, that you have read every line.")
    ] = False,
    dataset: DatasetName = None,
    config: ConfigFile = HERE,
) -> None:
    """Mark a schema as reviewed, after showing it. Labels and edges become public."""
    entry = dataset_entry(config, dataset)
    _say_schema(entry, declared_by)
    if not yes:
        typer.confirm("Everybody will see this. Have you read every line?", abort=True)
    declared = {} if declared_by is None else {"declared_by": declared_by}
    edit_schema(entry.schema_file, {"reviewed": True, **declared})
    say(f"{entry.schema_file} is marked as reviewed.")
    say_in_force(config)


def _replacing(labels: Sequence[str]) -> Table:
    others = ("decimals", "age_at", "drafted", "zone", "time_of", *SCALE_KEYS)
    return {"labels": [*labels]} | dict.fromkeys(others)


def _levels(labels: str | None, edges: str | None) -> Table:
    if labels is not None and edges is not None:
        raise InvalidInputError(field="labels", problem="cannot be given together with edges")
    if labels is not None:
        (split,) = csv.reader([labels], skipinitialspace=True)
        return _replacing(split)
    if edges is None:
        return {}
    parts = [part.strip() for part in edges.split(",")]
    others = dict.fromkeys(("labels", "ordered", "boolean", "text", "other", "groups", "drafted"))
    others |= dict.fromkeys(("points", "fine_points"))  # which were chosen for other edges
    if any(":" in part for part in parts):  # the schema file checks times of day
        return {"edges": parts, "dates": None, "zone": None} | others
    numbers = [_number(part) for part in parts]
    if None not in numbers:
        return {"edges": numbers, "dates": None, "zone": None, "time_of": None} | others
    for part, number in zip(parts, numbers, strict=True):
        if number is None:
            _day(part)  # what is neither is named, before a number among dates
    others |= dict.fromkeys(("edges", "integer", "decimals", "age_at", "fine", "time_of"))
    return {"dates": [_day(part) for part in parts], "step": 1} | others


def _scale(step: str | None, points: str | None, fine: str | None, fine_points: str | None) -> Table:
    values: Table = {}
    if step is not None:
        values |= {"step": step, "integer": None, "decimals": None}
    for name, text in (("points", points), ("fine_points", fine_points)):
        if text is not None:
            values[name] = _listed(text) or None
    if fine is not None:
        parts = _listed(fine)
        values["fine"] = parts if len(parts) > 1 else parts[0] if parts else None
    return values


def _listed(text: str) -> list[int | float | str]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return [part if (number := _number(part)) is None else number for part in parts]


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return None


def _day(text: str) -> str:
    with suppress(ValueError):
        return date.fromisoformat(text).isoformat()
    raise InvalidInputError(field="edges", problem=f"{text!r} is neither a number nor a date 2020-12-31")


def _change(entry: DatasetTable, edit: AttributeEdit, config: Path) -> None:
    before, old = _attribute_table(entry, edit.name), read_schema(entry.schema_file)
    new = edit_attribute(entry.schema_file, edit)
    after = _attribute_table(entry, edit.name)
    for name in {**before, **after}:
        if before.get(name) != after.get(name):
            old_line = [f"- {name} = {toml_text(before[name])}"] if name in before else []
            new_line = [f"+ {name} = {toml_text(after[name])}"] if name in after else []
            say("\n".join(old_line + new_line))
    attribute = new.coding.attribute(edit.name) if edit.name in new.coding.domain else None
    coding = None if attribute is None or attribute.derivation is not None else attribute.coding
    if isinstance(coding, Edges) and coding.scale is None:
        say(
            f"{edit.name} has no step: rows get numbers at any place inside its intervals. State one, "
            f"such as: gencard-controller schema set {shlex.quote(edit.name)} --step 1"
        )
    if coding_digest(old.coding) != coding_digest(new.coding):
        say(
            "Cards agreed under the previous schema can generate no more rows, because their "
            "counts would differ."
        )
    _say_review(entry, config)


def _say_review(entry: DatasetTable, config: Path) -> None:
    options = f"--dataset {entry.name} --config {shlex.quote(str(config))}"
    say(f"The schema needs a review. Next: gencard-controller schema review {options}")
    say_in_force(config)


def _attribute_table(entry: DatasetTable, name: str) -> Table:
    tables: list[Table] = read_table(entry.schema_file).get("attributes", [])
    return next((one for one in tables if one.get("name") == name), {})


def _say_schema(entry: DatasetTable, declared_by: str | None = None) -> None:
    """Print a schema; ``declared_by`` is a name that a review is about to set."""
    schema = read_schema(entry.schema_file)
    schema = schema if declared_by is None else replace(schema, declared_by=declared_by)
    reviewed = "reviewed" if schema.reviewed else "not reviewed"
    title = f"{schema.title}: {several(len(schema.coding.attributes), 'attribute')}, {reviewed}"
    attributes = table(escape(title), "attribute", "levels", "description")
    for attribute in schema.coding.attributes:
        levels = ", ".join(attribute.coding.level_names)
        attributes.add_row(escape(attribute.name), escape(levels), escape(attribute.description))
    console.print(attributes)
    _say_about(schema)
    say(f"File: {entry.schema_file}")


def _say_about(schema: PublicSchema) -> None:
    say(f"Title: {schema.title}")
    missing = "none; set it with: gencard-controller schema describe --description TEXT"
    say(f"Description: {schema.description or missing}")
    how = "; name them with: gencard-controller schema review --declared-by NAME"
    say(f"Declared by: {schema.declared_by}{how if schema.declared_by == UNDECLARED else ''}")


def dataset_entry(config: Path, name: str | None) -> DatasetTable:
    """Return the dataset of a name, or the only dataset; raises InvalidInputError."""
    entries = {entry.name: entry for entry in Settings.load(config).datasets}
    plain = None if name is None else name.removeprefix(PREFIX)
    if plain is None and len(entries) == 1:
        return next(iter(entries.values()))
    if plain not in entries:
        names = ", ".join(entries) or "none"
        problem = f"there is no {plain!r}; there are {names}"
        if plain is None:
            problem = f"must be named with --dataset where there are several: {names}"
        raise InvalidInputError(field="dataset", problem=problem)
    return entries[plain]


Person = Annotated[
    str | None,
    typer.Option(
        help="Column that says whose a record is, in panels and households; it is no attribute."
    ),
]
MostRecords = Annotated[
    int | None, typer.Option(help="With --person: records of one person that count.")
]
Weights = Annotated[
    list[str] | None,
    typer.Option(
        "--weight", help="Column of weights: the schema says that they are not used. Repeatable."
    ),
]


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def settling(
    person: str | None, most_records: int | None, weights: Sequence[str] | None, status: Status
) -> Callable[[SchemaDraft], SchemaDraft]:
    """Return the function that answers the questions of a draft, by options or in a terminal."""
    if most_records is not None and person is None:
        raise InvalidInputError(field="--most-records", problem="needs --person")

    def settled(drafted: SchemaDraft) -> SchemaDraft:
        asks = _is_terminal()
        status.stop()
        if person is not None:
            drafted = with_person(drafted, person, most_records)
        elif asks:
            drafted = _asked_of_person(drafted)
        if weights is None and asks:
            chosen = [
                name
                for name in drafted.weights
                if typer.confirm(f"Is {name} a weight, such as one of a sample?", default=False)
            ]
            drafted = replace(with_weights(drafted, chosen), weights=())
        elif weights is not None:
            drafted = with_weights(drafted, weights)
        status.start()
        return drafted

    return settled


def _asked_of_person(drafted: SchemaDraft) -> SchemaDraft:
    """Ask for each column that may identify persons, until the steward confirms one."""
    for unit in drafted.units:
        say(f"{unit.column} may say whose a record is, as in panels and households: {unit.why}.")
        if typer.confirm("Does it? Noise then protects a person with all records", default=False):
            number = typer.prompt("Records of one person that count", unit.most_records, type=int)
            return with_person(drafted, unit.column, number)
    return replace(drafted, units=())


def _say_questions(drafted: SchemaDraft) -> None:
    for unit in drafted.units:
        say(
            f"Does {unit.column} say whose a record is ({unit.why})? Nothing was assumed: each record "
            f"counts by itself. If so, draft it anew with --person {shlex.quote(unit.column)} "
            f"--most-records {unit.most_records}, or edit the schema as its comment says."
        )
    for name in drafted.weights:
        say(
            f"Is {name} a weight? Nothing was assumed. Weights are not used: statistics count records. "
            f"If it is one, draft it anew with --weight {shlex.quote(name)}, or edit the schema as its "
            "comment says: everybody then knows."
        )
    schema = drafted.schema
    if schema.person:
        say(
            f"{schema.person} says whose a record is: at most {schema.most_records} records of each "
            "count, and noise protects all of them together."
        )
    say_weights(schema)


def say_weights(schema: PublicSchema, dataset: str = "") -> None:
    """Print which attributes are weights, which nothing uses until they can be."""
    weights = [one.name for one in schema.coding.attributes if one.description == NO_WEIGHT]
    if weights:
        where = f"{dataset}: " if dataset else ""
        say(f"{where}{', '.join(weights)}: not used as a weight; statistics count records.")


def say_columns(drafted: SchemaDraft) -> None:
    """Print the draft, with counts of marks of missing values: for the steward alone."""
    file_format, drafts = drafted.format, drafted.attributes
    if file_format != USUAL:  # that of Parquet and tables, which have no encoding to say
        say(f"  The file is read as {_format_words(file_format)}.")
    if drafted.note:
        say(f"  {drafted.note}")
    columns = table("Columns", "column", "drafted as", "proposed as missing")
    for column in drafts:
        marks = ", ".join(f"{mark} ({count:,})" for mark, count in column.marks.items())
        columns.add_row(escape(column.name), escape(_coding_words(column)), escape(marks))
    console.print(columns)
    for column in drafts:
        if column.remark:
            say(f"{column.name}: {column.remark}")
    for question in questions_of_dates(file_format, drafts):
        say(question)
    for column in drafts:
        if column.influence:  # the drafted policy measures with noise
            say(column.influence)
    _say_questions(drafted)


def questions_of_dates(file_format: FileFormat, drafts: Sequence[DraftedAttribute]) -> list[str]:
    """Return the questions on reading dates that no value answers, one each for the whole file."""
    questions = []
    if undecided := [column.name for column in drafts if column.undecided]:
        questions.append(
            f"Is the day first, or the month, in {', '.join(undecided)}? No day is above 12. Dates are "
            f"read as {', '.join(file_format.dates)}: if wrong, state dates in the dataset's format."
        )
    if short := [form for form in file_format.dates if "%y" in form]:
        questions.append(
            f"In which century are the years of two digits of {', '.join(short)}? They are read as 1969 "
            "to 2068: if wrong, write them with four digits."
        )
    return questions


def _format_words(form: FileFormat) -> str:
    words = [
        "" if form.sheet else form.encoding,
        f"delimiter {form.delimiter!r}" if form.delimiter else "",
        f"decimal mark {form.decimal!r}" if form.decimal != "." else "",
        f"thousands {form.thousands!r}" if form.thousands else "",
        *(f"dates {date_form}" for date_form in form.dates),
        "spaces around values removed" if form.trim else "",
        f"sheet {form.sheet!r}" if form.sheet else "",
        f"{form.skip} rows skipped" if form.sheet and form.skip else "",
    ]
    return ", ".join(filter(None, words))


def _coding_words(column: DraftedAttribute) -> str:
    because = f", because {column.why}" if column.why else ""
    because += f", {column.rare} of them of one or two records" if column.rare else ""
    match column.coding:
        case None:
            return f"left out: {column.note}"
        case Labels(boolean=True):
            return "truth values"
        case Labels(labels, integer, ordered):
            kind = "whole number" if integer else "ordered label" if ordered else "label"
            return f"{several(len(labels), kind)}{because}"
        case Edges(dates=True):
            return f"{several(column.coding.size - column.coding.missing, 'period')}{because}"
    if column.reading.age_at:
        dropped = ", times of day are left out" if "Times of day" in column.note else ""
        return f"ages on {column.reading.age_at}{dropped}"
    levels = several(column.coding.size - column.coding.missing, "level")
    step = "" if column.scale is None else f", step {decimal_text(column.scale.step)}"
    rounded = ", to which values are rounded" if step and column.rounded else ""
    return f"{levels}{step}{rounded}"
