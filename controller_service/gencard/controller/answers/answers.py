"""Answers as callers see them: asked for, judged, priced, listed, read.

judged      kind, attributes and number of runs, before any record is read and any budget is spent
ledger      the price is RESERVED
job         reads the records once; output rules judge every number
decision    signed, logged and settled in one transaction; no number is visible before
"""

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from gencard.analysis.answers.answer import EXACT, NOISE, numbers_in_json
from gencard.controller.answers.decisions import PRICE, Decisions, RunOutcome, answer_of, marks_document
from gencard.controller.base.disk import ROWS, StateFiles
from gencard.controller.cards.book import CardBook, question_of, released_before, rules_of
from gencard.controller.failures import NOTHING_LEARNT, refund
from gencard.controller.jobs import tasks
from gencard.controller.jobs.descriptions import Descriptions
from gencard.controller.jobs.tasks import JOBS, AnswerResult, ProgramJob, RehearsalJob
from gencard.controller.operations import Operations, Run
from gencard.controller.records.catalogue import DatasetEntry, dataset_of
from gencard.controller.records.source import NOT_COVERED
from gencard.controller.sandbox.analyses import (
    AnalysisRecipe,
    analysis_program,
    analysis_recipe,
    check_text,
)
from gencard.controller.sandbox.environment import CompiledCopies
from gencard.controller.sandbox.limits import Isolation, SandboxLimits
from gencard.controller.state import requests, results
from gencard.controller.state.cards import in_force, offer_of, signed_card
from gencard.controller.state.database import Page
from gencard.controller.state.log import LONGEST_DETAIL
from gencard.controller.state.requests import OperationRow, Request
from gencard.controller.state.results import RunRow, RunState, RunTier
from gencard.core.card.budget import Price, Spend, SpendState
from gencard.core.card.card import CardRecord
from gencard.core.card.terms import Analyses
from gencard.core.errors import (
    BlackBoxError,
    CardExpiredError,
    CardStateError,
    DatasetChangedError,
    GencardError,
    InvalidInputError,
    JobFailedError,
    JobLimitError,
    MeasurementRefusedError,
    NotFoundError,
    OperationCancelledError,
    ProgramNotRunError,
    ProgramRunFailedError,
    RecordsProtectedError,
    TooLargeError,
)
from gencard.core.policy import OUTPUT_RULES, RULES_VERSION, USUAL_RULES, Rule
from gencard.core.program_outputs import Outputs, check_outputs, outputs_of_json, outputs_to_json
from gencard.run.levels import by_levels
from gencard.run.r_language import is_r
from gencard.wire import dsse
from gencard.wire.canonical import document_of, json_bytes, sha256
from gencard.wire.documents import Question, receipt_of_document
from gencard.wire.dsse import DOCUMENT
from gencard.wire.keys import Identity

