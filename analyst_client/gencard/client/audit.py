"""Result of an audit: verdict, circumstances, and the full report if our role may see it."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from gencard.client.common.arguments import Where, checked
from gencard.client.common.display import Displayable, Facts, Part, WrittenAsPage, page_module
from gencard.core.audit.report import AuditReport, Verdict
from gencard.core.audit.wording import report_of_json_object, report_to_json_object, summary
from gencard.core.errors import PermissionDeniedError
from gencard.files import REPORT_LIMIT, read_file
from gencard.wire.signatures.canonical import document_of


@dataclass(frozen=True, slots=True, repr=False)
class Audit(Displayable):
    """Result of an audit. "No evidence of leakage" is not a proof of safety.

    Args:
        card: datasets/{dataset}/cards/{card}.
        black_box: The audited black box.
        where: Based on made-up records, or on the real ones at the controller.
        wording: The verdict in words, with what it does not prove.
        attempt: Number of this attempt for the black box on the dataset, by any submitter; 1 for
            made-up records.
        level: Significance level of the pooled evidence of all attempts, a decimal.
        findings: The full report, if our role may see it.
        attestation: The controller's signed verdict; empty for made-up records.
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
            ("Records", "made up" if self.where is Where.MADE_UP else "the real records of the card"),
            ("Level", f"{float(self.level):.3g} (attempt {self.attempt} for this black box)"),
            ("Card", self.card),
        ]

    @property
    def _more(self) -> str:
        """Details from the full report; empty if our role may not see it."""
        return "" if self.findings is None else summary(self.findings).removeprefix(self.wording).strip()

    def __repr__(self) -> str:
        return f"<Audit of {self.black_box}: {self.wording}>"

    def _panel(self) -> tuple[str, Sequence[Part]]:
        return "Audit", [Facts(self.lines())]


@dataclass(frozen=True)
class Report(WrittenAsPage):
    """The full report of an audit.

    Args:
        facts: The numbers, which depend on the audited records.
        card: datasets/{dataset}/cards/{card}.
        black_box: The audited black box.
        where: "made-up" or "card".
        note: Shown above the verdict, such as an earlier verdict.
    """

    facts: AuditReport
    card: str = ""
    black_box: str = ""
    where: str = ""
    note: str = ""

    @classmethod
    @checked()
    def of_json(cls, path: str | Path) -> "Report":
        """A report that ``save_json`` wrote.

        Raises:
            InvalidInputError: The file cannot be read, or is not a report.
        """
        data = read_file(Path(path), "report", REPORT_LIMIT)
        return cls(report_of_json_object(document_of(data, "report")))

    def _page(self) -> str:
        rendered: str = page_module("findings.pages").audit_page(
            self.facts, card=self.card, black_box=self.black_box, where=self.where, note=self.note
        )
        return rendered

    def document(self) -> dict[str, Any]:
        """All numbers as an object of JSON types."""
        return report_to_json_object(self.facts)

    def _repr_html_(self) -> str:
        return (
            '<iframe title="Audit report" sandbox style="width:100%;height:48em;border:0" '
            f'srcdoc="{escape(self.html)}"></iframe>'
        )
