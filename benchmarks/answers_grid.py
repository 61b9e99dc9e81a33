"""Settings of ``benchmarks.answers`` for every kind of answer: even, skewed, sparse and empty designs.

Populations are made here. A setting draws records from one, measures what the analysis needs with
noise, and judges each number of the answer by what it says of itself: an interval covers the number in
the population, the noise in a number without an interval is as large as the answer says, and a p value
is 0.05 or less in one draw of twenty if there is no effect.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy import stats

from benchmarks import bench
from benchmarks.answers_cases import with_moments
from gencard.core.answers.answer import NOISE, Answer, Table, table_of
from gencard.core.answers.design import Option, Question
from gencard.core.answers.families.polychoric import bivariate_normal
from gencard.core.answers.kinds import answered, plain_answer
from gencard.core.answers.margins import Margins, PsiMargins
from gencard.core.answers.noise.bootstrap import simulated
from gencard.core.answers.noise.differences import name_of
from gencard.core.answers.noise.numbers import (
    Address,
    Use,
    numbers_of,
    rule_of,
    use_of,
)
from gencard.core.answers.noise.reconciled import NoisyMargins
from gencard.core.card.noise import AddedNoise, Gaussian, Laplace, Mechanism, gaussian, laplace
from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.domain import Clique
from gencard.core.errors import GencardError
from gencard.core.noise import noisy
from gencard.core.statistics.formula import Analysis
from gencard.core.statistics.psi import Measurement, Psi
from gencard.core.types import FloatArray, IntArray
from gencard.formulas.answering import read_question

Sums = Mapping[Address, tuple[int, float]]
"""For each number, how many there were, and what they add up to."""

DESIGNS = ("even", "skewed", "sparse", "empty")
NOISES: Mapping[str, AddedNoise] = {
    "Laplace 1": laplace("1", neighbouring="replace-one"),
    "Gaussian 0.25": gaussian("0.25", neighbouring="replace-one"),
}

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


@dataclass(frozen=True, eq=False)
class Setting:
    """One analysis of one population.

    Args:
        name: Of the analysis and the design.
        kind: The analysis.
        formula: As an analyst writes it.
        shares: Of the population in each cell, one axis for each attribute.
        attributes: Their names.
        records: How many are drawn.
        noise: A name in ``NOISES``.
        options: As an analyst gives them.
        null: Whether no effect exists, so that p values are judged.
    """

    name: str
    kind: Analysis
    formula: str
    shares: FloatArray
    attributes: Clique
    records: int
    noise: str
    options: Mapping[str, Option] = field(default_factory=dict)
    null: bool = False

    @cached_property
    def question(self) -> Question:
        sizes = zip(self.attributes, self.shares.shape, strict=True)
        coding = Coding(
            tuple(
                Attribute(name, Labels(tuple(map(str, range(size))), integer=True, ordered=True))
                for name, size in sizes
            )
        )
        return read_question(self.formula, self.kind, coding, options=self.options)

    @cached_property
    def truth(self) -> dict[Address, float]:
        """The numbers that have intervals, in the population."""
        large = self.shares * 1e7
        answer = plain_answer(self.question, PsiMargins.of(self.measured(large)))
        numbers = {address: value for address, value in numbers_of(answer).items() if value is not None}
        if self.kind is Analysis.LOGLINEAR:  # its constant is the size of the sample
            del numbers[Address("coefficients", "Intercept", "")]
        return numbers

    def measured(self, cells: FloatArray | IntArray) -> Psi:
        """The statistics of the card, of a table of counts."""
        tables = (
            Measurement(
                clique,
                cells.sum(
                    axis=tuple(axis for axis, name in enumerate(self.attributes) if name not in clique)
                ),
            )
            for clique in map(self.question.coding.domain.canonical, self.question.cliques)
        )
        return Psi(self.question.coding.domain, tuple(tables))

    def drawn(self, rng: np.random.Generator) -> Psi:
        cells = rng.multinomial(self.records, self.shares.reshape(-1)).reshape(self.shares.shape)
        return self.measured(cells)


def ends_of(kind: Analysis, answer: Answer) -> dict[Address, tuple[float, float]]:
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


def pvalues_of(kind: Analysis, answer: Answer) -> dict[Address, float]:
    """Every p value of an answer, those of coefficients left out: they follow from the intervals."""
    return {
        address: value
        for address, value in numbers_of(answer).items()
        if value is not None
        and (address.column in {"pvalue", "PR(>F)"} or address.place == "pvalues")
        and use_of(kind, address) is Use.INTERVAL
    }


def spreads_of(answer: Answer, exact: Answer) -> dict[Address, float]:
    """The error of each number without an interval, in units of the noise that the answer states."""
    table = next((one for one in answer.tables if one.name == NOISE), None)
    if table is None:
        return {}
    numbers, before = numbers_of(answer), numbers_of(_turned(exact, answer))
    stated = {name: row[0] for name, row in zip(table.row_names, table.values, strict=True)}
    errors = {}
    for address, value in numbers.items():
        stddev, was = stated.get(name_of(address)), before.get(address)
        if value is not None and stddev and was is not None:
            errors[address] = (value - was) / stddev
    return errors


_VECTORS = frozenset({"components", "loadings", "coordinates", "scalings"})


def _turned(exact: Answer, answer: Answer) -> Answer:
    """The exact answer with the signs of its vectors as in another one: they are arbitrary."""
    tables = []
    for table in exact.tables:
        if table.name in _VECTORS:
            other = next((one for one in answer.tables if one.name == table.name), table)
            tables.append(_like(table, other))
        else:
            tables.append(table)
    return replace(exact, tables=tuple(tables))


def _like(table: Table, other: Table) -> Table:
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
    """What a setting gave.

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
        exact = _answer(plain_answer, setting.question, PsiMargins.of(exact_psi))
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
    analysis: Callable[[Question, Margins], Answer], question: Question, margins: Margins
) -> Answer | None:
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


