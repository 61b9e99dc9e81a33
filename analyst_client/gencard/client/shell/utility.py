"""utility: what rows are worth beside records that somebody holds."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from gencard.client.checking.bundle import Bundle
from gencard.client.files.files import read_rows
from gencard.client.report.utility import Asked, utility_report
from gencard.client.shell.terminal import AsJson, console, say, say_json
from gencard.core.coding import Coding
from gencard.core.domain import Domain
from gencard.core.errors import InvalidInputError
from gencard.core.utility.gap import GapWords


def utility(
    synthetic: Annotated[
        Path, typer.Argument(help="A folder that was kept, or rows: .csv or .parquet.")
    ],
    records: Annotated[Path, typer.Argument(help="Records to compare with: .csv or .parquet.")],
    schema: Annotated[
        Path | None, typer.Option(help="schema.json, where the rows are a file alone.")
    ] = None,
    target: Annotated[str, typer.Option(help="Attribute to predict.")] = "",
    predictor: Annotated[
        list[str] | None, typer.Option("--from", help="Attribute to predict it from; else all others.")
    ] = None,
    marginal: Annotated[
        list[str] | None, typer.Option(help="Attributes of a marginal whose error is wanted: a,b,c.")
    ] = None,
    gap: Annotated[str, typer.Option(help="Two groups, as sex=men,women, whose gap is wanted.")] = "",
    within: Annotated[str, typer.Option(help="Attribute in whose levels there is a gap.")] = "",
    among: Annotated[str, typer.Option(help="Only these records, as work=full,part.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Of permutations.")] = 0,
    report: Annotated[Path | None, typer.Option("--report", help="Write it as JSON.")] = None,
    as_json: AsJson = False,
) -> None:
    """What rows are worth beside records in your hands: tables, propensity, predictions. Offline."""
    rows, coding, domain = _described(synthetic, schema)
    found = utility_report(
        read_rows(rows, coding, domain),
        read_rows(records, coding, domain),
        coding,
        Asked(
            target,
            tuple(predictor or ()),
            tuple(tuple(names.split(",")) for names in marginal or ()),
            _gap(gap, within, among),
        ),
        rng=np.random.Generator(np.random.PCG64(seed)),
        about=f"{rows} beside {records}",
    )
    say_json(found.document()) if as_json else console.print(found)
    if report is not None:
        found.save_json(report)
        if not as_json:
            say(f"Written: {report}")


def _gap(groups: str, within: str, among: str) -> GapWords | None:
    """Raises InvalidInputError where the words are not of the form."""
    if not (groups or within or among):
        return None
    attribute, levels = _levels(groups)
    if len(levels) != 2 or not within:
        raise InvalidInputError(
            field="gap", problem="needs two levels, such as sex=men,women, and --within"
        )
    looked_at = _levels(among) if among else ("", ())
    return GapWords(attribute, *levels, within, *looked_at)


def _levels(text: str) -> tuple[str, tuple[str, ...]]:
    attribute, _, levels = text.partition("=")
    return attribute, tuple(levels.split(","))


def _described(synthetic: Path, schema: Path | None) -> tuple[Path, Coding, Domain]:
    """The rows, what their codes mean, and the attributes that they have."""
    if synthetic.is_dir():
        bundle = Bundle.of([synthetic])
        return bundle.one("rows").path, bundle.schema(), bundle.domain()
    if schema is None:
        raise InvalidInputError(
            field="schema", problem="is required when the rows are a file without a release"
        )
    coding = Bundle.of([schema]).schema()
    return synthetic, coding, coding.domain
