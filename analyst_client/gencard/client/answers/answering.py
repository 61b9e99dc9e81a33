"""Answers: from psi, of a card or of a saved release, and by runs of questions and programs."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path
from typing import Unpack
from uuid import uuid4

from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.analysis.answers.noisy_margins import Bootstrap, margins_of
from gencard.client.agreement import Agreement, Release
from gencard.client.answers.answer import Answer
from gencard.client.checking.bundle import Bundle, Keys, checked_schema, receipt_in, signed_card
from gencard.client.checking.checks import LogWatch, card_of_statement, check_psi, checked_signed_answer
from gencard.client.common.arguments import AnalystQuestion, AnswerOptions, checked, level_values, text
from gencard.client.common.display import Displayable, Facts, Grid, Part
from gencard.client.connection.connection import ProgressDisplay, pages, progress_bar, result_of
from gencard.client.connection.credentials import Credentials
from gencard.core.card.budget import Price
from gencard.core.card.privacy import Mechanism
from gencard.core.card.terms import Analyses, CardTerms
from gencard.core.coding import Coding
from gencard.core.domain import Clique
from gencard.core.errors import (
    AnswerWaitingError,
    GencardError,
    InvalidInputError,
    NoiseDrownsError,
    RunRefusedError,
    VerificationError,
)
from gencard.core.generators.contract import rng_of
from gencard.core.policy import OUTPUT_RULES, Rule
from gencard.core.program_outputs import DIGITS, START, Output, Outputs, outputs_to_json
from gencard.core.statistics.formula import analysis_of
from gencard.core.statistics.psi import Psi
from gencard.files import PROGRAM_LIMIT, read_file
from gencard.run.levels import by_levels, drawn_numbers
from gencard.run.r_language import R, bytes_of_r_request, check_language, is_r
from gencard.v1 import answers_pb2 as pb
from gencard.wire import dsse
from gencard.wire.black_box import AnswerReader, BoxRequest, BoxTask, bytes_of_request
from gencard.wire.canonical import json_bytes, sha256
from gencard.wire.codec import datetime_of
from gencard.wire.documents import AnswerVerdict, Question, receipt_of_document
from gencard.wire.psi import psi_document

# Checked runs of questions and of programs: requested, awaited, verified; the answers of a card.


_STATE = {
    pb.Answer.STATE_UNSPECIFIED: "not finished",
    pb.Answer.STATE_WAITING: "waiting for a steward",
    pb.Answer.STATE_RELEASED: "released",
    pb.Answer.STATE_REFUSED: "refused",
}


@dataclass(frozen=True, slots=True)
class RunOnRecords:
    """A run on the records in a list, named datasets/{dataset}/cards/{card}/answers/{answer}.

    Args:
        statistics: What it cost, in independent statistics; 0 under noise.
        paid: What it cost, in all currencies.
    """

    name: str
    kind: str
    formula: str
    state: str
    statistics: int
    created: datetime
    paid: Price


_OTHER_REFUSAL = (
    "Ask the steward what would be acceptable. The refusal is stored; the same question costs nothing "
    "more and gets the same answer."
)
"""Advice where a steward refused, the card ended, or an older controller named the rule."""

LIST_HEADS = ("Answer", "Kind", "Formula", "State", "Paid")
"""Column heads of a list of runs."""


def list_line(run: RunOnRecords) -> tuple[str, str, str, str, str]:
    return run.name, run.kind, run.formula, run.state, str(run.paid)


def sent(question: AnalystQuestion) -> Question:
    """The question as it is sent and signed, without options of answers from psi."""
    if question.bootstrap:
        problem = "applies to answers from noisy psi only: a run has its own intervals"
        raise InvalidInputError(field="bootstrap", problem=problem)
    # Values go along: the controller refuses them, but for a question that it answered before it did.
    options = dict(question.options)
    options |= {} if question.values is None else {"values": question.values}
    return Question(
        kind=question.kind,
        formula=question.formula,
        where=question.where,
        missing=question.missing,
        options=json_bytes(options).decode() if options else "",
    )


def run(agreement: Agreement, question: Question, progress: ProgressDisplay) -> Answer:
    """Have one analysis run on the records, and verify what was signed; raises as ``Card.run``."""
    connection = agreement.connection
    request = pb.RunAnalysisRequest(
        card=agreement.card.name,
        formula=question.formula,
        kind=question.kind,
        options=question.options,
        where=question.where,
        missing=question.missing,
        request_id=str(uuid4()),
    )
    with progress_bar("Running", progress) as reported:
        operation = connection.call(connection.answers.RunAnalysis, request)
        name = result_of(connection, operation, pb.Answer, reported).name
    return fetch(agreement, name, question)


def fetch(agreement: Agreement, name: str, question: Question | None = None) -> Answer:
    """An answer by its name, verified, to this question if there is one; raises as ``run`` does."""
    connection = agreement.connection
    got = connection.call(connection.answers.GetAnswer, pb.GetAnswerRequest(name=name))
    if not got.answer.envelope:
        raise AnswerWaitingError(answer=name)
    envelope = got.answer.envelope
    keys = connection.keys.cards(envelope)
    signed = checked_signed_answer(envelope, keys, agreement.card, card_digest=agreement.digest)
    if signed.name != name or (question is not None and signed.question != question):
        raise VerificationError(problem="the signed answer belongs to another question")
    logged = LogWatch(connection).entry(got.log_entry, signed, agreement.card.controller)
    if signed.verdict is AnswerVerdict.REFUSED:
        error = RunRefusedError(answer=name, reasons=", ".join(signed.reasons))
        if OUTPUT_RULES not in signed.reasons:
            error.advice = NoiseDrownsError.advice if Rule.DROWNED in signed.reasons else _OTHER_REFUSAL
        raise error
    about = (
        ("Answer", signed.name),
        *((("Where", signed.question.where),) if signed.question.where else ()),
        ("Dataset version", signed.version),
        ("Output rules", signed.rules),
        ("Released by", signed.released_by),
        ("Signed", f"{signed.time}, log entry {signed.log_index}"),
        ("Paid", str(_paid(agreement, got.answer))),
    )
    proof = partial(agreement.proof, *logged)
    return Answer(AnalysisAnswer.of_json(signed.answer), about, envelope, proof)


def listed(agreement: Agreement) -> Iterator[RunOnRecords]:
    """The answers of a card, newest first, as the controller lists them."""
    request = pb.ListAnswersRequest(parent=agreement.card.name)
    connection = agreement.connection
    for page in pages(connection, connection.answers.ListAnswers, request):
        for one in page.answers:
            yield RunOnRecords(
                one.name,
                one.kind,
                one.formula,
                _STATE.get(one.state, "unknown"),
                one.statistics,
                datetime_of(one.create_time),
                _paid(agreement, one),
            )


def _paid(agreement: Agreement, answer: pb.Answer) -> Price:
    """Return the price of a run: in statistics, or the budget of each checked run of a noisy card."""
    privacy = agreement.card.terms.analyses.privacy
    if privacy.noisy and answer.kind != "program":
        return privacy.price
    return Price(statistics=answer.statistics)


# Programs of the analyst: a dry run here on synthetic rows, then one run on the records, reviewed.


@dataclass(frozen=True, eq=False, repr=False)
class DryRun(Displayable):
    """A program on the rows of one release: the run on the records must have the same shape.

    Args:
        outputs: What it gave, rounded as on the records.
        by_levels: Attributes that came as the midpoints of their levels, here and on the records.
    """

    program: bytes
    release: str
    seed: int
    outputs: Outputs
    by_levels: Clique = ()

    @property
    def digest(self) -> str:
        """SHA-256 of the file, in hex: what a card names it by."""
        return sha256(self.program)

    @property
    def numbers(self) -> int:
        """Number of numbers in the output: most that the run on the records costs."""
        return sum(output.numbers for output in self.outputs)

    @property
    def document(self) -> bytes:
        outputs = outputs_to_json(self.outputs)
        return json_bytes({"release": self.release, "seed": str(self.seed), **outputs})

    def lines(self) -> list[tuple[str, str]]:
        """Return digest, rows and outputs of the program, as names and values for display."""
        lines = [
            ("Program", self.digest),
            ("Rows", self.release),
            ("Numbers", f"{self.numbers} in {len(self.outputs)} outputs"),
        ]
        counted = "; ".join(f"{one.name}: {', '.join(one.counts)}" for one in self.outputs if one.counts)
        more = (("Numbers of records", counted), ("By levels", ", ".join(self.by_levels)))
        return [*lines, *(line for line in more if line[1])]

    def _panel(self) -> tuple[str, Sequence[Part]]:
        return "Dry run", [Facts(self.lines()), *map(_grid, self.outputs)]

    def __repr__(self) -> str:
        return f"<DryRun of {self.digest[:12]}: {self.numbers} numbers on synthetic rows>"


def text_of(program: str | Path) -> bytes:
    """The file as it is; raises InvalidInputError where it cannot be read, or its name is misleading."""
    path = Path(program)
    text = read_file(path, "program", PROGRAM_LIMIT)
    check_language(path.name, text)
    return text


def granting(programs: Sequence[str | Path], libraries: Sequence[str]) -> dict[str, list[str]]:
    """Return the keys ``programs`` and ``libraries`` of the ``analyses`` that grant these programs."""
    texts = [text_of(program) for program in programs]
    names = {*libraries, *(R for text in texts if is_r(text))}
    return {"programs": sorted({sha256(text) for text in texts}), "libraries": sorted(names)}


def check_granted(analyses: Analyses, program: str | Path, libraries: Sequence[str]) -> None:
    """Raises InvalidInputError, with what to propose, where a card lacks the program or a library."""
    wanted = granting([program], libraries)
    missing_libraries = sorted({*wanted["libraries"]} - {*analyses.libraries})
    (digest,) = wanted["programs"]
    is_named = digest in analyses.programs
    if is_named and not missing_libraries:
        return
    problem = "is not listed on the card by its digest"
    if is_named:
        has = ", ".join(analyses.libraries) or "none"
        problem = f"needs {', '.join(missing_libraries)}; libraries granted by the card: {has}"
    all_libraries = sorted({*wanted["libraries"], *analyses.libraries})
    advice = (
        f'Propose a card with analyses={{"programs": ["{digest}"], "reviewed_runs": 1, '
        f'"libraries": {json.dumps(all_libraries)}}}.'
    )
    raise InvalidInputError(field="program", problem=problem, advice=advice)


def dry_run(
    release: Release, program: str | Path, *, seed: int = 0, stored: Sequence[str] = ()
) -> DryRun:
    """Run a program here, on the rows of a release, as the controller will; nothing leaves this machine.

    What it prints, and its traceback where it fails, appears on standard error.

    Args:
        stored: Attributes whose numbers the program gets; here they are drawn inside the intervals.
    """
    path, text = Path(program), text_of(program)
    names = release.dataset.domain.attributes
    coding = release.coding.over(names)
    seed_of_numbers, places = release.receipt.drawing_seed, release.places() if stored else {}
    numbers = drawn_numbers(release.dataset, coding, stored, seed_of_numbers, places)
    request = BoxRequest(BoxTask.ANALYSE, release.dataset, 0, seed, coding=coding, stored=numbers)
    outputs = outputs_here(path, request)
    return DryRun(text, release.name, seed, outputs, by_levels(coding, names, stored))


def outputs_here(path: Path, request: BoxRequest) -> Outputs:
    """Run a program on this machine and return its outputs; raise InvalidInputError as ``dry_run``."""
    if is_r(text_of(path)):
        rscript = shutil.which("Rscript")
        if rscript is None:
            problem = "is in R, and Rscript is not on the PATH of this machine"
            advice = "Install R (https://www.r-project.org) to run the program on synthetic rows."
            raise InvalidInputError(field="program", problem=problem, advice=advice)
        with as_file(files("gencard.run").joinpath("start.R")) as start:
            process = subprocess.run(
                [rscript, "--no-init-file", "--no-site-file", str(start), str(path)],
                input=bytes_of_r_request(request),
                stdout=subprocess.PIPE,
                env={**os.environ, "LC_ALL": "C.UTF-8"},
                check=False,
            )
    else:
        command = [sys.executable, "-c", START, str(path)]
        sent = bytes_of_request(request)
        process = subprocess.run(command, input=sent, stdout=subprocess.PIPE, check=False)
    if process.returncode:
        problem = f"failed on the synthetic rows with exit code {process.returncode}"
        raise InvalidInputError(field="program", problem=problem)
    reader = AnswerReader(request, lambda _hundredths: None)
    try:
        reader.feed(process.stdout)
        return reader.outputs()
    except GencardError:
        raise InvalidInputError(field="program", problem="gave no valid output") from None


def newest_release(agreement: Agreement, progress: ProgressDisplay) -> Release:
    """The rows of the card's newest release, verified; raises InvalidInputError where there is none."""
    receipt = next(agreement.receipts(), None)
    if receipt is None:
        problem = "has no release to try a program on; generate one first"
        raise InvalidInputError(field="card", problem=problem)
    return agreement.fetch(receipt.name, progress)