KIND = "run"
PROGRAM = "program"
"""The kind of a question that a program of the analyst's answers, and of its operation."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Runs on the records under cards, and their answers."""

    decisions: Decisions
    operations: Operations

    @property
    def cards(self) -> CardBook:
        return self.decisions.cards

    def start(self, who: Identity, card: str, question: Question, request: Request) -> OperationRow:
        """Begin a checked run; a question that was asked before has its answer already, for nothing.

        One whose condition chose other records then, or that counted levels then, is run again.

        Raises:
            NotFoundError: No such card of the caller's.
            CardStateError, CardExpiredError: The card is not in force.
            DatasetChangedError: The records or their schema are others than the card names.
            InvalidInputError, InvalidFormulaError, UnknownAttributeError: The card does not grant the
                kind, or formula, condition or options cannot be read.
            RecordsProtectedError: The policy keeps the attributes apart.
            TooLargeError: The card has had all its runs, or the condition has too many cells.
            BudgetExceededError: The price is not covered.
        """

        def make(tx: Connection) -> bytes:
            usable = self.cards.usable(tx, who, card)
            known = self._asked_before(tx, usable, question)
            if known is not None:
                return self.operation_of(tx, known).encode()
            price = offer_of(usable).terms.analyses.run_price
            return self.created(tx, who, usable, question, price, {}).encode()

        self.end_with_cards()  # which frees budget
        with self.cards.database.reading() as tx:
            usable = None if request.answer(tx, who) else self.cards.usable(tx, who, card)
            is_new = usable is not None and self._asked_before(tx, usable, question) is None
        if usable is not None and is_new:  # outside the transaction: others may write meanwhile
            check_question(question, usable, self.entry_of(usable))
        with self.cards.database.transaction() as tx:
            name = request.once(tx, who, self.cards.clock(), lambda: make(tx))
        return self.operations.begin(name.decode())

    def _asked_before(self, tx: Connection, card: CardRecord, question: Question) -> RunRow | None:
        entry = self.entry_of(card)
        known = results.earlier_run(tx, card.name, question.digest)
        if known is None or (rules := rules_of(known)) in ("", RULES_VERSION):
            return known
        from gencard.controller.run_question import means_another  # noqa: PLC0415 - loads pandas

        permitted = entry.policy.analyses.stored and not offer_of(card).terms.analyses.privacy.noisy
        another = means_another(question, entry.schema.coding, rules, permitted=permitted)
        return None if another else known

    def get(self, who: Identity, name: str) -> tuple[RunRow, bytes]:
        """Return an answer and the log's entry of its decision; the entry is empty if there is none yet.

        Raises:
            NotFoundError: No such answer, or another's.
            CardStateError: The card was revoked, which gives its analyst nothing more.
        """
        self.end_with_cards()
        with self.cards.database.reading() as tx:
            row = results.get_run(tx, name)
            self.cards.readable(tx, who, row.card, what="answer")
            return row, b"" if row.log_index is None else self.cards.log.entry(tx, row.log_index)

    def page(self, who: Identity, card: str, before: str, limit: int) -> Page[RunRow]:
        self.end_with_cards()
        with self.cards.database.reading() as tx:
            self.cards.seen(tx, who, card)
            return results.list_runs(tx, card=card, before=before, limit=limit)

    def end_with_cards(self) -> None:
        """Refuse all answers that wait under cards that have ended, as expired ones have unnoticed."""
        with self.cards.database.reading() as tx:
            waiting_in_vain = self.decisions.waiting_in_vain(tx)
        if waiting_in_vain:
            with self.cards.database.transaction() as tx:
                self.decisions.end_with_cards(tx)

    def entry_of(self, card: CardRecord) -> DatasetEntry:
        """Return the dataset; raises DatasetChangedError if it is not what the card names."""
        dataset_entry = self.cards.entry_of(card)
        if signed_card(card).version != dataset_entry.version:
            raise DatasetChangedError
        return dataset_entry

    def operation_of(self, tx: Connection, row: RunRow) -> str:
        for operation in reversed(requests.operations_of_kind(tx, kind_of(row.tier), row.card)):
            if json.loads(operation.request)["run"] == row.name:
                return operation.name
        raise NotFoundError(what="operation")

    def created(
        self,
        tx: Connection,
        who: Identity,
        card: CardRecord,
        question: Question,
        price: Price,
        more: Mapping[str, Any],
    ) -> str:
        """Return the name of a new operation, with its price held and its run in the state.

        Args:
            price: Most that the run may cost.
            more: Facts for the operation, besides the run.
        """
        name = f"{card.name}/answers/{secrets.token_hex(8)}"
        tier = RunTier.REVIEWED if question.kind == PROGRAM else RunTier.CHECKED
        analyses = offer_of(card).terms.analyses
        most = analyses.checked_runs if tier is RunTier.CHECKED else analyses.reviewed_runs
        if results.count_runs(tx, card.name, tier) >= most:
            limit, advice = f"{most} on the card; propose another card", "Propose a card with more runs."
            raise TooLargeError(what=f"The number of {tier} runs", limit=limit, advice=advice)
        dataset, now = dataset_of(card.name), self.cards.clock()
        line = self.decisions.ledger.reserve(
            tx, dataset, who.project, who.uri, resource=name, kind=KIND, price=price, now=now
        )
        row = RunRow(
            name=name,
            card=card.name,
            dataset=dataset,
            version=signed_card(card).version,
            submitter=who.uri,
            tier=tier,
            question=question.digest,
            request=json_bytes(DOCUMENT.write(question)),
            created=self.cards.clock(),
            line=line,
        )
        results.insert_result(tx, row)
        operation = self.operations.create(tx, who, kind_of(tier), card.name, {"run": name, **more})
        names = analyses.columns if tier is RunTier.REVIEWED else ()
        facts = {"operation": operation, "kind": question.kind, "line": str(line)}
        if names:  # their number, if a line of the log has no room for them
            text = ", ".join(names)
            fits = len(text) <= LONGEST_DETAIL and text.isprintable()
            facts["columns"] = text if fits else f"{len(names)} attributes"
        self.cards.note(tx, "run", name, facts, who.uri)
        return operation


