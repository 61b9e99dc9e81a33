"""Tasks that run one of our own analyses, or a program of an analyst, on the records, once.

Public facts are read before the records: a question is first tried on made-up records, and costs nothing
if it has no answer whatever the records are. Refusals because of the records all look alike afterwards:
one reason, whatever rule was broken, and also if there is no answer or the work failed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gencard.analysis.answers.answer import AnalysisAnswer, numbers_in_json
from gencard.analysis.answers.kinds import answered, tried
from gencard.analysis.answers.margins import RecordMargins
from gencard.analysis.output_checks.inference import SearchOutcome
from gencard.analysis.output_checks.judgement import Judgement, judged
from gencard.analysis.output_checks.released import of_rounded_counts, released, undoes_rounding
from gencard.analysis.output_checks.stored import StoredRun
from gencard.controller.earlier import Earlier
from gencard.controller.jobs import tasks
from gencard.controller.jobs.measurement import earlier_of, measured, records_as_stored
from gencard.controller.jobs.synthesis import RowsFile
from gencard.controller.run_question import Limited, NoisyRun, RunQuestion
from gencard.controller.sandbox.analyses import SandboxedAnalysis
from gencard.core.dataset import Dataset
from gencard.core.errors import GencardError, InvalidInputError, NoAnswerError, TooLargeError
from gencard.core.policy import (
    OUTPUT_RULES,
    RULES_VERSION,
    Colour,
    Mark,
    Rule,
    Rules,
    RuleVerdict,
    breaking,
)
from gencard.core.program_outputs import difference_in_shape
from gencard.core.statistics.marginals import project, subsets
from gencard.core.statistics.numbers import places_of
from gencard.core.types import FloatArray, Progress
from gencard.run.levels import drawn_numbers
from gencard.wire.psi import psi_of_document

# Tasks that run an analyst's program: on synthetic rows, and on the records, once.


def rehearse(job: tasks.RehearsalJob, progress: Progress) -> tasks.ProgramResult:
    """Run a program on synthetic rows and return its outputs, which have the agreed shape.

    Raises:
        InvalidInputError: The outputs have another shape than in the analyst's own dry run.
        BlackBoxError, JobLimitError: The program failed; it has seen no record.
    """
    progress("run", 0.0)
    rows = RowsFile(job.rows_file).dataset()
    coding = job.schema.coding.over(rows.domain.attributes)
    program = job.program
    places = places_of(psi_of_document(job.psi), job.schema.coding) if job.psi else {}
    stored_numbers = drawn_numbers(rows, coding, program.stored, job.drawing_seed, places)
    analysis = SandboxedAnalysis.of_recipe(program.recipe, program.most_numbers)
    outputs = analysis.outputs(rows, coding, stored_numbers, seed=program.seed)
    if (name := difference_in_shape(program.agreed, outputs)) is not None:
        problem = (
            f"produces '{name}' in another shape than in the dry run; repeat the dry run on the "
            "same rows"
        )
        raise InvalidInputError(field="program", problem=problem)
    return tasks.ProgramResult(outputs)


def run_once(job: tasks.ProgramJob, progress: Progress) -> tasks.ProgramResult:
    """Run a program on the records and return its rounded outputs in the agreed shape, for a steward.

    Raises:
        BlackBoxError: The program failed, or its outputs have another shape; the error does not say
            which, because that depends on records.
    """
    progress("read", 0.0)
    coding, program = job.records.schema.coding.over(job.attributes), job.program
    dataset, numbers = records_as_stored([coding.domain.attributes], program.stored, job.records)
    analysis = SandboxedAnalysis.of_recipe(program.recipe, program.most_numbers)
    outputs = analysis.agreed_outputs(dataset, coding, program.agreed, numbers, seed=program.seed)
    return tasks.ProgramResult(outputs)


_BY_POLICY = "the policy keeps runs to levels: each level counts as one number"

UNJUDGED = Judgement(())
"""Judgement of an answer from noisy counts, which may be released whatever it is."""


def answer(job: tasks.AnswerJob, progress: Progress) -> tasks.AnswerResult:
    """Records -> an answer that the output checks let pass, or their one reason to refuse it.

    Raises:
        NoAnswerError: The schema leaves the question no answer, or too long a one; no record was read.
        GencardError: The records could not be read, which the caller reports without saying why.
    """
    progress("answer", 0.0)
    coding = job.records.schema.coding
    run = RunQuestion.new(job.question, coding, permitted=job.stored)
    check_answerable(run, job.numbers)
    if job.privacy is not None:
        # the guarantee of noisy statistics holds for all results that are computed from them
        noisy = NoisyRun.of(job.question, run.question.coding, permitted=job.stored)
        psi = measured(job.records, [*noisy.needs.cliques, *noisy.needs.sums], job.privacy)
        try:
            result = noisy.answered(psi)
        except GencardError:  # the noisy statistics alone say so, and they are paid
            return _without_answer([Rule.DROWNED])
        return _passed(_noted(result, run))
    earlier = earlier_of(job.before, coding)
    cliques = [earlier.attributes_with(run)]
    dataset, numbers = records_as_stored(cliques, earlier.stored_with(run), job.records)
    return checked(run, earlier, dataset, numbers, job.limits)


def check_answerable(run: RunQuestion, most: int) -> None:
    """Refuse a question without an answer of at most so many numbers, whatever the records are."""
    quantiles = run.stored and not run.question.is_summed
    result = None if quantiles else tried(run.by_levels, run.conditions)
    numbers = 0 if result is None else numbers_in_json(result.to_json())
    if numbers > most:
        problem = f"its answer may hold {numbers} numbers, and the card grants {most}"
        raise NoAnswerError(
            problem=problem,
            advice="Nothing was charged. Ask for fewer groups or terms, or propose a card with more "
            "numbers (analyses.numbers).",
        )


def checked(
    run: RunQuestion, earlier: Earlier, dataset: Dataset, numbers: Mapping[str, FloatArray], rules: Rules
) -> tasks.AnswerResult:
    """Compute and check an answer from records in memory.

    The analysis is computed and judged even after a rule is broken: the duration of a refusal must not
    disclose the rule. If the population is too small, all records take its place in this computation.
    The search among earlier outputs, which may take a minute, is skipped then.

    Args:
        numbers: Recorded numbers of each attribute that this run or an earlier run needs, shape
            ``(n,)``; NaN is "missing".
    """
    run.check_new()
    kept = run.output.kept(dataset)
    few = int((kept & run.is_complete(dataset)).sum()) < rules.checks.threshold
    own = np.ones(len(dataset), dtype=bool) if few else kept
    try:
        part = dataset.take(np.flatnonzero(own))
        stored = None
        if run.stored:
            inside, outside = (run.records(dataset, numbers, mask) for mask in (own, ~own))
            stored = StoredRun(run.at(RecordMargins.of(inside.dataset)), inside, outside)
        result, parts = _judged(run, part, rules, stored)
        sums = ("sums with earlier answers", earlier.chain(run, dataset, numbers, rules))
        # the population: its size, the levels it lacks, other populations that are near
        lacks = run.lacks_levels(dataset, part) and rules.checks.zeros
        near = earlier.differs_by_few(run, dataset, rules.checks.threshold)
        population = breaking([(Rule.THRESHOLD, few or lacks), (Rule.DIFFERENCING, near)])
        judgement = Judgement((("population", population), *parts, sums))
        if judgement.colour is not Colour.RED:
            beside = _beside_earlier(run, earlier, dataset, rules)
            judgement = Judgement((*judgement.parts, *beside))
    except GencardError:
        result, judgement = None, Judgement((("run", RuleVerdict((Rule.FAILED,))),))
    if result is None or judgement.colour is Colour.RED:
        # a refusal because of the records always has this one reason; marks are for stewards alone
        return _without_answer([OUTPUT_RULES], judgement.marks)
    return _passed(result, judgement)


def _beside_earlier(
    run: RunQuestion, earlier: Earlier, dataset: Dataset, rules: Rules
) -> Iterator[tuple[str, RuleVerdict]]:
    """Judge the small counts that the answer leaves open, with all that was released before."""
    outcome = earlier.leaves_too_little(run, dataset, rules)
    if outcome is SearchOutcome.DISCLOSED:
        alone = replace(earlier, runs=(), cliques=(), rounded=()).leaves_too_little(run, dataset, rules)
        is_alone = alone is SearchOutcome.DISCLOSED
        rule = _rule_of_small(run, dataset, rules) if is_alone else Rule.DIFFERENCING
        yield "small counts", RuleVerdict((rule,))
    if outcome is SearchOutcome.UNDECIDED:
        yield "small counts", RuleVerdict((Rule.UNDECIDED,))


def _rule_of_small(run: RunQuestion, dataset: Dataset, rules: Rules) -> Rule:
    """Return the broken rule for small counts: that of zeros, if no other count is small."""
    part = dataset.take(np.flatnonzero(run.output.kept(dataset)))
    clique = dataset.domain.canonical(run.attributes)
    for margins in map(RecordMargins.of, (part, dataset)):
        try:
            counts = margins.counts(clique)
        except TooLargeError:
            return Rule.THRESHOLD
        for names in subsets(clique):
            table = project(counts, clique, tuple(name for name in clique if name in names))
            if np.any((table > 0) & (table < rules.checks.threshold)):
                return Rule.THRESHOLD
    return Rule.ZERO


def _judged(
    run: RunQuestion, part: Dataset, rules: Rules, stored: StoredRun | None
) -> tuple[AnalysisAnswer | None, tuple[tuple[str, RuleVerdict], ...]]:
    try:
        if stored is None:
            margins = RecordMargins.of(part)
            question = run.at(margins)
            result = answered(question, Limited(margins, question.cliques))
            judgement = judged(margins, question, result, rules)
            rounded = released(of_rounded_counts(question, result, margins, rules), rules)
            undecided = breaking([(Rule.UNDECIDED, undoes_rounding(question, margins, rules))])
            return _noted(rounded, run), (*judgement.parts, ("rounding", undecided))
        judgement = stored.judged(rules)
        if judgement.colour is Colour.RED:  # a refused answer is not rounded
            return None, judgement.parts
        return _noted(stored.released(rules), run), judgement.parts
    except GencardError:
        return None, (("answer", RuleVerdict((Rule.UNANSWERED,))),)


def _noted(answer: AnalysisAnswer, run: RunQuestion) -> AnalysisAnswer:
    """Return the answer with a note that the policy keeps it to levels, if it does."""
    return replace(answer, notes=(*answer.notes, _BY_POLICY)) if run.by_policy else answer


def _passed(result: AnalysisAnswer, judgement: Judgement = UNJUDGED) -> tasks.AnswerResult:
    review = judgement.colour is Colour.AMBER
    return tasks.AnswerResult(result.to_json(), (), RULES_VERSION, review, judgement.marks)


def _without_answer(reasons: Sequence[str], marks: tuple[Mark, ...] | None = None) -> tasks.AnswerResult:
    return tasks.AnswerResult(None, tuple(map(str, reasons)), RULES_VERSION, False, marks)
