"""Settings of ``benchmarks.answers`` for every kind of answer: even, skewed, sparse and empty designs.

Populations are made here. A setting draws records from one, measures what the analysis needs with
noise, and judges each number of the answer by what it says of itself: an interval covers the number in
the population, the noise in a number without an interval is as large as the answer says, and a p value
is 0.05 or less in one draw of twenty if there is no effect.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from benchmarks import bench
from benchmarks.answers_settings import NOISES, Setting, settings
from gencard.analysis.answers.answer import (
    NOISE,
    Address,
    AnalysisAnswer,
    AnswerTable,
    Use,
    numbers_of,
    rule_of,
    table_of,
    use_of,
)
from gencard.analysis.answers.design import CheckedQuestion
from gencard.analysis.answers.kinds import answered, plain_answer
from gencard.analysis.answers.margins import Margins, PsiMargins
from gencard.analysis.answers.noisy_estimates import name_of
from gencard.analysis.answers.noisy_margins import NoisyMargins, simulated
from gencard.core.card.privacy import Gaussian, Laplace, Mechanism
from gencard.core.errors import GencardError
from gencard.core.statistics.formula import Analysis
from gencard.core.statistics.noise import noisy
from gencard.core.types import IntArray

Sums = Mapping[Address, tuple[int, float]]
"""For each number, how many there were, and what they add up to."""

_Z = float(stats.norm.isf(0.025))
_SLOW = 0.1
"""Seconds of an answer from which a setting has fewer draws."""

_SEED = 2_027
_DRAWS, _SLOW_DRAWS, _QUICK = 1_000, 300, 12

LEAST, MOST = 0.93, 0.97
"""Between which the coverage of each interval is to lie."""

USUAL, FEWEST = 0.95, 0.85
"""Share of the draws that must have a number for that; the least coverage of numbers of fewer draws."""

MOST_FOUND = 0.065
"""Largest share of p values of 0.05 or less without an effect."""

LEAST_NOISE, MOST_NOISE = 0.9, 1.12
"""Root mean square of errors in units of the stated noise."""

_FALSE_ALARMS = 0.01
"""Chance that, of the numbers of a setting which all keep the claim, any is said to contradict it."""


@dataclass(frozen=True, slots=True)
class Seeded:
    """Noise with the law of the mechanisms, which can be drawn again."""

    rng: np.random.Generator

    def laplace(self, counts: IntArray, scale: float) -> IntArray:
        return self._with(counts, Laplace.stddev(scale), Mechanism.LAPLACE)

    def gaussian(self, counts: IntArray, scale: float) -> IntArray:
        return self._with(counts, Gaussian.stddev(scale), Mechanism.GAUSSIAN)

    def choose(self, scores: IntArray, scale: float) -> int:
        raise NotImplementedError

    def _with(self, counts: IntArray, stddev: float, mechanism: Mechanism) -> IntArray:
        return counts + simulated(counts.shape, stddev, mechanism, rng=self.rng).astype(np.int64)


def ends_of(kind: Analysis, answer: AnalysisAnswer) -> dict[Address, tuple[float, float]]:
    """Every interval of 95 % of an answer; an estimate with a standard error has one."""
    numbers, ends = numbers_of(answer), {}
    if (some := answer.coefficients) is not None:
        for name, (low, high) in zip(some.names, some.conf_int(), strict=True):
            ends[Address("coefficients", name, "")] = (float(low), float(high))
    for address, value in numbers.items():
        rule = rule_of(kind, address)
        if rule is None or rule.use is not Use.INTERVAL or value is None:
            continue
        if rule.bounds is not None:
            low, high = (numbers.get(rule.beside(address, one)) for one in rule.bounds)
            if low is not None and high is not None:
                ends[address] = (low, high)
        elif rule.error is not None:
            error = numbers.get(rule.beside(address, rule.error))
            if error is not None:
                ends[address] = (value - _Z * error, value + _Z * error)
    return ends


def pvalues_of(kind: Analysis, answer: AnalysisAnswer) -> dict[Address, float]:
    """Every p value of an answer, those of coefficients left out: they follow from the intervals."""
    return {
        address: value
        for address, value in numbers_of(answer).items()
        if value is not None
        and (address.column in {"pvalue", "PR(>F)"} or address.place == "pvalues")
        and use_of(kind, address) is Use.INTERVAL
    }


def spreads_of(answer: AnalysisAnswer, exact: AnalysisAnswer) -> dict[Address, float]:
    """The error of each number without an interval, in units of the noise that the answer states."""
    table = next((one for one in answer.tables if one.name == NOISE), None)
    if table is None:
        return {}
    numbers, before = numbers_of(answer), numbers_of(_turned(exact, answer))
    stated = {name: row[0] for name, row in zip(table.row_names, table.values, strict=True)}
    errors = {}
    for address, value in numbers.items():
        stddev, was = stated.get(name_of(address)), before.get(address)
        has_interval = use_of(Analysis(answer.kind), address) is Use.INTERVAL
        if value is not None and stddev and was is not None and not has_interval:
            errors[address] = (value - was) / stddev
    return errors


_VECTORS = frozenset({"components", "loadings", "coordinates", "scalings"})


def _turned(exact: AnalysisAnswer, answer: AnalysisAnswer) -> AnalysisAnswer:
    """The exact answer with the signs of its vectors as in another one: they are arbitrary."""
    tables = []
    for table in exact.tables:
        if table.name in _VECTORS:
            other = next((one for one in answer.tables if one.name == table.name), table)
            tables.append(_like(table, other))
        else:
            tables.append(table)
    return replace(exact, tables=tuple(tables))


def _like(table: AnswerTable, other: AnswerTable) -> AnswerTable:
    columns = []
    for place, name in enumerate(table.column_names):
        own = np.array([row[place] for row in table.values], dtype=np.float64)
        if name in other.column_names and table.row_names == other.row_names:
            at = other.column_names.index(name)
            theirs = np.array([row[at] for row in other.values], dtype=np.float64)
            own = own * (-1.0 if np.nansum(own * theirs) < 0 else 1.0)
        columns.append(own)
    return table_of(table.name, table.row_names, table.column_names, np.column_stack(columns))


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Outcome of the draws of a setting.

    Args:
        answered: Draws with an answer.
        hits: For each number with an interval, draws with it, and those in which it covers.
        exact: The same from the records, without noise.
        squares: For each number without an interval, draws with it, and the sum of squared errors in
            units of the stated noise.
        alarms: For each p value, draws with it, and those of 0.05 or less.
    """

    setting: Setting
    draws: int
    answered: int
    hits: Sums
    exact: Sums
    squares: Sums
    alarms: Sums

    def usual(self, address: Address) -> bool:
        """Whether 95 % of the draws have a number."""
        return self.hits[address][0] >= USUAL * self.draws


