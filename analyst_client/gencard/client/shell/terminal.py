"""What all commands share: connection, console, errors in one line, and options of several commands."""

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
from gencard.client.terms import Measured
from gencard.client.workload import Marginals, Statistic, all_marginals
from gencard.core.errors import GencardError, InvalidInputError
from gencard.core.moment import Moment, MomentKind

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


Epsilon = Annotated[str | None, typer.Option(help="Laplace noise that spends this, such as 0.5.")]
Rho = Annotated[str | None, typer.Option(help="Gaussian noise that spends this (zCDP), such as 0.01.")]
Delta = Annotated[
    str | None, typer.Option(help="With --rho: state an epsilon at this too, such as 1e-6.")
]
Relation = Annotated[
    str | None, typer.Option("--neighbouring", help="add-remove or replace-one; noise has no default.")
]
Weight = Annotated[
    list[str] | None,
    typer.Option(help="Part of the budget for a marginal, such as sex,health=3; 1 where not given."),
]


DatasetName = Annotated[str, typer.Argument(help="Its name in the catalogue.", metavar="DATASET")]
Marginal = Annotated[
    list[str] | None, typer.Option(help="Attributes of one marginal, such as sex,health; repeat it.")
]
Order = Annotated[int | None, typer.Option("--marginals-of-order", help="All marginals of this order.")]
Attributes = Annotated[str | None, typer.Option(help="Only among these, such as sex,health,age.")]
Moments = Annotated[
    list[str] | None,
    typer.Option(help="A sum of numbers: mean=age, moment3=age, group-means=sex,age ...; repeat it."),
]
Measures = Annotated[
    list[str] | None,
    typer.Option(help="A measure of the card to have though it reads records, such as dcr; repeat it."),
]
WithoutUniques = Annotated[
    bool, typer.Option("--without-uniques", help="Take replicated uniques out of the one release.")
]
Generator = Annotated[str, typer.Option(help="By its name in the catalogue.")]
Rows = Annotated[
    int | None, typer.Option(help="At most so many rows in one release; else the policy's most.")
]


def measured(
    epsilon: str | None,
    rho: str | None,
    delta: str | None,
    neighbouring: str | None,
    weight: list[str] | None,
) -> Measured:
    """The options as the library takes them.

    Raises:
        InvalidInputError: A weight is not one marginal and one whole number.
    """
    return Measured(
        epsilon=epsilon,
        rho=rho,
        delta=delta,
        neighbouring=neighbouring,
        weights=dict(map(_weight, weight or ())),
    )


def requested_statistics(
    marginal: list[str] | None, order: int | None, attributes: str | None, moment: list[str] | None
) -> Marginals:
    """Raises InvalidInputError where both ways to name marginals were used, or nothing was named."""
    if (marginal and order is not None) or not (marginal or moment or order is not None):
        raise InvalidInputError(field="marginals", problem="give --marginal or --marginals-of-order")
    statistics: list[Statistic] = [names_in(names) for names in marginal or ()]
    if order is not None:
        statistics.append(all_marginals(order, None if attributes is None else names_in(attributes)))
    return [*statistics, *map(moment_said, moment or ())]


def moment_said(text: str) -> Moment:
    """Such as mean=age, moment3=age or group-means=sex,age.

    Raises:
        InvalidInputError, InvalidNumberError: There is no such kind, or it has other attributes.
    """
    kind, _, names = text.partition("=")
    order = kind.removeprefix(MomentKind.MOMENT)
    if kind.startswith(MomentKind.MOMENT) and order.isascii() and order.isdigit() and len(order) < 3:
        return Moment(MomentKind.MOMENT, names_in(names), int(order))
    if kind not in set(MomentKind) - {MomentKind.MOMENT} or not names:
        raise InvalidInputError(field="moment", problem="must look like mean=age or moment3=age")
    return Moment(MomentKind(kind), names_in(names))


def names_in(text: str) -> tuple[str, ...]:
    """Attributes, by commas."""
    return tuple(name.strip() for name in text.split(","))


def _weight(text: str) -> tuple[tuple[str, ...], int]:
    marginal, _, weight = text.rpartition("=")
    if not (marginal and weight.isascii() and weight.isdigit() and len(weight) < 10):
        raise InvalidInputError(field="weight", problem="must look like sex,health=3")
    return names_in(marginal), int(weight)