def settings(names: Sequence[str] = ()) -> list[Setting]:
    """The grid: every kind by every design; ``names`` chooses kinds."""
    made = [one for design in DESIGNS for one in _of_design(design)]
    made += _of_the_issue()
    return [one for one in made if not names or one.kind.value in names]


def margin(design: str, size: int) -> FloatArray:
    """Shares of the levels of an attribute in a design."""
    shares = 0.55 ** np.arange(float(size)) if design == "skewed" else np.ones(size)
    if design == "sparse":
        shares[-1] = 0.02 * size
    if design == "empty":
        shares[-1] = 0.0
    return np.asarray(shares / shares.sum())


def tilted(base: FloatArray, features: FloatArray, slopes: FloatArray) -> FloatArray:
    """Response by features: each cell's response is the base, tilted by its slope."""
    levels = np.arange(float(len(base))).reshape(-1, *(1,) * features.ndim)
    weights = base.reshape(levels.shape) * np.exp(levels * slopes)
    return np.asarray(weights / weights.sum(axis=0) * features)


def straight(base: FloatArray, features: FloatArray, shifts: FloatArray) -> FloatArray:
    """Response by features: each cell's mean is shifted, and all have one variance."""
    levels = np.arange(float(len(base)))
    mean = float(levels @ base)
    variance = float((levels - mean) ** 2 @ base)
    table = np.empty((len(base), *features.shape))
    for cell in np.ndindex(features.shape):
        table[(slice(None), *cell)] = features[cell] * with_moments(
            levels, base, mean + float(shifts[cell]), variance
        )
    return table


def cumulative(base: FloatArray, features: FloatArray, shifts: FloatArray) -> FloatArray:
    """Response by features, with proportional odds."""
    thresholds = np.log(np.cumsum(base)[:-1] / (1 - np.cumsum(base)[:-1]))
    below = 1 / (1 + np.exp(-(thresholds.reshape(-1, *(1,) * shifts.ndim) - shifts)))
    ends = np.concatenate([np.zeros((1, *shifts.shape)), below, np.ones((1, *shifts.shape))])
    return np.asarray(np.diff(ends, axis=0) * features)


