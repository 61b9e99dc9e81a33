"""The report of a card: as a page, as JSON, as a table."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gencard.client import evaluation
from gencard.client.audit_run import known_audits
from gencard.client.checking.agreement import Agreement
from gencard.client.connection.connection import ProgressDisplay
from gencard.client.display import Displayable, Facts, Grid, Part, WrittenAsPage, page_module
from gencard.client.evaluation import CardMeasures
from gencard.client.report.findings import EXPLANATIONS, sentence, titles_of
from gencard.core.audit.wording import report_to_json_object
from gencard.core.card.terms import CardTerms, Tier
from gencard.core.errors import GencardError, InvalidInputError
from gencard.core.evaluation.evaluation import Finding, finding_to_json_object
from gencard.core.evaluation.registry import EVALUATIONS, price_in_statistics
from gencard.core.evaluation.tables import FidelityFinding
from gencard.core.utility.fidelity import fidelity
from gencard.wire.documents.card_document import card_document
from gencard.wire.documents.receipt import Receipt
from gencard.wire.signatures.identity import Role

if TYPE_CHECKING:
    from gencard.client.audit import Audit

FORMAT = "gencard.report.v1"
HEADS = ("Evaluation", "Result", "")
MEASURED_ON = (
    "rows that the controller drew from the same card for evaluation, as many as there are records; "
    "numbers are rounded to their sampling error"
)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An evaluation that a report does not include, and the reason."""

    what: str
    why: str


