"""Attacks on checked runs of numbers as the file has them: the group of the record of the largest value.

The attacker knows the number, the age and the region of every record, the sizes of both groups, and that
the target, whose number is the largest of the file, is in the first group with probability 0.60. He
reads one answer, computes what it would be in either world, and names the likelier group; or that with
the larger mean, or with the larger standard deviation; or that in which most answers are told at all.
The best of the four counts.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, partial
from itertools import product
from math import atanh, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from benchmarks import bench
from benchmarks.attack import Attack, Outcome
from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.controller.earlier import Earlier
from gencard.controller.jobs.answering import checked
from gencard.controller.run_question import RunQuestion
from gencard.core.coding import Attribute, Coding, Edges, Labels, intervals_of
from gencard.core.dataset import Dataset
from gencard.core.policy import Rules
from gencard.core.scale import Scale
from gencard.core.statistics.formula import Analysis
from gencard.core.types import FloatArray, IntArray
from gencard.wire.canonical import json_bytes
from gencard.wire.documents import Question

LIMITS: Mapping[float, float] = {1.0: 0.15, 0.5: 0.08}
"""Limits of influence, and the most by which right guesses may exceed the prior."""

PRIOR = 0.60
_DIFFERS = 0.04
"""Most worlds in which the decision may depend on the group of the target."""

_SIZES = (200, 1_000, 4_000)
_QUICK, _FULL = 8, 70
"""Targets for each file and size."""

_MED = Path(__file__).resolve().parents[2] / "shared" / "data" / "numbers_medexp.parquet"


def _edges(step: str, *numbers: int) -> Edges:
    scale = Scale(Decimal(step), tuple(map(Decimal, numbers)))
    return Edges(tuple(map(float, numbers)), decimals=scale.decimals, scale=scale)


CODING = Coding(
    (
        Attribute(
            "y",
            _edges(
                "0.01",
                0,
                *(digit * 10**zeros for zeros in range(2, 6) for digit in (1, 2, 5)),
                1_000_000,
            ),
        ),
        Attribute("age", _edges("1", 18, 30, 45, 60, 90)),
        Attribute("h", Labels(("a", "b", "c"))),
        Attribute("g", Labels(("no", "yes"))),
        Attribute("code", Labels(("0", "1"), ordered=True)),
    )
)
"""``g`` is the secret, ``code`` the same as a number."""


@cache
def _populations() -> Mapping[str, FloatArray]:
    """Files with long tails: expenditures, and log-normal numbers with a standard deviation of 1.2."""
    drawn = np.random.default_rng(3).lognormal(8, 1.2, 20_000)
    files: dict[str, FloatArray] = {"log-normal": cents(drawn)}
    if _MED.exists():
        files["med"] = cents(pd.read_parquet(_MED)["med"].to_numpy(dtype=np.float64))
    return files


def cents(values: FloatArray) -> FloatArray:
    cents: FloatArray = np.round(np.minimum(values, 990_000.0), 2).astype(np.float64)
    return cents


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Records of which everything but the groups is public.

    Args:
        y, age: Numbers, shape ``(n,)``; the target's y is the largest.
        h: Codes of a public attribute.
        g: Groups; the target's is a secret.
        target: Place of the target.
    """

    y: FloatArray
    age: FloatArray
    h: IntArray
    g: IntArray
    target: int

    @classmethod
    def drawn(cls, values: FloatArray, records: int, rng: np.random.Generator) -> "World":
        """Draw a file, whose groups are independent of all numbers."""
        y = rng.choice(values, records, replace=False)
        age, h = rng.integers(18, 91, records).astype(float), rng.choice(3, records, p=[0.5, 0.3, 0.2])
        return cls(y, age, h, (rng.random(records) > PRIOR).astype(np.int64), int(y.argmax()))

    def with_secret(self, secret: int) -> tuple[Dataset, dict[str, FloatArray]]:
        """The coded records and their numbers, with the target in a group."""
        g = self.g.copy()
        g[self.target] = secret
        numbers = {"y": self.y, "age": self.age}
        edges = {name: CODING.attribute(name).coding.edges for name in numbers}  # type: ignore[union-attr]
        codes = [intervals_of(edges[name], one).astype(np.int64) for name, one in numbers.items()]
        return Dataset.of_columns(CODING.domain, [*codes, self.h, g, g]), numbers

    @property
    def others(self) -> NDArray[np.bool_]:
        """True for each record but the target's."""
        others: NDArray[np.bool_] = np.arange(len(self.y)) != self.target
        return others

    def columns(self, names: str) -> FloatArray:
        """A constant and, by their names, what is public of each record, shape ``(n, columns)``."""
        parts = {"y": [self.y], "age": [self.age], "h": [self.h == 1, self.h == 2]}
        rows = [part for name in names.split() for part in parts[name]]
        return np.column_stack([np.ones(len(self.y)), *rows]).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Probe:
    """One question from which the attacker reads the group.

    Args:
        beside: Public terms of the model.
        within: Those of them whose coefficients each group has for itself.
        member: The population is the second group, so that the secret is who is in it.
    """

    kind: Analysis
    formula: str
    beside: str = ""
    within: str = ""
    member: bool = False
    options: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}: {self.formula}" + (" where g == 'yes'" if self.member else "")

    @property
    def run(self) -> RunQuestion:
        """The question as the controller reads it."""
        where, options = "g == 'yes'" if self.member else "", json_bytes(dict(self.options)).decode()
        return RunQuestion.new(Question(self.kind, self.formula, where, options=options), CODING)

    @property
    def of_variance(self) -> bool:
        """Whether the answer is a table of variances, without means."""
        return self.kind is Analysis.ANOVA and bool(self.beside)