def normal(rho: float, rows: FloatArray, columns: FloatArray) -> FloatArray:
    """Two normal variables of a correlation, in classes of these shares."""
    inner = [stats.norm.ppf(np.clip(np.cumsum(one)[:-1], 1e-12, 1 - 1e-12)) for one in (rows, columns)]
    h, k = np.meshgrid(*inner, indexing="ij")
    corners = np.zeros((len(rows) + 1, len(columns) + 1))
    corners[1:-1, 1:-1] = bivariate_normal(h, k, rho)
    corners[-1, 1:], corners[1:, -1] = np.cumsum(columns), np.cumsum(rows)
    return np.maximum(np.diff(np.diff(corners, axis=0), axis=1), 0.0)


def _of_design(design: str) -> list[Setting]:
    noise = "Gaussian 0.25" if design in {"skewed", "empty"} else "Laplace 1"
    a, b, y5 = margin(design, 4), margin("even", 2), margin("even" if design != "skewed" else design, 5)
    ab = np.multiply.outer(a, b)
    effects = np.linspace(0, 0.6, 4)
    both = effects[:, None] + np.array([0.0, 0.3])
    means = straight(y5, a, effects / 2)
    no_effect = np.multiply.outer(y5, a)
    y3 = np.array([0.5, 0.3, 0.2])
    two = tilted(np.array([0.65, 0.35]), a, effects)
    skew = margin(design, 5)
    pairs = normal(0.4, skew, margin("even", 5))
    three = _common_cause(design)

    def made(
        kind: str,
        formula: str,
        shares: FloatArray,
        attributes: str,
        records: int = 2_000,
        *,
        null: bool = False,
        **options: Option,
    ) -> Setting:
        words = " ".join((kind, *map(str, options.values()), formula, *(("no effect",) if null else ())))
        return Setting(
            f"{words}, {design}",
            Analysis(kind),
            formula,
            np.where(shares < 1e-9, 0.0, shares) / shares.sum(),
            tuple(attributes),
            records,
            noise,
            options,
            null,
        )

    return [
        made("linear", "y ~ C(a) + b", straight(y5, ab, both / 2), "yab", 4_000),
        made("logistic", "y ~ C(a)", two, "ya"),
        made("multinomial", "y ~ C(a)", tilted(y3, a, effects), "ya"),
        made("ordinal", "y ~ C(a)", cumulative(y3, a, effects), "ya"),
        made("poisson", "y ~ C(a)", tilted(_poisson(0.8, 7), a, effects), "ya"),
        made("loglinear", "~ C(a) * C(b)", tilted(b, a, effects).T, "ab"),
        made(
            "crosstab",
            "y ~ b",
            tilted(margin(design, 3)[[0, 2]] / margin(design, 3)[[0, 2]].sum(), b, np.array([0.0, 0.5])),
            "yb",
        ),
        made("crosstab", "~ a", a, "a"),
        made("crosstab", "y ~ b:a", tilted(np.array([0.6, 0.4]), ab, both), "yab"),
        made("means", "y ~ a", means, "ya"),
        made("quantiles", "y ~ a", means, "ya"),
        made(
            "ttest",
            "y ~ b",
            straight(y5, margin(design, 3)[[0, 2]] if design != "empty" else b, np.array([0.0, 0.2]))
            / 1.0,
            "yb",
        ),
        made(
            "ttest", "y ~ b", np.multiply.outer(margin(design, 5), np.array([0.8, 0.2])), "yb", null=True
        ),
        made("anova", "y ~ a", no_effect, "ya", null=True),
        made("anova", "y ~ a + b", np.multiply.outer(y5, ab), "yab", 4_000, null=True),
        *(
            made(
                "correlation",
                "x ~ y",
                np.multiply.outer(skew, margin("even", 5)),
                "xy",
                null=True,
                method=method,
            )
            for method in ("pearson", "spearman", "kendall")
        ),
        made("correlation", "x ~ y", pairs, "xy"),
        made("polychoric", "x ~ y", normal(0.4, margin(design, 4), margin("even", 4)), "xy"),
        made("components", "~ x + y + z", three, "xyz", 4_000),
        made("correspondence", "~ x + y + z", three, "xyz", 4_000),
        made("naive-bayes", "x ~ y + z", three, "xyz", 4_000),
        made("chow-liu", "~ x + y + z", three, "xyz", 4_000),
        made("discriminant", "x ~ y + z", three, "xyz", 4_000),
        made("kaplan-meier", "t ~ e + g", _lives(design), "teg"),
        made("cox", "t ~ e + C(g)", _lives(design), "teg"),
    ]


