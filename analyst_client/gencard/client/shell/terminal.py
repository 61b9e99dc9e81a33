"""Parts that all commands share: connection, console, errors in one line, and common options."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from gencard.client.common.display import listing, plain
from gencard.client.terms import Marginals, Measured, Statistic, all_marginals
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


Epsilon = Annotated[str | None, typer.Option(help="Total epsilon of Laplace noise, such as 0.5.")]
Rho = Annotated[str | None, typer.Option(help="Total rho (zCDP) of Gaussian noise, such as 0.01.")]
Delta = Annotated[
    str | None, typer.Option(help="With --rho: delta at which an epsilon is stated, such as 1e-6.")
]
Relation = Annotated[
    str | None, typer.Option("--neighbouring", help="add-remove or replace-one; required with noise.")
]
Weight = Annotated[
    list[str] | None,
    typer.Option(help="Weight of a marginal in the budget, such as sex,health=3. Default: 1."),
]


DatasetName = Annotated[
    str, typer.Argument(help="Name of the dataset, as `gencard datasets` lists it.", metavar="DATASET")
]
ModelFormula = Annotated[str, typer.Argument(help="Model formula, such as 'health ~ sex + age * work'.")]
PlannedFormula = Annotated[
    str | None,
    typer.Argument(help="Model formula, such as 'health ~ sex + age * work'. Default: all columns."),
]
Marginal = Annotated[list[str] | None, typer.Option(help="A marginal, such as sex,health. Repeatable.")]
Order = Annotated[
    int | None, typer.Option("--marginals-of-order", help="All marginals of this number of attributes.")
]
Attributes = Annotated[
    str | None, typer.Option(help="With --marginals-of-order: only these attributes.")
]
Moments = Annotated[
    list[str] | None,
    typer.Option(
        help="A moment: mean=age, moment3=age, group-means=sex,age, ...; or of numbers with a step "
        "histogram=pay, sum=pay:sex (by sex), sum=pay*age, sum=pay:sex:age (where age is present). "
        "Repeatable."
    ),
]
Measures = Annotated[
    list[str] | None,
    typer.Option(help="Evaluation to run on the records for the card, such as dcr. Repeatable."),
]
WithoutUniques = Annotated[
    bool,
    typer.Option(
        "--without-uniques", help="Remove replicated uniques; the card then allows one release."
    ),
]
RunKinds = Annotated[
    list[str] | None,
    typer.Option(
        "--analyses",
        help="Analyses to run on the records with `gencard run`, such as linear,crosstab. Repeatable.",
    ),
]
CheckedRuns = Annotated[
    int | None, typer.Option(help="With --analyses: most runs under the card. Default: 1.")
]
Programs = Annotated[
    list[Path] | None,
    typer.Option("--program", help="Program to run on the records, each answer reviewed. Repeatable."),
]
Libraries = Annotated[
    list[str] | None, typer.Option("--library", help="Library that a program imports. Repeatable.")
]
ReviewedRuns = Annotated[
    int | None, typer.Option(help="With --program: most runs under the card. Default: 1.")
]
Generator = Annotated[
    str, typer.Option(help="Generator, as `gencard generators` lists it, or auto, by the sizes.")
]
Rows = Annotated[int | None, typer.Option(help="Most rows in one release. Default: the policy's limit.")]


AimFormula = Annotated[
    str | None,
    typer.Option(
        "--formula", help="Analysis that the card is for: the offer says what noise and levels do to it."
    ),
]
AimKind = Annotated[
    Analysis | None, typer.Option("--kind", help="With a formula: type of analysis. Default: logistic.")
]
AimMissing = Annotated[
    str | None,
    typer.Option(
        "--missing",
        help="With a formula: 'level', the default, makes missing values a level of their own, 'drop' "
        "leaves them out.",
    ),
]
Missing = Annotated[
    str,
    typer.Option(
        help="Missing values: 'level' makes them a level of their own, 'drop' leaves them out."
    ),
]
Part = Annotated[
    str | None,
    typer.Option(
        "--where", help="Subset of the records that the card is about, such as \"sex == 'F'\"."
    ),
]


def measured(
    epsilon: str | None,
    rho: str | None,
    delta: str | None,
    neighbouring: str | None,
    weight: list[str] | None,
) -> Measured:
    """The options as arguments of the library."""
    weights = []
    for text in weight or ():
        marginal, _, number = text.rpartition("=")
        if not (marginal and number.isascii() and number.isdigit() and len(number) < 10):
            raise InvalidInputError(field="weight", problem="must look like sex,health=3")
        weights.append((names_in(marginal), int(number)))
    return Measured(
        epsilon=epsilon, rho=rho, delta=delta, neighbouring=neighbouring, weights=dict(weights)
    )


def needs(option: str, value: object, other: str, given: object) -> None:
    """Refuse an option with a value that would be ignored without the other one."""
    if value is not None and given in (None, []):
        raise InvalidInputError(field=option, problem=f"is given without {other}, and would be ignored")


def aim(
    formula: str | None, kind: Analysis | None, missing: str | None, *, name: str = "--formula"
) -> dict[str, Any]:
    """The analysis that a card is for, as arguments of the library."""
    needs("--kind", kind, name, formula)
    needs("--missing", missing, name, formula)
    return {"formula": formula, "kind": kind or Analysis.LOGISTIC, "missing": missing or "level"}


def runs(
    kinds: list[str] | None,
    checked_runs: int | None,
    programs: list[Path] | None = None,
    libraries: list[str] | None = None,
    reviewed_runs: int | None = None,
) -> Mapping[str, Any] | None:
    """The runs on the records that a proposal asks for; None where it names neither kind nor program."""
    needs("--checked-runs", checked_runs, "--analyses", kinds)
    needs("--reviewed-runs", reviewed_runs, "--program", programs)
    granted: dict[str, Any] = {}
    if kinds:
        names = {name for text in kinds for name in names_in(text)}
        granted |= {"kinds": sorted(names), "checked_runs": 1 if checked_runs is None else checked_runs}
    if programs:
        from gencard.client.answers.answering import granting  # noqa: PLC0415 - loads pandas

        granted |= granting(programs, libraries or ()) | {
            "reviewed_runs": 1 if reviewed_runs is None else reviewed_runs
        }
    elif libraries:
        raise InvalidInputError(field="--library", problem="needs a --program that imports it")
    return granted or None


def requested_statistics(
    marginal: list[str] | None, order: int | None, attributes: str | None, moment: list[str] | None
) -> Marginals:
    """The named statistics; raises InvalidInputError if none is named, or marginals in both ways."""
    if (marginal and order is not None) or not (marginal or moment or order is not None):
        problem = "give either --marginal or --marginals-of-order"
        raise InvalidInputError(field="marginals", problem=problem)
    needs("--attributes", attributes, "--marginals-of-order", order)
    statistics: list[Statistic] = [names_in(names) for names in marginal or ()]
    if order is not None:
        statistics.append(all_marginals(order, None if attributes is None else names_in(attributes)))
    return [*statistics, *map(moment_said, moment or ())]


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
