"""Attacks of line A1: numbers that an analyst chooses for levels, in ``values`` or in functions.

The attacker knows the level of one person, whom no other record shares it with, and wants their secret.
He builds two sets of records that agree with what everybody knows, one for each secret, computes the
same analysis of both, and names the secret whose answer is nearer to the released one. Where the run is
refused he guesses.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np

from benchmarks.attack import Attack, Outcome
from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.analysis.answers.kinds import answered
from gencard.analysis.answers.margins import RecordMargins
from gencard.analysis.output_checks.released import released
from gencard.controller.earlier import Earlier
from gencard.controller.jobs.answering import checked
from gencard.controller.run_question import RunQuestion
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.errors import GencardError
from gencard.core.policy import USUAL_RULES
from gencard.core.types import IntArray
from gencard.wire.canonical import json_bytes
from gencard.wire.documents import Question

_LEVELS = (7, 100, 300)
_RECORDS = (300, 2_000)
_HEAVY = 10.0
"""The target's number where all others have about 1: below the bounds of dominance."""

_FRIENDS = 9
"""People with the secret whom the attacker knows, for survival curves: one event less than a step."""

_LEAST = 20
_QUICK, _FULL = 2, 8
"""Targets for each number of levels and of records, alone and beside exact pairs."""


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Records with one target.

    Args:
        coding: The schema: ``age`` as many levels as wanted, the secret ``hiv``, ``sex``, ``region``.
        codes: One row a record; the target is the first, and the only one of their age.
        friends: Records whose secret the attacker knows, too.
        beside: Marginals that everybody knows exactly.
    """

    coding: Coding
    codes: IntArray
    friends: IntArray
    beside: tuple[tuple[str, ...], ...]

    @classmethod
    def drawn(cls, levels: int, rows: int, exact: bool, rng: np.random.Generator) -> "World":
        """Draw records of which the target has an age of their own."""
        coding = Coding(
            (
                Attribute("age", Edges(tuple(float(one) for one in range(levels + 1)))),
                Attribute("hiv", Labels(("false", "true"), boolean=True)),
                Attribute("sex", Labels(("f", "m"))),
                Attribute("region", Labels(("east", "north", "west"))),
            )
        )
        codes = np.column_stack(
            [
                rng.integers(0, levels, rows),
                rng.random(rows) < 0.3,
                rng.integers(0, 2, rows),
                rng.integers(0, 3, rows),
            ]
        ).astype(np.int64)
        others = codes[1:, 0]
        others[others == codes[0, 0]] = (codes[0, 0] + 1) % levels
        codes[0, 1] = rng.integers(0, 2)
        friends = _friends(codes, rng)
        pairs = combinations(coding.domain.attributes, 2)
        beside = tuple(pair for pair in pairs if set(pair) != {"age", "hiv"}) if exact else ()
        return cls(coding, codes, friends, beside)

    @property
    def level(self) -> int:
        """Code of the target's age."""
        return int(self.codes[0, 0])

    @property
    def secret(self) -> int:
        return int(self.codes[0, 1])

    def dataset(self, codes: IntArray) -> Dataset:
        return Dataset.of_columns(self.coding.domain, list(codes.T))

    def imagined(self, secret: int, rng: np.random.Generator) -> Dataset:
        """Records that the attacker can build: secrets of strangers are dealt again."""
        codes = self.codes.copy()
        codes[0, 1] = secret
        strangers = np.setdiff1d(np.arange(1, len(codes)), self.friends)
        codes[strangers, 1] = rng.permutation(codes[strangers, 1])
        return self.dataset(codes)


def _friends(codes: IntArray, rng: np.random.Generator) -> IntArray:
    """All records of some ages, among which nine have the secret; none where ages are too full."""
    events = np.bincount(codes[1:, 0], codes[1:, 1])
    chosen, total = list[int](), 0
    for age in rng.permutation(len(events)):
        if age != codes[0, 0] and total + events[age] <= _FRIENDS:
            chosen, total = [*chosen, int(age)], total + int(events[age])
    return np.flatnonzero(np.isin(codes[:, 0], chosen))


Questions = Callable[[World], Sequence[Question]]
"""Questions that an attacker asks one after the other."""


