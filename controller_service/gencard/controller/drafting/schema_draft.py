"""Draft of a public schema from a file or table of records, for a person to review.

A running service never makes drafts. Columns that look like a name, an identifier or free text are left
out, and none of their values is copied.
"""

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from decimal import Decimal
from pathlib import Path

from gencard.controller.drafting.profiles import MOST_COLUMNS, MOST_LABELS, Profile, in_order, profiles
from gencard.controller.drafting.units import NO_WEIGHT, Unit, drafted_scale, may_be_weight, units_of
from gencard.controller.records.declarations import DeclaredScale
from gencard.controller.records.file_format import USUAL, FileFormat
from gencard.controller.records.schema_file import UNDECLARED, PublicSchema
from gencard.controller.records.table_address import TableAddress
from gencard.core.card.budget import check_most_records, decimal_text
from gencard.core.coding import (
    BOOLEANS,
    PLAIN,
    Attribute,
    Coding,
    Edges,
    Labels,
    Reading,
    date_of_days,
    days_of_date,
)
from gencard.core.errors import InvalidInputError
from gencard.core.values import number_of
from gencard.files.content import SHEETS, TEXT, ending_of
from gencard.files.layout import look_at

_MOST_NUMBER_LABELS = 20
_LONGEST_LABEL = 60
_RECORDS_NOTE = "Rounded, drafted from the records. Uncomment it if it may be public."
_AGES = (0, 18, 25, 35, 45, 55, 65, 75, 85, 120)
"""Edges of ages in use by statistical offices; they are no fact about the records."""

_NAMES_OF_TEXT = re.compile(
    r"comment|remark|note|text|descr|address|street|bemerk|kommentar|anmerk|adresse|stra(ss|ß)e",
    re.IGNORECASE,
)
_NAMES_OF_PEOPLE = re.compile(
    r"(^|[^a-z])(id|uid|uuid|ssn|iban|nr|row|key|name|surname|vorname|nachname|e?mail|phone|tel|telefon)([^a-z]|$)"
    r"|(_id|Id|ID)$|name$"
)
_NO_NAME = re.compile(r"(column\d+|Unnamed: \d+)?")
"""Names that programs give to a column without a name, which most often numbers the rows."""

_DROPPED_TIME = {
    "": "",
    "local": " Times of day are left out.",
    "offset": " Times of day are left out; days are those in UTC.",
}
_NAMES_OF_BIRTH = re.compile(r"birth|geburt|(^|[^a-z])dob([^a-z]|$)|naissance|nacimiento", re.IGNORECASE)

_LEVELS = frozenset(("labels", "edges", "dates", "age_at", "time_of"))
DRAFTED_SENTENCES = {
    r"(Labels|Edges|Periods) drafted from [^.]*\.": _LEVELS,
    r"Ages in the classes of statistical offices\.": _LEVELS,
    ", order recognised": _LEVELS | {"ordered"},
    r"State a public last edge; above = 'highest' takes larger values for it\.": _LEVELS | {"above"},
    r"Values are rounded to multiples of [0-9.E+-]*[0-9]\.": frozenset(("labels", "dates", "step")),
    r"Times of day are left out[^.]*\.": _LEVELS,
    r"No day is above 12: [^.]*\.": frozenset(("labels", "edges", "age_at")),
    r"(Dates|Text), because [^.]*\.": _LEVELS - {"labels"} | {"text"},
}
"""Sentences in comments of drafts, and keys of which a change makes each wrong."""


def left_out_words(name: str) -> str:
    """Return how the comment on a column begins that is not in a draft."""
    return f"Left out: {name!r}: "


@dataclass(frozen=True, slots=True)
class DraftedAttribute:
    """Draft of one column, or the reason why the column was left out.

    Args:
        note: Remarks on the draft for the steward; a comment in the schema file, which is public, so
            it has no count of records.
        marks: Marks of missing values and their counts, for the steward alone.
        scale: Declaration of numbers or dates, as the schema file states it.
        drafted: Source from which the levels were drafted; empty if they were declared.
        rounded: The step is coarser than the last digit of the values.
        influence: Largest change of the mean by one record, for the steward alone; empty if small.
        why: Why the values are no numbers, though they could be read as such.
        rare: Number of labels that one or two records have, for the steward alone.
        undecided: Dates that could as well be read with day and month exchanged.
        remark: Notes for the steward on how the values are read; also part of ``note``.
    """

    name: str
    coding: Labels | Edges | None
    note: str
    reading: Reading = PLAIN
    marks: dict[str, int] = field(default_factory=dict)
    scale: DeclaredScale | None = None
    drafted: str = ""
    rounded: bool = False
    influence: str = ""
    why: str = ""
    rare: int = 0
    undecided: bool = False
    description: str = ""
    remark: str = ""


