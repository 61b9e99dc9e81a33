"""Attacks on every kind of analysis with declared numbers, from which an attacker reads one attribute.

An attacker knows every attribute of everybody but one, ``ill``, and how frequent it is. The target's
level of ``x`` is rare. The attacker asks one run about the target, with conditions that make the group
small, simulates the records with a target who is ill and with one who is not, and says in which of the
two worlds the released numbers, or their refusal, are likelier. The coin for the world is fair.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from benchmarks.attack import Attack, Outcome
from gencard.analysis.answers.kinds import answered
from gencard.analysis.answers.margins import RecordMargins
from gencard.analysis.output_checks.judgement import judged
from gencard.analysis.output_checks.released import released
from gencard.controller.earlier import Earlier
from gencard.controller.jobs.answering import checked
from gencard.controller.run_question import Limited, RunQuestion
from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.dataset import Dataset
from gencard.core.errors import GencardError
from gencard.core.policy import USUAL_RULES
from gencard.core.statistics.formula import Analysis
from gencard.wire.documents import Question

_SIMULATED = 8
"""Files that the attacker simulates of each world."""

_QUICK_TRIES = 7
_TRIES = 40
"""For each number of levels and of records."""

_SHARE = 0.3
"""Share of people who are ill."""

FORMULAS: Mapping[Analysis, str] = {
    Analysis.LINEAR: "ill ~ x",
    Analysis.LOGISTIC: "ill ~ x",
    Analysis.MULTINOMIAL: "ill ~ x",
    Analysis.ORDINAL: "ill ~ x",
    Analysis.POISSON: "ill ~ x",
    Analysis.LOGLINEAR: "~ C(ill) + C(g)",
    Analysis.CROSSTAB: "ill ~ g",
    Analysis.MEANS: "x ~ C(ill)",
    Analysis.QUANTILES: "x ~ C(ill)",
    Analysis.TTEST: "x ~ C(ill)",
    Analysis.ANOVA: "x ~ C(ill)",
    Analysis.CORRELATION: "~ x + ill",
    Analysis.POLYCHORIC: "~ x + ill",
    Analysis.COMPONENTS: "~ x + ill",
    Analysis.CORRESPONDENCE: "~ C(g) + C(ill)",
    Analysis.NAIVE_BAYES: "ill ~ g",
    Analysis.CHOW_LIU: "ill ~ g",
    Analysis.DISCRIMINANT: "ill ~ x",
    Analysis.KAPLAN_MEIER: "x ~ ill",
    Analysis.COX: "x ~ ill + g",
}
"""The run of each kind in which a record of a rare level counts most."""


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Records of which everything but ``ill`` is public.

    Args:
        coding: Attributes x, g (numbers) and ill.
        public: Codes of x and g, shape ``(records, 2)``.
        target: Row of the target, who alone has the largest number of x, or is one of few.
    """

    coding: Coding
    public: Any
    target: int

    @classmethod
    def drawn(cls, levels: int, records: int, rng: np.random.Generator) -> "World":
        """Levels of x fall off, so that the target's is rare; numbers are declared, and far apart."""
        labels = tuple(str(place**2) for place in range(levels))
        x = np.minimum(rng.geometric(4.0 / len(labels), size=records) - 1, len(labels) - 2)
        target = int(rng.integers(records))
        x[target] = len(labels) - 1
        coding = Coding(
            (
                Attribute("x", Labels(labels, integer=True, ordered=True)),
                Attribute("g", Labels(("0", "1", "2"), integer=True, ordered=True)),
                Attribute("ill", Labels(("0", "1"), integer=True, ordered=True)),
            )
        )
        return cls(coding, np.column_stack([x, rng.integers(3, size=records)]), target)

    def records(self, ill: int, rng: np.random.Generator) -> Dataset:
        """A file of one of the two worlds."""
        column = (rng.random(len(self.public)) < _SHARE).astype(np.int64)
        column[self.target] = ill
        return Dataset(self.coding.domain, np.column_stack([self.public, column]))

    @property
    def conditions(self) -> str:
        """The target's group, which the attacker may ask about alone."""
        return f"g == {int(self.public[self.target, 1])}"