def run_program(agreement: Agreement, rehearsed: DryRun, progress: ProgressDisplay) -> Answer:
    """Have the controller run a program on the records, once; its answer, where a steward released it.

    Raises as ``Card.run``; a program that failed there waits for a steward, too.
    """
    request = pb.RunProgramRequest(
        card=agreement.card.name,
        program=rehearsed.program,
        dry_run=rehearsed.document,
        request_id=str(uuid4()),
    )
    connection = agreement.connection
    with progress_bar("Running", progress) as reported:
        operation = connection.call(connection.answers.RunProgram, request)
        name = result_of(connection, operation, pb.Answer, reported).name
    return fetch(agreement, name, Question("program", rehearsed.digest))


def _grid(output: Output) -> Grid:
    rows = [
        (name, *("NA" if value is None else f"{value:.{DIGITS}g}" for value in values))
        for name, values in zip(output.row_names, output.values, strict=True)
    ]
    return Grid((output.name, *output.column_names), rows)


# From a formula to its answer: out of psi, of a card or of a saved release without a connection.


def answer_from(
    psi: Psi,
    coding: Coding,
    question: AnalystQuestion,
    mechanism: Mechanism,
    about: Sequence[tuple[str, str]],
) -> Answer:
    """The answer that psi determines.

    Raises:
        LackingMarginalsError: psi does not determine it.
        InvalidFormulaError, InvalidInputError, UnknownAttributeError, TooLargeError: What is wrong
            with the formula, or with what it needs.
        NoEstimateError, NotConvergedError: The model has no estimate.
        NoiseDrownsError: psi has too much noise for it.
    """
    from gencard.analysis.formulas.answering import answer_of  # noqa: PLC0415 - loads pandas

    with progress_bar("Bootstrap", bool(question.bootstrap)) as progress:
        estimates = answer_of(
            question.formula,
            analysis_of(question.kind),
            margins_of(psi, coding),
            coding,
            values=question.values,
            where=question.where,
            missing=question.missing,
            options=question.options,
            bootstrap=Bootstrap(rng_of(question.bootstrap_seed), mechanism, question.bootstrap, progress)
            if question.bootstrap
            else None,
        )
    return Answer(estimates, (*about, ("psi SHA-256", sha256(psi_document(psi)))))