def outcome(setting: Setting, draws: int, most_slow: int) -> Outcome:
    """Draw a setting again and again."""
    rng = np.random.default_rng([_SEED, *setting.name.encode()])
    noise = Seeded(rng)
    hits, exact_hits, squares, alarms = _Tally(), _Tally(), _Tally(), _Tally()
    count, answers, begin = 0, 0, time.perf_counter()
    while count < draws:
        count += 1
        exact_psi = setting.drawn(rng)
        exact = _answer(plain_answer, setting.question, PsiMargins(exact_psi))
        if exact is not None:
            exact_hits.cover(ends_of(setting.kind, exact), setting.truth)
        psi = noisy(exact_psi, NOISES[setting.noise], noise)
        answer = _answer(answered, setting.question, NoisyMargins.of(psi))
        if answer is not None:
            answers += 1
            hits.cover(ends_of(setting.kind, answer), setting.truth)
            if exact is not None:
                for address, error in spreads_of(answer, exact).items():
                    squares.add(address, error**2)
            if setting.null:
                for address, pvalue in pvalues_of(setting.kind, answer).items():
                    alarms.add(address, pvalue <= 0.05)
        if count == 10 and (time.perf_counter() - begin) / count > _SLOW:
            draws = min(draws, most_slow)
    return Outcome(setting, count, answers, hits.sums, exact_hits.sums, squares.sums, alarms.sums)


def _answer(
    analysis: Callable[[CheckedQuestion, Margins], AnalysisAnswer],
    question: CheckedQuestion,
    margins: Margins,
) -> AnalysisAnswer | None:
    try:
        return analysis(question, margins)
    except GencardError:
        return None


class _Tally:
    """Sums by number: how many there were, and what they add up to."""

    def __init__(self) -> None:
        self.sums: dict[Address, tuple[int, float]] = {}

    def add(self, address: Address, value: float) -> None:
        count, total = self.sums.get(address, (0, 0.0))
        self.sums[address] = (count + 1, total + value)

    def cover(self, ends: Mapping[Address, tuple[float, float]], truth: Mapping[Address, float]) -> None:
        for address, (low, high) in ends.items():
            if address in truth:
                self.add(address, float(low <= truth[address] <= high))