def kind_of(tier: RunTier) -> str:
    return PROGRAM if tier is RunTier.REVIEWED else KIND


def check_numbers(dataset_entry: DatasetEntry, what: str) -> None:
    """Raise RecordsProtectedError if the version of the records does not cover their numbers."""
    if not dataset_entry.covers_values:
        raise RecordsProtectedError(what=what, why=NOT_COVERED)


def check_question(question: Question, card: CardRecord, dataset_entry: DatasetEntry) -> None:
    """Refuse, by public facts alone, a question that the card does not grant or that has no answer.

    A question of before that today's checks would refuse has its answer, and does not come here.
    """
    analyses = offer_of(card).terms.analyses
    kinds = analyses.kinds
    if question.kind not in kinds:
        granted = ", ".join(kinds) or "none"
        raise InvalidInputError(
            field="kind", problem=f"is not granted by the card; granted kinds: {granted}"
        )
    from gencard.controller.run_question import NoisyRun, RunQuestion  # noqa: PLC0415 - loads formulaic and pandas

    policy, coding = dataset_entry.policy, dataset_entry.schema.coding
    permitted = policy.analyses.stored
    run = RunQuestion.new(question, coding, permitted=permitted)
    if analyses.privacy.noisy:
        NoisyRun.of(question, coding, permitted=permitted)
    elif not dataset_entry.covers(run.stored):
        raise RecordsProtectedError(what='response="stored"', why=NOT_COVERED)
    if run.stored and not permitted:
        why = "the policy keeps runs to levels (analyses.stored)"
        raise RecordsProtectedError(what='response="stored"', why=why)
    if (apart := policy.kept_apart(run.attributes)) is not None:
        why = f"the policy does not allow {' and '.join(apart)} together"
        raise RecordsProtectedError(what="The analysis", why=why)
    most = policy.measuring(noisy=analyses.privacy.noisy).largest_order
    if run.widest > most:
        why = (
            f"it uses tables of {run.widest} attributes, including those of 'where', and the "
            f"policy allows {most}"
        )
        raise RecordsProtectedError(what="The analysis", why=why)


# One run on the records: a job, its outcome, the decision.

AT_RECORDS = ("answer", "read")
"""Stages that jobs of runs report before they read records."""

ENDED_EARLY = (OperationCancelledError, CardStateError, CardExpiredError)
"""Ends that an analyst can bring about, by a cancellation or by the end of the card."""


