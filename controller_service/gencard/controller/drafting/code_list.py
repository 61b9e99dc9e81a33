"""A list of codes in a file: the labels of an attribute, in their order."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gencard.core.domain import LARGEST_SIZE
from gencard.core.errors import InvalidInputError
from gencard.core.values import TEXT_RULES, shown_rules
from gencard.files import LIST_LIMIT, read_file

_FIELD = "--labels-from"
_DELIMITERS = (",", ";", "\t")
_LONGEST = 200
"""Characters of a code."""


def codes_in(path: Path) -> tuple[list[str], list[str]]:
    """Return the codes of a file as texts, so that 01 stays 01, in their order.

    A ``.txt`` has one code a line. A ``.csv`` or ``.tsv`` has a header and the codes in its first
    column; a second column says in words what each code is.

    Returns:
        Return the codes and their descriptions; descriptions are empty without a second column.

    Raises:
        InvalidInputError: The file cannot be read, or a line has no code, one of an earlier line, or
            other columns; the line is named.
    """
    ending = path.suffix.lower()
    if ending not in (".csv", ".tsv", ".txt"):
        problem = "must be a .txt with one code a line, or a .csv or .tsv with a header"
        raise InvalidInputError(field=_FIELD, problem=problem)
    try:
        text = read_file(path, _FIELD, LIST_LIMIT).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInputError(field=_FIELD, problem="must be encoded in UTF-8") from None
    rows = _lines(text) if ending == ".txt" else _rows(text, ending)
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
    return codes, words


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


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Number and code of each line."""
    for number, line in enumerate(text.splitlines(), 1):
        yield number, [line]


def _rows(text: str, ending: str) -> Iterator[tuple[int, list[str]]]:
    """Line and cells of each row but the header, whose cells are the names of one or two columns."""
    head = text.partition("\n")[0]
    delimiter = "\t" if ending == ".tsv" else max(_DELIMITERS, key=head.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    width, begin = 0, 1
    try:
        for row in reader:
            line, begin = begin, reader.line_num + 1
            if not width:
                if re.fullmatch("[0-9.,+-]*", row[0] if row else ""):
                    raise _refusal(line, "must be a header, such as code,label")
                width = len(row)
            elif len(row) != width:
                raise _refusal(line, f"has {len(row)} cells, the header has {width}")
            elif width <= 2:
                yield line, row
            if width > 2:
                raise _refusal(line, "has more than two columns: codes, and what they are in words")
    except csv.Error:
        raise _refusal(begin, "is not valid CSV") from None


def _refusal(line: int, problem: str) -> InvalidInputError:
    return InvalidInputError(field=_FIELD, problem=f"line {line} {problem}")
