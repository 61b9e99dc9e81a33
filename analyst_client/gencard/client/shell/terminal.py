"""What all commands share: the connection, the console, errors in one line with what to do next."""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from gencard.client.analyst import Analyst
from gencard.client.display import Facts, listing, plain
from gencard.core.errors import GencardError

console = Console(highlight=False)
failures = Console(stderr=True, highlight=False)

Folder = Annotated[
    Path,
    typer.Option(
        "--connection",
        "-c",
        envvar="GENCARD_CONNECTION",
        help="Your connection folder, which `gencard enrol` made.",
    ),
]
HERE = Path()
AsJson = Annotated[bool, typer.Option("--json", help="JSON for programs in place of a table.")]
CardName = Annotated[str, typer.Argument(help="datasets/DATASET/cards/CARD", metavar="CARD")]


class Commands(TyperGroup):
    """Commands of which an error of ours ends in one line, what to do next, and exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except GencardError as error:
            failures.print(f"[bold red]{error.reason}[/]  {plain(str(error))}", soft_wrap=True)
            failures.print(f"[dim]→ {plain(error.advice)}[/]", soft_wrap=True)
            raise typer.Exit(1) from None
        except KeyboardInterrupt as stopped:
            for note in getattr(stopped, "__notes__", ()):
                failures.print(plain(note), soft_wrap=True)
            raise


def connected(folder: Path) -> Analyst:
    """Whoever the folder belongs to, connected; to be used in a ``with`` block."""
    return Analyst.connect(folder=folder)


def is_interactive() -> bool:
    """Whether somebody at a terminal can answer a question."""
    return sys.stdin.isatty()


def say(line: str) -> None:
    """One line of text that may hold anything."""
    console.print(plain(line), soft_wrap=True)


def say_next(command: str) -> None:
    """A command to go on with, to be copied; nothing where there is none."""
    if command:
        console.print(f"[dim]→[/] {plain(command)}", soft_wrap=True)


def say_json(value: Any) -> None:
    """One JSON value on standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def say_table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    """One line each; where the terminal is too narrow for that, a block each."""
    console.print(listing(heads, list(lines), console.width))


def say_facts(lines: Iterable[tuple[str, str]]) -> None:
    console.print(Facts(lines).rich())
