"""The report of a card: its evaluations, gathered; as a page, as JSON, as a table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from math import exp
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from gencard.client.agreement import Agreement
from gencard.client.audit import known_audits
from gencard.client.catalogue import get_dataset
from gencard.client.common.display import (
    Displayable,
    Facts,
    Grid,
    Part,
    WrittenAsPage,
    page_module,
    percent,
)
from gencard.client.connection.connection import (
    Connection,
    ProgressDisplay,
    pages,
    progress_bar,
    result_of,
)
from gencard.client.findings.findings import (
    EXPLANATIONS,
    NumberReport,
    result_sentence,
    sentence,
    unseen_words,
)
from gencard.core.audit.wording import report_to_json_object
from gencard.core.card.terms import CardTerms, Tier
from gencard.core.coding import Coding
from gencard.core.errors import InvalidInputError, VerificationError
from gencard.core.statistics.noise import USUAL_DELTA, in_words, together
from gencard.measures.evaluation.evaluation import (
    NOTHING_DECLARED,
    Finding,
    Group,
    Material,
    Need,
    finding_to_json_object,
)
from gencard.measures.evaluation.registry import (
    EVALUATIONS,
    REPORTED,
    evaluate,
    finding_of_json_object,
    price_in_statistics,
)
from gencard.measures.evaluation.utility_findings import FidelityFinding
from gencard.v1 import measures_pb2 as pb
from gencard.wire.canonical import document_of
from gencard.wire.documents import Receipt, card_document, json_of
from gencard.wire.keys import Role

if TYPE_CHECKING:
    from gencard.client.answers.answer import Answer
    from gencard.client.audit import Audit


# Evaluations of a card at the records, as far as our role may see them.

MEASURES_FORMAT = "gencard.measures.v2"
_OTHERS = "the findings do not belong to this card"


@dataclass(frozen=True, slots=True)
class CardMeasures:
    """Evaluations of one card, each run once, on rows that the controller drew for them.

    Args:
        findings: By evaluation, in the order of a report; None if the records do not allow it.
        unavailable: Evaluations that the card cannot have, with the reason.
        statistics: Their total price, paid by the first caller, in independent statistics.
    """

    card: str
    findings: Mapping[str, Finding | None] = field(default_factory=dict)
    unavailable: Mapping[str, str] = field(default_factory=dict)
    statistics: int = 0


def run_measures(
    connection: Connection, card: str, measures: Sequence[str], progress: ProgressDisplay
) -> CardMeasures:
    """Run evaluations of a card and return all that exist; those already run are free.

    Args:
        measures: Names; empty for all that are available to our role.
    """
    request = pb.RunMeasuresRequest(card=card, measures=measures, request_id=str(uuid4()))
    with progress_bar("Measuring", progress) as reported:
        operation = connection.call(connection.measures.RunMeasures, request)
        result_of(connection, operation, pb.RunMeasuresResponse, reported)
    return known_measures(connection, card)


def known_measures(connection: Connection, card: str) -> CardMeasures:
    """All existing evaluations of a card that our role may see."""
    request = pb.ListMeasuresRequest(parent=card)
    findings: dict[str, Finding | None] = {}
    unavailable: dict[str, str] = {}
    statistics = 0
    for page in pages(connection, connection.measures.ListMeasures, request):
        unavailable = {one.measure: one.reason for one in page.unavailable}
        for one in page.measures:
            measure = one.name.rpartition("/")[2]
            if measure in unavailable:  # withheld by now
                continue
            own = pb.GetMeasuresRequest(name=one.name)
            answer = connection.call(connection.measures.GetMeasures, own).measures
            findings[measure] = _finding_of(answer.document, card, measure)
            statistics += answer.statistics
    return CardMeasures(card, _in_order(findings), unavailable, statistics)


def _finding_of(content: bytes, card: str, measure: str) -> Finding | None:
    try:
        document = document_of(content, "measures")
        about = document["format"], document["card"], document["measure"]
        if about != (MEASURES_FORMAT, card, measure):
            raise VerificationError(problem=_OTHERS)
        finding = document["found"]
        return None if finding is None else finding_of_json_object(measure, finding)
    except (KeyError, TypeError, AttributeError):
        raise VerificationError(problem=_OTHERS) from None


def _in_order(findings: Mapping[str, Finding | None]) -> dict[str, Finding | None]:
    return {name: findings[name] for name in REPORTED if name in findings}


# The report itself.

FORMAT = "gencard.report.v1"
HEADS = ("Evaluation", "Result", "")
MEASURED_ON = (
    "rows that the controller drew from the same card for evaluation, as many as there are records; "
    "numbers are rounded to their sampling error"
)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Evaluations (or, of no group, others) that a report does not include, and the reason."""

    what: str
    why: str
    group: Group | None = None