PROBES = (
    Probe(Analysis.MEANS, "y ~ g"),
    Probe(Analysis.TTEST, "y ~ g"),
    Probe(Analysis.ANOVA, "y ~ g"),
    Probe(Analysis.ANOVA, "y ~ g + h", "h"),
    Probe(Analysis.LINEAR, "y ~ g"),
    Probe(Analysis.LINEAR, "y ~ g + h", "h"),
    Probe(Analysis.LINEAR, "y ~ g + age", "age"),
    Probe(Analysis.LINEAR, "y ~ g * h + age", "h age", "h"),
    Probe(Analysis.LINEAR, "y ~ g * age", "age", "age"),
    Probe(Analysis.LINEAR, "log1p(y) ~ g + age", "age"),
    Probe(Analysis.LINEAR, "age ~ y * g", "y", "y"),
    Probe(Analysis.CORRELATION, "~ y + code"),
    Probe(Analysis.QUANTILES, "y ~ g", options=(("q", (0.9,)),)),
    Probe(Analysis.MEANS, "y ~ 1", member=True),
    Probe(Analysis.LINEAR, "y ~ age", "age", "age", member=True),
    Probe(Analysis.LINEAR, "age ~ y", "y", "y", member=True),
    Probe(Analysis.CORRELATION, "~ y + age", member=True),
    Probe(Analysis.QUANTILES, "y ~ 1", member=True, options=(("q", (0.5,)),)),
)
"""Questions of each kind."""


def read(
    run: RunQuestion, records: tuple[Dataset, dict[str, FloatArray]], rules: Rules
) -> AnalysisAnswer | str:
    """The answer, or "waits" or "refused"."""
    result = checked(run, Earlier(CODING, (), ()), *records, rules)
    if result.answer is None:
        return "refused"
    return "waits" if result.review else AnalysisAnswer.of_json(json.loads(json.dumps(result.answer)))


# What an answer says -----------------------------------------------------------------------------


def contrast(probe: Probe, answer: AnalysisAnswer, world: World) -> float:
    """The released difference of the two groups at what is public of the target."""
    if probe.kind is Analysis.LINEAR:
        own = answer.coefficients
        assert own is not None
        parts = zip(own.names, own.params, strict=True)
        return sum(value * _at(name, world, member=probe.member) for name, value in parts)
    if probe.kind is Analysis.CORRELATION:
        return atanh(float(answer.table("correlation").values[0][1] or 0.0))
    if probe.of_variance:
        table = answer.table("anova")
        return sqrt(max(float(table.values[table.row_names.index("g")][_f_column(table)] or 0.0), 0.0))
    if probe.kind is Analysis.QUANTILES:
        rows = answer.table("quantiles").values
        return float(rows[-1][0] or 0.0) - (0.0 if probe.member else float(rows[0][0] or 0.0))
    means = _column(answer, "mean")
    return float(means[0] if probe.member else means[1] - means[0])