def _question(kind: str, formula: str, **values: Sequence[float]) -> Question:
    options = (
        json_bytes({"values": {name: list(row) for name, row in values.items()}}) if values else b""
    )
    return Question(kind, formula, options=options.decode())


def _heavy(world: World) -> list[float]:
    """A number for each age: about 1, and far more for the target's."""
    numbers = 1.0 + np.arange(world.coding.domain.size("age")) % 3 / 10
    numbers[world.level] = _HEAVY
    return list(map(float, numbers))


def _indicator(world: World) -> list[float]:
    """A number for each age: 0 but for the target's."""
    numbers = np.zeros(world.coding.domain.size("age"))
    numbers[world.level] = 1.0
    return list(map(float, numbers))


def _own_values(
    kind: str, formula: str, numbers: Callable[[World], list[float]], world: World
) -> list[Question]:
    return [_question(kind, formula, age=numbers(world))]


def _ordered(kind: str, formula: str, world: World) -> list[Question]:
    """Times at which the friends come first, then the target, then the others together."""
    times = np.full(world.coding.domain.size("age"), 99.0)
    times[world.codes[world.friends, 0]] = 1.0
    times[world.level] = 2.0
    return [_question(kind, formula, age=times.tolist())]


def _functions(kind: str, formula: str, world: World) -> list[Question]:
    """A formula in which AGE stands for the middle of the target's interval."""
    middle = world.level + 0.5
    return [_question(kind, formula.replace("AGE", repr(middle)))]


def _nested(world: World) -> list[Question]:
    """Two groups that differ by the target."""
    low, high = world.level, world.level + 1
    return [_question("linear", f"hiv ~ I(age < {bound})") for bound in (low, high)]


def _levels(world: World) -> list[Question]:
    """A contrast of few levels: a condition in disguise."""
    names = [
        world.coding.attribute("age").coding.level_names[(world.level + one) % 7] for one in range(3)
    ]
    return [_question("linear", f"hiv ~ C(age, levels={list(names)!r})")]


