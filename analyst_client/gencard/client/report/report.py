"""A report in our hands: as a page, as JSON, in a notebook."""

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from gencard.client.report.extra import page_module
from gencard.client.report.written import WrittenAsPage
from gencard.core.audit.report import AuditReport
from gencard.core.audit.report_json import report_of_json_object, report_to_json_object
from gencard.core.errors import InvalidInputError
from gencard.wire.signatures.canonical import document_of


@dataclass(frozen=True)
class Report(WrittenAsPage):
    """Everything that an audit found, and what it was about.

    Args:
        facts: The numbers. They depend on the records that the audit was made around.
        card: datasets/{dataset}/cards/{card}.
        black_box: What was audited.
        where: "made-up" or "card".
        note: What stands above the verdict of these numbers; such as an earlier verdict.
    """

    facts: AuditReport
    card: str = ""
    black_box: str = ""
    where: str = ""
    note: str = ""

    @classmethod
    def of_json(cls, path: str | Path) -> "Report":
        """A report that ``save_json`` wrote.

        Raises:
            InvalidInputError: It cannot be read, or is no report.
        """
        try:
            data = Path(path).read_bytes()
        except OSError:
            raise InvalidInputError(field="report", problem=f"cannot read {path}") from None
        return cls(report_of_json_object(document_of(data, "report")))

    def _page(self) -> str:
        rendered: str = page_module("page").render(
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
