"""fidelity, report, utility: the quality and the risk of rows."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from gencard.client.agreement import Agreement
from gencard.client.checking.bundle import Bundle
from gencard.client.common.files.folder import make_folder
from gencard.client.common.files.forms import usual_form
from gencard.client.common.files.rows import ReadRows, read_numbered, unread_columns
from gencard.client.findings.fidelity import FidelityReport
from gencard.client.findings.utility import UtilityOptions, UtilityReport, utility_report
from gencard.client.release import Release
from gencard.client.shell.terminal import HERE, AsJson, Folder, connected, console, say, say_json
from gencard.core.coding import Coding
from gencard.core.domain import Domain
from gencard.core.errors import DomainMismatchError, InvalidInputError
from gencard.core.statistics.formula import Analysis, analysis_of
from gencard.measures.utility.fidelity import fidelity as fidelity_to
from gencard.measures.utility.gap import GapWords
from gencard.measures.utility.numbers import compare_with_records
from gencard.shell import visible


def fidelity(
    target: Annotated[str, typer.Argument(help="A saved release folder, or a card.")],
    data: Annotated[
        Path | None,
        typer.Option(help="A file of rows. Default: those in the folder, or the newest release."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--html", help="Write the report as an HTML page.")
    ] = None,
    report: Annotated[Path | None, typer.Option("--report", help="Write the report as JSON.")] = None,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Compare rows with psi, the released statistics, allowing for sampling error. Always exits 0."""
    folder = Path(target)
    compared = (
        _of_folder(folder, data, as_json=as_json)
        if folder.is_dir()
        else _of_card(target, data, connection, as_json=as_json)
    )
    _shown(compared, page, report, as_json=as_json)


def _shown(
    compared: FidelityReport | UtilityReport, page: Path | None, report: Path | None, *, as_json: bool
) -> None:
    """Print a report, and write its files."""
    say_json(compared.document()) if as_json else console.print(compared)
    if page is not None:
        compared.save_html(page)
    if report is not None:
        compared.save_json(report)
    paths = [str(path) for path in (page, report) if path is not None]
    if paths and not as_json:
        say(f"Written: {', '.join(paths)}")


def _of_folder(folder: Path, data: Path | None, *, as_json: bool) -> FidelityReport:
    """Offline; does not check that psi and rows belong to the card, which ``gencard verify`` does."""
    bundle = Bundle.of([folder])
    coding, released = bundle.schema(), bundle.psi()
    domain = released.fitted.domain
    if coding.domain.project(domain.attributes) != domain:
        raise DomainMismatchError(problem="psi does not have the attributes that the schema declares")
    file = data or bundle.one("rows").path
    rows = read_numbered(file, coding, domain)
    _say_read(file, rows, as_json=as_json)
    facts = fidelity_to(released, rows.dataset, coding=coding, numbers=rows.numbers)
    return FidelityReport(facts, coding, str(file))


def _of_card(name: str, data: Path | None, connection: Path, *, as_json: bool) -> FidelityReport:
    with connected(connection) as analyst:
        agreement = analyst.card(name).agreement
        if data is None:
            return agreement.fidelity(_newest(agreement))
        rows = read_numbered(data, agreement.coding, agreement.domain)
        _say_read(data, rows, as_json=as_json)
        return agreement.fidelity(rows)


def _say_read(path: Path, rows: ReadRows, *, as_json: bool) -> None:
    """Say how a file was read, if not as usual, and which columns are not compared.

    Beside JSON, on standard error.
    """
    texts = []
    if rows.form != usual_form(path) and str(rows.form):
        texts.append(f"Read as: {rows.form} ({path}).")
    if names := unread_columns(path, rows):
        problem = "Not compared, since the schema has no such attribute"
        texts.append(f"{problem}: {', '.join(names)} ({path}).")
    for text in texts:
        typer.echo(visible(text), err=True) if as_json else say(text)


def _newest(agreement: Agreement) -> Release:
    """The newest release; raises InvalidInputError where there is none."""
    receipt = next(agreement.receipts(), None)
    if receipt is None:
        raise InvalidInputError(field="data", problem="is required, because the card has no release yet")
    return agreement.fetch(receipt.name, progress=True)


