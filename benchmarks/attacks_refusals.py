"""Attacks on refused runs: what the reason, the form, and the fact of a refusal say about one person.

The attackers know all records but the status of the target, whose cell of age and region is unique.
What a run answers and refuses is that of the controller (``checked``), beside all runs before it. One
attacker predicts what would be read in either world. Others search for a population of nine and add the
target, by a question that is never answered, or by one that may be.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial

import numpy as np

from benchmarks.attack import Attack, Outcome
from gencard.controller.answers.answers import outcome_of
from gencard.controller.answers.decisions import PRICE
from gencard.controller.earlier import Earlier
from gencard.controller.jobs.answering import check_answerable, checked
from gencard.controller.run_question import Population, RunQuestion
from gencard.core.card.terms import Analyses
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.errors import NoAnswerError
from gencard.core.policy import USUAL_RULES
from gencard.core.scale import Scale
from gencard.core.types import FloatArray, IntArray
from gencard.wire.documents import Question

_RECORDS = 1_200
_ANALYSES = Analyses(kinds=("means",), checked_runs=1, numbers=10_000)
_MOST_REFUSALS = 10
"""Default of ``limits.refusals``."""

_LEVELS = (7, 100, 300)
_PAY = (0.0, 10.0, 20.0, 40.0)
_CENTS = Edges(_PAY, decimals=2, scale=Scale(Decimal("0.01"), tuple(map(Decimal, map(int, _PAY)))))
_QUESTIONS = (
    ("poisson", "hiv ~ age"),
    ("linear", "pay ~ sex"),
    ("logistic", "hiv ~ sex"),
    ("multinomial", "region ~ sex"),
    ("ordinal", "region ~ sex"),
    ("loglinear", "~ sex + hiv"),
    ("crosstab", "hiv ~ sex"),
    ("means", "pay ~ sex"),
    ("quantiles", "pay ~ sex"),
    ("ttest", "pay ~ sex"),
    ("anova", "pay ~ sex"),
    ("correlation", "~ age + pay"),
    ("polychoric", "~ pay + sex"),
    ("components", "~ age + pay"),
    ("correspondence", "~ region + sex"),
    ("naive-bayes", "hiv ~ sex"),
    ("chow-liu", "~ hiv + sex"),
    ("discriminant", "hiv ~ pay"),
    ("kaplan-meier", "pay ~ hiv + sex"),
    ("cox", "pay ~ hiv + sex"),
)
"""One of each kind."""

_OF_NUMBERS = (
    ("means", "pay ~ sex"),
    ("ttest", "pay ~ sex"),
    ("anova", "pay ~ sex"),
    ("linear", "pay ~ sex"),
    ("correlation", "~ pay + bonus"),
    ("quantiles", "pay ~ 1"),
)
"""One of each kind that takes numbers as the file has them."""


@dataclass(frozen=True, slots=True, eq=False)
class _World:
    """A survey whose first record is the target: alone in its cell of age and region.

    Args:
        numbers: Those that runs take as the file has them; empty where all count by levels.
    """

    coding: Coding
    codes: IntArray
    numbers: Mapping[str, FloatArray]

    @classmethod
    def of(
        cls, levels: int, rng: np.random.Generator, share: float = 0.1, *, stored: bool = False
    ) -> "_World":
        edges = Edges(tuple(float(edge) for edge in range(levels + 1)), decimals=None)
        coding = Coding(
            (
                Attribute("hiv", Labels(("no", "yes"))),
                Attribute("sex", Labels(("f", "m"))),
                Attribute("age", edges),
                Attribute("region", Labels(tuple("abcdefg"))),
                *(Attribute(name, _CENTS) for name in ("pay", "bonus") if stored),
                *(Attribute(name, Edges(_PAY)) for name in ("pay",) if not stored),
            )
        )
        codes = np.stack([rng.integers(0, size, _RECORDS) for size in coding.domain.sizes], axis=1)
        codes[:, 0] = rng.random(_RECORDS) < share
        alike = (codes[:, 2] == codes[0, 2]) & (codes[:, 3] == codes[0, 3])
        alike[0] = False
        codes, numbers = codes[~alike], dict[str, FloatArray]()
        for place, name in enumerate(("pay", "bonus") if stored else (), 4):
            low, high = np.array(_PAY)[codes[:, place]], np.array(_PAY)[codes[:, place] + 1]
            numbers[name] = np.floor(100 * (low + (high - low) * rng.random(len(codes)))) / 100
        return cls(coding, codes, numbers)

    def with_status(self, status: int) -> Dataset:
        """The records in one of the two worlds."""
        codes = self.codes.copy()
        codes[0, 0] = status
        return Dataset(self.coding.domain, codes)

    @property
    def target(self) -> str:
        """A condition that only the target's cell fulfils."""
        age, region = int(self.codes[0, 2]), "abcdefg"[self.codes[0, 3]]
        return f"(age >= {age} and {_below(age + 1, self.coding)} and region == '{region}')"


