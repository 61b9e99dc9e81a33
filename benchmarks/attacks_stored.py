"""Attacks on means and quantiles of stored numbers: chains of sums, large values, two states of a table.

The attacker knows all that is public, the exact sizes of groups besides, and where it is said every
record but the target's.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.attack import Attack, Outcome
from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.controller.earlier import Earlier
from gencard.controller.jobs.answering import checked
from gencard.controller.jobs.measurement import records_as_stored
from gencard.controller.jobs.tasks import RecordsSource
from gencard.controller.records.file_format import USUAL
from gencard.controller.records.schema_file import PublicSchema
from gencard.controller.records.table_address import TableAddress
from gencard.controller.records.vault import open_source
from gencard.controller.run_question import RunQuestion
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.errors import RecordsProtectedError
from gencard.core.policy import USUAL_RULES
from gencard.core.types import FloatArray, IntArray
from gencard.wire.canonical import json_bytes
from gencard.wire.documents import Question

STORED = '{"response": "stored"}'
_CLOSE = 0.1
"""An income is named if it is within a tenth."""

_CONSTANT = 0.16
"""Share of log-normal incomes with standard deviation 0.5 within a tenth of the best single guess."""

_BOUND = 0.73
"""Right guesses that the limit of 1 standard error leaves at a prior of 0.60, by the design's table."""


def coding_of(levels: int, intervals: int = 7) -> Coding:
    """A schema of two attributes and a number with declared intervals of equal width."""
    labels = Labels(tuple(f"l{level}" for level in range(levels)))
    edges = tuple(np.linspace(0.0, 200_000.0, intervals + 1).tolist())
    return Coding((Attribute("a", labels), Attribute("b", labels), Attribute("income", Edges(edges))))


def records_of(coding: Coding, a: IntArray, b: IntArray, income: FloatArray) -> Dataset:
    """The coded records."""
    edges = np.array(coding.attribute("income").coding.edges)  # type: ignore[union-attr]  # it is a number
    codes = np.clip(np.searchsorted(edges, income, side="right") - 1, 0, len(edges) - 2)
    return Dataset(coding.domain, np.stack([a, b, codes], axis=1).astype(np.int64))


class Asking:
    """One analyst, whose answered runs are remembered."""

    def __init__(self, coding: Coding, dataset: Dataset, income: FloatArray) -> None:
        self.coding, self.dataset, self.numbers = coding, dataset, {"income": income}
        self.runs: list[RunQuestion] = []

    def __call__(
        self, formula: str, kind: str, options: str = STORED, where: str = ""
    ) -> AnalysisAnswer | None:
        """The answer, None where it is refused or waits."""
        options = json_bytes(json.loads(options)).decode() if options else ""
        run = RunQuestion.of(Question(kind, formula, where, options=options), self.coding)
        earlier = Earlier(self.coding, tuple(self.runs), ())
        result = checked(run, earlier, self.dataset, self.numbers, USUAL_RULES)
        if result.answer is None or result.review:
            return None
        self.runs.append(run)
        return AnalysisAnswer.of_json(json.loads(json.dumps(result.answer)))


def _chain(
    quick: bool, *, third: str, kind: str = "means", whole: str = "means", levels: int = 5
) -> Outcome:
    """Mean by a, mean by b, mean of either: the sum of the one record that is in both.

    Args:
        third: Options of the third question.
        kind: The run that tells the means by a and by b.
        whole: The run that tells the mean of either.
        levels: Of a and b.
    """
    rng, successes, refused = np.random.default_rng(11), 0, [0, 0, 0]
    tries = 30 if quick else 90
    sizes = (300, 300, 1_000, 2_000)
    for attempt in range(tries):
        records = sizes[attempt % len(sizes)]
        coding = coding_of(levels, (7, 100, 300)[attempt % 3])
        a, b = rng.integers(levels, size=(2, records))
        alone = (a == 0) & (b == 0)
        a[alone] = 1
        a[0], b[0] = 0, 0
        income = np.clip(rng.lognormal(10.3, 0.5, size=records), 0, 200_000)
        ask = Asking(coding, records_of(coding, a, b, income), income)
        answers = [
            ask("income ~ a", kind),
            ask("income ~ b", kind),
            ask("income ~ 1", whole, third, "a == 'l0' or b == 'l0'"),
        ]
        guess = float(np.exp(10.3 - 0.5**2))  # the mode: nothing was learnt
        refused = [sum(pair) for pair in zip(refused, (one is None for one in answers), strict=True)]
        if all(answers):
            sums = [_mean(answers[0]) * (a == 0).sum(), _mean(answers[1]) * (b == 0).sum()]
            guess = sum(sums) - _mean(answers[2]) * ((a == 0) | (b == 0)).sum()
        successes += abs(guess / income[0] - 1) <= _CLOSE
    note = "refused or waiting: {} by a, {} by b, {} of either".format(*refused)
    return Outcome(int(successes), tries, note)


def _mean(answer: AnalysisAnswer | None) -> float:
    """The mean of the first group, which is the constant of a linear model."""
    if answer is None:
        return 0.0
    if answer.coefficients is not None:
        return float(answer.coefficients.params[0])
    table = answer.tables[0]
    return float(table.values[0][table.column_names.index("mean")] or 0.0)