def _numbers(document: object, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number of an answer by its place; of tables also which rows there are."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from _numbers(value, f"{path}/{name}")
    elif isinstance(document, list):
        for place, value in enumerate(document):
            yield from _numbers(value, f"{path}/{place}")
    elif isinstance(document, int | float):
        yield path, float(document)
    else:
        yield f"{path}={document}", 0.0


def _distance(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Relative differences of all numbers of two answers; 2 for a number that one of them lacks."""
    apart = 2.0 * len(one.keys() ^ other.keys())
    for place in one.keys() & other.keys():
        size = abs(one[place]) + abs(other[place])
        apart += abs(one[place] - other[place]) / size if size else 0.0
    return apart


def _computed(run: RunQuestion, dataset: Dataset) -> dict[str, float]:
    """Numbers of the answer of imagined records, rounded as answers are; none where there is none."""
    margins = RecordMargins.of(dataset)
    try:
        answer: AnalysisAnswer = released(answered(run.at(margins), margins), USUAL_RULES)
    except GencardError:
        return {}
    return dict(_numbers(answer.to_json()))


def _named(world: World, questions: Questions, rng: np.random.Generator) -> tuple[int, bool]:
    """The secret that the attacker names, and whether all runs were answered."""
    dataset, runs, answers = world.dataset(world.codes), list[RunQuestion](), list[Any]()
    guess = int(rng.integers(0, 2))
    for question in questions(world):
        try:
            run = RunQuestion.new(question, world.coding)
            earlier = Earlier(world.coding, tuple(runs), world.beside)
            result = checked(run, earlier, dataset, {}, USUAL_RULES).answer
        except GencardError:
            return guess, False
        if result is None:
            return guess, False
        runs.append(run)
        answers.append(dict(_numbers(result)))
    apart = []
    for secret in (0, 1):
        imagined = world.imagined(secret, rng)
        pairs = zip(answers, runs, strict=True)
        apart.append(sum(_distance(answer, _computed(run, imagined)) for answer, run in pairs))
    return (guess if apart[0] == apart[1] else int(np.argmin(apart))), True


def _tried(questions: Questions, seed: int, quick: bool) -> Outcome:
    successes = tries = released_runs = 0
    cases = product(_LEVELS, _RECORDS, (False, True), range(_QUICK if quick else _FULL))
    for levels, rows, exact, turn in cases:
        rng = np.random.default_rng([seed, levels, rows, exact, turn])
        world = World.drawn(levels, rows, exact, rng)
        secret, was_answered = _named(world, questions, rng)
        successes += secret == world.secret
        released_runs += was_answered
        tries += 1
    return Outcome(successes, tries, f"{tries - released_runs} refused")


def _attacks() -> Iterator[tuple[str, str, Questions]]:
    """Name, success before (that of the issue; else measured here without the defence), questions."""
    for kind, formula, numbers, before in (
        ("linear", "age ~ hiv", _heavy, "40 of 40"),
        ("means", "age ~ hiv", _heavy, "40 of 40"),
        ("ttest", "age ~ hiv", _heavy, "40 of 40"),
        ("anova", "age ~ hiv", _heavy, "40 of 40"),
        ("correlation", "~ age + hiv", _indicator, "24 of 24"),
        ("components", "~ age + hiv", _indicator, "24 of 24"),
        ("polychoric", "~ age + hiv", _indicator, "30 of 30"),
        ("discriminant", "sex ~ age + hiv", _indicator, "15 of 24"),
        ("cox", "age ~ hiv + sex", _indicator, "14 of 24"),
        ("poisson", "age ~ hiv", _heavy, "21 of 24"),
    ):
        yield f"{kind}: own values", before, partial(_own_values, kind, formula, numbers)
    yield "kaplan-meier: own times", "43 of 43", partial(_ordered, "kaplan-meier", "age ~ hiv")
    for name, kind, formula, before in (
        ("indicator times 1e9", "linear", "I((age == AGE) * 1e9) ~ hiv", "6 of 24"),
        (
            "indicator times 9, beside others",
            "linear",
            "I((age == AGE) * 9 + 1 + age / 1000) ~ hiv",
            "19 of 24",
        ),
        (
            "indicator times 9, beside others",
            "means",
            "I((age == AGE) * 9 + 1 + age / 1000) ~ hiv",
            "19 of 24",
        ),
        ("indicator times 1e9", "correlation", "~ I((age == AGE) * 1e9) + hiv", "24 of 24"),
        ("indicator times 1e9, as a term", "linear", "hiv ~ I((age == AGE) * 1e9)", "16 of 24"),
        ("ifelse, heavy", "means", "ifelse(age == AGE, 1e9, 0) ~ hiv", "12 of 24"),
        ("ifelse, 1 and 0", "means", "ifelse(age == AGE, 1, 0) ~ hiv", "11 of 24"),
        ("comparison", "correlation", "~ I(age == AGE) + hiv", "24 of 24"),
        ("comparison", "components", "~ I(age == AGE) + hiv", "24 of 24"),
        ("comparison", "ttest", "I(age == AGE) ~ hiv", "13 of 24"),
        ("comparison, as a term", "linear", "hiv ~ I(age == AGE) + sex", "9 of 24"),
        ("comparison of all others, as a term", "logistic", "hiv ~ I(age != AGE)", "14 of 24"),
        ("comparison, as a group", "linear", "hiv ~ C(age == AGE) + region", "14 of 24"),
        ("power of 30", "linear", "I((age / AGE) ** 30) ~ hiv", "13 of 24"),
        ("narrow bell", "linear", "exp(0 - (age - AGE) ** 2 * 50) ~ hiv", "12 of 24"),
        ("pole", "linear", "I(1 / (age - AGE + 1e-9)) ~ hiv", "17 of 24"),
        ("logarithm near 0", "correlation", "~ log(abs(age - AGE) + 1e-300) + hiv", "24 of 24"),
        ("remainder", "linear", "hiv ~ I((age - AGE) % 1000 == 0)", "11 of 24"),
        ("digits that rounding cuts", "linear", "hiv ~ I((age == AGE) + 1e15 - 1e15)", "14 of 24"),
        ("time in another order", "kaplan-meier", "abs(age - AGE) ~ hiv", "11 of 24"),
    ):
        yield f"{kind}: {name}", before, partial(_functions, kind, formula)
    yield "linear: C(..., levels) of few levels", "13 of 24", _levels
    yield "linear: two groups that differ by the target", "16 of 24", _nested


ATTACKS = tuple(
    Attack("A1", name, before, 0.5, _LEAST, partial(_tried, questions, seed))
    for seed, (name, before, questions) in enumerate(_attacks())
)