def contradicting(one: Outcome) -> int:
    """Numbers whose observed coverage contradicts the claim, all of a setting at one per cent.

    Numbers of 95 % of the draws or more claim 0.93 to 0.97, or to be no further from 0.95 than without
    noise; the others claim 0.85 of the draws that have them.
    """
    alarms, count = _FALSE_ALARMS / max(len(one.hits), 1), 0
    for address, (draws, hits) in one.hits.items():
        if not one.usual(address):
            count += hits < stats.binom.ppf(alarms / 2, draws, FEWEST)
            continue
        low = stats.binom.ppf(alarms / 2, draws, LEAST)
        high = stats.binom.ppf(1 - alarms / 2, draws, MOST)
        before = one.exact.get(address, (0, 0.0))
        without = abs(before[1] / before[0] - 0.95) if before[0] else 0.0
        count += not low <= hits <= high and abs(hits / draws - 0.95) > without
    return int(count)


def alarming(one: Outcome) -> int:
    """P values that are 0.05 or less too often, all of a setting at one per cent."""
    alarms = _FALSE_ALARMS / max(len(one.alarms), 1)
    sums = one.alarms.values()
    return sum(int(hits > stats.binom.ppf(1 - alarms, draws, MOST_FOUND)) for draws, hits in sums)


def misstated(one: Outcome) -> int:
    """Numbers with far more noise than the answer states, or far less, where most draws have them."""
    count = 0
    for draws, squares in one.squares.values():
        # Squares of Laplace noise have a variance of 5 in units of their mean.
        chance = 3 * (5 / draws) ** 0.5 / 2
        ratio = (squares / draws) ** 0.5
        if draws >= USUAL * one.draws:
            count += not LEAST_NOISE - chance <= ratio <= MOST_NOISE + chance
    return count


_COLUMNS = (
    *("analysis and design", "noise", "draws", "no answer", "numbers", "least", "most", "exact least"),
    *("fewer", "their least", "p <= 0.05", "spreads", "least noise", "most noise"),
)


def cells(one: Outcome) -> Sequence[bench.Cell]:
    """A row of the table."""
    usual = [hits / draws for at, (draws, hits) in one.hits.items() if one.usual(at)]
    fewer = [hits / draws for at, (draws, hits) in one.hits.items() if not one.usual(at)]
    exact = [hits / draws for draws, hits in one.exact.values()]
    alarms = [hits / draws for draws, hits in one.alarms.values()]
    noise = [
        (squares / draws) ** 0.5 for draws, squares in one.squares.values() if draws >= USUAL * one.draws
    ]
    return (
        *(one.setting.name, one.setting.noise, one.draws, one.draws - one.answered, len(usual)),
        *(min(usual, default=None), max(usual, default=None), min(exact, default=None)),
        *(len(fewer), min(fewer, default=None), max(alarms, default=None)),
        *(len(noise), min(noise, default=None), max(noise, default=None)),
    )


def grid(quick: bool) -> tuple[bench.Table, list[bench.Target], dict[str, object]]:
    """Every setting: a table, targets, figures."""
    outcomes = []
    for number, setting in enumerate(every := settings(), start=1):
        print(f"{number} of {len(every)}: {setting.name}", file=sys.stderr, flush=True)
        outcomes.append(outcome(setting, *((_QUICK,) * 2 if quick else (_DRAWS, _SLOW_DRAWS))))
    return judged(outcomes)


def judged(outcomes: Sequence[Outcome]) -> tuple[bench.Table, list[bench.Target], dict[str, object]]:
    """The table, targets and figures of some settings."""
    table = bench.Table(
        "Every kind: coverage of the numbers of 95 % of the draws, then of those of fewer; p values "
        "without an effect; error in units of the stated noise",
        _COLUMNS,
        [cells(one) for one in outcomes],
    )
    counts = {
        "numbers of the grid that contradict 0.93 to 0.97, or 0.85 where fewer draws have them": sum(
            map(contradicting, outcomes)
        ),
        "p values of the grid that are 0.05 or less in more than 0.065": sum(map(alarming, outcomes)),
        "numbers of the grid with other noise than stated": sum(map(misstated, outcomes)),
    }
    targets = [bench.Target(name, float(count), 0.0, "at most") for name, count in counts.items()]
    figures: dict[str, object] = {
        one.setting.name: {
            "answered": one.answered,
            "draws": one.draws,
            **{
                name: {"/".join(at): [count, total] for at, (count, total) in sums.items()}
                for name, sums in (
                    *(("hits", one.hits), ("exact", one.exact)),
                    *(("squares", one.squares), ("alarms", one.alarms)),
                )
            },
        }
        for one in outcomes
    }
    return table, targets, figures