def _below(age: int, coding: Coding) -> str:
    """A condition on age; the last interval has no upper bound that may be question for."""
    return f"age < {age}" if age < coding.domain.size("age") else "age >= 0"


@dataclass(slots=True)
class _Service:
    """Runs one after the other on the same records, as a controller remembers them.

    Args:
        most: Refusals after which nothing is answered any more; None for analysts without number.
        leaks: Whether a refusal names its rule, as it did before: the search then succeeds.
    """

    dataset: Dataset
    numbers: Mapping[str, FloatArray]
    earlier: Earlier
    most: int | None = _MOST_REFUSALS
    leaks: bool = False
    refusals: int = 0
    runs: int = 0
    known: dict[str, str] = field(default_factory=dict)

    def ask(self, kind: str, formula: str, where: str = "") -> str:
        """All that an analyst reads of a run: the signed part, its price and size."""
        key = json.dumps([kind, formula, where])
        if key not in self.known:
            self.known[key] = self._asked(kind, formula, where)
        return self.known[key]

    def _asked(self, kind: str, formula: str, where: str) -> str:
        if self.most is not None and self.refusals >= self.most:
            return "a steward must review"
        run = RunQuestion.of(Question(kind, formula, where, "drop"), self.earlier.coding)
        try:
            check_answerable(run, _ANALYSES.numbers)
        except NoAnswerError as error:
            return str(error)
        self.runs += 1
        outcome = outcome_of(
            checked(run, self.earlier, self.dataset, self.numbers, USUAL_RULES), _ANALYSES
        )
        if outcome.answer is None or outcome.review:
            self.refusals += 1
        if outcome.answer is None:
            refused = (*self.earlier.refused, run.population)
            self.earlier = replace(self.earlier, refused=refused)
        else:
            self.earlier = replace(self.earlier, runs=(*self.earlier.runs, run))
        read = [outcome.answer, outcome.reasons, outcome.rules, outcome.review]
        signed = json.dumps(read)
        return f"{signed} for {outcome.numbers or PRICE}, {len(signed)} bytes"


def _service(
    world: _World, status: int, most: int | None = _MOST_REFUSALS, *, leaks: bool = False
) -> _Service:
    earlier = Earlier(world.coding, (), ())
    return _Service(world.with_status(status), world.numbers, earlier, most, leaks)


# A3: the form of a refusal ---------------------------------------------------------------------


