"""What an audit says: the verdict, what it was about, and the full report where we may see it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from rich.panel import Panel

from gencard.client.report import html, text
from gencard.core.audit.report import AuditReport, Verdict
from gencard.core.audit.wording import summary
from gencard.core.errors import PermissionDeniedError

if TYPE_CHECKING:
    from gencard.client.report.report import Report


class Where(StrEnum):
    """Around which records an audit is made."""

    MADE_UP = "made-up"
    CARD = "card"


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit says. "No evidence of leakage" is not a proof of safety.

    Args:
        card: datasets/{dataset}/cards/{card}.
        black_box: What was audited.
        where: Around made-up records, or around the real ones at the controller.
        wording: The verdict in words, with what it does not prove.
        attempt: Which try of the black box this was on the dataset, by whomever; 1 for made-up records.
        level: The level that the evidence of all these tries together was tested at, a decimal.
        findings: The full report, where our role may see it.
        attestation: The controller's signed verdict, where it is one.
    """

    card: str
    black_box: str
    where: Where
    verdict: Verdict
    wording: str
    attempt: int
    level: str
    findings: AuditReport | None = None
    attestation: bytes = b""

    @property
    def report(self) -> "Report":
        """The full report, as a page and as JSON.

        Raises:
            PermissionDeniedError: Its numbers depend on records, and our role may not see them.
        """
        from gencard.client.report.report import Report  # noqa: PLC0415 - reports only where wanted

        if self.findings is None:
            raise PermissionDeniedError
        # An earlier audit may have found the same box to leak: then the signed verdict stands.
        note = self.wording if self.verdict is not self.findings.verdict else ""
        return Report(self.findings, self.card, self.black_box, str(self.where), note)

    def lines(self) -> list[tuple[str, str]]:
        """The audit in names and values."""
        return [
            ("Verdict", self.wording),
            *([("Found", self._more)] if self._more else []),
            ("Black box", self.black_box),
            ("Records", "made up" if self.where is Where.MADE_UP else "those at the card"),
            ("Level", f"{float(self.level):.3g} (try {self.attempt} of this black box)"),
            ("Card", self.card),
        ]

    @property
    def _more(self) -> str:
        """What the full report says beyond the verdict, in a sentence; for those who may see it."""
        return "" if self.findings is None else summary(self.findings).removeprefix(self.wording).strip()

    def _repr_html_(self) -> str:
        return html.panel("Audit", html.facts(self.lines()))

    def __rich__(self) -> Panel:
        return text.panel("Audit", text.facts(self.lines()))
