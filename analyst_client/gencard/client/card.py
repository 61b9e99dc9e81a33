"""A card as the analyst holds it: terms, negotiation and, once agreed, releases."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack
from uuid import uuid4

from gencard.client.agreement import Agreement, Release
from gencard.client.card_view import (
    ANSWERED,
    CardView,
    OfferEffects,
    PlannedAnalysis,
    effects_of,
    wait_for,
)
from gencard.client.catalogue import (
    CatalogueEntry,
    get_dataset,
    list_spends,
    suggesting_generators,
    with_generator,
)
from gencard.client.checking.checks import Replayed, checked_answer, checked_offer
from gencard.client.common.arguments import (
    AnalystQuestion,
    AnswerOptions,
    checked,
    choice,
    level_values,
    text,
    values_of_before,
)
from gencard.client.common.display import Listed, Part
from gencard.client.common.psi_tables import NamedPsi, PsiTables
from gencard.client.connection.connection import Connection, ProgressDisplay
from gencard.client.terms import Marginals, Measured, countered
from gencard.core.card.budget import SpendState
from gencard.core.card.card import USABLE, CardRecord, CardState
from gencard.core.card.terms import AuditTerms, Proposal
from gencard.core.dataset import Dataset
from gencard.core.errors import (
    CardStateError,
    GencardError,
    InvalidInputError,
    LackingMarginalsError,
    VerificationError,
)
from gencard.run.levels import ValueForm
from gencard.v1 import common_pb2
from gencard.v1 import negotiation_pb2 as pb
from gencard.wire import dsse
from gencard.wire.codec import card_of, message_of
from gencard.wire.dsse import signature_of

if TYPE_CHECKING:
    import pandas as pd

    from gencard.client.answers.answer import Answer
    from gencard.client.answers.answering import DryRun, RunOnRecords
    from gencard.client.audit import Audit
    from gencard.client.card_report import CardMeasures, CardReport
    from gencard.client.findings.fidelity import FidelityReport


class Card(CardView):
    """A card in the state in which it was last read; ``refresh`` reads it again.

    ``plan`` is ``Analyst.plan``, which finds the card for a question that this one leaves open. ``aim``
    is the analysis that the card is for, if that is known here: no card names it.
    ``accept``, ``counter`` and ``terminate`` return the card, so that they can be chained.
    """

    def __init__(
        self,
        connection: Connection,
        negotiation: CardRecord,
        plan: Callable[..., Any],
        *,
        aim: PlannedAnalysis | None = None,
        entry: CatalogueEntry | None = None,
    ) -> None:
        super().__init__(negotiation)
        self.aim = aim
        if entry is not None:
            self.entry = entry
        self._effects: tuple[Proposal, PlannedAnalysis | None, OfferEffects] | None = None
        self._proposal = negotiation.proposed
        self._connection = connection
        self._agreement: Agreement | None = None
        self._plan = plan

    @cached_property
    def entry(self) -> CatalogueEntry:
        """The dataset's entry in the catalogue."""
        return get_dataset(self._connection, self.terms.dataset)

    @checked(formula=text, kind=text)
    def for_analysis(self, formula: str, kind: str = "logistic", missing: str = "level") -> "Card":
        """Return the card, whose offer then says what noise and levels do to an analysis.

        Args:
            formula: Model formula; see ``Analyst.plan``.
            kind: Type of analysis.
            missing: "level" or "drop", as in ``Analyst.plan``.

        Raises:
            InvalidFormulaError, InvalidInputError, UnknownAttributeError, TooLargeError: What is wrong
                with the formula, or with what it needs.
            LevelsTooWideError: No card determines it.
        """
        question = AnalystQuestion(formula, kind, where=self.terms.where, missing=missing)
        self.aim = PlannedAnalysis.of(question, self.entry.coding)
        return self

    @property
    def effects(self) -> OfferEffects:
        """Effects of noise and levels on ``aim``, or on groups of the numbers that have sums."""
        if self._effects is None or self._effects[:2] != (self.terms, self.aim):
            self._effects = self.terms, self.aim, effects_of(self.terms, self.entry, self.aim)
        return self._effects[2]

    @property
    def _is_open(self) -> bool:
        """Whether there is an offer that may still be signed."""
        return self._negotiation.offer is not None and self.state is CardState.OFFERED

    def lines(self) -> list[tuple[str, str]]:
        """The card in names and values; an offer says what noise and levels do."""
        return [*super().lines(), *(self.effects.lines() if self._is_open else [])]

    def _panel(self) -> tuple[str, Sequence[Part]]:
        title, (facts, *others) = super()._panel()
        return title, [facts, *(self.effects.grids() if self._is_open else []), *others]

    def refresh(self) -> "Card":
        """Read the card again.

        Raises:
            VerificationError: The proposal is not the one made here; ``analyst.card(name)`` reads a
                card that was countered elsewhere.
        """
        stub = self._connection.negotiation
        return self._now(self._connection.call(stub.GetCard, pb.GetCardRequest(name=self.name)).card)

    @checked()
    def wait(
        self,
        timeout: float | None = None,
        *,
        for_: str = ANSWERED,
        seconds: float | None = None,
        progress: ProgressDisplay = True,
    ) -> "Card":
        """Wait for the controller, and show the card meanwhile; interrupting leaves it as it is.

        Args:
            timeout: Seconds to wait at most; default: without limit.
            for_: "answered" for an offer, a refusal or the controller's signature; "agreed" for a card
                that both sides signed; "audited" for a passed audit.
            seconds: The same as ``timeout``.
            progress: Whether to show the card while it waits, or a function that receives the progress.

        Raises:
            AwaitingStewardError: The time is over.
            WrongTurnError: An offer waits for your answer.
            CardStateError: The card has ended, so that it will not be agreed or audited.
        """
        wait_for(self, self.refresh, for_, timeout if seconds is None else seconds, progress)
        return self

    def accept(self) -> "Card":
        """Sign the offer, after checking that the bytes to be signed state exactly the offered terms.

        ``changes`` lists the differences from the proposal.

        Raises:
            VerificationError: The bytes differ, or the controller signed different ones.
            WrongTurnError, StaleEtagError, CardExpiredError, CardStateError: The offer is not open.
        """
        credentials = self._connection.credentials
        analyst = credentials.identity().uri
        statement = checked_offer(self._negotiation, self.offer, self.entry, analyst=analyst)
        request = pb.AcceptCardRequest(
            name=self.name,
            etag=self._negotiation.etag,
            signature=signature_of(statement, credentials.private_signing_key()),
            request_id=str(uuid4()),
        )
        answer = self._connection.call(self._connection.negotiation.AcceptCard, request)
        return self._now(answer.card, signed=statement)

    @checked()
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
        """Answer the offer with other terms. Arguments that are not given keep the offered value.

        Args:
            measured: ``epsilon`` or ``rho``, ``neighbouring``, ``weights``; see ``Measured``.
        """
        others = {"generator": generator, "purpose": purpose, "rows": rows, "audit": audit}
        terms = countered(self.terms, self.entry, marginals, measured, **others)
        return with_generator(self._connection, self.entry, terms, self._countered)

    def _countered(self, proposal: Proposal) -> "Card":
        request = pb.CounterCardRequest(
            name=self.name,
            etag=self._negotiation.etag,
            terms=message_of(proposal, common_pb2.Terms),
            request_id=str(uuid4()),
        )
        with suggesting_generators(self._connection, proposal.generator):
            answer = self._connection.call(self._connection.negotiation.CounterCard, request)
        self._proposal = proposal
        return self._now(answer.card)

    def terminate(self) -> "Card":
        """End the negotiation, or give up an agreed card."""
        request = pb.TerminateCardRequest(
            name=self.name, etag=self._negotiation.etag, request_id=str(uuid4())
        )
        return self._now(self._connection.call(self._connection.negotiation.TerminateCard, request).card)

    @property
    def is_refused(self) -> bool:
        """Whether the last measurement of exact counts was refused at the records: paid, without psi."""
        if self.state not in USABLE - {CardState.RELEASED} or self.terms.privacy.noisy:
            return False
        lines = (line for line in list_spends(self._connection) if line.resource == self.name)
        last = next((line for line in lines if line.kind == "psi"), None)
        if last is None or last.state is not SpendState.SETTLED:
            return False
        try:
            self.agreement.psi  # noqa: B018 - fetched to see whether it exists
        except CardStateError:
            return True
        return False

    @checked()
    def release(
        self, rows: int, *, seed: int = 0, progress: ProgressDisplay = True, scratch: Path | None = None
    ) -> Release:
        """Generate rows, download them, and verify digest and receipt.

        Args:
            rows: Number of rows, up to the card's limit.
            seed: Random seed; card, psi and seed determine every byte of the rows.
            progress: Whether to show a progress bar, or a function that receives the progress.
            scratch: Folder for temporary files; None to hold the codes in memory.

        Raises:
            VerificationError: Rows or receipt do not match the card.
            OperationError: The job did not finish.
        """
        release = self.agreement.release(rows, seed, progress, scratch)
        self._follow()
        return release

    @checked()
    def generate(
        self,
        rows: int,
        *,
        seed: int = 0,
        values: ValueForm = "numbers",
        progress: ProgressDisplay = True,
    ) -> "pd.DataFrame":
        """The rows of ``release`` as a data frame with the declared labels and types.

        Args:
            values: "numbers" drawn inside the intervals of attributes with edges, "levels" or
                "midpoints"; see ``Release.to_frame``.
        """
        return self.release(rows, seed=seed, progress=progress).to_frame(values)

    @property
    def psi(self) -> NamedPsi:
        """psi, the measured statistics of the card: all input of its generator. Downloaded once.

        Raises:
            NoPsiError: The card is of tier private.
        """
        return self.agreement.psi

    def tables(self) -> PsiTables:
        """The marginals of psi as data frames, by their attributes; see ``psi.tables``.

        Raises:
            NoPsiError: The card is of tier private.
        """
        return self.psi.tables()

    @checked(values=level_values, where=text)
    def answer(self, formula: str, kind: str = "logistic", **options: Unpack[AnswerOptions]) -> "Answer":
        """An analysis of psi: free, and any number of times.

        Where psi is exact, the answer is that of the records; its notes name the numbers that count by
        levels. Where psi has noise, the intervals include it.

        Args:
            formula: Model formula as in R or patsy; see ``Analyst.plan``.
            kind: Type of analysis; ``gencard answer --help`` lists them.
            options: See ``AnswerOptions``; ``where`` is the card's own unless it is given.

        Raises:
            LackingMarginalsError: psi does not determine the analysis. ``error.lacking`` names the
                marginals, ``error.plan`` is the card that would have them, with its price:
                ``error.plan.propose(purpose="...")`` proposes it.
            NoPsiError: The card is of tier private.
            NoEstimateError, NotConvergedError: The model has no estimate.
        """
        from gencard.client.answers.answering import answer_from  # noqa: PLC0415 - loads scipy.stats

        if self.terms.where:
            options.setdefault("where", self.terms.where)
        question, agreement = AnalystQuestion.of(formula, kind, options), self.agreement
        about, mechanism = [("Card", self.name)], self.terms.privacy.mechanism
        try:
            return answer_from(agreement.psi, agreement.coding, question, mechanism, about)
        except LackingMarginalsError as error:
            error.plan = self._planned(question)
            if error.plan is not None:
                error.advice = (
                    f'A card that has them costs {error.plan.price}: error.plan.propose(purpose="...").'
                )
            raise

    def _planned(self, question: AnalystQuestion) -> Any:
        """Plan the card that determines a question, measured as this one; None if there is none."""
        terms = self.terms
        with suppress(GencardError):
            plan = self._plan(
                terms.dataset,
                question.formula,
                kind=question.kind,
                missing=question.missing,
                where=question.where,
                generator=terms.generator,
                rows=terms.rows,
                privacy=terms.privacy,
            )
            return None if plan.lacking or plan.lacking_sums else plan
        return None

    @checked(values=values_of_before, where=text, kind=text)
    def run(
        self,
        formula: str | None = None,
        kind: str = "logistic",
        *,
        program: str | Path | None = None,
        libraries: Sequence[str] = (),
        seed: int = 0,
        progress: ProgressDisplay = True,
        **options: Unpack[AnswerOptions],
    ) -> "Answer":
        """An analysis on the records, run once, of which output rules judge every number.

        Or a program of yours, run once after a ``dry_run``, of which a steward sees every number.

        It costs one statistic for each released number, or its noise; a refusal costs one statistic,
        and does not name the rule, which depends on the records. A question that the schema leaves no
        answer costs nothing. The same question again costs nothing. The answer is signed and proved to
        be in the log.

        Args:
            formula: Model formula as in R or patsy; see ``Analyst.plan``.
            kind: Type of analysis; one that the card grants.
            program: A file in Python or R in place of a formula; the card names it by its digest.
            libraries: What the program needs, such as "statsmodels", "R" or "R-survival"; checked
                against what the card grants.
            seed: From which a program draws its random numbers.
            progress: Whether to show a progress bar, or a function that receives the progress.
            options: See ``AnswerOptions``.

        Raises:
            InvalidInputError: The card does not grant kind, program or libraries; or what is wrong with
                the question.
            RecordsProtectedError: The policy keeps its attributes apart.
            TooLargeError: The card has had all its runs.
            BudgetExceededError: The price exceeds the budget.
            NoAnswerError: The schema leaves the question no answer; nothing is charged.
            RunRefusedError: The output rules or a steward refused the answer.
            TooManyRefusalsError: Too many runs were refused; a steward has to review them first.
            AnswerWaitingError: A steward has to release it first; ask again later.
            ProgramNotRunError: The program fails there on synthetic rows; nothing is charged.
            VerificationError: What came back is not signed, or not the answer to this question.
        """
        from gencard.client.answers import answering  # noqa: PLC0415 - loads scipy.stats

        if (formula is None) == (program is None):
            raise InvalidInputError(field="formula", problem="or program is required, but not both")
        if program is not None:
            answering.check_granted(self.terms.analyses, program, libraries)
            rehearsed = self.dry_run(program, seed=seed, progress=progress)
            return answering.run_program(self.agreement, rehearsed, progress)
        question = answering.sent(AnalystQuestion.of(formula or "", kind, options))
        return answering.run(self.agreement, question, progress)

    @checked()
    def dry_run(
        self, program: str | Path, *, seed: int = 0, progress: ProgressDisplay = True
    ) -> "DryRun":
        """Run a program here on the rows of the card's newest release, as the controller will.

        Its shape (names and lengths of outputs) is what a run on the records must have; ``digest`` is
        what ``analyses={"programs": [...], "reviewed_runs": 1}`` names. Programs import
        ``gencard.run``; in R they begin with ``#!/usr/bin/env Rscript`` and have ``records()`` and
        ``output`` at once.

        Args:
            program: A file in Python or R.
            seed: From which the program draws its random numbers, here and on the records.
            progress: Whether to show a progress bar, or a function that receives the progress.

        Raises:
            InvalidInputError: The program cannot be read, fails or gives no valid output, or the card
                has no release.
        """
        from gencard.client.answers import answering  # noqa: PLC0415 - loads scipy.stats

        release = answering.newest_release(self.agreement, progress)
        return answering.dry_run(release, program, seed=seed, stored=self.terms.analyses.columns)

    def answers(self) -> "Listed[RunOnRecords]":
        """The runs on the records under this card, newest first."""
        from gencard.client.answers import answering  # noqa: PLC0415 - loads scipy.stats

        all_answers = answering.listed(self.agreement)
        return Listed(all_answers, "Answers", answering.LIST_HEADS, answering.list_line)

    @checked()
    def replay(self, data: "pd.DataFrame | Release") -> Replayed:
        """Recompute a release from psi, card and seed, and compare every byte.

        Raises:
            VerificationError: A byte differs, or the data are not a release of this card.
            NotReplayableError: A black box generated the rows from records.
        """
        return self.agreement.replay(data)

    @checked()
    def fidelity(self, data: "pd.DataFrame | Release") -> "FidelityReport":
        """Compare rows with psi, allowing for sampling error; needs no records.

        Raises:
            DomainMismatchError, UndeclaredLevelError: The rows are not over the card's attributes.
            NoPsiError: The card is of tier private.
        """
        return self.agreement.fidelity(data)

    @checked()
    def report(
        self,
        release: str | None = None,
        *,
        answers: "Sequence[Answer]" = (),
        measure: bool = False,
        progress: ProgressDisplay = True,
    ) -> "CardReport":
        """A report on a release: fidelity, risk, utility and audits, as far as our role may see them.

        Args:
            release: Name of the release; default: the newest.
            answers: Analyses to put in, such as ``[card.answer("health ~ age")]``.
            measure: Run missing evaluations at the records, for one statistic per number; see
                ``measures``.
            progress: Whether to show a progress bar, or a function that receives the progress.

        Raises:
            InvalidInputError: The card has no release, or none of this name.
            BudgetExceededError: The price of an evaluation exceeds the budget.
        """
        from gencard.client.card_report import card_report  # noqa: PLC0415 - loaded when needed

        return card_report(
            self.agreement, str(self.state), release, answers=answers, measure=measure, progress=progress
        )

    @checked()
    def measures(
        self, names: Sequence[str] | None = None, *, progress: ProgressDisplay = True
    ) -> "CardMeasures":
        """Run evaluations of risk and utility of this card at the records, each once per card.

        They use rows that the controller draws for them with a secret seed, as many as there are
        records, not the rows of a release. The first caller of any role pays one statistic per number;
        the stored result is then free. Numbers are rounded to their sampling error.

        Args:
            names: Evaluations such as ``["dcr"]``; empty for all available ones; None to run none and
                return the existing ones.
            progress: Whether to show a progress bar, or a function that receives the progress.

        Raises:
            PermissionDeniedError: The card does not name an evaluation.
            RecordsProtectedError: The card cannot have an evaluation; states the reason.
            InvalidInputError: An evaluation is unknown, or the card has no release yet.
            BudgetExceededError: The price exceeds the budget.
        """
        from gencard.client.card_report import known_measures, run_measures  # noqa: PLC0415 - loads scipy

        if names is None:
            return known_measures(self._connection, self.name)
        return run_measures(self._connection, self.name, names, progress)

    @checked(where=choice("made-up", "card"))
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
            black_box: Name of the black box in the catalogue; default: the card's generator.
            where: "made-up": on made-up records; reads no real record and is free. "card": on the real
                records, at the controller; only auditors and stewards see the full report.
            seed: Random seed; for "card", the controller adds a secret one.
            runs: For "made-up": runs on each side of each step; default: the card's.
            records: For "made-up": the records to use, over the attributes of the card.
            resume: For "card": the operation of a cancelled audit of ours, to be continued once as the
                same attempt with the same seeds.
            progress: Whether to show a progress bar, or a function that receives the progress.

        Raises:
            NoExtremalPairError: Nothing could be tested; this is not a pass.
            InvalidInputError: An argument belongs to the other kind of audit.
        """
        from gencard.client.audit import audit  # noqa: PLC0415 - loads scipy.stats

        box = black_box or self.terms.generator
        with suggesting_generators(self._connection, box):
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
        """The card that both sides signed, verified; raises CardStateError before agreement."""
        if self._agreement is None:
            self._agreement = Agreement.of(self._connection, self._negotiation, self.entry.coding)
        return self._agreement

    def _follow(self) -> None:
        """Refresh the card if possible; a lost connection must not lose the result."""
        with suppress(GencardError):
            self.refresh()

    def _now(self, message: pb.Card, signed: bytes | None = None) -> "Card":
        self._negotiation = checked_answer(card_of(message), self._proposal)
        if signed is not None and self._negotiation.envelope:
            statement, _ = dsse.opened(self.agreement.envelope)
            if statement != signed:
                raise VerificationError(problem="the controller signed a different card")
        return self
