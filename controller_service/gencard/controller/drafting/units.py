"""Drafts of levels: from a list of codes, or of numbers; columns of persons and of weights.

A draft asks about persons and weights, and assumes nothing: a postcode repeats as a household's number
does.
"""

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from math import ceil
from pathlib import Path

from gencard.controller.drafting.profiles import LEAST_HEAP, Profile, may_name_units, most_decimals
from gencard.controller.records.declarations import TEN_A_DECADE, DeclaredScale, Fine
from gencard.core.domain import LARGEST_SIZE
from gencard.core.errors import InvalidInputError
from gencard.core.scale import problem_of_range, shortest
from gencard.core.values import TEXT_RULES, shown_rules
from gencard.files import LIST_LIMIT, read_file

# A list of codes in a file: labels in their order.

_FIELD = "--labels-from"
_LONGEST = 200
"""Characters of a code."""

_HEADS = ("category", "code", "codes", "key", "label", "labels", "level", "value")


@dataclass(frozen=True, slots=True)
class CodeList:
    """Codes of a file as texts, so that 01 stays 01, in their order.

    Args:
        words: What each code is in words; empty where there is no second column.
        header: First cell of the first line, which is the header; empty in a ``.txt``.
    """

    codes: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    header: str = ""


def codes_in(path: Path, attribute: str) -> CodeList:
    """Read a list of codes.

    A ``.txt`` has one code a line. A ``.csv`` or ``.tsv`` has a header and the codes in its first
    column; a second column says in words what each code is. A first line is a header only if its
    first cell is one of ``_HEADS`` or the name of the attribute: another one may be a code. Raises
    InvalidInputError, which names the line.
    """
    ending = path.suffix.lower()
    if ending not in (".csv", ".tsv", ".txt"):
        problem = "must be a .txt with one code a line, or a .csv or .tsv with a header"
        raise InvalidInputError(field=_FIELD, problem=problem)
    try:
        text = read_file(path, _FIELD, LIST_LIMIT).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInputError(field=_FIELD, problem="must be encoded in UTF-8") from None
    header = ""
    rows: Iterator[tuple[int, list[str]]]  # line, and cells
    if ending == ".txt":
        rows = ((number, [line]) for number, line in enumerate(text.splitlines(), 1))
    else:
        rows = _rows(text, ending)
        number, cells = next(rows, (1, [""]))
        header = cells[0].strip()
        if header.casefold() not in (*_HEADS, attribute.casefold()):
            raise InvalidInputError(
                field=_FIELD,
                problem=f"line {number} is no header: its first cell is none of {', '.join(_HEADS)}, "
                "nor the name of the attribute",
                advice="Write a header above the codes, such as code,label; or name a .txt without one.",
            )
    lines, codes, words = dict[str, int](), list[str](), list[str]()
    for line, row in rows:
        code = row[0]
        if problem := _problem(code, lines):
            raise _refusal(line, problem)
        if len(codes) == LARGEST_SIZE:
            raise _refusal(line, f"an attribute has at most {LARGEST_SIZE:,} labels")
        lines[code] = line
        codes.append(code)
        if not all(map(str.isprintable, row)):
            raise _refusal(line, "has control characters")
        words += row[1:]
    if not codes:
        raise InvalidInputError(field=_FIELD, problem="has no codes")
    return CodeList(tuple(codes), tuple(words), header)


def are_texts(codes: Sequence[str]) -> bool:
    """Whether the codes show that they are no numbers, as 01 does: they are then compared as texts."""
    whole = [code for code in codes if not re.search("[.,]", code)]
    signs = (sum(bool(re.fullmatch(rule.pattern, code)) for code in whole) for rule in TEXT_RULES)
    return bool(shown_rules(len(codes) - len(whole), *signs))


def _problem(code: str, lines: dict[str, int]) -> str:
    if not code.strip():
        return "has no code"
    if code != code.strip():
        return "has spaces around its code"
    if len(code) > _LONGEST:
        return f"has a code of more than {_LONGEST:,} characters"
    return f"has the code of line {lines[code]} again" if code in lines else ""


