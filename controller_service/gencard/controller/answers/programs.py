"""Reviewed runs: a program of the analyst's, named on the card by its digest, run once on the records.

judged      digest, libraries, release and price, before any record is read and any budget is spent
rehearsed   in the sandbox on the rows of a release, with the shape of the analyst's own dry run
run         in the sandbox on the records; outputs of that shape, or none, whatever the cause
waits       for a steward, who sees every number, or that the program failed; see ``decisions``

A program that failed waits like any other: a program could choose by a record to fail.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from sqlalchemy import Connection

from gencard.controller.answers.answers import PROGRAM, AnswerRun, Answers, check_numbers
from gencard.controller.answers.decisions import RunOutcome, answer_of, marks_document
from gencard.controller.base.disk import ROWS, StateFiles
from gencard.controller.cards.book import question_of
from gencard.controller.jobs import tasks
from gencard.controller.jobs.tasks import ProgramJob, RehearsalJob
from gencard.controller.operations import Run
from gencard.controller.sandbox.analyses import (
    AnalysisRecipe,
    analysis_digest,
    analysis_program,
    analysis_recipe,
    check_text,
)
from gencard.controller.sandbox.environment import CompiledCopies
from gencard.controller.sandbox.limits import Isolation, SandboxLimits
from gencard.controller.state import results
from gencard.controller.state.cards import in_force, offer_of
from gencard.controller.state.requests import OperationRow, Request
from gencard.controller.state.results import RunRow
from gencard.core.card.budget import Price
from gencard.core.card.card import CardRecord
from gencard.core.errors import (
    BlackBoxError,
    GencardError,
    InvalidInputError,
    JobFailedError,
    JobLimitError,
    ProgramNotRunError,
    ProgramRunFailedError,
)
from gencard.core.policy import RULES_VERSION, USUAL_RULES, Rule
from gencard.core.program_outputs import Outputs, check_outputs, outputs_of_json, outputs_to_json
from gencard.run.levels import by_levels
from gencard.run.r_language import is_r
from gencard.wire import dsse
from gencard.wire.canonical import document_of
from gencard.wire.documents import Question, receipt_of_document
from gencard.wire.keys import Identity

MOST_DRY_RUN = 1 << 20
"""Bytes."""


@dataclass(frozen=True, slots=True)
class AgreedShape:
    """Shape of outputs on synthetic rows, from the analyst's own run; the run on records must keep it.

    Args:
        release: Name of the release whose rows were used.
        seed: Seed of the program's random numbers, the same in each run.
    """

    release: str
    seed: int
    outputs: Outputs

    @classmethod
    def read(cls, data: bytes) -> "AgreedShape":
        document = document_of(data[: MOST_DRY_RUN + 1], "dry_run")
        try:
            release, seed = str(document.pop("release")), int(document.pop("seed"))
            outputs = outputs_of_json(document)
        except (KeyError, TypeError, ValueError):
            raise InvalidInputError(field="dry_run", problem="is not that of a program") from None
        if not 0 <= seed < 1 << 64:
            raise InvalidInputError(field="dry_run", problem="has a seed that is not a 64-bit number")
        return cls(release, seed, outputs)


@dataclass(frozen=True, slots=True)
class Programs:
    """Reviewed runs as callers see them."""

    answers: Answers

    def start(
        self, who: Identity, card: str, program: bytes, dry_run: bytes, request: Request
    ) -> OperationRow:
        """Begin a reviewed run; a program that was run before under the card has its answer already.

        Raises:
            NotFoundError: No such card of the caller's, or no such release.
            CardStateError, CardExpiredError: The card is not in force.
            DatasetChangedError: The records or their schema differ from the version that the card names.
            InvalidInputError: The card does not name the program, or the dry run is not of this program.
            RecordsProtectedError: The program reads recorded numbers, which this version of the records
                lacks.
            TooLargeError: The card has had all its runs.
            BudgetExceededError: The price is not covered.
        """
        answers = self.answers
        text, dry = text_of_program(program), AgreedShape.read(dry_run)

        def make(tx: Connection) -> bytes:
            usable = answers.cards.usable(tx, who, card)
            entry = answers.entry_of(usable)
            coding, columns = entry.schema.coding, offer_of(usable).terms.analyses.columns
            if not {*columns} <= {*coding.with_step}:
                check_numbers(entry, "A program with recorded numbers that have no step")
            check_program(program, dry, usable)
            releases = results.list_releases(tx, card=card, limit=500).rows
            release = next((row for row in releases if row.name == dry.release), None)
            if release is None:
                on_another = "was not on a release of this card"
                problem = on_another if releases else "needs a release of this card first"
                raise InvalidInputError(field="dry_run", problem=problem)
            question = Question(PROGRAM, analysis_digest(program))
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


def text_of_program(program: bytes) -> str:
    try:
        text = program.decode()
    except UnicodeDecodeError:
        raise InvalidInputError(field="program", problem="is not UTF-8") from None
    check_text(text)
    return text


def check_program(program: bytes, dry: AgreedShape, card: CardRecord) -> None:
    """Check a program by public facts alone; raises InvalidInputError if the card does not grant it."""
    analyses = offer_of(card).terms.analyses
    if analysis_digest(program) not in analyses.programs:
        raise InvalidInputError(field="program", problem="is not listed on the card by its digest")
    analysis_program(program.decode(), analyses.libraries)
    check_outputs(dry.outputs, analyses.program_numbers)


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