@checked(values=level_values, where=text)
def answer(
    folder: str | Path,
    formula: str,
    kind: str = "logistic",
    *,
    connection: str | Path | None = None,
    **options: Unpack[AnswerOptions],
) -> Answer:
    """An analysis of the psi in a saved release: offline, free, any number of times.

    Args:
        folder: As ``release.save(folder)`` wrote it.
        formula: Model formula; see ``Analyst.plan``.
        kind: Type of analysis; ``gencard answer --help`` lists them.
        connection: A connection folder, whose keys check the signatures of card and receipts. Without
            one only digests are compared, and the answer says so.
        options: See ``AnswerOptions``.

    Raises:
        LackingMarginalsError: psi does not determine the analysis; names the marginals it lacks.
        VerificationError: Card, schema, psi and receipts do not belong together, or a signature is
            wrong.
        InvalidInputError: The folder holds no release, or something is wrong with the formula.
    """
    bundle = Bundle.of([Path(folder)])
    keys = None if connection is None else Keys.of(Credentials.of_folder(Path(connection)))
    return answer_of_bundle(bundle, keys, AnalystQuestion.of(formula, kind, options))


def answer_of_bundle(bundle: Bundle, keys: Keys | None, question: AnalystQuestion) -> Answer:
    """``answer`` for files that were sorted; without keys no signature is checked."""
    if keys is None:
        card = card_of_statement(dsse.opened(bundle.one("card").content)[0])
    else:
        card = signed_card(bundle, keys.followed(bundle))
    coding, psi = checked_schema(bundle, card), bundle.psi()
    check_psi(card, psi, coding)
    about = (("Card", card.name), ("Verified", _confirmed(bundle, card, keys)))
    return answer_from(psi, coding, question, card.terms.privacy.mechanism, about)


def _confirmed(bundle: Bundle, card: CardTerms, keys: Keys | None) -> str:
    """Say what confirms the counts of psi; raise VerificationError if a receipt names another psi."""
    digest = sha256(bundle.one("psi").content)
    for file in bundle.all("receipt"):
        if keys is None:
            receipt = receipt_of_document(dsse.predicate_of(dsse.opened(file.content)[0], dsse.RECEIPT))
        else:
            receipt = receipt_in(bundle, card, file, keys.followed(bundle))
        if receipt.psi_digest != digest:
            raise VerificationError(problem="a receipt names another psi")
    if not bundle.all("receipt"):
        return "no receipt: nothing confirms the counts of psi"
    if keys is None:
        return "digests agree; signatures not checked (use `gencard verify`)"
    return "card and receipts: signatures and digests agree"