def _rows(text: str, ending: str) -> Iterator[tuple[int, list[str]]]:
    """Line and cells of each row, the header first; all have as many cells, one or two."""
    delimiter = "\t" if ending == ".tsv" else max((",", ";", "\t"), key=text.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    width, begin = 0, 1
    try:
        for row in reader:
            line, begin = begin, reader.line_num + 1
            width = width or len(row)
            if len(row) != width:
                raise _refusal(line, f"has {len(row)} cells, the header has {width}")
            if width > 2:
                raise _refusal(line, "has more than two columns: codes, and what they are in words")
            yield line, row or [""]
    except csv.Error:
        raise _refusal(begin, "is not valid CSV") from None


def _refusal(line: int, problem: str) -> InvalidInputError:
    return InvalidInputError(field=_FIELD, problem=f"line {line} {problem}")


# Levels and cells of numbers: round edges, and values that many records share.

_ROUND = (1, 2, 5)
_LADDERS = ((200, ("1", "2", "5")), (0, ("1", "1.5", "2.5", "4", "6")))
"""Least ratio of last and first edge -> edges in each power of ten, the coarser ones first."""

_TAIL, _SIGNED_TAIL = 5, 20
"""Numbers have a long tail if the largest is more than so many times the median above 0: from 0 on, and
with values below 0, for which values of a normal distribution about 0 are often 6 times as large.
"""

_WIDTHS = 11
"""Intervals of one width are at most so many, and one for rounding."""

_LEAST_POINT, _LEAST_RECORDS, _MOST_FINE = 0.1, 50, 16
"""Least share of a point; least records of a cell of one value, and most such cells."""

_Intervals = tuple[tuple[Decimal, ...], Fine]
"""Edges, and the cells between them."""


def drafted_scale(profile: Profile) -> DeclaredScale:
    """Return a draft of step, edges, points and cells of a column of numbers.

    The step is the last decimal of the values, or the finest power of ten with fewer than ``MOST_STEPS``
    steps between the edges, to which values are rounded.
    """
    own = most_decimals(profile.quantiles) if profile.decimals is None else profile.decimals
    for decimals in range(own, own - 40, -1):
        step = Decimal(1).scaleb(-decimals)
        edges, fine = _intervals(profile, step)
        if problem_of_range(step, edges[0], edges[-1]) is None:
            break
    shared = [(shortest(number), records) for number, records in profile.heaps]
    heaps = {number: records for number, records in shared if number % step == 0}
    least = max(_LEAST_RECORDS, math.ceil(LEAST_HEAP * profile.present))
    points = [
        number
        for number, records in heaps.items()
        if records >= _LEAST_POINT * profile.present or (not number and records >= least)
    ]
    points = _wider_than_a_step(DeclaredScale(step, edges), points)
    draft = DeclaredScale(step, edges, tuple(sorted(points)), fine)
    others = [number for number, records in heaps.items() if records >= least and number not in points]
    fine_points = _wider_than_a_step(draft, others)[:_MOST_FINE]
    return DeclaredScale(step, edges, draft.points, fine, tuple(sorted(fine_points)))


def _intervals(profile: Profile, step: Decimal) -> _Intervals:
    """Return a ladder of edges if high values are rare, else edges at equal distances."""
    low, high = shortest(profile.quantiles[0]), shortest(profile.quantiles[-1])
    tail = _TAIL if low >= 0 else _SIGNED_TAIL
    if profile.positive and high > tail * shortest(profile.positive[1]):
        return _ladder(profile, step)
    begin = Decimal(0) if 0 <= low <= high / 2 else low
    width = max(_round_up((high - begin) / _WIDTHS), step)
    first = math.floor(begin / width)
    last = max(math.ceil(high / width), first + 1)
    edges = tuple(width * count for count in range(first, last + 1))
    whole = int(width / step)
    return edges, None if whole == 1 else width / 5 if whole % 5 == 0 else width / 2


def _ladder(profile: Profile, step: Decimal) -> _Intervals:
    """Return 0 and edges that grow from a low quantile on; below 0 alike, if many values are."""
    low, high = shortest(profile.quantiles[0]), shortest(profile.quantiles[-1])
    least = shortest(profile.positive[0])
    begin = _round_up(least)
    if begin > least:  # the rung below, so that the first edge is not above the quantile
        begin = shortest(rung(rung_above(float(least)) - 1))
    first, last = max(begin, step), max(_round_up(high), step)
    rungs = next(rungs for least, rungs in _LADDERS if last >= least * first)
    powers = range(first.adjusted(), last.adjusted() + 1)
    numbers = [Decimal(rung).scaleb(power) for power in powers for rung in rungs]
    inner = [number for number in numbers if first <= number < last and number % step == 0]
    below: list[Decimal] = []
    if low < 0:
        end = max(_round_up(-low), step)
        many = profile.quantiles[1] < 0
        below = [-end, *(-number for number in reversed(inner) if many and number < end)]
    return (*below, Decimal(0), *inner, last), TEN_A_DECADE


def _wider_than_a_step(draft: DeclaredScale, numbers: Sequence[Decimal]) -> list[Decimal]:
    """Return the numbers inside the edges that share their cell with others."""
    scale = draft.edges_of(missing=False, dates=False).scale
    cells = scale.cells if scale else ()
    single = {low for low, high in pairwise(cells[:-1]) if high - low == draft.step}
    return [number for number in numbers if cells[0] <= number <= cells[-1] and number not in single]


def _round_up(number: Decimal) -> Decimal:
    """Return the lowest 1, 2 or 5 times a power of ten that is not below a number."""
    return shortest(rung(rung_above(max(float(number), 1e-300))))


def rounded(value: float, rounding: Callable[[Decimal], int]) -> float:
    """Return a number rounded to one digit by ``math.floor`` or ``math.ceil``."""
    if value == 0:
        return 0.0
    unit = Decimal(1).scaleb(shortest(value).adjusted())
    return float(unit * rounding(shortest(value) / unit))


def rung(step: int) -> float:
    """Return the ladder ..., 1, 2, 5, 10, 20, ... with 1 at step 0."""
    power, place = divmod(step, len(_ROUND))
    return float(Decimal(_ROUND[place]).scaleb(power))


def rung_above(number: float) -> int:
    """Return the lowest step of the ladder that is not below a positive number."""
    step = len(_ROUND) * math.floor(math.log10(number))
    while rung(step) < number:
        step += 1
    return step


_MOST_USUAL = 50
"""Records that persons and households have at most, for the most part."""

_MOST_ASKED = 3

_LEAST_DIFFERENT = 20
"""Values of weights that only their mean suggests."""

_NAMES = re.compile(
    r"(^|[^a-z])(p|h|hh|fam|case|subj|pers|person|child|pupil|patient|resp|respondent|household|family)?"
    r"_?(id|nr|no|num|key)([^a-z]|$)"
    r"|(^|[^a-z])(household|person|patient|subject|respondent|haushalt|hogar|foyer|menage)([^a-z]|$)"
    r"|[a-z](Id|ID)$|(hh|person|subject|patient|case|child)id$",
    re.IGNORECASE,
)
_WEIGHTS = re.compile(
    r"(^|[^a-z])(weights?|wei|wg?h?ts?|[pafi]w|[pafih]?weight|fnlwgt|pwgtp|wgtp|perwt|hhwt|pesos?|poids|"
    r"gewicht|gew|hgt|hrf|pond|ponderacion|fexp|facexp|rb05[0-9]|rb060|pb0[46]0|db090)([^a-z]|$)"
    r"|weight$|gewicht$|wgt$",
    re.IGNORECASE,
)
_BODIES = re.compile(
    r"body|birth|baby|koerper|körper|geburt|(^|[^a-z])(kg|lbs?|gram)([^a-z]|$)", re.IGNORECASE
)

NO_WEIGHT = "Weight of the record; statistics count records and do not use it."
"""Description of a weight, which everybody sees."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A column that may say whose a record is, why it is asked, and records of 95 % of its values."""

    column: str
    most_records: int
    why: str


def units_of(looks: Sequence[Profile]) -> tuple[Unit, ...]:
    """Return the columns that may name persons or households, the likeliest first, at most three."""
    shared = {look.name: look.shared for look in looks}

    def of_unit(look: Profile) -> int:
        """Return the number of columns that belong to a unit, without those that name the same unit."""
        return sum(look.name not in shared[name] for name in look.shared)

    likely = []
    for look in looks:
        usual = look.repeats.usual if look.repeats is not None else math.inf
        # two numbers may follow from each other, such as a score and its target
        suggested = _NAMES.search(look.name) or of_unit(look) >= (1 if look.kind == "text" else 2)
        if may_name_units(look) and usual <= _MOST_USUAL and suggested:
            likely.append(look)
    likely.sort(key=lambda look: (not _NAMES.search(look.name), -of_unit(look)))
    chosen: list[Profile] = []
    for look in likely:  # number and name of a unit are asked about once
        if not any(look.name in one.shared and one.name in look.shared for one in chosen):
            chosen.append(look)
    units = []
    for look in chosen[:_MOST_ASKED]:
        most = int(rounded(look.repeats.usual if look.repeats else 1, ceil))
        reasons = ["its values repeat, and most have few records"]
        if look.shared:
            named = ", ".join(look.shared[:3])
            more = " and others" if len(look.shared) > 3 else ""
            verb = "are" if len(look.shared) > 1 else "is"
            reasons.append(f"{named}{more} {verb} the same in nearly all records of a value")
        if _NAMES.search(look.name):
            reasons.append("its name suggests it")
        units.append(Unit(look.name, most, "; ".join(reasons)))
    return tuple(units)


def may_be_weight(look: Profile) -> bool:
    """Whether a column may be a weight: positive numbers, by name, or of a mean of 1."""
    if look.kind != "number" or not look.quantiles or look.quantiles[0] <= 0 or look.declared:
        return False
    if _WEIGHTS.search(look.name):
        return not _BODIES.search(look.name)
    scaled = look.mean is not None and abs(look.mean - 1) < 0.001
    return scaled and look.decimals != 0 and look.distinct > _LEAST_DIFFERENT
