"""Collects a card's report: what is known, what the reader can compute, what is left out and why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from gencard.client import evaluation
from gencard.client.agreement import Agreement
from gencard.client.audit import known_audits
from gencard.client.catalogue import get_dataset
from gencard.client.connection.connection import ProgressDisplay
from gencard.client.evaluation import CardMeasures
from gencard.client.findings.findings import EXPLANATIONS
from gencard.client.report.card_report import CardReport, LeftOut
from gencard.core.card.terms import Tier
from gencard.core.errors import InvalidInputError
from gencard.measures.evaluation.evaluation import NOTHING_DECLARED, Group, Material, Need
from gencard.measures.evaluation.registry import EVALUATIONS, REPORTED, evaluate, price_in_statistics
from gencard.wire.documents import Receipt
from gencard.wire.keys import Role

if TYPE_CHECKING:
    from gencard.client.answers.answer import Answer

FIDELITY = "fidelity"
NO_PSI = "a card of tier private has no psi to compare with"
PRIVATE = "reads records, which a card of tier private does not allow"
NOT_ON_CARD = "reads records and is not named on the card, and the policy does not offer it"
TO_MEASURE = "not evaluated yet: gencard report --measure, for at most {price} statistics"
TO_PROPOSE = "not named on the card: gencard propose with {options}, for at most {price} statistics"
NOT_ALLOWED = "not possible with these records or rows"


@dataclass(frozen=True)
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
        measures = self.agreement.card.terms.measures
        return measures if self.role is Role.ANALYST or self._private else tuple(EVALUATIONS)

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
        if self.role is Role.ANALYST:
            return self._with_own(measures)
        if self._private or FIDELITY in measures.findings or FIDELITY in measures.unavailable:
            return measures
        return evaluation.run(connection, card, [FIDELITY], self.progress)

    def _with_own(self, measures: CardMeasures) -> CardMeasures:
        """With what an analyst computes of the release and psi; costs nothing."""
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
        for name, one in REPORTED.items():
            of_rows = not one.reads_records and not (self._private and Need.PSI in one.needs)
            if of_rows and name not in measures.findings:
                measures = measures.with_finding(name, evaluate(one, material))
        return measures

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
        left_out=tuple(sorted(gathering.left_out(measures), key=_order)),
        answers=tuple(answers),
        coding=agreement.coding,
    )


def _order(left: LeftOut) -> tuple[bool, int]:
    """Sort key: first the evaluations that an option adds, then the rest by group."""
    groups = list(Group)
    return "gencard" not in left.why, groups.index(left.group) if left.group else len(groups)


def _receipt(agreement: Agreement, release: str | None) -> Receipt:
    """The receipt of a release, the newest where none is named."""
    for receipt in agreement.receipts():
        if release in (None, receipt.name):
            return receipt
    problem = "has no release yet" if release is None else "has no release of this name"
    raise InvalidInputError(field="card", problem=problem)