@dataclass(frozen=True, slots=True)
class SchemaDraft:
    """A schema for review, the format of the file, and the draft of each column.

    Args:
        records: Number of records in the file, for the steward alone: the schema does not declare it.
        units: Columns that may identify persons; the steward is asked.
        weights: Columns that may be weights; the steward is asked.
        note: Sentence on the file as a whole, for the steward alone; may be empty.
    """

    schema: PublicSchema
    format: FileFormat
    attributes: tuple[DraftedAttribute, ...]
    records: int
    units: tuple[Unit, ...] = ()
    weights: tuple[str, ...] = ()
    note: str = ""

    @property
    def remark(self) -> str:
        """A line for the schema file that a steward may take: how many records there are, rounded."""
        unit = 10 ** max(len(str(self.records)) - 2, 0)
        return f"records = {round(self.records / unit) * unit:_}  # {_RECORDS_NOTE}"

    @property
    def left_out(self) -> tuple[DraftedAttribute, ...]:
        return tuple(one for one in self.attributes if one.coding is None)


def with_person(drafted: SchemaDraft, column: str, most_records: int | None) -> SchemaDraft:
    """Return a draft in which a column identifies persons, and is no attribute; InvalidInputError."""
    if column not in {one.name for one in drafted.attributes}:
        names = ", ".join(one.column for one in drafted.units) or "none"
        problem = f"there is no column {column!r}; columns that repeat as persons do: {names}"
        raise InvalidInputError(field="--person", problem=problem)
    proposed = {unit.column: unit.most_records for unit in drafted.units}
    number = proposed.get(column) if most_records is None else most_records
    if number is None:
        problem = f"is needed: nothing can be proposed from the values of {column}"
        raise InvalidInputError(field="--most-records", problem=problem)
    check_most_records(number)
    left = tuple(one for one in drafted.schema.coding.attributes if one.name != column)
    if not left:
        raise InvalidInputError(field="--person", problem="would leave no attribute")
    schema = replace(
        drafted.schema,
        coding=Coding(left),
        readings={name: how for name, how in drafted.schema.readings.items() if name != column},
        person=column,
        most_records=number,
    )
    note = f"it says whose a record is; {number} of one person count"
    attributes = tuple(
        DraftedAttribute(column, None, note) if one.name == column else one for one in drafted.attributes
    )
    weights = tuple(name for name in drafted.weights if name != column)
    return replace(drafted, schema=schema, attributes=attributes, units=(), weights=weights)


def with_weights(drafted: SchemaDraft, columns: Sequence[str]) -> SchemaDraft:
    """Return a draft that declares weights, which nothing uses; raises InvalidInputError."""
    coding = drafted.schema.coding
    for column in columns:
        if column not in coding.domain:
            problem = f"there is no attribute {column!r} in the draft"
            raise InvalidInputError(field="--weight", problem=problem)
    attributes = tuple(
        replace(one, description=NO_WEIGHT) if one.name in columns else one for one in coding.attributes
    )
    return replace(drafted, schema=replace(drafted.schema, coding=Coding(attributes)), weights=())


def detect(path: Path, sheet: str = "", skip: int = 0) -> tuple[FileFormat, int | None, str]:
    """Return format of a file, number of its records (None if not counted), and a sentence on it."""
    if (sheet or skip) and ending_of(path) not in SHEETS:
        problem = "is no workbook, so a sheet and rows to skip cannot be stated"
        raise InvalidInputError(field="data", problem=problem)
    if skip and not sheet:
        raise InvalidInputError(field="sheet", problem="must be named beside rows to skip: --sheet NAME")
    if ending_of(path) not in TEXT or path.is_dir():
        return FileFormat(sheet=sheet, skip=skip), None, ""
    look = look_at(path, "data", most_columns=MOST_COLUMNS)
    return FileFormat(**asdict(look.layout)), look.records, look.note


