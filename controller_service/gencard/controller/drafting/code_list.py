"""A list of codes in a file: the labels of an attribute, in their order."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gencard.core.domain import LARGEST_SIZE
from gencard.core.errors import InvalidInputError
from gencard.core.values import TEXT_RULES, shown_rules
from gencard.files import LIST_LIMIT, read_file

_FIELD = "--labels-from"
_DELIMITERS = (",", ";", "\t")
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
    column; a second column says in words what each code is. A first line is a header only if its first
    cell is one of ``_HEADS`` or the name of the attribute: another one may be a code.

    Raises:
        InvalidInputError: The file cannot be read, has no header, or a line has no code, one of an
            earlier line, or other columns; the line is named.
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
        header = _header(rows, attribute)
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


def _header(rows: Iterator[tuple[int, list[str]]], attribute: str) -> str:
    line, row = next(rows, (1, [""]))
    if row[0].strip().casefold() not in (*_HEADS, attribute.casefold()):
        raise InvalidInputError(
            field=_FIELD,
            problem=f"line {line} is no header: its first cell is none of {', '.join(_HEADS)}, nor the "
            "name of the attribute",
            advice="Write a header above the codes, such as code,label; or name a .txt without one.",
        )
    return row[0].strip()


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
    head = text.partition("\n")[0]
    delimiter = "\t" if ending == ".tsv" else max(_DELIMITERS, key=head.count)
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