Measured = Annotated[
    bool,
    typer.Option(
        "--measure/--no-measure",
        help="Run missing evaluations on the records; each number costs one statistic, once per card.",
    ),
]


Answered = Annotated[
    list[str] | None,
    typer.Option(
        "--answer",
        help="Analysis of psi to include, such as 'health ~ age' or 'linear: income ~ age'. Repeatable.",
    ),
]


def report(
    name: Annotated[str, typer.Argument(help="A card, or one of its releases.", metavar="CARD|RELEASE")],
    answer: Answered = None,
    page: Annotated[
        Path | None, typer.Option("--html", help="Write the report as an HTML page.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--report", help="Write the report as JSON.")] = None,
    measure: Measured = False,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Report a release: fidelity, risk, utility and audits, as far as your role may see them.

    Always exits 0. With --html, the JSON report is written beside the page unless --report is given.
    """
    card, _, release = name.partition("/releases/")
    if page is not None and file is None:
        file = page.with_suffix(".json")
    if page is not None and page == file:
        raise InvalidInputError(field="report", problem="must differ from the file of the page")
    paths = [path for path in (page, file) if path is not None]
    for path in paths:
        make_folder(path.parent)
    with connected(connection) as analyst:
        reported = analyst.card(card)
        answers = [reported.answer(*_analysis(text)) for text in answer or ()]
        card_report = reported.report(name if release else None, answers=answers, measure=measure)
    say_json(card_report.document()) if as_json else console.print(card_report)
    if page is not None:
        card_report.save_html(page)
    if file is not None:
        card_report.save_json(file)
    if paths and not as_json:
        say(f"Written: {', '.join(map(str, paths))}")


def _analysis(text: str) -> tuple[str, str]:
    """Formula and kind; what stands before a colon on the left of '~' is the kind."""
    kind, colon, formula = text.partition(":")
    if not colon or "~" in kind:
        return text, Analysis.LOGISTIC
    return formula.strip(), analysis_of(kind.strip())


def utility(
    synthetic: Annotated[Path, typer.Argument(help="A saved release folder, or a file of rows.")],
    records: Annotated[Path, typer.Argument(help="File of records to compare with.")],
    schema: Annotated[
        Path | None, typer.Option(help="schema.json; required if the rows are a single file.")
    ] = None,
    target: Annotated[str, typer.Option(help="Attribute to predict.")] = "",
    predictor: Annotated[
        list[str] | None, typer.Option("--from", help="Predictor. Default: all other attributes.")
    ] = None,
    marginal: Annotated[
        list[str] | None, typer.Option(help="Marginal whose error to compute: a,b,c.")
    ] = None,
    gap: Annotated[str, typer.Option(help="Two groups to compare, such as sex=men,women.")] = "",
    within: Annotated[
        str, typer.Option(help="Attribute whose shares are compared between the groups.")
    ] = "",
    among: Annotated[str, typer.Option(help="Only these records, such as work=full,part.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the permutations.")] = 0,
    page: Annotated[
        Path | None, typer.Option("--html", help="Write the report as an HTML page.")
    ] = None,
    report: Annotated[Path | None, typer.Option("--report", help="Write the report as JSON.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare rows with records that you have: numbers, tables, propensity, predictions. Offline."""
    rows, coding, domain = _described(synthetic, schema)
    ours, theirs = read_numbered(rows, coding, domain), read_numbered(records, coding, domain)
    for file, read in ((rows, ours), (records, theirs)):
        _say_read(file, read, as_json=as_json)
    comparison = utility_report(
        ours.dataset,
        theirs.dataset,
        coding,
        UtilityOptions(
            target,
            tuple(predictor or ()),
            tuple(tuple(names.split(",")) for names in marginal or ()),
            _gap(gap, within, among),
        ),
        rng=np.random.Generator(np.random.PCG64(seed)),
        about=f"{rows} beside {records}",
        numbers=compare_with_records(coding, domain.attributes, ours.numbers, theirs.numbers),
    )
    _shown(comparison, page, report, as_json=as_json)


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
