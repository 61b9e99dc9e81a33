"""Parts that all commands share: connection, console, errors in one line, and common options."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from rich.console import Console

from gencard.client.common.display import listing, plain
from gencard.client.terms import Measured
from gencard.core.card.sums import Histogram, Moment, MomentKind, Sum
from gencard.core.errors import InvalidInputError
from gencard.core.statistics.formula import Analysis
from gencard.shell import visible

console = Console(highlight=False)

Folder = Annotated[
    Path,
    typer.Option(
        "--connection",
        "-c",
        envvar="GENCARD_CONNECTION",
        help="Your connection folder, made by `gencard enrol`.",
    ),
]
HERE = Path()
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
HtmlFile = Annotated[Path | None, typer.Option("--html", help="Write the report as an HTML page.")]
JsonFile = Annotated[Path | None, typer.Option("--report", help="Write the report as JSON.")]
CardName = Annotated[str, typer.Argument(help="datasets/DATASET/cards/CARD", metavar="CARD")]


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options: typer sees one option for each field of a dataclass."""
    hints: dict[str, Any] = get_type_hints(command)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters: list[Parameter] = []
    for one in signature(command).parameters.values():
        options = signature(groups[one.name]).parameters.values() if one.name in groups else (one,)
        parameters += [option.replace(kind=Parameter.KEYWORD_ONLY) for option in options]

    @wraps(command)
    def run(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{option.name: given.pop(option.name) for option in fields(kind)})
        command(**given)

    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


def is_interactive() -> bool:
    """Whether standard input is a terminal."""
    return sys.stdin.isatty()


def say(line: str) -> None:
    """Print one line; control characters are replaced."""
    console.print(plain(line), soft_wrap=True)


def say_next(command: str) -> None:
    """Print the suggested next command, unbroken for copying; nothing if empty."""
    if command:
        console.print(f"[dim]→[/] {plain(command)}", soft_wrap=True)


def say_json(value: Any) -> None:
    """Print one JSON value on standard output; what is no printable character is escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    typer.echo(visible(text, lambda one: json.dumps(one)[1:-1] if one != "\x7f" else "\\u007f"))


def say_table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    """Print a table, or one block per line where the terminal is too narrow."""
    console.print(listing(heads, list(lines), console.width))


DatasetName = Annotated[
    str, typer.Argument(help="Name of the dataset, as `gencard datasets` lists it.", metavar="DATASET")
]
ModelFormula = Annotated[str, typer.Argument(help="Model formula, such as 'health ~ sex + age * work'.")]
PlannedFormula = Annotated[
    str | None,
    typer.Argument(help="Model formula, such as 'health ~ sex + age * work'. Default: all columns."),
]
Generator = Annotated[
    str, typer.Option(help="Generator, as `gencard generators` lists it, or auto, by the sizes.")
]
Rows = Annotated[int | None, typer.Option(help="Most rows in one release. Default: the policy's limit.")]
AimKind = Annotated[
    Analysis | None, typer.Option("--kind", help="With a formula: type of analysis. Default: logistic.")
]
Missing = Annotated[
    str,
    typer.Option(
        help="Missing values: 'level' makes them a level of their own, 'drop' leaves them out."
    ),
]
Epsilon = Annotated[str | None, typer.Option(help="Total epsilon of Laplace noise, such as 0.5.")]


@dataclass(frozen=True, slots=True)
class NoiseOptions:
    """Options of the noise with which statistics are measured."""

    epsilon: Epsilon = None
    rho: Annotated[
        str | None, typer.Option(help="Total rho (zCDP) of Gaussian noise, such as 0.01.")
    ] = None
    delta: Annotated[
        str | None, typer.Option(help="With --rho: delta at which an epsilon is stated, such as 1e-6.")
    ] = None
    relation: Annotated[
        str | None,
        typer.Option("--neighbouring", help="add-remove or replace-one; required with noise."),
    ] = None
    weight: Annotated[
        list[str] | None,
        typer.Option(help="Weight of a marginal in the budget, such as sex,health=3. Default: 1."),
    ] = None

    def measured(self) -> Measured:
        """The options as arguments of the library."""
        weights = []
        for text in self.weight or ():
            marginal, _, number = text.rpartition("=")
            if not (marginal and number.isascii() and number.isdigit() and len(number) < 10):
                raise InvalidInputError(field="weight", problem="must look like sex,health=3")
            weights.append((names_in(marginal), int(number)))
        return Measured(
            epsilon=self.epsilon,
            rho=self.rho,
            delta=self.delta,
            neighbouring=self.relation,
            weights=dict(weights),
        )


def needs(option: str, value: object, other: str, given: object) -> None:
    """Refuse an option with a value that would be ignored without the other one."""
    if value is not None and given in (None, []):
        raise InvalidInputError(field=option, problem=f"is given without {other}, and would be ignored")


def moment_said(text: str) -> Moment | Histogram | Sum:
    """A moment such as mean=age, moment3=age or group-means=sex,age; a histogram; or a sum."""
    kind, _, names = text.partition("=")
    if kind == "histogram" and names:
        return Histogram(names)
    if kind == "sum" and names:
        of, by, present = (*names.split(":"), "", "")[:3]
        numbers = tuple(one.strip() for one in of.split("*")) if of else ()
        return Sum(numbers, *(names_in(part) if part else () for part in (by, present)))
    order = kind.removeprefix(MomentKind.MOMENT)
    if kind.startswith(MomentKind.MOMENT) and order.isascii() and order.isdigit() and len(order) < 3:
        return Moment(MomentKind.MOMENT, names_in(names), int(order))
    if kind not in set(MomentKind) - {MomentKind.MOMENT} or not names:
        raise InvalidInputError(field="moment", problem="must look like mean=age or moment3=age")
    return Moment(MomentKind(kind), names_in(names))


def number_option(statistic: Histogram | Sum) -> str:
    """Return the value of ``--moment`` for a histogram or a sum: the inverse of ``moment_said``.

    >>> number_option(Sum(("age", "pay"), ("sex",), ("health",)))
    'sum=age*pay:sex:health'
    """
    if isinstance(statistic, Histogram):
        return f"histogram={statistic.attribute}"
    parts = ("*".join(statistic.of), ",".join(statistic.by), ",".join(statistic.present))
    return f"sum={':'.join(parts).rstrip(':')}"


def names_in(text: str) -> tuple[str, ...]:
    """Attributes separated by commas."""
    return tuple(name.strip() for name in text.split(","))
