"""The same views as in ``html``, for a terminal. Nothing that came from outside is taken for markup."""

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table


def plain(text: str) -> str:
    """Text that a terminal shows as it is: no markup, no escape sequences."""
    return escape("".join(letter if letter.isprintable() else "?" for letter in text))


def panel(title: str, *parts: RenderableType) -> Panel:
    """A framed box."""
    return Panel(Group(*parts), title=f"[bold]{plain(title)}[/]", title_align="left", expand=False)


def facts(lines: Iterable[tuple[str, str]]) -> Table:
    """Names and values, one pair a line."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
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
