"""The entry point: a connection to a controller, as an analyst or an auditor."""

from functools import partial
from pathlib import Path
from typing import Unpack
from uuid import uuid4

from gencard.client import catalogue
from gencard.client.agreement import Release
from gencard.client.card import Card
from gencard.client.card_view import LIST_HEADS, PlannedAnalysis, list_line
from gencard.client.catalogue import AUTO, Budget, CatalogueEntry, GeneratorEntry
from gencard.client.checking.checks import LogWatch, checked_answer
from gencard.client.common.arguments import AnalystQuestion, checked, instance, path
from gencard.client.common.display import Listed
from gencard.client.common.rows import check_rows_fit
from gencard.client.connection.connection import Connection, Party, ProgressDisplay, pages
from gencard.client.connection.credentials import Checkpoint
from gencard.client.planning import Consent, Plan, naming_refused, rows_of
from gencard.client.terms import Marginals, Measured, all_columns, proposed
from gencard.core.card.budget import Price, Spend
from gencard.core.card.card import CardRecord
from gencard.core.card.terms import USUAL_AUDIT, AuditTerms, Proposal
from gencard.run.levels import ValueForm
from gencard.v1 import common_pb2
from gencard.v1 import negotiation_pb2 as pb
from gencard.wire.codec import card_of, message_of