def draft_schema(
    place: Path | TableAddress,
    title: str,
    *,
    today: date,
    sheet: str = "",
    skip: int = 0,
    progress: Callable[[str], None] = lambda _: None,
) -> SchemaDraft:
    """Return a draft from the records and, for a table, from the declarations of its database.

    Dates of birth become ages on ``today``. Raises InvalidInputError for lines that cannot be read
    or nothing to declare, EmptyDatasetError or DatasetUnavailableError.
    """
    if isinstance(place, TableAddress):
        from gencard.controller.drafting.tables import table_profiles  # noqa: PLC0415 - large libraries

        note, file_format = "", USUAL
        looks = table_profiles(place, place.secret(), progress)
    else:
        file_format, records, note = detect(place, sheet, skip)
        looks = profiles(place, file_format, progress)
        if records not in (None, looks[0].records):
            problem = (
                f"has {records:,} records, of which the engine reads {looks[0].records:,}; state "
                "format.delimiter, quote, escape and skip in the settings"
            )
            raise InvalidInputError(field="data", problem=problem)
    drafts = tuple(_drafted(profile, today) for profile in looks)
    attributes = [
        Attribute(one.name, one.coding, one.description, drafted=one.drafted)
        for one in drafts
        if one.coding is not None
    ]
    if not attributes:
        raise InvalidInputError(field="data", problem="has no column that a schema could declare")
    coding = Coding(tuple(attributes))
    schema = PublicSchema(
        title=title,
        description="",
        declared_by=UNDECLARED,
        reviewed=False,
        coding=coding,
        readings={one.name: one.reading for one in drafts if one.coding and one.reading != PLAIN},
    )
    weights = tuple(look.name for look in looks if may_be_weight(look) and look.name in coding.domain)
    note = note or looks[0].of_file
    return SchemaDraft(schema, file_format, drafts, looks[0].records, units_of(looks), weights, note)


def _drafted(profile: Profile, today: date) -> DraftedAttribute:
    reason = _why_left_out(profile)
    if reason:
        because = f" (text, because {profile.why})" if profile.why else ""
        return DraftedAttribute(profile.name, None, reason + because, why=profile.why)
    reading, scale, rounded = Reading(tuple(profile.marks)), None, False
    match profile.kind:
        case "boolean":
            coding: Labels | Edges = Labels(BOOLEANS, missing=profile.missing, boolean=True)
            note = ""
        case "date" if _NAMES_OF_BIRTH.search(profile.name):
            scale = DeclaredScale(Decimal(1), tuple(map(Decimal, _AGES)), fine=Decimal(1))
            coding = scale.edges_of(missing=profile.missing, dates=False)
            january = today.replace(month=1, day=1)
            born_before = profile.quantiles[-1] <= days_of_date(january)
            reading = Reading(tuple(profile.marks), age_at=january if born_before else today)
            note = "Ages in the classes of statistical offices."
            note += _DROPPED_TIME[profile.instants]
        case "date":
            scale, note = _dates(profile), "Periods drafted from the records."
            coding = scale.edges_of(missing=profile.missing, dates=True)
            if profile.undecided:
                note += (
                    " No day is above 12: check in the settings whether the day or the month is first."
                )
        case "number" if profile.values and len(profile.values) <= _MOST_NUMBER_LABELS:
            whole = profile.decimals == 0
            coding = Labels(profile.values, integer=whole, ordered=True, missing=profile.missing)
            note = f"Labels drafted from {profile.source}."
        case "number":
            scale = drafted_scale(profile)
            coding = scale.edges_of(missing=profile.missing, dates=False)
            # the values have more digits than the step, as far as is known
            rounded = profile.decimals is None or scale.step > Decimal(1).scaleb(-profile.decimals)
            note = f"Edges drafted from {profile.source}."
            if not profile.declared:
                note += " State a public last edge; above = 'highest' takes larger values for it."
            if rounded:
                note += f" Values are rounded to multiples of {decimal_text(scale.step)}."
        case _:
            labels, ordered = in_order(profile.values)
            labels = labels if ordered or not profile.declared else profile.values
            as_text = any(number_of(label) is not None for label in labels)
            coding = Labels(labels, ordered=ordered, missing=profile.missing, text=as_text)
            note = f"Labels drafted from {profile.source}" + (", order recognised." if ordered else ".")
    is_drafted = scale is not None and not profile.declared and reading.age_at is None
    drafted = "records" if is_drafted else ""
    rare = 0 if profile.declared or not isinstance(coding, Labels) or coding.boolean else profile.rare
    influence = _influence(profile, scale) if scale is not None else ""
    kind = "Dates" if profile.kind == "date" else "Text"
    because = f"{kind}, because {profile.why}." if profile.why else ""
    return DraftedAttribute(
        profile.name,
        coding,
        " ".join(filter(None, (note, because, profile.remark))),
        reading,
        profile.marks,
        scale,
        drafted,
        rounded,
        influence,
        profile.why,
        rare,
        profile.undecided,
        profile.description,
        profile.remark,
    )