@dataclass(frozen=True, slots=True)
class AnswerRun:
    """Runner of checked runs; ``response`` encodes a run as the operation's response."""

    answers: Answers
    jobs: Descriptions
    response: Callable[[RunRow], bytes]

    def __call__(self, run: Run) -> None:
        """Run the job on the records once, and decide; after a crash before the decision, run it again.

        A run that fails on the records ends as a refusal like any other.
        """
        answers = self.answers
        with answers.cards.database.reading() as tx:
            row = results.get_run(tx, run.request["run"])
            card = in_force(answers.cards.card(tx, row.card))
            before = released_before(
                tx, answers.cards, dataset=row.dataset, version=row.version, but=row.name
            )
        analyses = offer_of(card).terms.analyses
        entry, most = answers.cards.entry_of(card), analyses.numbers
        privacy = analyses.privacy if analyses.privacy.noisy else None
        job = self.jobs.answer(
            entry, row.version, question_of(row), privacy=privacy, numbers=most, before=before
        )
        try:
            outcome = outcome_of(run.job(tasks.ANSWER, job), analyses)
        except MeasurementRefusedError:  # whether work at the records fails may depend on them
            outcome = RunOutcome.refused(Rule.FAILED)
        if outcome.review or OUTPUT_RULES in outcome.reasons:
            # A refusal may be decided early or late in the work, depending on the records: waiting for
            # the end of the duration class keeps the time from disclosing the reason.
            run.rest()
        self._keep(run, row, outcome)

    def undo(self, tx: Connection, row: OperationRow, error: GencardError) -> None:
        """Return the price and delete the run if the analyst learnt nothing from it.

        Otherwise the run has failed: it costs one statistic, and counts as one of the runs of its card.
        A run that is cancelled after its job began to read records counts in ``limits.refusals`` too.
        Refusals take longer than answers, so an analyst who cancels long runs would otherwise learn of
        refusals for free.
        """
        answers, name = self.answers, json.loads(row.request)["run"]
        run = results.get_run(tx, name)
        if run.state is not RunState.RUNNING:
            return
        line = None if run.line is None else answers.decisions.ledger.line(tx, run.line)
        exact = line is not None and line.price == Price(statistics=line.price.statistics)
        early = (
            exact
            and isinstance(error, ENDED_EARLY)
            # an analyst may have ended the run because its job on the records took long
            and requests.get_operation(tx, row.name).stage in AT_RECORDS
        )
        if early or not isinstance(error, NOTHING_LEARNT):
            values = {"statistics": self._charged(tx, run, line, error), "counts": int(early)}
            results.move_run(tx, name, RunState.FAILED, ended=answers.cards.clock(), **values)
            return
        refund(tx, line, error, ledger=answers.decisions.ledger, cards=answers.cards)
        results.forget_run(tx, name)

    def _charged(self, tx: Connection, run: RunRow, line: Spend | None, error: GencardError) -> int:
        """Return the price of a failed run: that of a refusal, because only the failure is disclosed.

        Noise that may have been drawn stays paid, and so does a failure of the service itself, until a
        steward has reviewed it.
        """
        cards, ledger = self.answers.cards, self.answers.decisions.ledger
        silent = isinstance(error, (MeasurementRefusedError, ProgramRunFailedError, *ENDED_EARLY))
        if line is None or line.state is not SpendState.RESERVED or not silent:
            return 0
        if line.price != Price(statistics=line.price.statistics):
            return 0
        ledger.settle_at(tx, line.line, Price(statistics=PRICE), cards.clock())
        facts = {"line": str(line.line), "reason": error.reason, "statistics": str(PRICE)}
        cards.note(tx, "settle", run.name, facts)
        return PRICE

    def _keep(self, run: Run, row: RunRow, outcome: RunOutcome) -> None:
        """Write decision, ledger, log and the operation's end in one transaction.

        If other runs of the analyst or project were refused meanwhile (TooManyRefusalsError), nothing of
        this run is disclosed, however it ended.
        """
        answers = self.answers
        with answers.cards.database.transaction() as tx:
            # Again, in the transaction of the decision: runs that were started together would each see
            # no refusal yet, and disclose one refusal each.
            answers.operations.check_refusals(tx, run.row)
            card = in_force(answers.cards.card(tx, row.card))
            decisions, by = answers.decisions, answers.cards.controller
            steward = answers.cards.entry_of(card).policy.analyses.by_steward
            if outcome.answer is None:
                ended_row = decisions.refuse(tx, row, outcome, by)
            # If all answers wait for a steward, waiting does not disclose the verdict of the rules.
            elif outcome.review or steward:
                ended_row = decisions.hold(tx, row, outcome, counts=outcome.review and not steward)
            else:
                ended_row = decisions.release(tx, row, outcome, by)
            answers.operations.finish(tx, run.row.name, self.response(ended_row))


def outcome_of(result: AnswerResult, analyses: Analyses) -> RunOutcome:
    """Return the outcome of a job's result, on which the rules or a steward decide."""
    judged = result.answer
    if isinstance(judged, dict) and judged.get("noise", EXACT) != EXACT:
        # A question is tried on exact counts before it is paid: its noisy answer must not have more
        # numbers. The sizes of the noise say nothing more about the records.
        judged = judged | {"tables": [one for one in judged["tables"] if one["name"] != NOISE]}
    numbers = numbers_in_json(judged)
    if numbers > analyses.numbers:
        return RunOutcome.refused(Rule.NUMBERS)
    marks = JOBS.write(result)["marks"]
    return RunOutcome(result.answer, numbers, result.reasons, result.rules, result.review, marks)


