"""fidelity: how well rows follow psi."""

from pathlib import Path
from typing import Annotated

import typer

from gencard.client.checking.agreement import Agreement
from gencard.client.checking.bundle import Bundle
from gencard.client.files.files import read_rows
from gencard.client.releases import Release
from gencard.client.report.fidelity import FidelityReport
from gencard.client.shell.terminal import HERE, AsJson, Folder, connected, console, say, say_json
from gencard.core.errors import DomainMismatchError, InvalidInputError
from gencard.core.utility.fidelity import fidelity as fidelity_to


def fidelity(
    target: Annotated[str, typer.Argument(help="A folder that was kept, or a card.")],
    data: Annotated[
        Path | None,
        typer.Option(help="Rows, .csv or .parquet; else the folder's, or the newest release."),
    ] = None,
    page: Annotated[Path | None, typer.Option("--html", help="Write it as a page.")] = None,
    report: Annotated[Path | None, typer.Option("--report", help="Write it as JSON.")] = None,
    connection: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """How far rows lie from psi, and how far chance takes them. Exit code 0 whatever is found."""
    folder = Path(target)
    found = _of_folder(folder, data) if folder.is_dir() else _of_card(target, data, connection)
    say_json(found.document()) if as_json else console.print(found)
    if page is not None:
        found.save_html(page)
    if report is not None:
        found.save_json(report)
    written = [str(path) for path in (page, report) if path is not None]
    if written and not as_json:
        say(f"Written: {', '.join(written)}")


def _of_folder(folder: Path, data: Path | None) -> FidelityReport:
    """Offline. Whether psi and rows are those of the card is for ``gencard verify`` to say."""
    bundle = Bundle.of([folder])
    coding, psi = bundle.schema(), bundle.psi()
    if coding.domain.project(psi.domain.attributes) != psi.domain:
        raise DomainMismatchError(problem="psi does not have the attributes that the schema declares")
    file = data or bundle.one("rows").path
    return FidelityReport(fidelity_to(psi, read_rows(file, coding, psi.domain)), coding, str(file))


def _of_card(name: str, data: Path | None, connection: Path) -> FidelityReport:
    with connected(connection) as analyst:
        agreement = analyst.card(name).agreement
        if data is None:
            return agreement.fidelity(_newest(agreement))
        return agreement.fidelity(read_rows(data, agreement.coding, agreement.domain))


def _newest(agreement: Agreement) -> Release:
    """The newest release; raises InvalidInputError where there is none."""
    receipt = next(agreement.receipts(), None)
    if receipt is None:
        raise InvalidInputError(field="data", problem="is required, because the card has no release yet")
    return agreement.fetch(receipt.name, progress=True)
