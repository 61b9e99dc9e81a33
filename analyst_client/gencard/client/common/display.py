"""Display of results: one description of a panel, as HTML in notebooks and with rich in terminals.

External text is escaped in both: it is never read as markup or as terminal control codes.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from html import escape as html_escape
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.markup import escape as markup_escape
from rich.measure import Measurement
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from gencard.client.common.arguments import checked
from gencard.client.common.formats import write_bytes
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError
from gencard.core.types import UNDEFINED, Progress

Item = TypeVar("Item")

_LONGEST_CELL = 60
_WHOLE = 24
"""Most characters of a cell that is never broken."""
_NARROWEST = 16
"""Least width, in characters, of a column of prose."""

_FRAME_STYLE = (
    "border:1px solid color-mix(in srgb, currentColor 25%, transparent);border-radius:6px;"
    "padding:.6em 1em;margin:.4em 0;max-width:60em;line-height:1.45"
)
_NAME_STYLE = "white-space:nowrap;font-weight:500;opacity:.75"
_CELL_STYLE = "text-align:left;vertical-align:top;padding:.15em 1.2em .15em 0;background:none"
_COLOURS = {"del": "#d32f2f", "ins": "#2e9e44"}
_TABLE = '<table style="border-collapse:collapse;margin:.3em 0">'


@dataclass(frozen=True, slots=True)
class Facts:
    lines: Iterable[tuple[str, str]]

    def without(self, name: str) -> "Facts":
        return Facts([line for line in self.lines if line[0] != name])

    def html(self) -> str:
        rows = "".join(
            f'<tr><th scope="row" style="{_CELL_STYLE};{_NAME_STYLE}">{_escaped(name)}</th>'
            f"{_cells((value,))}</tr>"
            for name, value in self.lines
        )
        return f"{_TABLE}{rows}</table>"

    def rich(self) -> Table:
        table = Table.grid(padding=(0, 1))  # a SHA-256 in a panel fits into 80 columns
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in self.lines:
            table.add_row(plain(name), plain(value))
        return table


@dataclass(frozen=True, slots=True)
class Grid:
    """A table with a row of column heads; of ``numbers`` all columns but the first end at the right."""

    heads: Sequence[str]
    lines: Iterable[Sequence[str]]
    numbers: bool = False

    def html(self) -> str:
        return _html_table(self.heads, (_cells(line, self.numbers) for line in self.lines), self.numbers)

    def rich(self) -> Table:
        table = Table(header_style="bold")
        if self.numbers:  # without lines between columns: coefficients fit into 80 characters
            table = Table(header_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        for head in self.heads:
            right = self.numbers and len(table.columns) > 0
            table.add_column(plain(head), overflow="fold", justify="right" if right else "left")
        return _filled(table, self.heads, self.lines)


def _filled(table: Table, heads: Sequence[str], lines: Iterable[Sequence[str]]) -> Table:
    rows = [tuple(line) for line in lines]
    for line in rows:
        table.add_row(*map(plain, line))
    for column, cells in zip(table.columns, zip(heads, *rows, strict=True), strict=True):
        longest = max(map(len, cells))
        if longest <= _WHOLE and not any(" " in cell for cell in cells):
            column.no_wrap, column.min_width = True, longest
    return table


@dataclass(frozen=True, slots=True)
class Entries:
    """Things with a name, a few facts each, and levels: a table in notebooks, blocks in terminals.

    Args:
        heads: Of the columns of ``lines``: the name, the facts, then levels (a tuple) and a description.
    """

    heads: Sequence[str]
    lines: Iterable[tuple[str, Sequence[str], Sequence[str], str]]

    def html(self) -> str:
        lines = [
            (name, ", ".join(facts), ", ".join(levels), description)
            for name, facts, levels, description in self.lines
        ]
        return Grid(self.heads, lines).html()

    def rich(self) -> Table:
        table = Table.grid()
        table.add_column(overflow="fold")
        for name, facts, levels, description in self.lines:
            table.add_row(f"[bold]{plain(name)}[/]  [dim]{plain(', '.join(facts))}[/]")
            table.add_row(Padding(_Several(levels), (0, 0, 0, 4)))
            if description:
                table.add_row(Padding(plain(description), (0, 0, 0, 4)))
        return table


@dataclass(frozen=True, slots=True)
class _Several:
    """Texts after each other; a line ends between two of them."""

    texts: Sequence[str]

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> Iterator[Text]:
        line = ""
        for place, text in enumerate(self.texts):
            printed = Text.from_markup(plain(text)).plain + ("," if place + 1 < len(self.texts) else "")
            if line and cell_len(f"{line} {printed}") > options.max_width:
                yield Text(line, overflow="fold")
                line = ""
            line = f"{line} {printed}" if line else printed
        yield Text(line, overflow="fold")

    def __rich_measure__(self, _console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, min(sum(cell_len(text) + 2 for text in self.texts), options.max_width))


LEFT_OUT = "left out"
"""In the place of what is now, where nothing is."""


@dataclass(frozen=True, slots=True)
class Diff:
    """A table of changes: what changed, before, after, and any further columns.

    Not by colour alone: in notebooks what was is struck out, and what is now underlined.
    """

    heads: Sequence[str]
    lines: Iterable[Sequence[str]]

    def html(self) -> str:
        rows = []
        for line in self.lines:
            what, old, new, *others = map(_escaped, line)
            cells = (what, _mark("del", old), new if new == LEFT_OUT else _mark("ins", new), *others)
            rows.append("".join(f'<td style="{_CELL_STYLE}">{cell}</td>' for cell in cells))
        return _html_table(self.heads, rows)

    def rich(self) -> Table:
        table = Table(header_style="bold")
        for head, style in zip(self.heads, ("", "red", "green", *[""] * len(self.heads)), strict=False):
            table.add_column(plain(head), overflow="fold", style=style)
        return _filled(table, self.heads, self.lines)


def _html_table(heads: Sequence[str], rows: Iterable[str], numbers: bool = False) -> str:
    head = "".join(
        f'<th scope="col" style="{_style(place, numbers)};opacity:.75">{_escaped(text)}</th>'
        for place, text in enumerate(heads)
    )
    body = "".join(f"<tr>{cells}</tr>" for cells in rows)
    return f"{_TABLE}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _mark(tag: str, text: str) -> str:
    """Escaped text as deleted or inserted, in a colour that can be read on light and dark ground."""
    return f'<{tag} style="color:color-mix(in srgb,{_COLOURS[tag]} 60%,currentColor)">{text}</{tag}>'


Part = str | Facts | Grid | Diff | Entries
"""A paragraph or a table."""


class Displayable(ABC):
    """A result that notebooks and rich show as a panel."""

    __slots__ = ()

    @abstractmethod
    def _panel(self) -> tuple[str, Sequence[Part]]:
        """Title and parts of the panel."""

    def _repr_html_(self) -> str:
        return _framed(*self._panel())

    def __rich__(self) -> Panel:
        return self.panel()

    def panel(self, without: str = "") -> Panel:
        """The panel for a terminal, without the line of this name."""
        title, parts = self._panel()
        if without:
            parts = [part.without(without) if isinstance(part, Facts) else part for part in parts]
        group = Group(*(plain(part) if isinstance(part, str) else part.rich() for part in parts))
        return Panel(group, title=f"[bold]{plain(title)}[/]", title_align="left", expand=False)


class Listed(list[Item]):
    """A list that notebooks and terminals show as a table."""

    def __init__(
        self,
        items: Iterable[Item],
        title: str,
        heads: Sequence[str],
        line: Callable[[Item], Sequence[str]],
    ) -> None:
        super().__init__(items)
        self._title, self.heads, self._line = title, heads, line

    def lines(self) -> list[Sequence[str]]:
        return [self._line(item) for item in self]

    def _repr_html_(self) -> str:
        return _framed(self._title, [Grid(self.heads, self.lines())])

    def __rich__(self) -> Table:
        return Grid(self.heads, self.lines()).rich()

    def __repr__(self) -> str:
        """Columns of text; long cells are cut."""
        shown = (self.heads, *self.lines())
        lines = [[printable(cell, _LONGEST_CELL) for cell in line] for line in shown]
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        table = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        return "\n".join(table) if self else f"<{self._title}: none>"


def printable(text: str, most: int) -> str:
    """A text of at most ``most`` characters, with a question mark for each that is not printable."""
    clean = "".join(letter if letter.isprintable() else "?" for letter in text)
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"


def _framed(title: str, parts: Sequence[Part]) -> str:
    head = f'<div style="font-weight:600;font-size:1.05em">{_escaped(title)}</div>'
    return f'<div style="{_FRAME_STYLE}">{head}{"".join(map(_html, parts))}</div>'


@contextmanager
def notebook_bar(title: str) -> Iterator[Progress]:
    """A bar of HTML in a notebook, without widgets, for the length of the block."""
    display = import_module("IPython.display")  # there only in a notebook
    handle = display.display(display.HTML(_bar(title, "", 0.0)), display_id=True)
    try:
        yield lambda stage, share: handle.update(display.HTML(_bar(title, stage, share)))
    finally:
        handle.update(display.HTML(""))


def _bar(title: str, stage: str, share: float) -> str:
    return (
        f'{_escaped(title)} <progress max="1" value="{min(max(share, 0.0), 1.0):.3f}"></progress> '
        f"{_escaped(stage)}"
    )


def _escaped(text: str) -> str:
    """Text for a page without markup; what reorders or hides what is read becomes a question mark."""
    return html_escape(
        "".join(letter if letter.isprintable() or letter in "\n\t" else "?" for letter in text)
    )


def plain(text: str) -> str:
    """Text for a terminal without markup and control characters."""
    return markup_escape("".join(letter if letter.isprintable() else "?" for letter in text))


def listing(heads: Sequence[str], lines: Sequence[Sequence[str]], width: int) -> RenderableType:
    """A table that breaks no name; if wider than ``width`` characters, a block for each line.

    A name is a cell without a space: a reader may want to copy it.
    """
    table, frame = Grid(heads, lines).rich(), 1
    for column, cells in zip(table.columns, zip(heads, *lines, strict=True), strict=True):
        longest = max(map(len, cells))
        column.no_wrap = not any(" " in cell for cell in cells)
        column.min_width = longest if column.no_wrap else min(longest, _NARROWEST)
        frame += column.min_width + 3
    if frame <= width or not lines:
        return table
    blocks = (Facts(zip(heads, line, strict=True)).rich() for line in lines)
    return Group(*(Padding(block, (0, 0, 1, 0)) for block in blocks))


def _html(part: Part) -> str:
    if isinstance(part, str):
        return f'<p style="margin:.3em 0">{_escaped(part)}</p>' if part else ""
    return part.html()


def _cells(line: Sequence[str], numbers: bool = False) -> str:
    return "".join(
        f'<td style="{_style(place, numbers)}">{_escaped(text)}</td>' for place, text in enumerate(line)
    )


def _style(place: int, numbers: bool) -> str:
    return _CELL_STYLE.replace("left", "right", 1) if numbers and place else _CELL_STYLE


def percent(share: float | None) -> str:
    """A share of 1 in per cent; "undefined" for None.

    >>> percent(-0.01234)
    '−1.23 %'
    """
    return UNDEFINED if share is None else f"{100 * share:.3g} %".replace("-", "−")


def number(value: float | None, form: str = ".3g") -> str:
    """A number in a format of Python's; "undefined" for None.

    >>> number(1.2345), number(None)
    ('1.23', 'undefined')
    """
    return UNDEFINED if value is None else format(value, form)


def interval(low: float, high: float) -> str:
    """A 95 % interval of shares.

    >>> interval(0.1, 0.25)
    '95 % interval 10 % to 25 %'
    """
    return f"95 % interval {percent(low)} to {percent(high)}"


def named(names: Clique) -> str:
    """A set of attributes, or of their levels.

    >>> named(("sex", "health"))
    'sex × health'
    """
    return " × ".join(names)


class WrittenAsJson(ABC):
    """Findings that a file keeps for programs."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """The report as an object of JSON types."""

    @checked()
    def save_json(self, path: str | Path) -> None:
        """Write the numbers, without loss."""
        lines = json.dumps(self.document(), indent=1, allow_nan=False, ensure_ascii=False)
        write_bytes(Path(path), lines.encode())


class WrittenAsPage(WrittenAsJson):
    """Findings that are also a page for people."""

    @cached_property
    def html(self) -> str:
        """One self-contained page: no scripts, nothing from elsewhere; needs the extra ``report``."""
        return self._page()

    @checked()
    def save_html(self, path: str | Path) -> None:
        write_bytes(Path(path), self.html.encode())

    @abstractmethod
    def _page(self) -> str:
        """The page, by a module that is loaded only where pages are wanted."""


def page_module() -> ModuleType:
    """Import the module that renders pages and figures, which needs the extra ``report``."""
    try:
        return import_module("gencard.client.pages")
    except ModuleNotFoundError:
        problem = "pages and figures need: pip install 'gencard[report]'"
        raise InvalidInputError(field="report", problem=problem) from None