# Reviewed runs: a program of the analyst's, named on the card by its digest, run once on the records.
#
# judged      digest, libraries, release and price, before any record is read and any budget is spent
# rehearsed   in the sandbox on the rows of a release, with the shape of the analyst's own dry run
# run         in the sandbox on the records; outputs of that shape, or none, whatever the cause
# waits       for a steward, who sees every number, or that the program failed; see ``decisions``
#
# A program that failed waits like any other: a program could choose by a record to fail.


@dataclass(frozen=True, slots=True)
class AgreedShape:
    """Shape of outputs on synthetic rows, from the analyst's own run; the run on records must keep it.

    Args:
        seed: Seed of the program's random numbers, the same in each run.
    """

    release: str
    seed: int
    outputs: Outputs

    @classmethod
    def read(cls, data: bytes) -> "AgreedShape":
        document = document_of(data[: (1 << 20) + 1], "dry_run")  # what is longer is cut, and no object
        try:
            release, seed = str(document.pop("release")), int(document.pop("seed"))
            outputs = outputs_of_json(document)
        except (KeyError, TypeError, ValueError):
            raise InvalidInputError(field="dry_run", problem="is not that of a program") from None
        if not release.isprintable():  # no database takes every text
            raise InvalidInputError(field="dry_run", problem="is not that of a program")
        if not 0 <= seed < 1 << 64:
            raise InvalidInputError(field="dry_run", problem="has a seed that is not a 64-bit number")
        return cls(release, seed, outputs)


