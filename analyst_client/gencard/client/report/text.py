"""The same views as in ``html``, for a terminal. Nothing that came from outside is taken for markup."""

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table

_NARROWEST = 16
"""Characters of a column of words."""


def plain(text: str) -> str:
    """Text that a terminal shows as it is: no markup, no escape sequences."""
    return escape("".join(letter if letter.isprintable() else "?" for letter in text))


def panel(title: str, *parts: RenderableType) -> Panel:
    """A framed box."""
    return Panel(Group(*parts), title=f"[bold]{plain(title)}[/]", title_align="left", expand=False)


def facts(lines: Iterable[tuple[str, str]]) -> Table:
    """Names and values, one pair a line."""
    table = Table.grid(padding=(0, 1))  # a digest in a panel fits into 80 columns
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in lines:
        table.add_row(plain(name), plain(value))
    return table


def grid(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> Table:
    """A table with a row of heads."""
    table = Table(header_style="bold")
    for head in heads:
        table.add_column(head, overflow="fold")
    for line in lines:
        table.add_row(*(plain(text) for text in line))
    return table


def listing(heads: Sequence[str], lines: Sequence[Sequence[str]], width: int) -> RenderableType:
    """A table that breaks no name, or where it is too wide a block for each line.

    A name is a cell without a space: somebody may want to copy it.
    """
    table, frame = grid(heads, lines), 1
    for column, cells in zip(table.columns, zip(heads, *lines, strict=True), strict=True):
        longest = max(map(len, cells))
        column.no_wrap = not any(" " in cell for cell in cells)
        column.min_width = longest if column.no_wrap else min(longest, _NARROWEST)
        frame += column.min_width + 3
    if frame <= width or not lines:
        return table
    return Group(*(Padding(facts(zip(heads, line, strict=True)), (0, 0, 1, 0)) for line in lines))
