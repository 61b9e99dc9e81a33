"""Gathers what our role may know of a card and one of its releases, and says what it may not."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from gencard.client import measures
from gencard.client.audits import known_audits
from gencard.client.checking.agreement import Agreement
from gencard.client.connection.progress import Shown
from gencard.client.measures import CardMeasures
from gencard.client.report.card_report import CardReport, LeftOut
from gencard.client.report.findings import EXPLANATIONS, titles_of
from gencard.core.card.terms import Tier
from gencard.core.errors import GencardError, InvalidInputError
from gencard.core.evaluation.registry import EVALUATIONS, price_in_statistics
from gencard.core.evaluation.tables import FidelityFinding
from gencard.core.utility.fidelity import fidelity
from gencard.wire.documents.receipt import Receipt
from gencard.wire.signatures.identity import Role

FIDELITY = "fidelity"
NO_PSI = "there is no psi to compare with: the card is of tier private"
PRIVATE = "would tell of records, and the card is of tier private"
NOT_ON_CARD = "reads records, and the card does not name it"
NOT_ALLOWED = "these records or rows do not allow it"


@dataclass(frozen=True, slots=True)
class _Gathering:
    """One report in the making.

    Args:
        measure: Have measured what was not measured yet; whoever asks first pays.
    """

    agreement: Agreement
    receipt: Receipt
    measure: bool
    progress: Shown

    @property
    def role(self) -> Role:
        return self.agreement.connection.credentials.identity().role

    @property
    def allowed(self) -> tuple[str, ...]:
        """Measures at the records that our role may know."""
        named = self.agreement.card.terms.measures
        return named if self.role is Role.ANALYST or self._private else tuple(EVALUATIONS)

    @property
    def _private(self) -> bool:
        """Whether nothing but one noisy fit may look at the records."""
        return self.agreement.card.tier is Tier.PRIVATE

    def measures(self) -> CardMeasures:
        """What was measured before, and what is missing of it if we want it."""
        connection, card = self.agreement.connection, self.agreement.card.name
        found = measures.known(connection, card)
        missing = [
            name for name in self.allowed if name not in found.findings and name not in found.unavailable
        ]
        if self.measure and missing:
            found = measures.run(connection, card, missing, self.progress)
        return found if FIDELITY in found.findings else self._with_fidelity(found)

    def _with_fidelity(self, found: CardMeasures) -> CardMeasures:
        """An analyst computes it of the release; for others the controller does it of the card."""
        if self._private:
            return found
        if self.role is not Role.ANALYST:
            if FIDELITY in found.unavailable:
                return found
            connection, card = self.agreement.connection, self.agreement.card.name
            return measures.run(connection, card, [FIDELITY], self.progress)
        rows = self.agreement.fetch(self.receipt.name, self.progress).dataset
        with suppress(GencardError):
            return found.with_finding(FIDELITY, FidelityFinding(fidelity(self.agreement.psi, rows)))
        return found.with_finding(FIDELITY, None)

    def left_out(self, found: CardMeasures) -> Iterator[LeftOut]:
        """Every measure that is not in the report, and why."""
        unmeasured = []
        for name in EVALUATIONS:
            if name in found.findings:
                if found.findings[name] is None:
                    yield LeftOut(EXPLANATIONS[name].title, NOT_ALLOWED)
            elif self._private:
                yield LeftOut(EXPLANATIONS[name].title, NO_PSI if name == FIDELITY else PRIVATE)
            elif name in found.unavailable:
                yield LeftOut(EXPLANATIONS[name].title, found.unavailable[name])
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
        return f"not measured yet: gencard report --measure, for at most {price:,} statistics"


def report(
    agreement: Agreement, state: str, release: str | None, *, measure: bool, progress: Shown
) -> CardReport:
    """The report of a card and one release; the arguments are those of ``Card.report``.

    Raises:
        InvalidInputError: The card has no release, or none of this name.
    """
    role = agreement.connection.credentials.identity().role
    gathering = _Gathering(agreement, _receipt(agreement, release), measure, progress)
    found = gathering.measures()
    return CardReport(
        card=agreement.card,
        digest=agreement.digest,
        state=state,
        receipt=gathering.receipt,
        reader=str(role),
        findings=found.findings,
        audits=tuple(known_audits(agreement)),
        left_out=tuple(gathering.left_out(found)),
    )


def _receipt(agreement: Agreement, release: str | None) -> Receipt:
    """The receipt of a release, the newest where none is named."""
    for receipt in agreement.receipts():
        if release in (None, receipt.name):
            return receipt
    problem = "has no release yet" if release is None else "has no release of this name"
    raise InvalidInputError(field="card", problem=problem)