def start_program(
    answers: Answers, who: Identity, card: str, program: bytes, dry_run: bytes, request: Request
) -> OperationRow:
    """Begin a reviewed run; a program that was run before under the card has its answer already.

    Raises:
        NotFoundError: No such card of the caller's.
        CardStateError, CardExpiredError: The card is not in force.
        DatasetChangedError: The records or their schema differ from the version that the card names.
        InvalidInputError: The card does not name the program, or the dry run is not of this program.
        RecordsProtectedError: The program reads recorded numbers, which this version of the records
            lacks.
        TooLargeError: The card has had all its runs.
        BudgetExceededError: The price is not covered.
    """
    try:
        text = program.decode()
    except UnicodeDecodeError:
        raise InvalidInputError(field="program", problem="is not UTF-8") from None
    check_text(text)
    dry = AgreedShape.read(dry_run)

    def make(tx: Connection) -> bytes:
        usable = answers.cards.usable(tx, who, card)
        entry = answers.entry_of(usable)
        analyses = offer_of(usable).terms.analyses
        if not {*analyses.columns} <= {*entry.schema.coding.with_step}:
            check_numbers(entry, "A program with recorded numbers that have no step")
        if sha256(program) not in analyses.programs:
            raise InvalidInputError(field="program", problem="is not listed on the card by its digest")
        analysis_program(text, analyses.libraries)
        check_outputs(dry.outputs, analyses.program_numbers)
        release = results.find_release(tx, card, dry.release)
        if release is None:
            on_another = "was not on a release of this card"
            has_releases = results.list_releases(tx, card=card, limit=1).rows
            problem = on_another if has_releases else "needs a release of this card first"
            raise InvalidInputError(field="dry_run", problem=problem)
        question = Question(PROGRAM, sha256(program))
        known = results.earlier_run(tx, card, question.digest)
        if known is not None:
            return answers.operation_of(tx, known).encode()
        signed = dsse.predicate_of(dsse.opened(release.receipt)[0], dsse.RECEIPT)
        receipt = receipt_of_document(signed)
        more = {
            "program": text,
            "file_name": release.file_name,
            # places numbers inside intervals, as for the release's analyst
            "drawing_seed": str(receipt.drawing_seed),
            "seed": str(dry.seed),
            "agreed": outputs_to_json(dry.outputs),
        }
        price = Price(statistics=sum(output.numbers for output in dry.outputs))
        return answers.created(tx, who, usable, question, price, more).encode()

    with answers.cards.database.transaction() as tx:
        name = request.once(tx, who, answers.cards.clock(), lambda: make(tx))
    return answers.operations.begin(name.decode())


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """Runner of reviewed runs.

    Args:
        checked: Runner of checked runs; it describes jobs and returns the price of failed runs.
        work: A private folder for compiled copies.
    """

    checked: AnswerRun
    files: StateFiles
    work: Path
    limits: SandboxLimits
    isolation: Isolation
    response: Callable[[RunRow], bytes]
    _copies: dict[tuple[str, ...], CompiledCopies] = field(default_factory=dict, init=False, repr=False)

    def __call__(self, run: Run) -> None:
        answers = self.checked.answers
        with answers.cards.database.reading() as tx:
            row = results.get_run(tx, run.request["run"])
            card = in_force(answers.cards.card(tx, row.card))
            terms = offer_of(card).terms
            places = terms.histograms and terms.analyses.columns
            psi = results.get_psi(tx, row.card).document if places else b""
        rehearsal, at_records = self._jobs(run, card, psi)
        with not_run():
            rehearsed = run.job(tasks.REHEARSE, rehearsal).outputs
        program, coding = run.request["program"], rehearsal.schema.coding
        levels = by_levels(coding, at_records.attributes, terms.analyses.columns)
        notes = (f"by levels, each as its midpoint: {', '.join(levels)}",) if levels else ()
        try:
            outputs = run.job(tasks.RUN_ONCE, at_records).outputs
            answer = answer_of(question_of(row).formula, outputs, rehearsed, notes)
            rules = answers.cards.entry_of(card).policy.analyses.rules
            marks = marks_document(program, outputs, rehearsed, rules, notes)
            numbers = sum(output.numbers for output in outputs)
            outcome = RunOutcome(answer, numbers, (), RULES_VERSION, marks=marks)
        except ProgramRunFailedError:
            marks = marks_document(program, (), (), USUAL_RULES, notes)
            outcome = RunOutcome(None, 0, (str(Rule.FAILED),), RULES_VERSION, marks=marks)
        run.rest()
        with answers.cards.database.transaction() as tx:
            in_force(answers.cards.card(tx, row.card))
            ended_row = answers.decisions.hold(tx, row, outcome, counts=False)
            answers.operations.finish(tx, run.row.name, self.response(ended_row))

    def undo(self, tx: Connection, row: OperationRow, error: GencardError) -> None:
        """Return the price if no record was read, as for a checked run."""
        self.checked.undo(tx, row, error)

    def _jobs(self, run: Run, card: CardRecord, psi: bytes) -> tuple[RehearsalJob, ProgramJob]:
        """Return the jobs on the rows of a release, whose numbers psi places, and on the records."""
        request = run.request
        entry, terms = self.checked.answers.cards.entry_of(card), offer_of(card).terms
        with not_run():
            recipe = self._recipe(request["program"], terms.analyses.libraries)
            agreed = outputs_of_json(request["agreed"])
        rehearsal, at_records = self.checked.jobs.program(
            entry,
            entry.version,
            recipe,
            terms=terms,
            agreed=agreed,
            seed=int(request["seed"]),
            rows_file=self.files.path(f"{ROWS}/{request['file_name']}"),
            drawing_seed=int(request.get("drawing_seed", 0)),
        )
        return replace(rehearsal, psi=psi), at_records

    def _recipe(self, program: str, libraries: tuple[str, ...]) -> AnalysisRecipe:
        if is_r(program.encode()):
            return analysis_recipe(program, libraries, self.limits, self.isolation)
        if libraries not in self._copies:
            folder = self.work / f"analyses-{len(self._copies)}"
            self._copies[libraries] = CompiledCopies(folder, (), ("pandas", *libraries))
        compiled = self._copies[libraries].folder()
        return analysis_recipe(program, libraries, self.limits, self.isolation, compiled=compiled)


@contextmanager
def not_run() -> Iterator[None]:
    """Raise ProgramNotRunError if a step before the first record is read fails."""
    try:
        yield
        return
    except (BlackBoxError, JobFailedError, JobLimitError):
        problem = "it fails on the synthetic rows in the sandbox, or takes too long"
    except InvalidInputError as error:
        problem = f"{error.fields['field']} {error.fields['problem']}"
    raise ProgramNotRunError(problem=problem)
