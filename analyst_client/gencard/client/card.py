"""A card in our hands: read it, answer it, and once it is agreed, use it."""

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Unpack
from uuid import uuid4

from gencard.client.card_view import CardView
from gencard.client.catalogue import CatalogueEntry, get_dataset
from gencard.client.checking.agreement import Agreement
from gencard.client.checking.replay import Replayed
from gencard.client.checking.signing import checked_answer, checked_offer
from gencard.client.connection.connection import Connection, ProgressDisplay
from gencard.client.release import Release
from gencard.client.terms import Measured, countered
from gencard.client.workload import Marginals
from gencard.core.card import card as core_card
from gencard.core.card.terms import AuditTerms
from gencard.core.dataset import Dataset
from gencard.core.errors import GencardError
from gencard.core.statistics.psi import Psi
from gencard.v1 import negotiation_pb2 as pb
from gencard.wire.codecs.card_codec import card_of, terms_message
from gencard.wire.signatures.dsse import signature_of

if TYPE_CHECKING:
    import pandas as pd

    from gencard.client.audit import Audit
    from gencard.client.evaluation import CardMeasures
    from gencard.client.report.card_report import CardReport
    from gencard.client.report.fidelity import FidelityReport


class Card(CardView):
    """A card as it stood when it was last read; ``refresh`` reads it again.

    Calls that move it (``accept``, ``counter``, ``terminate``) return it, so that they can be chained.
    """

    def __init__(self, connection: Connection, negotiation: core_card.Card) -> None:
        super().__init__(negotiation)
        self._proposal = negotiation.proposed
        self._connection = connection
        self._agreement: Agreement | None = None

    @cached_property
    def entry(self) -> CatalogueEntry:
        """The dataset's entry in the catalogue."""
        return get_dataset(self._connection, self.terms.dataset)

    def refresh(self) -> "Card":
        """Read it again.

        Raises:
            VerificationError: Other terms than ours stand as those asked for; ``analyst.card(name)``
                reads a card that was countered from elsewhere.
        """
        stub = self._connection.negotiation
        answer = self._connection.call(stub.GetCard, pb.GetCardRequest(name=self.name))
        return self._now(answer.card)

    def accept(self) -> "Card":
        """Sign the offer, after checking that the bytes to sign mean the offer and no more.

        ``changes`` says how it differs from what was asked.

        Raises:
            VerificationError: They do not, or the controller signed something else.
            WrongTurnError, StaleEtagError, CardExpiredError, CardStateError: The offer is gone.
        """
        credentials = self._connection.credentials
        analyst = credentials.identity().uri
        statement = checked_offer(self._negotiation, self.offer, self.entry, analyst=analyst)
        key = credentials.private_signing_key()
        request = pb.AcceptCardRequest(
            name=self.name,
            etag=self._negotiation.etag,
            signature=signature_of(statement, key),
            request_id=str(uuid4()),
        )
        answer = self._connection.call(self._connection.negotiation.AcceptCard, request)
        return self._now(answer.card, signed=statement)

    def counter(
        self,
        *,
        marginals: Marginals | None = None,
        generator: str | None = None,
        purpose: str | None = None,
        rows: int | None = None,
        audit: AuditTerms | None = None,
        **measured: Unpack[Measured],
    ) -> "Card":
        """Answer the offer with other terms; what is not given stays as offered.

        Args:
            measured: How: ``epsilon`` or ``rho``, ``neighbouring``, ``weights``; see ``Measured``.
        """
        domain = self.entry.coding.domain
        others = {"generator": generator, "purpose": purpose, "rows": rows, "audit": audit}
        proposal = countered(self.terms, domain, marginals, measured, **others)
        request = pb.CounterCardRequest(
            name=self.name,
            etag=self._negotiation.etag,
            terms=terms_message(proposal),
            request_id=str(uuid4()),
        )
        answer = self._connection.call(self._connection.negotiation.CounterCard, request)
        self._proposal = proposal
        return self._now(answer.card)

    def terminate(self) -> "Card":
        """End the negotiation, or give the card back."""
        request = pb.TerminateCardRequest(
            name=self.name, etag=self._negotiation.etag, request_id=str(uuid4())
        )
        stub = self._connection.negotiation
        return self._now(self._connection.call(stub.TerminateCard, request).card)

    def release(
        self,
        rows: int,
        *,
        seed: int = 0,
        progress: ProgressDisplay = True,
        scratch: Path | None = None,
    ) -> Release:
        """Have rows made, fetch them, and check digest and receipt.

        Args:
            rows: How many; at most the card's.
            seed: With psi and the card it fixes every byte of the rows.
            progress: Show a bar, or a function that is told.
            scratch: A folder for the codes while they are used; in memory where not given.

        Raises:
            VerificationError: Rows or receipt are not what they should be.
            OperationError: The job did not finish.
        """
        release = self.agreement.release(rows, seed, progress, scratch)
        self._follow()
        return release

    def generate(self, rows: int, *, seed: int = 0, progress: ProgressDisplay = True) -> "pd.DataFrame":
        """The rows of ``release`` as a data frame with the declared labels and types."""
        return self.release(rows, seed=seed, progress=progress).frame

    @property
    def psi(self) -> Psi:
        """The statistics that the card released: all that any generator saw. Fetched once.

        Raises:
            NoPsiError: The card is of tier private: what it releases are rows, under its claim.
        """
        return self.agreement.psi

    def replay(self, data: "pd.DataFrame | Release") -> Replayed:
        """Make a release again from psi, card and seed, and compare every byte.

        Raises:
            VerificationError: A byte differs, or the data are not a release of this card.
            NotReplayableError: A black box made the rows, from records.
        """
        return self.agreement.replay(data)

    def fidelity(self, data: "pd.DataFrame | Release") -> "FidelityReport":
        """How far rows lie from psi, and how far chance alone takes them; needs no records.

        Raises:
            DomainMismatchError, UndeclaredLevelError: The rows are not over the card's attributes.
            NoPsiError: The card is of tier private.
        """
        return self.agreement.fidelity(data)

    def report(
        self, release: str | None = None, *, measure: bool = False, progress: ProgressDisplay = True
    ) -> "CardReport":
        """What was released, its fidelity, risk, utility and audits, as far as our role may know.

        Args:
            release: Its name; the newest where not given.
            measure: Have measured at the records what was not yet, for one statistic a number; see
                ``measures``.
            progress: Show a bar, or a function that is told.

        Raises:
            InvalidInputError: The card has no release, or none of this name.
            BudgetExceededError: The price of a measure is not covered.
        """
        from gencard.client.report.card_report import card_report  # noqa: PLC0415 - measures only where wanted

        state = str(self.state)
        return card_report(self.agreement, state, release, measure=measure, progress=progress)

    def measures(
        self, names: Sequence[str] | None = None, *, progress: ProgressDisplay = True
    ) -> "CardMeasures":
        """Measures of risk and utility of this card at the records, each taken once.

        They look at rows that the controller draws for them, as many as there are records, with a seed
        that nobody knows; never at the rows of a release. Whoever asks first pays one statistic for each
        number, whatever the role; afterwards the stored answer is free. Numbers are rounded to what
        their sampling error earns.

        Args:
            names: Such as ``["dcr"]``; empty for all that the card can have. Not given, nothing is
                taken, and what was taken before is returned.
            progress: Show a bar, or a function that is told.

        Raises:
            PermissionDeniedError: The card does not name a measure, or names none.
            RecordsProtectedError: The card cannot have it; says why.
            InvalidInputError: No such measure, or the card has no release yet.
            BudgetExceededError: The price is not covered.
        """
        from gencard.client import evaluation  # noqa: PLC0415 - scipy only where wanted

        if names is None:
            return evaluation.known(self._connection, self.name)
        return evaluation.run(self._connection, self.name, names, progress)

    def audit(
        self,
        black_box: str | None = None,
        *,
        where: str = "made-up",
        seed: int = 0,
        runs: int | None = None,
        records: Dataset | None = None,
        resume: str = "",
        progress: ProgressDisplay = True,
    ) -> "Audit":
        """Audit a black box, or the card's own generator.

        Args:
            black_box: Its name in the catalogue; the card's generator where not given.
            where: "made-up": from afar, around made-up records; touches none and costs nothing.
                "card": at the controller, around the real ones; the full report goes to auditors.
            seed: Of everything that is drawn; at the card, the controller adds a draw of its own.
            runs: For made-up records: runs on each side of each step; the card's where not given.
            records: For made-up records: these, over the attributes of the card.
            resume: At the card: the operation of an audit of ours that was cancelled; it is carried on
                as the same attempt with the same seeds, once.
            progress: Show a bar, or a function that is told.

        Raises:
            NoExtremalPairError: Nothing could be tested. This is not a pass.
            InvalidInputError: An argument belongs to the other kind of audit.
        """
        from gencard.client.audit_run import audit  # noqa: PLC0415 - scipy.stats only where audits are

        box = black_box or self.terms.generator
        outcome = audit(
            self.agreement,
            box,
            where,
            seed=seed,
            runs=runs,
            records=records,
            resume=resume,
            progress=progress,
        )
        self._follow()
        return outcome

    @property
    def agreement(self) -> Agreement:
        """What both sides signed, verified; raises CardStateError before agreement."""
        if self._agreement is None:
            self._agreement = Agreement.of(self._connection, self._negotiation, self.entry.coding)
        return self._agreement

    def _follow(self) -> None:
        """Read it again if that is possible: what was made must not be lost with a connection."""
        with suppress(GencardError):
            self.refresh()

    def _now(self, message: pb.Card, signed: bytes | None = None) -> "Card":
        self._negotiation = checked_answer(card_of(message), self._proposal)
        if signed is not None and self._negotiation.envelope:
            self.agreement.check_is(signed)
        return self