def _predicted(
    quick: bool, *, kinds: tuple[tuple[str, str], ...], least: int, stored: bool = False
) -> Outcome:
    """Predict what is read in either world, of questions that both refuse; else guess."""
    rng, successes, tries = np.random.default_rng(1), 0, 0
    differ = answered = 0
    while tries < (least if quick else 5 * least):
        kind, formula = kinds[tries % len(kinds)]
        world = _World.of(_LEVELS[tries % 3], rng, share=8 / _RECORDS, stored=stored)
        where = ("", "hiv == 'yes'", f"hiv == 'yes' or {world.target}")[tries // len(kinds) % 3]
        status = int(rng.integers(2))
        reads = [_service(world, each).ask(kind, formula, where) for each in (0, 1)]
        tries += 1
        is_answered = any(read.startswith('[{"') for read in reads)
        answered += is_answered
        if is_answered or reads[0] == reads[1]:
            successes += int(rng.integers(2) == status)
            continue
        differ += 1
        successes += 1  # the attacker compares what is read with both predictions
    note = f"{differ} refusals differ between the worlds; {answered} answered in one"
    return Outcome(successes, tries, note)


# A4: refusals as an oracle ---------------------------------------------------------------------


_ALL = ("means", "pay ~ 1")


def answers(service: _Service, where: str, question: tuple[str, str] = _ALL) -> bool | None:
    """Whether a question about a population is answered; None if a steward must review first."""
    read = service.ask(*question, where)
    return None if read.startswith("a steward") else read.startswith('[{"')


def many(service: _Service, where: str) -> bool | None:
    """Whether a refusal that is certain seems to say ten people or more; None as ``answers``.

    All it could say is its reason: the table has far more cells than there are records.
    """
    read = service.ask("crosstab", "age ~ region + sex", where)
    if read.startswith("a steward"):
        return None
    question = Question("means", "pay ~ 1", where, "drop")
    people = Population.of(question, service.earlier.coding).kept(service.dataset).sum()
    return service.leaks and bool(people >= USUAL_RULES.checks.threshold)


Oracle = Callable[[_Service, str], bool | None]
"""Function that guesses if a population has ten people or more; None if a steward must review first."""


def _nine(world: _World, many: Callable[[str], bool | None]) -> str | None:
    """Search for the largest population of people with the status that seems to have nine or fewer."""
    region = "abcdefg"[int(world.codes[0, 3]) - 1]
    low, high = 1, world.coding.domain.size("age") - 1
    population = f"region == '{region}' and hiv == 'yes' and age < {{}}"
    while high - low > 1:
        middle = (low + high) // 2
        seems = many(population.format(middle))
        if seems is None:
            return None
        low, high = (low, middle) if seems else (middle, high)
    return population.format(low)


def searched(
    quick: bool, *, oracle: Oracle, most: int | None, leaks: bool = False, stored: bool = False
) -> Outcome:
    """Find nine people by refusals, add the target's cell, and see whether they seem to be ten.

    Args:
        oracle: What the attacker reads of a run.
        most: Refusals that stop the one analyst; None for analysts without number.
        leaks: Whether refusals name their rules.
        stored: Whether pay counts as the file has it.
    """
    rng, successes, tries, runs, stopped, refusals = np.random.default_rng(2), 0, 0, 0, 0, 0
    while tries < (24 if quick else 60):
        world = _World.of(_LEVELS[1 + tries % 2], rng, stored=stored)
        status = int(rng.integers(2))
        service = _service(world, status, most, leaks=leaks)
        service.refusals = refusals if most is not None else 0
        nine = _nine(world, partial(oracle, service))
        many = (
            None if nine is None else oracle(service, f"({nine}) or (hiv == 'yes' and {world.target})")
        )
        stopped += many is None
        guess = int(rng.integers(2)) if many is None else int(many)
        successes, tries, runs = successes + int(guess == status), tries + 1, runs + service.runs
        refusals = service.refusals
    return Outcome(successes, tries, f"{runs} runs; {stopped} targets not reached")


def _added(quick: bool, *, question: tuple[str, str] = _ALL, stored: bool = False) -> Outcome:
    """Have a population answered, add the target's cell to it: equal records, or one more."""
    rng, successes, tries, answered_again = np.random.default_rng(3), 0, 0, 0
    most, attempts = 24 if quick else 60, 0
    while tries < most and attempts < 3 * most:
        attempts += 1
        world = _World.of(_LEVELS[tries % 3], rng, share=0.4, stored=stored)
        status = int(rng.integers(2))
        service = _service(world, status, None)
        others = [name for name in "abcdefg" if name != "abcdefg"[int(world.codes[0, 3])]]
        one, other = rng.permutation(others)[:2]
        half = world.coding.domain.size("age") // 2
        odd = f"(age < {half} and region == '{one}') or (age >= {half} and region == '{other}')"
        if not answers(service, f"hiv == 'yes' and ({odd})", question):
            continue
        again = answers(service, f"hiv == 'yes' and ({odd} or {world.target})", question)
        answered_again += bool(again)
        guess = 0 if again else int(rng.integers(2))
        successes, tries = successes + int(guess == status), tries + 1
    return Outcome(successes, tries, f"{answered_again} answered the second time")


ATTACKS = (
    Attack(
        "A3",
        "reason of a refusal: poisson on a label",
        "40 of 40",
        0.5,
        40,
        partial(_predicted, kinds=_QUESTIONS[:1], least=40),
    ),
    Attack(
        "A3",
        "reason, price and size of a refusal, each of 20 kinds",
        "not tried",
        0.5,
        60,
        partial(_predicted, kinds=_QUESTIONS, least=60),
    ),
    Attack(
        "A4",
        "nine people by a question that has no answer, then the target; ever new analysts",
        "24 of 24",
        0.5,
        20,
        partial(searched, oracle=many, most=None),
    ),
    Attack(
        "A4",
        "the same by one analyst",
        "6 of 6",
        0.5,
        20,
        partial(searched, oracle=many, most=_MOST_REFUSALS),
    ),
    Attack(
        "A4",
        "nine people by a question that may be answered, then the target; ever new analysts",
        "not tried",
        0.5,
        20,
        partial(searched, oracle=answers, most=None),
    ),
    Attack("A4", "the target's cell added to an answered population", "not tried", 0.5, 20, _added),
    Attack(
        "A3",
        "reason, price and size of a refusal, each kind on the file's numbers",
        "not tried",
        0.5,
        60,
        partial(_predicted, kinds=_OF_NUMBERS, least=60, stored=True),
    ),
    *(
        Attack(
            "A4",
            f"nine people, then the target, by {kind} of the file's numbers; ever new analysts",
            "not tried",
            0.5,
            20,
            partial(searched, oracle=partial(answers, question=(kind, formula)), most=None, stored=True),
        )
        for kind, formula in _OF_NUMBERS
    ),
    *(
        Attack(
            "A4",
            f"the target's cell added to a population, by {kind} of the file's numbers",
            "not tried",
            0.5,
            20,
            partial(_added, question=(kind, formula), stored=True),
        )
        for kind, formula in _OF_NUMBERS
    ),
)