_LEAST_INFLUENCE = 0.01
"""Relative change of the mean by one record from which on the draft mentions it."""


def _influence(profile: Profile, scale: DeclaredScale) -> str:
    """Return a sentence on the change of the mean by one record: the noise of sums is as large."""
    if not profile.mean or not profile.present:
        return ""
    moves = float(scale.edges[-1] - scale.edges[0]) / profile.present
    part = moves / abs(profile.mean)
    if part < _LEAST_INFLUENCE:
        return ""
    return (
        f"One record moves the mean of {profile.name} by up to {_two_digits(moves)} "
        f"({100 * part:.0f} %); a lower last edge with above = 'highest' costs less."
    )


def _two_digits(number: float) -> str:
    """Return a positive number with two significant digits, in decimals.

    >>> [_two_digits(number) for number in (8.97, 0.0123, 1234.5)]
    ['9.0', '0.012', '1,200']
    """
    decimals = 1 - Decimal(f"{number:.1e}").adjusted()
    return f"{round(number, decimals):,.{max(decimals, 0)}f}"


def _why_left_out(profile: Profile) -> str:
    if profile.reason:
        return profile.reason
    if not profile.present:
        return "it is empty"
    if _NO_NAME.fullmatch(profile.name):
        return "it has no name"
    # the zone of instants is never guessed
    has_instants = profile.instants and not _NAMES_OF_BIRTH.search(profile.name)
    if has_instants and profile.instants == "local":
        return (
            "its times have no offset from UTC, so zone and time of day cannot be declared: store them "
            "with their offset, as 2013-01-01T05:15:00-05:00"
        )
    if has_instants:
        name = shlex.quote(profile.name)
        return (
            "it holds instants, and neither zone nor time of day is declared: in which zone do they "
            f"count? State it: gencard-controller schema set {name} --new --edges FIRST,LAST --zone "
            f"ZONE, such as America/New_York; then time_of = '{profile.name}' makes an attribute of the "
            "time of day"
        )
    return _why_identifying(profile) or (_why_no_labels(profile) if profile.kind == "text" else "")


def _why_identifying(profile: Profile) -> str:
    if profile.kind == "number":
        # whole numbers, nearly all different, about as dense as a running number
        low, high = profile.quantiles[0], profile.quantiles[-1]
        whole = low.is_integer() and high.is_integer()
        dense = high - low < 2 * profile.records and profile.distinct > 0.9 * profile.records
        if whole and dense:
            return "it looks like a serial number"
    are_codes = profile.kind == "number" or profile.why
    if _NAMES_OF_PEOPLE.search(profile.name) and not (are_codes and profile.values):
        return "its name suggests an identifier"
    return ""


def _why_no_labels(profile: Profile) -> str:
    if _NAMES_OF_TEXT.search(profile.name):
        return "its name suggests free text"
    if profile.longest > _LONGEST_LABEL:
        return "it looks like free text"
    if profile.values:
        return "most of its values are rare" if profile.rare * 2 > len(profile.values) else ""
    if profile.distinct * 2 < profile.present:
        return f"it has more than {MOST_LABELS} values: declare labels, and other for the rest"
    return "it looks like names or identifiers"


def _dates(profile: Profile) -> DeclaredScale:
    """Months, quarters, years or more: the finest with at most 24 periods."""
    days = (date_of_days(profile.quantiles[at]) for at in (0, -1))
    first, last = (day.year * 12 + day.month - 1 for day in days)
    for months in (1, 3, 12, 60, 120, 600):
        # in the calendar, from the period of the first day to that after the last
        periods = range(first // months, last // months + 2)
        starts = [_first_day(period * months) for period in periods]
        if len(starts) <= 25:
            break
    return DeclaredScale(Decimal(1), tuple(map(Decimal, (*starts[:-1], starts[-1] - 1))))


def _first_day(months: int) -> int:
    """Return the first day of a month, counted from the year 0, or of the calendar or behind it."""
    year, month = divmod(months, 12)
    if year < date.min.year:
        return days_of_date(date.min)
    return days_of_date(date.max) + 1 if year > date.max.year else days_of_date(date(year, month + 1, 1))