def _f_column(table: Any) -> int:
    return next(place for place, name in enumerate(table.column_names) if name.lower().startswith("f"))


def _at(name: str, world: World, *, member: bool) -> float:
    """Return the factor of a coefficient in the contrast."""
    if not member and "g[T.yes]" not in name:
        return 0.0
    value, level = 1.0, "abc"[world.h[world.target]]
    for part in name.replace(" ", "").split(":"):
        if part in ("y", "age"):
            value *= float({"y": world.y, "age": world.age}[part][world.target])
        elif part.startswith("h["):
            value *= part == f"h[T.{level}]"
    return value


def _column(answer: AnalysisAnswer, name: str) -> FloatArray:
    table = answer.table("means")
    return np.array(
        [np.nan if row[table.column_names.index(name)] is None else row[table.column_names.index(name)]
         for row in table.values], dtype=np.float64,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Expected:
    """Return the contrast in the two worlds, and its standard deviation."""

    worlds: tuple[float, float]
    spread: float

    def log_ratio(self, value: float, *, folded: bool) -> float:
        """Log-likelihood of the second world less that of the first."""
        values = [value, -value] if folded else [value]
        one, other = (
            np.logaddexp.reduce(stats.norm.logpdf(values, mean, self.spread)) for mean in self.worlds
        )
        return float(other - one)


def expected(probe: Probe, world: World) -> Expected:
    """Values that the attacker computes from public numbers; the groups of all others are random."""
    others, target = world.others, world.target
    sizes = np.bincount(world.g[others], minlength=2).astype(np.float64)
    if probe.kind is Analysis.CORRELATION:
        return _of_correlation(probe, world, sizes)
    if probe.kind is Analysis.QUANTILES:
        return _of_quantile(probe, world.y[others], sizes)
    response = probe.formula.split("~")[0].strip()
    y = {"y": world.y, "age": world.age, "log1p(y)": np.log1p(world.y)}[response]
    rows = world.columns(probe.beside)
    fitted = rows @ np.linalg.lstsq(rows[others], y[others], rcond=None)[0]
    s = sqrt(float(np.mean((y - fitted)[others] ** 2)))
    own = world.columns(probe.within)
    square = own[target] @ np.linalg.solve(own[others].T @ own[others], own[target])
    leverages = square * others.sum() / sizes
    moved = (y - fitted)[target] * leverages / (1 + leverages)
    if probe.member:
        spread = s * sqrt(leverages[1] * sizes[0] / others.sum())
        return Expected((fitted[target], fitted[target] + moved[1]), spread)
    spread = s * sqrt(leverages.sum())
    if probe.of_variance:  # the root of F is the contrast in its errors
        return Expected((-moved[0] / spread, moved[1] / spread), 1.0)
    return Expected((-moved[0], moved[1]), spread)


def _of_quantile(probe: Probe, values: FloatArray, sizes: FloatArray) -> Expected:
    """One more number above a quantile moves its rank by q."""
    q, near = float(dict(probe.options)["q"][0]), 0.03
    low, middle, high = np.quantile(values, [q - near, q, q + near])
    apart = (high - low) / (2 * near) / sizes
    errors = apart * np.sqrt(sizes * q * (1 - q))
    if probe.member:
        known = sqrt(sizes[0] / sizes.sum())
        return Expected((middle, middle + q * apart[1]), errors[1] * known)
    return Expected((-q * apart[0], q * apart[1]), float(np.hypot(*errors)))


def _of_correlation(probe: Probe, world: World, sizes: FloatArray) -> Expected:
    """Fisher's z of the others, and of the others with the target in the second group."""
    others, target = world.others, world.target
    worlds = []
    for secret in (0, 1):
        if probe.member:  # the population has the moments of all others, and perhaps the target
            points, weight, n = np.column_stack([world.y, world.age]), float(secret), sizes[1]
            centre = points[others].mean(axis=0)
            whole = np.cov(points[others].T, bias=True) * n
        else:
            points, weight, n = (
                np.column_stack([world.y, np.full(len(world.y), secret)]),
                1.0,
                sizes.sum(),
            )
            share = sizes[1] / n
            centre = np.array([world.y[others].mean(), share])
            whole = np.diag([world.y[others].var(), share * (1 - share)]) * n
        away = points[target] - centre
        whole = whole + weight * n / (n + 1) * np.outer(away, away)
        worlds.append(atanh(whole[0, 1] / sqrt(whole[0, 0] * whole[1, 1])))
    known = sizes[0] / sizes.sum() if probe.member else 1.0
    return Expected((worlds[0], worlds[1]), sqrt(known / (n - 3)))


def guesses(probe: Probe, answer: AnalysisAnswer, world: World) -> dict[str, int]:
    """The group of the target, as each attacker names it."""
    one, value = expected(probe, world), contrast(probe, answer, world)
    odds = one.log_ratio(value, folded=probe.of_variance) + log((1 - PRIOR) / PRIOR)
    named = {"likelier": int(odds > 0), "larger": int(value > sum(one.worlds) / 2)}
    if any(table.name == "means" for table in answer.tables) and not probe.member:
        spreads = _column(answer, "std")
        if np.ptp(spreads) > 0:
            named["more spread"] = int(np.argmax(spreads))
    return named


@dataclass(slots=True)
class Ended:
    """Ends of the runs of one question under one limit.

    Args:
        targets: Files in which the question was read.
        ends: Of the true worlds: how many were told, wait, are refused.
        differs: Files in which this depends on the group of the target.
        groups: Group of the target of each answer that was told.
        right: Of these, how many each attacker named.
    """

    targets: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    differs: int = 0
    groups: list[int] = field(default_factory=list)
    right: Counter[str] = field(default_factory=Counter)

    @property
    def prior(self) -> float:
        """Right guesses of an attacker who knows only that the answer was told."""
        share = float(np.mean(self.groups)) if self.groups else 0.0
        return max(share, 1 - share)

    @property
    def best(self) -> tuple[str, int]:
        """The attacker with the most right guesses; one of them knows only that the answer was told."""
        guess = int(np.mean(self.groups or [0]) > 0.5)
        right = {**self.right, "told": self.groups.count(guess)}
        return max(right.items(), key=lambda pair: pair[1])

    @property
    def note(self) -> str:
        """The ends in words."""
        name, right = self.best
        answered = len(self.groups)
        share = (
            f"{right / answered:.2f} right ({name}), prior among the told {self.prior:.2f}; "
            if answered
            else ""
        )
        return (
            f"{share}{answered} of {self.targets} told, {self.ends['waits']} wait, "
            f"{self.ends['refused']} refused; this depends on the group in {self.differs}"
        )


@cache
def tried(probe: Probe, targets: int) -> Mapping[tuple[str, int, float], Ended]:
    """Ask one question of all files, in both worlds of each target.

    Args:
        targets: For each file and size.

    Returns:
        By file, size and limit.
    """
    run, ended = probe.run, defaultdict[tuple[str, int, float], Ended](Ended)
    for (name, values), records in product(sorted(_populations().items()), _SIZES):
        rng = np.random.default_rng([PROBES.index(probe), records, len(values)])
        for _ in range(targets):
            world = World.drawn(values, records, rng)
            secret = int(world.g[world.target])
            both = [world.with_secret(one) for one in (0, 1)]
            reads: list[AnalysisAnswer | str] = ["told", "told"]
            for limit in LIMITS:  # what waits or is refused does so under a smaller limit, too
                reads = [
                    end if end in ("waits", "refused") else read(run, one, Rules(influence=limit))
                    for one, end in zip(both, reads, strict=True)
                ]
                _count(ended[name, records, limit], probe, world, secret, reads)
    return dict(ended)


def _count(
    one: Ended, probe: Probe, world: World, secret: int, reads: Sequence[AnalysisAnswer | str]
) -> None:
    ends = [end if isinstance(end, str) else "told" for end in reads]
    one.targets += 1
    one.ends[ends[secret]] += 1
    one.differs += ends[0] != ends[1]
    answer = reads[secret]
    if isinstance(answer, AnalysisAnswer):
        one.groups.append(secret)
        for name, guess in guesses(probe, answer, world).items():
            one.right[name] += guess == secret


def together(parts: Iterable[Ended]) -> Ended:
    """All files and sizes as one."""
    whole = Ended()
    for one in parts:
        whole.targets += one.targets
        whole.differs += one.differs
        whole.ends += one.ends
        whole.groups += one.groups
        whole.right += one.right
    return whole


def _group(quick: bool, *, probe: Probe, limit: float) -> Outcome:
    """The group of the target, of the answers that were told."""
    results = _results(probe, quick).items()
    whole = together(one for (*_, own), one in results if own == limit)
    return Outcome(whole.best[1], len(whole.groups), whole.note)


def _end(quick: bool, *, probe: Probe) -> Outcome:
    """Files in which the end of a run says the group to an attacker who knows all other records."""
    drafted = {key: one for key, one in _results(probe, quick).items() if key[2] == max(LIMITS)}
    whole = together(drafted.values())
    parts = [f"{one.differs} of {name}, n {size}" for (name, size, _), one in drafted.items()]
    return Outcome(whole.differs, whole.targets, ", ".join(parts))


def _results(probe: Probe, quick: bool) -> Mapping[tuple[str, int, float], Ended]:
    return tried(probe, _QUICK if quick else _FULL)


ATTACKS: tuple[Attack, ...] = (
    *(
        Attack(
            "A5",
            f"group of the largest number, prior {PRIOR:.2f}, limit {limit:g}: {probe}",
            "not tried",
            PRIOR + above,
            0,
            partial(_group, probe=probe, limit=limit),
        )
        for probe in PROBES
        for limit, above in LIMITS.items()
    ),
    *(
        Attack(
            "A5",
            f"the same from the end of a run, limit {max(LIMITS):g}: {probe}",
            "not tried",
            _DIFFERS,
            20,
            partial(_end, probe=probe),
        )
        for probe in PROBES
    ),
)
"""Attacks on numbers as the file has them."""


_LEVEL = 0.01
"""Probability that runs without a leak miss one of the targets."""


def run(quick: bool) -> bench.Result:
    """Each question, file, size and limit in a line; then each question of all files together."""
    rows = [
        (str(probe), name, records, limit, one.targets, one.ends["told"], one.ends["waits"],
         one.ends["refused"], one.differs, round(one.prior, 2), _share(one), one.best[0])
        for probe in PROBES
        for (name, records, limit), one in _results(probe, quick).items()
    ]  # fmt: skip
    columns = ("question", "file", "n", "limit", "targets", "told", "wait", "refused", "differ",
               "prior", "right", "attacker")  # fmt: skip
    outcomes = [(attack, attack.run(quick)) for attack in ATTACKS]
    above = [attack for attack, one in outcomes if attack.p_value(one) < _LEVEL / len(ATTACKS)]
    return bench.Result(
        (
            bench.Table("Largest number of the file", columns, rows),
            bench.Table("Questions of all files together", _COLUMNS, list(_of_questions(quick))),
        ),
        (bench.Target("attacks above their bound", len(above), 0, "at most"),),
        {"above": [attack.name for attack in above]},
    )


_COLUMNS = ("question", "limit", "targets", "told", "wait", "refused", "end differs, %", "prior",
            "right", "above the prior", "most")  # fmt: skip


def _of_questions(quick: bool) -> Iterator[tuple[bench.Cell, ...]]:
    for probe, (limit, most) in product(PROBES, LIMITS.items()):
        one = together(one for key, one in _results(probe, quick).items() if key[2] == limit)
        ends = (one.ends["told"], one.ends["waits"], one.ends["refused"])
        differs, right = round(100 * one.differs / one.targets, 1), _share(one)
        above = None if right is None else round(right - one.prior, 2)
        yield str(probe), limit, one.targets, *ends, differs, round(one.prior, 2), right, above, most


def _share(one: Ended) -> float | None:
    """Right guesses of the best attacker, of the answers that were told."""
    return round(one.best[1] / len(one.groups), 2) if one.groups else None


if __name__ == "__main__":
    bench.main("attacks_numbers", run, usually_quick=True)