def _poisson(mean: float, size: int) -> FloatArray:
    shares = stats.poisson.pmf(np.arange(size), mean)
    return np.asarray(shares / shares.sum())


def _common_cause(design: str) -> FloatArray:
    """Three attributes that depend on each other through a latent class."""
    tables = []
    for weight, slope in ((0.5, -0.6), (0.5, 0.6)):
        one = [margin(design, size) * np.exp(slope * np.arange(size)) for size in (3, 4, 3)]
        x, y, z = (each / each.sum() for each in one)
        tables.append(weight * np.einsum("i,j,k->ijk", x, y, z))
    return np.asarray(sum(tables))


def _lives(design: str) -> FloatArray:
    """Time by event by group: hazards of 5 times, equal in both groups, and independent censoring."""
    groups = margin(design, 3)[[0, 2]]
    groups = groups / groups.sum()
    hazards, censored = np.array([0.1, 0.15, 0.2, 0.25, 0.3]), 0.1
    table, left = np.zeros((5, 2)), 1.0
    for time_, hazard in enumerate(hazards):
        table[time_, 1] = left * hazard
        table[time_, 0] = left * (1 - hazard) * (censored if time_ < 4 else 1.0)
        left *= (1 - hazard) * (1 - censored)
    return np.asarray(np.multiply.outer(table, groups))


def _of_the_issue() -> list[Setting]:
    """Reported settings: many cells with few records each."""
    scores = np.linspace(-1.5, 1.5, 7)
    bell = np.exp(-(scores**2) / 2)
    strong = np.exp(-(scores[:, None] ** 2 - 1.8 * np.multiply.outer(scores, scores) + scores**2) / 0.38)
    groups = np.array([0.4, 0.25, 0.2, 0.1, 0.03, 0.02])
    rare = np.array(
        [[0.5] * 6, [0.42, 0.42, 0.42, 0.42, 0.43, 0.45], [0.08, 0.08, 0.08, 0.08, 0.07, 0.05]]
    )
    skew = np.array([0.5, 0.3, 0.1, 0.05, 0.03, 0.015, 0.005])
    last = np.array([[0.3, 0.2], [0.25, 0.23], [0.01, 0.01]])
    correlation, laplace_1, gaussian_25 = Analysis.CORRELATION, "Laplace 1", "Gaussian 0.25"
    independent = np.multiply.outer(bell, bell)
    made = [
        Setting("correlation 7 x 7", correlation, "x ~ y", strong, ("x", "y"), 944, laplace_1),
        Setting(
            "correlation 7 x 7 no effect",
            correlation,
            "x ~ y",
            independent,
            ("x", "y"),
            944,
            laplace_1,
            null=True,
        ),
        Setting(
            "anova 7 x 5 no effect",
            Analysis.ANOVA,
            "y ~ a",
            np.ones((7, 5)),
            ("y", "a"),
            1_000,
            laplace_1,
            null=True,
        ),
        Setting(
            "ttest skewed no effect",
            Analysis.TTEST,
            "y ~ b",
            np.multiply.outer(skew, [0.8, 0.2]),
            ("y", "b"),
            1_000,
            laplace_1,
            null=True,
        ),
        Setting("ordinal rare level", Analysis.ORDINAL, "y ~ C(b)", last, ("y", "b"), 200, laplace_1),
    ]
    made += [
        Setting(
            f"multinomial 6 x 3, {records:,} records",
            Analysis.MULTINOMIAL,
            "y ~ C(a)",
            rare * groups,
            ("y", "a"),
            records,
            gaussian_25,
        )
        for records in (1_500, 5_000, 10_000, 20_000)
    ]
    return [Setting(**{**vars(one), "shares": one.shares / one.shares.sum()}) for one in made]