def _largest_value(quick: bool) -> Outcome:
    """The group of the largest value of the file, from the larger standard deviation or mean."""
    rng, tries = np.random.default_rng(3), 300 if quick else 3_000
    values, coding = _heavy(), _heavy_coding()
    successes = answered = own = waiting = 0
    for _ in range(tries):
        income = rng.choice(values, 1_000, replace=False)
        group = (rng.random(1_000) < 0.4).astype(np.int64)
        ask = Asking(coding, records_of(coding, group, np.zeros_like(group), income), income)
        answer = ask("income ~ a", "means")
        if answer is None:
            waiting += 1
            continue
        answered += 1
        table = answer.tables[0]
        rows = np.array([[np.nan if one is None else one for one in row] for row in table.values])
        spread = rows[:, table.column_names.index("std")]
        by_spread = bool(np.ptp(spread) > 0)
        own += by_spread
        compared = spread if by_spread else rows[:, table.column_names.index("mean")]
        successes += int(np.argmax(compared)) == group[income.argmax()]
    note = f"of the answered; {waiting} of {tries} wait, {own} have own standard deviations"
    return Outcome(successes, answered, note)


def _heavy() -> FloatArray:
    """Values with the tail of expenditures: log-normal, with a standard deviation of 1.2."""
    drawn: FloatArray = np.random.default_rng(3).lognormal(8, 1.2, 20_000)
    return np.minimum(drawn, 990_000.0)


def _heavy_coding() -> Coding:
    labels, edges = Labels(("no", "yes")), (0.0, 1_000.0, 10_000.0, 100_000.0, 1_000_000.0)
    return Coding((Attribute("a", labels), Attribute("b", labels), Attribute("income", Edges(edges))))


def _moved_quartile(quick: bool) -> Outcome:
    """On which side of a quartile the target is, for an attacker who knows all other records."""
    rng, successes, differ = np.random.default_rng(5), 0, 0
    tries, coding = 72 if quick else 720, coding_of(2)
    for attempt in range(tries):
        records = (300, 1_000, 2_000)[attempt % 3]
        income = np.clip(rng.lognormal(10.3, 0.5, size=records), 0, 200_000)
        a = np.zeros(records, dtype=np.int64)
        a[: records // 2] = 1
        share = (0.25, 0.5, 0.75)[attempt // 3 % 3]
        low, high = np.quantile(income, [share / 2, (1 + share) / 2])
        worlds = []
        for value in (low, high):
            income[0] = value
            ask = Asking(coding, records_of(coding, a, a, income), income)
            options = f'{{"response": "stored", "q": {share}}}'
            answer = ask("income ~ 1", "quantiles", options)
            worlds.append(None if answer is None else answer.tables)
        secret = int(rng.integers(2))
        differ += worlds[0] != worlds[1]
        guess = secret if worlds[0] != worlds[1] else int(rng.integers(2))
        successes += guess == secret
    return Outcome(successes, tries, f"the answer differs in {differ} of {tries} worlds")


def _two_states(quick: bool) -> Outcome:
    """A stored mean before and after one income of a table changes inside its level."""
    tries, successes, refused = 20 if quick else 60, 0, 0
    coding = coding_of(2)
    schema = PublicSchema("Made up", "For attacks.", "the benchmark", reviewed=True, coding=coding)
    for attempt in range(tries):
        rng = np.random.default_rng(attempt)
        income = np.clip(rng.lognormal(10.3, 0.5, size=300), 0, 200_000)
        states = [*_states_of(schema, rng.integers(2, size=(2, 300)), income)]
        refused += states.count(None)
        successes += None not in states
    return Outcome(successes, tries, f"{refused} of {2 * tries} readings refused")


def _states_of(
    schema: PublicSchema, labels: IntArray, income: FloatArray
) -> Iterator[Mapping[str, FloatArray] | None]:
    """Stored numbers of a table in two states of one version; None where they are refused."""
    import duckdb  # noqa: PLC0415 - tables are optional
    import pandas as pd  # noqa: PLC0415

    names = [np.array(["l0", "l1"])[one] for one in labels]
    with TemporaryDirectory() as folder:
        file = Path(folder) / "people.duckdb"
        place = TableAddress(f"duckdb:///{file}?table=people")
        for state in (income, np.append(np.floor(income[:1]) + 0.5, income[1:])):
            frame = pd.DataFrame({"a": names[0], "b": names[1], "income": state})
            with duckdb.connect(str(file)) as connection:
                connection.register("frame", frame)
                connection.execute("CREATE OR REPLACE TABLE people AS SELECT * FROM frame")
            with open_source(place, schema, USUAL, None) as source:
                version = source.version(b"salt")
            records = RecordsSource(place.text, True, USUAL, schema, version, b"salt", 10_000, "")
            numbers = None
            with suppress(RecordsProtectedError):
                numbers = records_as_stored([("a",)], ("income",), records)[1]
            yield numbers


ATTACKS: Sequence[Attack] = (
    Attack(
        "A5",
        "stored mean by a, by b, of either",
        "18 of 30",
        _CONSTANT,
        20,
        lambda quick: _chain(quick, third=STORED),
    ),
    Attack(
        "A5",
        "the same with a coded mean of either",
        "not tried",
        _CONSTANT,
        20,
        lambda quick: _chain(quick, third=""),
    ),
    *(
        Attack(
            "A5",
            f"stored means by a, by b in runs of {kind}, of either in one of {whole}",
            "not tried",
            _CONSTANT,
            20,
            partial(_chain, third=STORED, kind=kind, whole=whole, levels=levels),
        )
        for kind, whole, levels in (
            ("ttest", "means", 2),
            ("anova", "means", 5),
            ("linear", "linear", 5),
            ("means", "linear", 5),
        )
    ),
    Attack(
        "A5",
        "group of the largest value, prior 0.60",
        "0.80 by means, 0.92 by spreads",
        _BOUND,
        20,
        _largest_value,
    ),
    Attack("A5", "stored means of two states of a table", "20 of 20", 0.0, 20, _two_states),
    Attack("A13", "side of a stored quartile, all others known", "72 of 72", 0.5, 20, _moved_quartile),
)
"""Attacks on stored numbers."""
