"""The task that runs one of our own analyses on the records, once.

Everything that is public is read before the records are: a question that cannot be answered, whatever
they are, costs nothing. What fails at the records afterwards ends in a code and nothing else.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from gencard.controller.answers.run_question import Limited, RunQuestion, attributes_of
from gencard.controller.jobs.measurement import measured, records_as_stored
from gencard.controller.jobs.recipes import cliques_of
from gencard.controller.jobs.tasks import Job
from gencard.controller.records.schema_file import schema_of_table
from gencard.core.answers.answer import Answer
from gencard.core.answers.design import Question
from gencard.core.answers.kinds import answered
from gencard.core.answers.margins import RecordMargins
from gencard.core.answers.noise.reconciled import margins_of
from gencard.core.answers.stored import stored_answer, stored_groups
from gencard.core.coding import Coding
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import GencardError
from gencard.core.output_checks.differencing import differences, nearly_natural
from gencard.core.output_checks.judgement import Judgement, judged
from gencard.core.output_checks.populations import EVERYBODY, Output
from gencard.core.output_checks.released import released
from gencard.core.output_checks.rules import RULES_VERSION, USUAL_RULES, Colour, Rule, Rules
from gencard.core.output_checks.stored import judged_stored, released_stored
from gencard.core.statistics.closure import maximal
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
    earlier, rules = _earlier_outputs(job, coding), rules_of(job)
    attributes = _attributes([run.output, *earlier], run.question)
    dataset, numbers = records_as_stored(
        [attributes], run.stored, job["records"], most_records=job["most_records"]
    )
    if _differs_by_few(run, earlier, dataset, rules.checks.threshold):
        return _refused([Rule.DIFFERENCING])
    try:
        rows = np.flatnonzero(run.output.kept(dataset))
        stored = [numbers[name][rows] for name in run.stored]
        judge = _checked_stored if stored else _checked
        return judge(run, dataset.take(rows), rules, *stored)
    except GencardError:
        return _refused([NO_ANSWER])


def _differs_by_few(
    run: RunQuestion, earlier: Sequence[Output], dataset: Dataset, threshold: int
) -> bool:
    """Whether the population is that of an earlier output, or of a natural group, but for a few."""
    natural = run.where is not None and nearly_natural(run.where, dataset, threshold)
    return natural or differences(run.output, earlier, dataset, threshold)


def _checked(run: RunQuestion, dataset: Dataset, rules: Rules) -> Job:
    """The answer, judged and rounded."""
    margins = RecordMargins.of(dataset)
    question = run.at(margins)
    result = answered(question, Limited(margins, question.cliques))
    judgement = judged(margins, question, result, rules)
    if judgement.colour is Colour.RED:
        return _refused(judgement.verdict.broken, judgement.marks)
    return _passed(released(result, rules), judgement)


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
    except GencardError:
        return _refused([NO_ANSWER])
    return _passed(result)


def _refused(reasons: Sequence[str], marks: Any = None) -> Job:
    codes = list(map(str, reasons))
    return {"answer": None, "reasons": codes, "rules": RULES_VERSION, "review": False, "marks": marks}


def rules_of(job: Job) -> Rules:
    """The rules that the policy names, else the usual ones."""
    return PLAIN.read(Rules, job["limits"], field="limits") if job.get("limits") else USUAL_RULES


def _earlier_outputs(job: Job, coding: Coding) -> list[Output]:
    """Earlier outputs on the same records: runs, exact statistics of cards, how many there are."""
    runs = [RunQuestion.of({"options": "", **one}, coding).output for one in job["earlier"]]
    return [*runs, Output((EVERYBODY,), cliques_of(job.get("released", ())))]


def _attributes(outputs: Sequence[Output], question: Question) -> Clique:
    """All attributes that must be read."""
    cliques = [clique for output in outputs for clique in (*output.cliques, tuple(output.attributes))]
    return tuple(dict.fromkeys(chain(attributes_of(question.formula), *cliques)))