@dataclass(frozen=True)
class CardReport(WrittenAsPage, Displayable):
    """A release under a card: its fidelity, risk, utility and audits.

    Args:
        digest: SHA-256, in hex, of the card.
        reader: The role that the report was made for: it decides what is in it.
        findings: By measure, in the order of the report; None where the records do not allow it.
        audits: Of the card, newest first.
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
        return str(page_module().card_page(self))

    def document(self) -> dict[str, Any]:
        """The report as an object of JSON types."""
        audits = [
            json_of(one, "black_box", "verdict", "wording", "attempt", "level")
            | {"report": None if one.findings is None else report_to_json_object(one.findings)}
            for one in self.audits
        ]
        return {
            "format": FORMAT,
            "reader": self.reader,
            "card": card_document(self.card) | {"state": self.state, "sha256": self.digest},
            "holdsAgainst": self.card.tier.holds_against,
            "release": _released(self.receipt),
            "measures": [_measured(name, one) for name, one in self.available.items()],
            "audits": audits,
            "leftOut": [json_of(one, "what", "why") for one in self.left_out],
            **({"answers": [one.document() for one in self.answers]} if self.answers else {}),
        }

    def grid(self) -> Iterator[tuple[str, str, str]]:
        """One line for each evaluation and each audit, under ``HEADS``."""
        for name, one in self.available.items():
            sign = "!" if one.stands_out else "?" if one.undecided else ""
            yield EXPLANATIONS[name].title, result_sentence(one), sign
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
            *([("Measured on", MEASURED_ON)] if self.unexamined != (Group.RISK, Group.UTILITY) else []),
            *_risk_bound(self.card),
            *(("Answer", f"{one.kind}: {one.formula}") for one in self.answers),
            *(self.numbers.left_out() if self.numbers else []),
        ]

    def _panel(self) -> tuple[str, Sequence[Part]]:
        numbers = self.numbers.grids() if self.numbers else []
        tables = [Grid(HEADS, self.grid()), *numbers, Facts(self.left_out_lines())]
        return "Report", [self.wording, Facts(self.lines()), *tables]


def _released(receipt: Receipt) -> dict[str, Any]:
    digests = {"sha256": receipt.rows_digest, "psi": receipt.psi_digest or None}
    return {**json_of(receipt, "name", "rows"), **digests, **json_of(receipt, "time")}


def _measured(name: str, finding: Finding) -> dict[str, Any]:
    return {
        "name": name,
        "group": str(REPORTED[name].group),
        "sentence": sentence(finding),
        "standsOut": finding.stands_out,
        **({"undecided": True} if finding.undecided else {}),
        "found": finding_to_json_object(finding),
    }


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


# Collects a card's report: what is known, what the reader can compute, what is left out and why.

FIDELITY = "fidelity"
NO_PSI = "a card of tier private has no psi to compare with"
PRIVATE = "reads records, which a card of tier private does not allow"
NOT_ON_CARD = "reads records and is not named on the card, and the policy does not offer it"
TO_MEASURE = "not evaluated yet: gencard report --measure, for at most {price} statistics"
TO_PROPOSE = "not named on the card: gencard propose with {options}, for at most {price} statistics"
NOT_ALLOWED = "not possible with these records or rows"


@dataclass(frozen=True)
class _Gathering:
    """Collects one report; ``measure`` runs missing evaluations, for which the first caller pays."""

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
        measures = self.agreement.card.terms.measures
        return measures if self.role is Role.ANALYST or self._private else tuple(EVALUATIONS)

    @property
    def _private(self) -> bool:
        """Whether only one noisy fit may read the records."""
        return self.agreement.card.tier is Tier.PRIVATE

    def measures(self) -> CardMeasures:
        """Existing evaluations, and missing ones if ``measure`` is set."""
        connection, card = self.agreement.connection, self.agreement.card.name
        measures = known_measures(connection, card)
        missing = [
            name
            for name in self.allowed
            if name not in measures.findings and name not in measures.unavailable
        ]
        if self.measure and missing:
            measures = run_measures(connection, card, missing, self.progress)
        if self.role is Role.ANALYST:
            # an analyst computes the rest from the release and psi, which costs nothing
            agreement = self.agreement
            release = agreement.fetch(self.receipt.name, self.progress)
            material = Material(
                release.dataset,
                agreement.coding,
                agreement.card.terms.marginals,
                NOTHING_DECLARED,
                seed=0,
                psi=None if self._private else agreement.psi,
                numbers=None if self._private else release.numbers,
            )
            findings = dict(measures.findings)
            for name, one in REPORTED.items():
                of_rows = not one.reads_records and not (self._private and Need.PSI in one.needs)
                if of_rows and name not in findings:
                    findings[name] = evaluate(one, material)
            return replace(measures, findings=_in_order(findings))
        if self._private or FIDELITY in measures.findings or FIDELITY in measures.unavailable:
            return measures
        return run_measures(connection, card, [FIDELITY], self.progress)

    def left_out(self, measures: CardMeasures) -> Iterator[LeftOut]:
        """Evaluations that are not in the report, with the reason or with what would add them."""
        unmeasured: list[str] = []
        offered: list[str] = []
        for name, one in EVALUATIONS.items():
            why = self._why_not(name, measures)
            if why is not None:
                yield LeftOut(EXPLANATIONS[name].title, why, one.group)
            elif name not in measures.findings:
                (unmeasured if name in self.allowed else offered).append(name)
        attributes = len(self.agreement.domain)
        marginals = len(self.agreement.card.terms.marginals)
        for group in Group:
            for names, how in ((unmeasured, TO_MEASURE), (offered, TO_PROPOSE)):
                group_names = [name for name in names if EVALUATIONS[name].group is group]
                price = price_in_statistics(group_names, attributes=attributes, marginals=marginals)
                options = " ".join(f"--measure {name}" for name in group_names)
                why = how.format(price=f"{price:,}", options=options)
                for name in group_names:
                    yield LeftOut(EXPLANATIONS[name].title, why, group)

    def _why_not(self, name: str, measures: CardMeasures) -> str | None:
        """Why the card cannot have an evaluation; None where it has it, or can be given it."""
        if name in measures.findings:
            return NOT_ALLOWED if measures.findings[name] is None else None
        if self._private:
            return NO_PSI if name == FIDELITY else PRIVATE
        if name in measures.unavailable:
            return measures.unavailable[name]
        return None if name in (*self.allowed, *self._offered) else NOT_ON_CARD

    @cached_property
    def _offered(self) -> tuple[str, ...]:
        """Evaluations that the policy offers to cards that name them."""
        agreement = self.agreement
        return get_dataset(agreement.connection, agreement.card.terms.dataset).policy.measures


def card_report(
    agreement: Agreement,
    state: str,
    release: str | None,
    *,
    answers: "Sequence[Answer]",
    measure: bool,
    progress: ProgressDisplay,
) -> CardReport:
    """The report of a card and one release; the arguments are those of ``Card.report``."""
    receipt = next((one for one in agreement.receipts() if release in (None, one.name)), None)
    if receipt is None:
        problem = "has no release yet" if release is None else "has no release of this name"
        raise InvalidInputError(field="card", problem=problem)
    gathering = _Gathering(agreement, receipt, measure, progress)
    measures, groups = gathering.measures(), list(Group)

    def place(left: LeftOut) -> tuple[bool, int]:
        """Order evaluations that an option adds first, then the rest by group."""
        return "gencard" not in left.why, groups.index(left.group) if left.group else len(groups)

    return CardReport(
        card=agreement.card,
        digest=agreement.digest,
        state=state,
        receipt=receipt,
        reader=str(gathering.role),
        findings=measures.findings,
        audits=tuple(known_audits(agreement)),
        left_out=tuple(sorted(gathering.left_out(measures), key=place)),
        answers=tuple(answers),
        coding=agreement.coding,
    )
