"""The task that runs one of our own analyses on the records, once.

Everything that is public is read before the records are: a question that cannot be answered, whatever
they are, costs nothing. What fails at the records afterwards ends in a code and nothing else.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.controller.jobs.measurement import measured, records_over
from gencard.controller.jobs.recipes import cliques_of
from gencard.controller.jobs.tasks import Job
from gencard.controller.records.schema_file import schema_of_table
from gencard.core.answers.answer import Answer
from gencard.core.answers.design import Question, observed_levels
from gencard.core.answers.kinds import answered
from gencard.core.answers.margins import PsiMargins, RecordMargins
from gencard.core.coding import Coding
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import GencardError
from gencard.core.output_checks.differencing import differences
from gencard.core.output_checks.judgement import judged, told_cliques
from gencard.core.output_checks.populations import EVERYBODY, Condition, Output, not_missing
from gencard.core.output_checks.released import released
from gencard.core.output_checks.rules import RULES_VERSION, USUAL_RULES, Colour, Rule, Rules
from gencard.core.statistics.closure import maximal
from gencard.core.statistics.formula import Formula, analysis_of
from gencard.core.typed_json import PLAIN
from gencard.core.types import Progress
from gencard.formulas.answering import answer_of, read_condition, read_question
from gencard.formulas.design import Values
from gencard.formulas.formulas import read_formula
from gencard.wire.codecs.privacy_codec import privacy_of_document

_MOST_ATTRIBUTES = 8
"""Of one condition of which all subsets are looked at."""

NO_ANSWER = "no-answer"
"""The analysis has no result at these records; why is not told, for it depends on them."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One run, as a job or the state describes it, read by the schema alone.

    Args:
        values: Numbers of levels that the analyst gave.
        output: Which records it is about, and which of their marginals it tells.
    """

    question: Question
    values: Values
    output: Output

    @classmethod
    def of(cls, run: Job, coding: Coding) -> "Asked":
        """Raises as ``read_question`` and ``read_condition`` do."""
        options = json.loads(run["options"] or "{}")
        values = options.pop("values", {})
        kind = analysis_of(run["kind"])
        given = {name: _hashable(value) for name, value in options.items()}
        named = attributes_of(read_formula(run["formula"], coding))
        conditions = [_condition(run["where"], coding, values)] if run["where"] else []
        if run["missing"] == "drop":
            with_missing = [name for name in named if coding.attribute(name).coding.missing]
            conditions += not_missing(with_missing, coding.domain)
        possible = {name: _possible(name, conditions, coding.domain) for name in named}
        question = read_question(
            run["formula"], kind, coding, values=values, observed=possible, options=given
        )
        output = Output((EVERYBODY, *conditions), told_cliques(question, possible))
        return cls(question, values, output)

    def on(self, margins: RecordMargins) -> Answer:
        """The answer at the records, of whose levels some may be held by nobody."""
        return answered(self.at(margins), margins)

    def at(self, margins: RecordMargins) -> Question:
        """The question with columns for the levels alone that somebody has."""
        one = self.question
        return read_question(
            one.text,
            one.kind,
            one.coding,
            values=self.values,
            observed=observed_levels(margins, attributes_of(one.formula)),
            options=one.options,
        )


def answer(job: Job, progress: Progress) -> Job:
    """Records -> an answer that the output checks let pass, or the codes of the rules that refuse it."""
    progress("answer", 0.0)
    coding = schema_of_table(job["records"]["schema"]).coding
    asked = Asked.of(job, coding)
    if job["privacy"] is not None:
        return _noisy(job, asked, coding)
    told, rules = _told_before(job, asked, coding), rules_of(job)
    attributes = _attributes([asked.output, *told], asked.question)
    dataset = records_over([attributes], job["records"], most_records=job["most_records"])
    if differences(asked.output, told, dataset, rules.checks.threshold):
        return _refused([Rule.DIFFERENCING])
    try:
        return _checked(asked, dataset.take(np.flatnonzero(asked.output.kept(dataset))), rules)
    except GencardError:
        return _refused([NO_ANSWER])


def _checked(asked: Asked, dataset: Dataset, rules: Rules) -> Job:
    """The answer, judged and rounded."""
    margins = RecordMargins.of(dataset)
    result = asked.on(margins)
    judgement = judged(margins, asked.at(margins), result, rules)
    if judgement.colour is Colour.RED:
        return _refused(judgement.verdict.broken, judgement.marks)
    return {
        "answer": released(result, rules).to_json(),
        "reasons": [],
        "rules": RULES_VERSION,
        "review": judgement.colour is Colour.AMBER,
        "marks": judgement.marks,
    }


def _noisy(job: Job, asked: Asked, coding: Coding) -> Job:
    """The answer from noisy counts: what the noise promises holds for whatever is made of them."""
    question, about = asked.question, tuple(sorted(asked.output.attributes))
    cliques = [coding.domain.canonical(dict.fromkeys((*one, *about))) for one in question.cliques]
    psi = measured(job["records"], maximal(cliques), privacy_of_document(job["privacy"]))
    try:
        result = answer_of(
            question.text,
            question.kind,
            PsiMargins.of(psi),
            question.coding,
            values=asked.values,
            where=job["where"],
            missing=job["missing"],
            options=question.options,
        )
    except GencardError:
        return _refused([NO_ANSWER])
    return {
        "answer": result.to_json(),
        "reasons": [],
        "rules": RULES_VERSION,
        "review": False,
        "marks": [],
    }


def _refused(reasons: Sequence[str], marks: Any = None) -> Job:
    codes = list(map(str, reasons))
    return {"answer": None, "reasons": codes, "rules": RULES_VERSION, "review": False, "marks": marks}


def rules_of(job: Job) -> Rules:
    """The rules that the policy names, else the usual ones."""
    return PLAIN.read(Rules, job["limits"], field="limits") if job.get("limits") else USUAL_RULES


def _told_before(job: Job, asked: Asked, coding: Coding) -> list[Output]:
    """Earlier outputs on the same records: runs, exact statistics of cards, what anybody may know."""
    runs = [Asked.of({"options": "", **run}, coding).output for run in job["earlier"]]
    psi = Output((EVERYBODY,), cliques_of(job.get("released", ())))
    return [*runs, psi, _of_everybody(asked.output)]


def _of_everybody(output: Output) -> Output:
    """How many there are in each cell of what a population is chosen by, as if everybody knew.

    Somebody may be told so later, by a card or from elsewhere. So a run on all but a few of a natural
    group is refused even where it is the first one.
    """
    about = sorted(output.attributes)[:_MOST_ATTRIBUTES]
    subsets = chain.from_iterable(combinations(about, size) for size in range(len(about)))
    return Output((EVERYBODY,), tuple(subsets))


def _condition(text: str, coding: Coding, values: Values) -> Condition:
    attributes, chosen = read_condition(text, coding, values)
    return Condition(attributes, chosen)


def _possible(name: str, conditions: Sequence[Condition], domain: Domain) -> NDArray[np.bool_]:
    """The levels that a population leaves."""
    possible = np.ones(domain.size(name), dtype=bool)
    for one in conditions:
        if name in one.attributes:
            axis = one.attributes.index(name)
            others = tuple(other for other in range(one.cells.ndim) if other != axis)
            possible &= one.cells.any(axis=others)
    return possible


def attributes_of(formula: Formula) -> Clique:
    """All attributes of a formula, the response first."""
    response = () if formula.response is None else (formula.response,)
    return tuple(dict.fromkeys((*response, *(name for term in formula.terms for name in term))))


def _attributes(outputs: Sequence[Output], question: Question) -> Clique:
    """All attributes that must be read."""
    cliques = [clique for output in outputs for clique in (*output.cliques, tuple(output.attributes))]
    return tuple(dict.fromkeys(chain(attributes_of(question.formula), *cliques)))


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
