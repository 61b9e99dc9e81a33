"""The task that runs one of our own analyses on the records, once.

Everything that is public is read before the records are: a question that cannot be answered, whatever
they are, costs nothing. What fails at the records afterwards ends in a code and nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gencard.controller.answers.earlier import Earlier
from gencard.controller.answers.run_question import Limited, RunQuestion
from gencard.controller.jobs.measurement import measured, records_as_stored
from gencard.controller.jobs.tasks import Job
from gencard.controller.records.schema_file import schema_of_table
from gencard.core.answers.answer import Answer
from gencard.core.answers.kinds import answered
from gencard.core.answers.margins import RecordMargins
from gencard.core.answers.noise.reconciled import margins_of
from gencard.core.answers.stored import stored_answer, stored_groups
from gencard.core.coding import Coding
from gencard.core.dataset import Dataset
from gencard.core.errors import GencardError, NoiseDrownsError
from gencard.core.output_checks.inference import Outcome
from gencard.core.output_checks.judgement import Judgement, judged
from gencard.core.output_checks.released import of_rounded_counts, released, undoes_rounding
from gencard.core.output_checks.rules import (
    RULES_VERSION,
    USUAL_RULES,
    Colour,
    Rule,
    Rules,
    Verdict,
    without_detail,
)
from gencard.core.output_checks.stored import judged_stored, released_stored
from gencard.core.statistics.marginals import maximal
from gencard.core.typed_json import PLAIN
from gencard.core.types import FloatArray, Progress
from gencard.formulas.answering import answer_of
from gencard.wire.codecs.privacy_codec import privacy_of_document

NO_ANSWER = "no-answer"
"""The analysis has no result at these records. Why is withheld: the reason depends on them."""

UNJUDGED = Judgement(())
"""Of an answer from noisy counts, which may leave whatever it says."""


def answer(job: Job, progress: Progress) -> Job:
    """Records -> an answer that the output checks let pass, or the codes of the rules that refuse it."""
    progress("answer", 0.0)
    coding = schema_of_table(job["records"]["schema"]).coding
    run = RunQuestion.of(job, coding)
    run.check_noise(noisy=job["privacy"] is not None)
    if job["privacy"] is not None:
        return _noisy(job, run, coding)
    rules, earlier = rules_of(job), Earlier.of(job, coding)
    dataset, numbers = records_as_stored(
        [earlier.attributes_with(run)], run.stored, job["records"], most_records=job["most_records"]
    )
    return checked(run, earlier, dataset, numbers, rules)


def checked(
    run: RunQuestion,
    earlier: Earlier,
    dataset: Dataset,
    numbers: Mapping[str, FloatArray],
    rules: Rules,
) -> Job:
    """The same from records in memory.

    Args:
        numbers: The stored numbers of each response that the run asks for so, one a record.
    """
    rows = np.flatnonzero(run.output.kept(dataset))
    if len(rows) < rules.checks.threshold:
        return _refused([Rule.THRESHOLD])
    if earlier.differs_by_few(run, dataset, rules.checks.threshold):
        return _refused([Rule.DIFFERENCING])
    part = dataset.take(rows)
    if run.lacks_levels(dataset, part) and rules.checks.zeros:
        return _refused([Rule.THRESHOLD])
    result = _judged(run, part, rules, *(numbers[name][rows] for name in run.stored))
    if result["answer"] is None:
        return result
    outcome = earlier.leaves_too_little(run, dataset, rules)
    if outcome is Outcome.TOLD:
        alone = replace(earlier, runs=(), cliques=()).leaves_too_little(run, dataset, rules)
        return _refused([Rule.THRESHOLD if alone is Outcome.TOLD else Rule.DIFFERENCING])
    return _waiting(result) if outcome is Outcome.UNDECIDED else result


def _waiting(result: Job) -> Job:
    """An answer for a steward: nothing is proven of what its numbers tell together with others."""
    verdict = Verdict((Rule.UNDECIDED,))
    marks = Judgement((("small counts", verdict),)).marks
    return result | {"review": True, "marks": [*result["marks"], *marks]}


def _judged(run: RunQuestion, part: Dataset, rules: Rules, *stored: FloatArray) -> Job:
    judge = _checked_stored if stored else _checked
    try:
        return judge(run, part, rules, *stored)
    except GencardError:
        few = run.has_small_cell(RecordMargins.of(part), rules.checks.threshold)
        return _refused([Rule.THRESHOLD if few else NO_ANSWER])


def _checked(run: RunQuestion, dataset: Dataset, rules: Rules) -> Job:
    """The answer, judged and rounded."""
    margins = RecordMargins.of(dataset)
    question = run.at(margins)
    result = answered(question, Limited(margins, question.cliques))
    judgement = judged(margins, question, result, rules)
    if judgement.colour is Colour.RED:
        return _refused(without_detail(judgement.verdict.broken), judgement.marks)
    passed = _passed(released(of_rounded_counts(question, result, margins, rules), rules), judgement)
    return _waiting(passed) if undoes_rounding(question, margins, rules) else passed


def _checked_stored(run: RunQuestion, dataset: Dataset, rules: Rules, numbers: FloatArray) -> Job:
    """The same of the response's stored numbers; nothing is computed of groups that are refused."""
    groups = stored_groups(dataset, run.question, numbers)
    judgement = judged_stored(run.question, groups, rules)
    if judgement.colour is Colour.RED:
        return _refused(judgement.verdict.broken, judgement.marks)
    return _passed(released_stored(stored_answer(run.question, groups), rules), judgement)


def _passed(result: Answer, judgement: Judgement = UNJUDGED) -> Job:
    return {
        "answer": result.to_json(),
        "reasons": [],
        "rules": RULES_VERSION,
        "review": judgement.colour is Colour.AMBER,
        "marks": judgement.marks,
    }


def _noisy(job: Job, run: RunQuestion, coding: Coding) -> Job:
    """The answer from noisy counts: what the noise promises holds for whatever is made of them."""
    question, about = run.question, tuple(sorted(run.output.attributes))
    cliques = [coding.domain.canonical(dict.fromkeys((*one, *about))) for one in question.cliques]
    psi = measured(job["records"], maximal(cliques), privacy_of_document(job["privacy"]))
    try:
        result = answer_of(
            question.text,
            question.kind,
            margins_of(psi),
            question.coding,
            values=run.values,
            where=job["where"],
            missing=job["missing"],
            options=question.options,
        )
    except NoiseDrownsError:
        return _refused([Rule.DROWNED])
    except GencardError:
        return _refused([NO_ANSWER])
    return _passed(result)


def _refused(reasons: Sequence[str], marks: Any = None) -> Job:
    codes = list(map(str, reasons))
    return {"answer": None, "reasons": codes, "rules": RULES_VERSION, "review": False, "marks": marks}


def rules_of(job: Job) -> Rules:
    """The rules that the policy names, else the usual ones."""
    return PLAIN.read(Rules, job["limits"], field="limits") if job.get("limits") else USUAL_RULES
