"""The report of a card: as a page, as JSON, as a table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import exp
from typing import TYPE_CHECKING, Any

from gencard.client.common.display import (
    Displayable,
    Facts,
    Grid,
    Part,
    WrittenAsPage,
    page_module,
    percent,
)
from gencard.client.findings.findings import EXPLANATIONS, result_of, sentence, unseen_words
from gencard.client.findings.numbers import NumberReport
from gencard.core.audit.wording import report_to_json_object
from gencard.core.card.terms import CardTerms
from gencard.core.coding import Coding
from gencard.core.statistics.noise import USUAL_DELTA, in_words, together
from gencard.measures.evaluation.evaluation import Finding, Group, finding_to_json_object
from gencard.measures.evaluation.registry import EVALUATIONS, REPORTED
from gencard.measures.evaluation.tables import FidelityFinding
from gencard.wire.documents import Receipt, card_document, json_of

if TYPE_CHECKING:
    from gencard.client.answers.answer import Answer
    from gencard.client.audit import Audit

FORMAT = "gencard.report.v1"
HEADS = ("Evaluation", "Result", "")
MEASURED_ON = (
    "rows that the controller drew from the same card for evaluation, as many as there are records; "
    "numbers are rounded to their sampling error"
)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Evaluations that a report does not include, and the reason.

    Args:
        group: What they examine; None for what is no evaluation.
    """

    what: str
    why: str
    group: Group | None = None