def attack(kind: Analysis, levels: int, records: int, beside: bool, tries: int) -> Outcome:
    """Tell the target's attribute from one run of a kind."""
    rng = np.random.default_rng([list(Analysis).index(kind), levels, records, beside])
    successes, ended = 0, {"answered": 0, "waiting": 0, "refused": 0}
    for number in range(tries):
        world = World.drawn(levels, records, rng)
        where = world.conditions if number % 2 and "g" not in FORMULAS[kind].split("~")[1] else ""
        run = RunQuestion.of(Question(kind, FORMULAS[kind], where), world.coding)
        cliques = tuple(combinations(("x", "g"), 2)) if beside else ()
        secret = int(rng.integers(2))
        what, numbers = _released(run, world.records(secret, rng), cliques)
        ended[what] += 1
        simulated = _answer if what == "answered" else _outcome
        seen = [[simulated(run, world.records(ill, rng)) for _ in range(_SIMULATED)] for ill in (0, 1)]
        successes += _likelier(numbers, seen, rng) == secret
    return Outcome(successes, tries, ", ".join(f"{count} {name}" for name, count in ended.items()))


def _released(
    run: RunQuestion, dataset: Dataset, cliques: Sequence[tuple[str, ...]]
) -> tuple[str, dict[str, float]]:
    """Return what the analyst reads: numbers by position, a refusal, or a mark of a waiting answer."""
    result = checked(run, Earlier(run.question.coding, (), tuple(cliques)), dataset, {}, USUAL_RULES)
    if result.answer is None:
        return "refused", {"red": 1.0}
    if result.review:
        return "waiting", {"amber": 1.0}
    return "answered", dict(_numbers(result.answer, ""))


def _answer(run: RunQuestion, dataset: Dataset) -> dict[str, float]:
    """The numbers of an answer, as the attacker computes them of simulated records."""
    margins = RecordMargins.of(dataset.take(np.flatnonzero(run.output.kept(dataset))))
    try:
        answer = released(answered(run.at(margins), Limited(margins, run.question.cliques)), USUAL_RULES)
    except GencardError:
        return {}
    return dict(_numbers(answer.to_json(), ""))


def _outcome(run: RunQuestion, dataset: Dataset) -> dict[str, float]:
    """Return whether an answer is released, waits or is refused, by the rules that judge it alone."""
    margins = RecordMargins.of(dataset.take(np.flatnonzero(run.output.kept(dataset))))
    question = run.at(margins)
    try:
        answer = answered(question, Limited(margins, question.cliques))
        return {str(judged(margins, question, answer, USUAL_RULES).colour): 1.0}
    except GencardError:
        return {"red": 1.0}


def _numbers(value: Any, place: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _numbers(one, f"{place}.{name}")
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _numbers(one, f"{place}.{number}")
    elif isinstance(value, int | float):
        yield place, float(value)


def _likelier(
    numbers: Mapping[str, float], seen: Sequence[Sequence[Mapping[str, float]]], rng: np.random.Generator
) -> int:
    """The world whose simulated answers are nearer, number by number; a coin if they are as near."""
    scores = np.zeros(2)
    names = {name for world in seen for one in world for name in one} | set(numbers)
    for name in names:
        values = [np.array([one.get(name, np.nan) for one in world]) for world in seen]
        own = numbers.get(name, np.nan)
        absent = [(np.isnan(one).sum() + 0.5) / (len(one) + 1) for one in values]
        if np.isnan(own):
            scores += np.log(absent)
            continue
        scores += np.log1p(-np.array(absent))
        both = np.concatenate([one[~np.isnan(one)] for one in values])
        if any(np.sum(~np.isnan(one)) < 2 for one in values) or not np.ptp(both):
            continue
        spread = np.sqrt(np.mean([np.nanvar(one) for one in values])) + 1e-3 * np.abs(both).max()
        scores -= np.array([((own - np.nanmean(one)) / spread) ** 2 for one in values]) / 2 / len(names)
    return int(rng.integers(2)) if scores[0] == scores[1] else int(np.argmax(scores))


def _run(kind: Analysis, sizes: Sequence[tuple[int, int]], beside: bool, quick: bool) -> Outcome:
    """The attack with each number of levels and of records."""
    parts = [
        attack(kind, levels, records, beside, _QUICK_TRIES if quick else _TRIES)
        for levels, records in sizes
    ]
    note = "; ".join(
        f"{levels} levels, {records} records: {one.note}"
        for one, (levels, records) in zip(parts, sizes, strict=True)
    )
    return Outcome(sum(one.successes for one in parts), sum(one.tries for one in parts), note)


_SIZES = ((7, 300), (100, 1_000), (300, 2_000))

ATTACKS: tuple[Attack, ...] = tuple(
    Attack(
        "A1",
        f"tell whether a person of a rare level is ill by {kind}"
        + (", beside exact pairs" if beside else ""),
        "not tried",
        0.5,
        20,
        partial(_run, kind, _SIZES, beside),
    )
    for kind in FORMULAS
    for beside in (False, True)
)
