"""Meaning of a stored value: a number, a missing value, a code. One definition for all readers.

Texts are read here and in engines by the patterns of this module, which mean the same in Python, DuckDB,
PostgreSQL and Spark.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from math import inf, isfinite, nan
from typing import NamedTuple

MARKS = (
    *("NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "None"),
    *(".", "-", "--", "?", "k.A.", "k. A.", "keine Angabe"),
)
"""Words that people write where a value is missing."""

NONE_WORDS = ("None",)
"""Words for a missing value that are a level if they begin a scale: None, Mild, Severe."""

EMPTY = ""
"""The text that is missing in every file and engine, unless it is a label."""

LAST_DAYS = ("0001-01-01", "9999-12-31")
"""Days that people write where a date is missing or open; before and after them there are no dates."""

NUMBER_MARKS = (-1.0, -2.0, -7.0, -8.0, -9.0, -88.0, -99.0, -888.0, -999.0, -9999.0)
"""Numbers that people write where a value is missing, if all others are 0 or more."""

HIGH_MARKS = (88.0, 98.0, 99.0, 888.0, 998.0, 999.0, 8888.0, 9998.0, 9999.0)
"""Numbers that people write where a value is missing, if all others are far below."""

_FAR_BELOW = 4
"""Part of a high mark that no other number exceeds."""

EXACT = 2.0**53
"""Below it, whole numbers are exact as floats, and two of them are never one."""

PLAIN_NUMBER = "[+-]?(0|[1-9][0-9]*)([.,][0-9]+)?"
"""Texts of numbers that are no codes: 007, 1e3 and 1_000 are none of them."""

WHOLE_NUMBER = "[+-]?[0-9]+"

SPACES = "[ \t\n\v\f\r]*"
"""Around a number; what \\s stands for differs from engine to engine."""

MOST_DIGITS = 200
"""Digits of a number before its decimal point, and after it: of more, not every engine makes a float."""

_SOME, _MORE = f"[0-9]{{1,{MOST_DIGITS}}}", f"[0-9]{{0,{MOST_DIGITS}}}"
NUMBER = rf"{SPACES}[+-]?({_SOME}([.]{_MORE})?|[.]{_SOME})([eE][+-]?[0-9]+)?{SPACES}"
"""Texts of numbers: neither 1_000 nor digits that are not ASCII. One too small for a float is 0."""

_NAN = ("nan", "+nan", "-nan")
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8}")
_PLAIN, _WHOLE, _NUMBER = map(re.compile, (PLAIN_NUMBER, WHOLE_NUMBER, NUMBER))


class TextRule(NamedTuple):
    """A sign that the values of a column are codes, though each could be read as a number.

    Args:
        why: The sign, in words.
        pattern: Texts without a decimal mark that show it.
        in_whole: It counts only if no value of the column has a decimal mark.
    """

    why: str
    pattern: str
    in_whole: bool = False


TEXT_RULES = (
    TextRule("a value has a leading zero", r"[+]?0[0-9]+([eE].*)?"),
    TextRule("a value has more than 15 digits", "[+-]?[0-9]{16,}"),
    TextRule("a value has the form digits-E-digits", "[0-9]+[eE][0-9]+", in_whole=True),
)
"""Signs in a text file, the first that holds decides. An underscore and digits that are not ASCII make
no number anyway. A column of texts and decimals, such as 007 and 1.5, is text."""


def shown_rules(decimals: int, *signs: int) -> dict[str, int]:
    """Return why a column is text, and how many values show it; empty if it is none.

    Args:
        decimals: Number of values that have a decimal mark.
        signs: Number of values that show each sign of ``TEXT_RULES``.
    """
    shown = zip(TEXT_RULES, signs, strict=True)
    return {rule.why: sign for rule, sign in shown if sign and not (decimals and rule.in_whole)}


NOT_ASCII = "a value has an underscore or digits that are not ASCII"
STORED_AS_TEXT = "its values are stored as text"
TOO_LARGE = "a whole number is too large to be exact as a float"
INFINITE = (
    "it has infinite numbers, which have no level: correct the records, or make them missing in a view"
)
NO_DAYS = (
    "it has dates before the year 1, after 9999 or without end: correct the records, or make them "
    "missing in a view"
)
AS_DAYS = "its whole numbers are dates as YYYYMMDD"
"""Why other columns of numbers are not drafted as numbers."""

DAYS = (18000101, 21991231)
"""First and last whole number YYYYMMDD that is read as a date."""


def number_of(text: str) -> float | None:
    """The finite number that a text says, if any."""
    number = float(text) if _NUMBER.fullmatch(text) else inf
    return number if isfinite(number) else None


def float_of(text: str) -> float:
    """Return the number that a text says, NaN for a text that says so; raises ValueError for others."""
    number = number_of(text)
    if number is None and text.strip().lower() not in _NAN:
        raise ValueError("no number")
    return nan if number is None else number


def day_of(text: str) -> date:
    """Return the date that a text YYYY-MM-DD or YYYYMMDD says; raises ValueError for others."""
    first, last = DAYS
    if not _DAY.fullmatch(text) or (_WHOLE.fullmatch(text) and not first <= int(text) <= last):
        raise ValueError("no date")
    return date.fromisoformat(text)


def number_text(number: float) -> str:
    """The shortest text of a number, whole numbers without a point."""
    return str(int(number)) if number.is_integer() else repr(number)


def is_plain(text: str) -> bool:
    """Return whether a text is a number and no code: 1.0 is, 007 and 1e3 are not."""
    return _PLAIN.fullmatch(text) is not None


def is_whole(text: str) -> bool:
    """Return whether a text is a whole number in digits."""
    return _WHOLE.fullmatch(text) is not None


def missing_marks(counts: Mapping[float, int], others: tuple[float, float] | None) -> dict[str, int]:
    """Return the numbers that stand for missing values, as texts, and how often each occurs.

    Args:
        counts: Number of records of each of ``NUMBER_MARKS`` and ``HIGH_MARKS`` that occurs.
        others: Least and largest of all other numbers; None if there are none: then each is a value.

    >>> missing_marks({-9.0: 3, 99.0: 2}, (1.0, 5.0))
    {'-9': 3, '99': 2}
    >>> missing_marks({-9.0: 3, 99.0: 2}, (-4.0, 90.0))
    {}
    """
    if others is None:
        return {}
    low, high = others
    chosen = [number for number in NUMBER_MARKS if low >= 0]
    chosen += [number for number in HIGH_MARKS if 0 <= low <= high <= number / _FAR_BELOW]
    return {number_text(number): counts[number] for number in sorted(counts) if number in chosen}


def plain_numbers(labels: Sequence[str], *, exact: bool = True) -> dict[float, int]:
    """Return the place of each label that is a number and no code, by its number.

    Numbers that two labels are, such as 1 and 1.0, are left out.

    Args:
        exact: Leave out what may be another whole number as a float.

    >>> plain_numbers(["1", "2.5", "007", "N"])
    {1.0: 0, 2.5: 1}
    """
    places = dict[float, list[int]]()
    for place, label in enumerate(labels):
        if "," not in label and is_plain(label) and not (exact and abs(float(label)) >= EXACT):
            places.setdefault(float(label), []).append(place)
    return {number: own[0] for number, own in places.items() if len(own) == 1}