@dataclass(frozen=True)
class CardReport(WrittenAsPage, Displayable):
    """A release under a card: its fidelity, risk, utility and audits.

    Args:
        digest: SHA-256, in hex, of the card.
        receipt: Of the release that was measured.
        reader: The role that the report was made for: it decides what is in it.
        findings: By measure, in the order of the report; None where the records do not allow it.
        audits: Of the card, newest first.
        answers: Analyses that the reader put in.
        coding: The schema, by which numbers are written; without it there is no table of them.
    """

    card: CardTerms
    digest: str
    state: str
    receipt: Receipt
    reader: str
    findings: Mapping[str, Finding | None]
    audits: "tuple[Audit, ...]"
    left_out: tuple[LeftOut, ...]
    answers: "tuple[Answer, ...]" = ()
    coding: Coding | None = None

    @property
    def numbers(self) -> NumberReport | None:
        """Figures of numbers beside psi, as ``fidelity`` has them; None without a number."""
        finding = self.findings.get("fidelity")
        if self.coding is None or not isinstance(finding, FidelityFinding):
            return None
        table = finding.facts.numbers
        return None if table is None else NumberReport(table, self.coding)

    @property
    def unseen(self) -> list[str]:
        """Effects that the comparison with psi cannot show."""
        finding = self.findings.get("fidelity")
        return unseen_words(finding.facts) if isinstance(finding, FidelityFinding) else []

    @property
    def available(self) -> dict[str, Finding]:
        """Findings without those that the records do not allow."""
        return {name: one for name, one in self.findings.items() if one is not None}

    @property
    def standing_out(self) -> tuple[str, ...]:
        """Titles of evaluations whose findings are worse than their baseline."""
        return tuple(EXPLANATIONS[name].title for name, one in self.available.items() if one.stands_out)

    @property
    def undecided(self) -> tuple[str, ...]:
        """Titles of evaluations that could not have shown anything worse than their baseline."""
        return tuple(EXPLANATIONS[name].title for name, one in self.available.items() if one.undecided)

    @property
    def unexamined(self) -> tuple[Group, ...]:
        """Risk and utility, where no finding compares the release with the records."""
        examined = {
            EVALUATIONS[name].group
            for name in self.available
            if name in EVALUATIONS and EVALUATIONS[name].reads_records
        }
        return tuple(group for group in (Group.RISK, Group.UTILITY) if group not in examined)

    @property
    def leaked(self) -> bool:
        """Whether an audit found that the card's own generator leaks."""
        return any(
            audit.verdict == "leakage" and audit.black_box == self.card.terms.generator
            for audit in self.audits
        )

    @property
    def wording(self) -> str:
        """The headline: what is worse than its baseline, and what was not examined."""
        signs = [title.lower() for title in self.standing_out]
        if self.leaked:
            signs.append("an audit of the generator, which found a leak")
        if signs:
            result = f"Worse than the baseline: {'; '.join(signs)}."
        elif self.available or self.audits:
            result = "No evaluation is worse than its baseline. This is not a proof of safety."
        else:
            result = "No evaluation is available to this reader."
        if self.undecided:
            names = "; ".join(title.lower() for title in self.undecided)
            result = (
                f"{result} Not decided, for the holdout is too small or a number undefined: {names}."
            )
        if not self.unexamined:
            return result
        return f"{result} Not compared with the records: {' and '.join(self.unexamined)}."

    def _page(self) -> str:
        rendered: str = page_module("report.card_page").card_page(self)
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
            "leftOut": [json_of(one, "what", "why") for one in self.left_out],
            **({"answers": [one.document() for one in self.answers]} if self.answers else {}),
        }

    def grid(self) -> Iterator[tuple[str, str, str]]:
        """One line for each evaluation and each audit, under ``HEADS``."""
        for name, one in self.available.items():
            sign = "!" if one.stands_out else "?" if one.undecided else ""
            yield EXPLANATIONS[name].title, result_of(one), sign
        for audit in self.audits:
            leaked = "!" if audit.verdict == "leakage" else ""
            yield f"Audit of {audit.black_box}", audit.wording, leaked

    def left_out_lines(self) -> list[tuple[str, str]]:
        """Evaluations that are not included and how to add each, one line per group and reason."""
        by_reason: dict[tuple[Group | None, str], list[str]] = {}
        for left in self.left_out:
            by_reason.setdefault((left.group, left.why), []).append(left.what)
        lines = []
        for (group, why), names in by_reason.items():
            label = "Not included" if group is None else f"{group.capitalize()}, not included"
            lines.append((label, f"{why}: {', '.join(names)}"))
        return lines

    def lines(self) -> list[tuple[str, str]]:
        return [
            *(("Not seen", words) for words in self.unseen),
            ("Card", f"{self.card.name} ({self.state})"),
            ("Release", self.receipt.name),
            ("Rows", f"{self.receipt.rows:,}"),
            ("Tier", f"{self.card.tier}: reliable for {self.card.tier.holds_against}"),
            ("For", f"the {self.reader}"),
            *([("Measured on", MEASURED_ON)] if len(self.unexamined) < _EXAMINABLE else []),
            *_risk_bound(self.card),
            *(("Answer", f"{one.kind}: {one.formula}") for one in self.answers),
            *(self.numbers.left_out() if self.numbers else []),
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
        measure = REPORTED[name]
        return {
            "name": name,
            "group": str(measure.group),
            "sentence": sentence(finding),
            "standsOut": finding.stands_out,
            **({"undecided": True} if finding.undecided else {}),
            "found": finding_to_json_object(finding),
        }

    def _panel(self) -> tuple[str, Sequence[Part]]:
        numbers = self.numbers.grids() if self.numbers else []
        tables = [Grid(HEADS, self.grid()), *numbers, Facts(self.left_out_lines())]
        return "Report", [self.wording, Facts(self.lines()), *tables]


_EXAMINABLE = 2


def _risk_bound(card: CardTerms) -> list[tuple[str, str]]:
    r"""Return the guarantee of the noise alone; empty for exact counts.

    With :math:`(\varepsilon, \delta)`, a guess between two equally likely datasets that differ in one
    person is right with probability at most :math:`(e^\varepsilon + \delta) / (e^\varepsilon + 1)`
    (P. Kairouz, S. Oh, P. Viswanath, "The Composition Theorem for Differential Privacy", ICML 2015).
    """
    price = card.terms.privacy.price
    if not (price.rho or price.epsilon):
        return []
    delta = (card.terms.privacy.delta or USUAL_DELTA) if price.rho else Decimal(0)
    epsilon = together([price.epsilon] if price.epsilon else [], price.rho, delta or USUAL_DELTA)
    ratio = exp(min(float(epsilon), 700.0))
    most = (ratio + float(delta)) / (ratio + 1)
    text = f"{in_words(epsilon, delta)}: a guess whether a person is in the records is right in at most"
    return [("Risk bound", f"{text} {percent(min(most, 1.0))} of cases, by this card alone")]


def _audit(audit: "Audit") -> dict[str, Any]:
    findings = None if audit.findings is None else report_to_json_object(audit.findings)
    names = ("black_box", "verdict", "wording", "attempt", "level")
    return {**json_of(audit, *names), "report": findings}
