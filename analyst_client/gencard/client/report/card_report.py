"""The report of a card in our hands: as a page, as JSON, as a table."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.panel import Panel

from gencard.client.report import html, text
from gencard.client.report.extra import page_module
from gencard.client.report.findings import EXPLANATIONS, sentence
from gencard.client.report.written import WrittenAsPage
from gencard.core.audit.report_json import report_to_json_object
from gencard.core.card.terms import CardTerms
from gencard.core.evaluation.finding import Finding, finding_to_json_object
from gencard.core.evaluation.registry import EVALUATIONS
from gencard.wire.documents.card_document import card_document
from gencard.wire.documents.receipt import Receipt

if TYPE_CHECKING:
    from gencard.client.audit_found import Audit

FORMAT = "gencard.report.v1"
HEADS = ("Measure", "Found", "")
MEASURED_ON = (
    "rows that the controller drew for this from the same card, as many as there are records; numbers "
    "are rounded to what their sampling error earns"
)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a report does not say, and why."""

    what: str
    why: str


@dataclass(frozen=True)
class CardReport(WrittenAsPage):
    """What was released under a card, how well, at what risk, and what audits said.

    Args:
        digest: SHA-256, in hex, of the card.
        receipt: Of the release that was measured.
        reader: The role that the report was made for: it decides what is in it.
        findings: By measure, in the order of the report; None where the records do not allow it.
        audits: Of the card, newest first.
    """

    card: CardTerms
    digest: str
    state: str
    receipt: Receipt
    reader: str
    findings: Mapping[str, Finding | None]
    audits: "tuple[Audit, ...]"
    left_out: tuple[LeftOut, ...]

    @property
    def found(self) -> dict[str, Finding]:
        """The findings that there are."""
        return {name: one for name, one in self.findings.items() if one is not None}

    @property
    def standing_out(self) -> tuple[str, ...]:
        """Titles of the measures whose findings are beyond their own baseline."""
        return tuple(EXPLANATIONS[name].title for name, one in self.found.items() if one.stands_out)

    def _page(self) -> str:
        rendered: str = page_module("card_page").render(self)
        return rendered

    def document(self) -> dict[str, Any]:
        """All of it as an object of JSON types."""
        return {
            "format": FORMAT,
            "reader": self.reader,
            "card": card_document(self.card) | {"state": self.state, "sha256": self.digest},
            "holdsAgainst": self.card.tier.holds_against,
            "release": self._release(),
            "measures": [self._measure(name, one) for name, one in self.found.items()],
            "audits": [_audit(one) for one in self.audits],
            "leftOut": [{"what": one.what, "why": one.why} for one in self.left_out],
        }

    def grid(self) -> Iterator[tuple[str, str, str]]:
        """One line for each measure that was taken and each audit, under ``HEADS``."""
        for name, one in self.found.items():
            yield EXPLANATIONS[name].title, sentence(one), "!" if one.stands_out else ""
        for audit in self.audits:
            leaked = "!" if audit.verdict == "leakage" else ""
            yield f"Audit of {audit.black_box}", audit.wording, leaked

    def left_out_lines(self) -> list[tuple[str, str]]:
        """What is left out, a line for each reason."""
        by_reason: dict[str, list[str]] = {}
        for left in self.left_out:
            by_reason.setdefault(left.why, []).append(left.what)
        return [("Left out", f"{why}: {', '.join(names)}") for why, names in by_reason.items()]

    def lines(self) -> list[tuple[str, str]]:
        return [
            ("CardTerms", f"{self.card.name} ({self.state})"),
            ("Release", self.receipt.name),
            ("Rows", f"{self.receipt.rows:,}"),
            ("Tier", f"{self.card.tier}: holds against {self.card.tier.holds_against}"),
            ("For", f"the {self.reader}"),
            *([("Measured on", MEASURED_ON)] if self.found.keys() - {"fidelity"} else []),
        ]

    def _release(self) -> dict[str, Any]:
        receipt = self.receipt
        return {
            "name": receipt.name,
            "rows": receipt.rows,
            "sha256": receipt.rows_digest,
            "psi": receipt.psi_digest or None,
            "time": receipt.time,
        }

    def _measure(self, name: str, finding: Finding) -> dict[str, Any]:
        measure = EVALUATIONS[name]
        return {
            "name": name,
            "group": str(measure.group),
            "sentence": sentence(finding),
            "standsOut": finding.stands_out,
            "found": finding_to_json_object(finding),
        }

    def _repr_html_(self) -> str:
        parts = (
            html.facts(self.lines()),
            html.grid(HEADS, self.grid()),
            html.facts(self.left_out_lines()),
        )
        return html.panel("Report", *parts)

    def __rich__(self) -> Panel:
        parts = (
            text.facts(self.lines()),
            text.grid(HEADS, self.grid()),
            text.facts(self.left_out_lines()),
        )
        return text.panel("Report", *parts)


def _audit(audit: "Audit") -> dict[str, Any]:
    told = {
        "blackBox": audit.black_box,
        "verdict": str(audit.verdict),
        "wording": audit.wording,
        "attempt": audit.attempt,
        "level": audit.level,
    }
    findings = None if audit.findings is None else report_to_json_object(audit.findings)
    return told | {"report": findings}