class Analyst(Party):
    """A connection to a controller. Use it in a ``with`` block, or close it.

    Names of datasets may be short: ``census`` for ``datasets/census``.
    """

    @checked(connection=instance("Connection", advice="Use Analyst.connect(folder=...)."))
    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.log = LogWatch(connection)

    def datasets(self) -> Listed[CatalogueEntry]:
        """All datasets, without attributes and policy."""
        return catalogue.list_datasets(self._connection)

    @checked()
    def dataset(self, name: str) -> CatalogueEntry:
        """One dataset with its public schema and policy; raises NotFoundError."""
        return catalogue.get_dataset(self._connection, _dataset(name))

    def generators(self) -> Listed[GeneratorEntry]:
        """Generators and black boxes."""
        return catalogue.list_generators(self._connection)

    @checked()
    def propose(  # noqa: PLR0913 - what a person may want to say of one card
        self,
        dataset: str,
        marginals: Marginals,
        *,
        purpose: str,
        generator: str = "ipf",
        rows: int | None = None,
        audit: AuditTerms = USUAL_AUDIT,
        dry_run: bool = False,
        formula: str | None = None,
        kind: str = "logistic",
        missing: str = "level",
        **measured: Unpack[Measured],
    ) -> Card:
        """Propose a card. The result holds an offer, or waits for a steward.

        Args:
            dataset: Name of the dataset.
            marginals: Phi: cliques (tuples of attribute names), or ``all_marginals(order=2)``; the list
                may also contain moments, such as ``mean("age")``.
            purpose: What the data will be used for, in one sentence.
            generator: Name of the generator in the catalogue; "auto" chooses ipf, graphical or
                support-raking by the sizes (with moments, maximum-entropy or reduced-space).
            rows: Most rows in one release; default: the policy's limit.
            audit: Settings of audits under the card.
            dry_run: Compute offer and price only; nothing is stored, no record is read.
            formula: Analysis that the card is for: the offer says what noise and levels do to it.
            kind: Type of the analysis, as in ``plan``.
            missing: As in ``plan``.
            measured: ``epsilon`` or ``rho``, ``neighbouring``, ``weights``; see ``Measured``.

        Raises:
            InvalidInputError, TooLargeError: What is wrong with the proposal.
            InvalidFormulaError, UnknownAttributeError: What is wrong with the formula.
            LevelsTooWideError: No card determines the analysis.
            ProposalRefusedError: The policy refuses the proposal and has no counter-offer.
        """
        entry = self.dataset(dataset)
        where, aim = measured.get("where") or "", None
        if formula is not None:
            question = AnalystQuestion(formula, kind, where=where, missing=missing)
            aim = PlannedAnalysis.of(question, entry.coding)
        proposal = proposed(
            entry, marginals, measured, purpose=purpose, generator=generator, rows=rows, audit=audit
        )
        negotiation = catalogue.with_generator(
            self._connection, entry, proposal, partial(self._sent, dry_run=dry_run)
        )
        return Card(self._connection, negotiation, self.plan, aim=aim, entry=entry)

    def _sent(self, proposal: Proposal, *, dry_run: bool) -> CardRecord:
        request = pb.ProposeCardRequest(
            terms=message_of(proposal, common_pb2.Terms), request_id=str(uuid4()), validate_only=dry_run
        )
        with catalogue.suggesting_generators(self._connection, proposal.generator):
            answer = self._connection.call(self._connection.negotiation.ProposeCard, request)
        return checked_answer(card_of(answer.card), proposal)

    @checked()
    def price(
        self,
        dataset: str,
        marginals: Marginals,
        *,
        generator: str = "ipf",
        rows: int | None = None,
        **measured: Unpack[Measured],
    ) -> Price:
        """Price of the nearest acceptable card; nothing is stored.

        Evaluations are charged when they are run: see ``measures_price``.

        Args:
            dataset: Name of the dataset.
            marginals: Phi, as ``propose`` takes it.
            generator: Name of the generator in the catalogue.
            rows: Most rows in one release; default: the policy's limit.
            measured: As ``propose`` takes them.
        """
        card = self.propose(
            dataset, marginals, purpose="price", generator=generator, rows=rows, dry_run=True, **measured
        )
        return card.price

    @checked()
    def measures_price(
        self,
        dataset: str,
        marginals: Marginals,
        *,
        generator: str = "ipf",
        rows: int | None = None,
        **measured: Unpack[Measured],
    ) -> Price:
        """Price of the evaluations named on such a card, charged once; nothing is stored.

        Args:
            dataset: Name of the dataset.
            marginals: Phi, as ``propose`` takes it.
            generator: Name of the generator in the catalogue.
            rows: Most rows in one release; default: the policy's limit.
            measured: As ``propose`` takes them.
        """
        card = self.propose(
            dataset, marginals, purpose="price", generator=generator, rows=rows, dry_run=True, **measured
        )
        return card.measures_price

    @checked()
    def plan(
        self,
        dataset: str,
        formula: str | None = None,
        *,
        kind: str = "logistic",
        missing: str = "level",
        generator: str = AUTO,
        rows: int | None = None,
        **measured: Unpack[Measured],
    ) -> Plan:
        """The smallest Phi that determines an analysis, with its price; nothing is stored.

        Args:
            dataset: Name of the dataset.
            formula: Model formula as in R or patsy, such as ``grade ~ group + C(birth) * family``; names
                with spaces are written in backticks or as ``Q("...")``. None for all columns: all pairs,
                and of each number with a step a histogram and a noisy total, as the policy permits.
            kind: Such as "logistic", "linear" or "crosstab"; ``Analysis`` lists them.
            missing: "level": missing values are a level; "drop": records with one will be left out.
            generator: As ``propose`` takes it.
            rows: Most rows in one release; default: the policy's limit.
            measured: How the marginals are measured, and ``where``; see ``Measured``.

        Raises:
            InvalidFormulaError, InvalidInputError, UnknownAttributeError, TooLargeError: What is wrong
                with the formula, or with what it needs.
            LevelsTooWideError: No card determines it.
            ProposalRefusedError: The policy refuses the proposal and has no counter-offer.
        """
        entry, where, aim, read = self.dataset(dataset), measured.get("where") or "", None, None
        if formula is None:
            statistics = all_columns(entry, measured)
        else:
            from gencard.analysis.formulas.formulas import read_formula  # noqa: PLC0415 - loads pandas

            question = AnalystQuestion(formula, kind, where=where, missing=missing)
            aim = PlannedAnalysis.of(question, entry.coding)
            statistics, read = (*aim.marginals, *aim.numbers), read_formula(formula, entry.coding)
        ask = partial(
            self.propose,
            entry.name,
            statistics,
            generator=generator,
            rows=rows,
            formula=formula,
            kind=kind,
            missing=missing,
            **measured,
        )
        offer = ask(purpose="plan", dry_run=True)
        ask = partial(ask, generator=offer.negotiation.proposed.generator)
        return Plan(read, aim, entry.coding, offer, ask)

    @checked(file=path)
    def synthesize(  # noqa: PLR0913 - what a person may want to say of one analysis
        self,
        dataset: str,
        formula: str | None = None,
        *,
        rows: int,
        kind: str = "logistic",
        purpose: str | None = None,
        generator: str = AUTO,
        seed: int = 0,
        accept: bool = False,
        file: str | Path | None = None,
        values: ValueForm = "numbers",
        progress: ProgressDisplay = True,
        **measured: Unpack[Measured],
    ) -> Release:
        """Rows for an analysis, or of all columns: plan, show the offer, ask, propose, sign, generate.

        A card in force with the same terms and purpose is used instead of a new one, unless its
        measurement was refused, and an open proposal of the same terms is gone on with.

        Args:
            dataset: Name of the dataset.
            formula: Model formula, or None for all columns; see ``plan``.
            rows: Number of rows, and most rows of one release on the card.
            kind: Such as "logistic", "linear" or "crosstab"; ``Analysis`` lists them.
            purpose: What the data will be used for; default: the plan in words.
            generator: As ``propose`` takes it.
            seed: Random seed; card, psi and seed determine every byte of the rows.
            accept: Sign without a question, also an offer that differs from the proposal, as long as
                it determines the analysis and measures by the mechanism that was asked for. Else a
                terminal or notebook is asked.
            file: File to which you will write the rows: whether its format can hold them is checked
                before anything is signed. It is not written here; see ``Release.write``.
            values: The form in which you will write them.
            progress: Whether to show a progress bar and what happens, or a function that receives the
                progress.
            measured: How the marginals are measured; see ``Measured``.

        Raises:
            InvalidFormulaError, InvalidInputError, UnknownAttributeError, TooLargeError: What is wrong
                with the formula, with what it needs, or with the file.
            ProposalRefusedError: The policy refuses the proposal and has no counter-offer.
            BudgetExceededError: The price exceeds the budget.
            NotAcceptedError: The offer was declined, or nobody can be asked; nothing was spent.
            AwaitingStewardError: The proposal waits for a steward; call again once it is answered.
        """
        with naming_refused(lambda: self._own_cards(dataset)):
            plan = self.plan(dataset, formula, kind=kind, generator=generator, rows=rows, **measured)
        if file is not None:
            names = plan.coding.domain.covered_by(plan.answer.terms.cliques).attributes
            check_rows_fit(Path(file), plan.coding, names, rows, values)
        return rows_of(
            plan,
            self._own_cards(dataset),
            self.budget(dataset),
            Consent(accept, progress is not False),
            purpose=purpose,
            rows=rows,
            seed=seed,
            progress=progress,
        )

    def _own_cards(self, dataset: str) -> list[Card]:
        mine = self.identity.uri
        return [card for card in self.cards(dataset) if card.negotiation.analyst == mine]

    @checked()
    def card(self, name: str) -> Card:
        """One card; raises NotFoundError."""
        request = pb.GetCardRequest(name=name)
        answer = self._connection.call(self._connection.negotiation.GetCard, request)
        return Card(self._connection, card_of(answer.card), self.plan)

    @checked()
    def cards(self, dataset: str = "-") -> Listed[Card]:
        """The caller's cards (for auditors and stewards: all cards), newest first."""
        request = pb.ListCardsRequest(parent=_dataset(dataset))
        answers = pages(self._connection, self._connection.negotiation.ListCards, request)
        all_cards = (
            Card(self._connection, card_of(card), self.plan) for page in answers for card in page.cards
        )
        return Listed(all_cards, "Cards", LIST_HEADS, list_line)

    def spends(self) -> Listed[Spend]:
        """The caller's ledger lines, newest first."""
        return catalogue.list_spends(self._connection)

    @checked()
    def budget(self, dataset: str) -> Budget:
        """The caller's cap and spending on a dataset."""
        return catalogue.get_budget(self._connection, _dataset(dataset))

    def checkpoint(self) -> Checkpoint:
        """The newest checkpoint of the controller's log, verified to extend the last one seen."""
        return self.log.checkpoint()


def _dataset(name: str) -> str:
    return name if name.startswith("datasets/") else f"datasets/{name}"
