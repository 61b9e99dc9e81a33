"""Disclosure risk of psi, as a part of the card's page: started, watched and shown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from starlette.requests import Request

from gencard.controller.page.decisions import request_id_of
from gencard.controller.page.security import Form
from gencard.controller.page.views import ChangeResult, Context, FormAction, View
from gencard.controller.stewards.desk import Desk
from gencard.measures.psi_risk.risk import PsiRisk
from gencard.wire.keys import Identity
from gencard.wire.steward import RiskState

MOST_IN_MAP = 40
"""Attributes of a heat map with numbers; it would not be read beyond."""


@dataclass(frozen=True, slots=True)
class Shade:
    """A number of a heat map.

    Args:
        text: Text of the number; empty for 0.
        level: Level of the tone, from 0 to 4.
        words: Meaning of the number, in a sentence.
    """

    text: str
    level: int
    words: str


@dataclass(frozen=True, slots=True)
class Shades:
    """A heat map with numbers: a title and a row for each attribute."""

    title: str
    hint: str
    attributes: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Shade, ...]], ...]


def show_risk(request: Request, desk: Desk, who: Identity) -> Context:
    """Return the progress of an evaluation, or its result."""
    view = desk.risks.view(who, request.path_params["name"])
    report = view.report
    return {
        "risk": view,
        "report": report,
        "running": view.state is RiskState.RUNNING,
        "outdated": view.state is RiskState.OUTDATED,
        "worst": [(one.known, one.certain, one.records) for one in view.worst],
        "maps": [] if report is None else maps_of(report),
    }


def maps_of(report: PsiRisk) -> list[Shades]:
    """Return heat maps of pairs of attributes: small cells, and certain inferences between the two."""
    largest = max((max(row, default=0) for row in report.small_pairs), default=0)
    few = f"cells of fewer than {report.threshold} records"

    def count(row: int, column: int) -> Shade:
        value = report.small_pairs[row][column]
        level = 0 if not value else min(4, 1 + 4 * value // (largest + 1))
        return Shade(f"{value:,}" if value else "", level, f"{value:,} {few}")

    def share(row: int, column: int) -> Shade:
        part = report.certain[row][column]
        text = "" if not part else "<1" if part < 0.01 else f"{100 * part:.0f}"  # never 0 if above 0
        level = 0 if not part else 1 if part < 0.01 else 2 if part < 0.1 else 3 if part < 0.5 else 4
        return Shade(text, level, f"{text or 0} % of the records")

    return [
        _shades(
            report,
            "Small cells",
            f"{few.capitalize()} in the table of two attributes; on the diagonal, of one.",
            count,
            below=True,
        ),
        _shades(
            report,
            "Certain",
            "% of the records for which the attribute of the row determines that of the column.",
            share,
        ),
    ]


def _shades(
    report: PsiRisk,
    title: str,
    hint: str,
    shade: Callable[[int, int], Shade],
    *,
    below: bool = False,
) -> Shades:
    names: Sequence[str] = report.attributes[:MOST_IN_MAP]
    rows = tuple(
        (name, tuple(shade(row, column) for column in range(row + 1 if below else len(names))))
        for row, name in enumerate(names)
    )
    return Shades(title, hint, tuple(names), rows)


def run_risk(form: Form, desk: Desk, who: Identity) -> ChangeResult:
    """Begin to look, or join a look that is under way."""
    name = form.text("resource")
    desk.risks.start(who, name, request_id_of(form))
    return ChangeResult(f"/cards/{name}#risk")


VIEWS = (View("/risk/{name:path}", "risk.html", show_risk, "What psi will show"),)
CHANGES = (FormAction("/risk", run_risk),)