@dataclass(frozen=True)
class CardReport(WrittenAsPage, Displayable):
    """A release under a card: its fidelity, risk, utility and audits.

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
    def available(self) -> dict[str, Finding]:
        """Findings without those that the records do not allow."""
        return {name: one for name, one in self.findings.items() if one is not None}

    @property
    def standing_out(self) -> tuple[str, ...]:
        """Titles of evaluations whose findings are worse than their baseline."""
        return tuple(EXPLANATIONS[name].title for name, one in self.available.items() if one.stands_out)

    def _page(self) -> str:
        rendered: str = page_module("card_page").card_page(self)
        return rendered

    def document(self) -> dict[str, Any]:
        """The report as an object of JSON types."""
        return {
            "format": FORMAT,
            "reader": self.reader,
            "card": card_document(self.card) | {"state": self.state, "sha256": self.digest},
            "holdsAgainst": self.card.tier.holds_against,
            "release": self._release(),
            "measures": [self._measure(name, one) for name, one in self.available.items()],
            "audits": [_audit(one) for one in self.audits],
            "leftOut": [{"what": one.what, "why": one.why} for one in self.left_out],
        }

    def grid(self) -> Iterator[tuple[str, str, str]]:
        """One line for each evaluation and each audit, under ``HEADS``."""
        for name, one in self.available.items():
            yield EXPLANATIONS[name].title, sentence(one), "!" if one.stands_out else ""
        for audit in self.audits:
            leaked = "!" if audit.verdict == "leakage" else ""
            yield f"Audit of {audit.black_box}", audit.wording, leaked

    def left_out_lines(self) -> list[tuple[str, str]]:
        """What is not included, one line per reason."""
        by_reason: dict[str, list[str]] = {}
        for left in self.left_out:
            by_reason.setdefault(left.why, []).append(left.what)
        return [("Not included", f"{why}: {', '.join(names)}") for why, names in by_reason.items()]

    def lines(self) -> list[tuple[str, str]]:
        return [
            ("Card", f"{self.card.name} ({self.state})"),
            ("Release", self.receipt.name),
            ("Rows", f"{self.receipt.rows:,}"),
            ("Tier", f"{self.card.tier}: holds against {self.card.tier.holds_against}"),
            ("For", f"the {self.reader}"),
            *([("Measured on", MEASURED_ON)] if self.available.keys() - {"fidelity"} else []),
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

    def _panel(self) -> tuple[str, Sequence[Part]]:
        left_out = Facts(self.left_out_lines())
        return "Report", [Facts(self.lines()), Grid(HEADS, self.grid()), left_out]


def _audit(audit: "Audit") -> dict[str, Any]:
    summary = {
        "blackBox": audit.black_box,
        "verdict": str(audit.verdict),
        "wording": audit.wording,
        "attempt": audit.attempt,
        "level": audit.level,
    }
    findings = None if audit.findings is None else report_to_json_object(audit.findings)
    return summary | {"report": findings}


FIDELITY = "fidelity"
NO_PSI = "a card of tier private has no psi to compare with"
PRIVATE = "reads records, which a card of tier private does not allow"
NOT_ON_CARD = "reads records and is not named on the card"
NOT_ALLOWED = "not possible with these records or rows"


@dataclass(frozen=True, slots=True)
class _Gathering:
    """Collects the contents of one report.

    Args:
        measure: Run missing evaluations; the first caller pays.
    """

    agreement: Agreement
    receipt: Receipt
    measure: bool
    progress: ProgressDisplay

    @property
    def role(self) -> Role:
        return self.agreement.connection.credentials.identity().role

    @property
    def allowed(self) -> tuple[str, ...]:
        """Evaluations at the records that our role may see."""
        named = self.agreement.card.terms.measures
        return named if self.role is Role.ANALYST or self._private else tuple(EVALUATIONS)

    @property
    def _private(self) -> bool:
        """Whether only one noisy fit may read the records."""
        return self.agreement.card.tier is Tier.PRIVATE

    def measures(self) -> CardMeasures:
        """Existing evaluations, and missing ones if ``measure`` is set."""
        connection, card = self.agreement.connection, self.agreement.card.name
        measures = evaluation.known(connection, card)
        missing = [
            name
            for name in self.allowed
            if name not in measures.findings and name not in measures.unavailable
        ]
        if self.measure and missing:
            measures = evaluation.run(connection, card, missing, self.progress)
        return measures if FIDELITY in measures.findings else self._with_fidelity(measures)

    def _with_fidelity(self, measures: CardMeasures) -> CardMeasures:
        """An analyst computes it of the release; for others the controller does it of the card."""
        if self._private:
            return measures
        if self.role is not Role.ANALYST:
            if FIDELITY in measures.unavailable:
                return measures
            connection, card = self.agreement.connection, self.agreement.card.name
            return evaluation.run(connection, card, [FIDELITY], self.progress)
        rows = self.agreement.fetch(self.receipt.name, self.progress).dataset
        with suppress(GencardError):
            return measures.with_finding(FIDELITY, FidelityFinding(fidelity(self.agreement.psi, rows)))
        return measures.with_finding(FIDELITY, None)

    def left_out(self, measures: CardMeasures) -> Iterator[LeftOut]:
        """Each evaluation that is not in the report, with the reason."""
        unmeasured = []
        for name in EVALUATIONS:
            if name in measures.findings:
                if measures.findings[name] is None:
                    yield LeftOut(EXPLANATIONS[name].title, NOT_ALLOWED)
            elif self._private:
                yield LeftOut(EXPLANATIONS[name].title, NO_PSI if name == FIDELITY else PRIVATE)
            elif name in measures.unavailable:
                yield LeftOut(EXPLANATIONS[name].title, measures.unavailable[name])
            elif name in self.allowed:
                unmeasured.append(name)
            else:
                yield LeftOut(EXPLANATIONS[name].title, NOT_ON_CARD)
        if unmeasured:
            yield LeftOut(titles_of(unmeasured), self._how_to_measure(unmeasured))

    def _how_to_measure(self, names: list[str]) -> str:
        terms = self.agreement.card.terms
        price = price_in_statistics(
            names, attributes=len(self.agreement.domain), marginals=len(terms.marginals)
        )
        return f"not evaluated yet: gencard report --measure, for at most {price:,} statistics"


def card_report(
    agreement: Agreement, state: str, release: str | None, *, measure: bool, progress: ProgressDisplay
) -> CardReport:
    """The report of a card and one release; the arguments are those of ``Card.report``.

    Raises:
        InvalidInputError: The card has no release, or none of this name.
    """
    role = agreement.connection.credentials.identity().role
    gathering = _Gathering(agreement, _receipt(agreement, release), measure, progress)
    measures = gathering.measures()
    return CardReport(
        card=agreement.card,
        digest=agreement.digest,
        state=state,
        receipt=gathering.receipt,
        reader=str(role),
        findings=measures.findings,
        audits=tuple(known_audits(agreement)),
        left_out=tuple(gathering.left_out(measures)),
    )


def _receipt(agreement: Agreement, release: str | None) -> Receipt:
    """The receipt of a release, the newest where none is named."""
    for receipt in agreement.receipts():
        if release in (None, receipt.name):
            return receipt
    problem = "has no release yet" if release is None else "has no release of this name"
    raise InvalidInputError(field="card", problem=problem)
