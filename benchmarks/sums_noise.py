"""Noise in answers from sums, said and done: ``python -m benchmarks.sums_noise [--quick]``.

The card of a question is what its plan asks for, with the noise of a mechanism. psi is read from the
file exactly once; noise with the mechanism's law is then drawn on it again and again, and each draw
is answered as an analyst would. The file does not change: what moves is noise alone. So

* the estimate +- 1.96 of the printed noise has to cover the exact answer, of the file's values rounded
  and clamped as the schema declares, in 0.93 to 0.97 of the draws;
* the printed noise has to be, on average, the standard deviation of the estimates;
* where an error is marked "at most", the estimate +- 1.96 of it has to cover in at least 0.93 what the
  file would say but for a sampling error, which is taken as normal, with the exact answer's error.

Coverage is judged as in ``benchmarks.answers``, in settings where 95 % of the draws give an answer: by
what so many draws can tell. Noise is widened where it nearly drowns an answer, which the ratio to the
spread then shows. Predictions, from schema and declared n alone, are judged on made-up files, whose
margins are those that a prediction makes up: means, a t test and regressions, with a skewed response or
a skewed term. In files, whose terms are skewed and correlated, noise is up to 14 times as large; levels
that are equally frequent, in place of fine cells, predict no better.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import special, stats

from benchmarks import bench
from benchmarks.answers import LEAST, MOST
from benchmarks.answers_grid import Seeded
from benchmarks.bench import Cell, Result, Table, Target
from benchmarks.sums import Case, Clamped, Records
from gencard.analysis.answers.answer import COEFFICIENTS, NOISE, Address, AnalysisAnswer
from gencard.analysis.answers.intervals import AT_MOST
from gencard.analysis.answers.noisy_estimates import name_of
from gencard.analysis.answers.noisy_margins import margins_of
from gencard.analysis.formulas.answering import answer_of, predicted
from gencard.client.terms import measured_with
from gencard.controller.records.vault import Vault
from gencard.core.card.privacy import AddedNoise, gaussian, laplace
from gencard.core.card.terms import Proposal
from gencard.core.coding import Coding, Edges
from gencard.core.errors import NoiseDrownsError
from gencard.core.generators.contract import rng_of
from gencard.core.statistics.formula import Analysis
from gencard.core.statistics.noise import noisy
from gencard.core.statistics.psi import Psi
from gencard.core.types import FloatArray

_FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"

_Z = 1.96
_SEED = 20_27
_DRAWS, _FEW = 1_000, 40
_ANSWERED = 0.95
"""Share of draws with an answer, without which a setting is not judged."""

_FALSE_ALARMS = 0.01
"""Chance that, of numbers which all keep the claim, any is said to contradict it."""

_NEAR = 0.1
"""Largest relative difference of the printed noise from the spread of the draws."""

_PREDICTED = 2.0
_SETTINGS = 12
_ADD, _REPLACE = "add-remove", "replace-one"


@dataclass(frozen=True, slots=True)
class Setting:
    """One question, and the noise of its card.

    Args:
        records: How many of the file's records, drawn at random; 0 for all.
        last: Last edges in place of the drafted ones.
        made_up: Records with the margins that a prediction makes up, in place of the file's.
    """

    case: Case
    privacy: AddedNoise
    records: int = 0
    last: Mapping[str, int] | None = None
    made_up: bool = False

    @property
    def file(self) -> str:
        """Name of the records, for the table."""
        parts = [f"{name} to {edge:,}" for name, edge in (self.last or {}).items()]
        parts += ["made up"] * self.made_up
        return ", ".join([self.case.file, *parts])


def _settings() -> Iterator[Setting]:
    linear, means, ttest = Analysis.LINEAR, Analysis.MEANS, Analysis.TTEST
    clamped, correlation = {"med": 5_000}, Analysis.CORRELATION

    def of_gaussian(rho: str, neighbouring: str) -> AddedNoise:
        return gaussian(rho, neighbouring=neighbouring)

    def of_laplace(epsilon: str, neighbouring: str) -> AddedNoise:
        return laplace(epsilon, neighbouring=neighbouring)

    yield Setting(Case("hours", "whrswk ~ hhi", linear), of_gaussian("0.05", _ADD))
    yield Setting(Case("hours", "husby ~ experience + region", linear), of_gaussian("0.05", _REPLACE))
    yield Setting(Case("hours", "whrswk ~ hhi + experience + kidslt6", linear), of_laplace("2", _ADD))
    yield Setting(Case("hours", "husby ~ hhi", means), of_laplace("1", _REPLACE))
    yield Setting(Case("hours", "experience ~ hhi", ttest), of_gaussian("0.05", _REPLACE))
    yield Setting(Case("hours", "husby ~ experience", correlation), of_laplace("1", _ADD))
    yield Setting(Case("hours", "whrswk ~ hhi", linear), of_laplace("4", _REPLACE), records=4_000)
    yield Setting(Case("wage", "wage ~ sex", linear), of_gaussian("0.05", _ADD))
    yield Setting(Case("wage", "wage ~ sex + exper + school", linear), of_gaussian("20", _REPLACE))
    yield Setting(Case("wage", "wage ~ sex", means), of_laplace("4", _ADD))
    yield Setting(Case("wage", "wage ~ sex", ttest), of_gaussian("0.2", _REPLACE))
    yield Setting(Case("wage", "wage ~ sex", linear), of_gaussian("2", _REPLACE), records=800)
    yield Setting(Case("medexp", "med ~ sex", linear), of_gaussian("1", _REPLACE))
    yield Setting(Case("medexp", "med ~ sex + age", linear), of_laplace("10", _ADD))
    yield Setting(Case("medexp", "med ~ sex", means), of_laplace("10", _REPLACE))
    yield Setting(Case("medexp", "med ~ sex", linear), of_gaussian("0.2", _ADD), last=clamped)
    yield Setting(Case("medexp", "med ~ age + linc", linear), of_gaussian("1", _REPLACE), last=clamped)
    yield Setting(Case("medexp", "~ age + med", correlation), of_laplace("30", _ADD), last=clamped)
    yield Setting(
        Case("hours", "whrswk ~ hhi + experience", linear),
        of_gaussian("0.05", _ADD),
        20_000,
        made_up=True,
    )
    yield Setting(Case("hours", "husby ~ hhi", means), of_laplace("1", _REPLACE), 20_000, made_up=True)
    yield Setting(
        Case("wage", "wage ~ sex + school", linear), of_gaussian("5", _REPLACE), 4_000, made_up=True
    )
    yield Setting(Case("medexp", "med ~ sex + age", linear), of_laplace("10", _ADD), 4_000, made_up=True)
    yield Setting(Case("medexp", "age ~ med", linear), of_gaussian("2", _REPLACE), 6_000, made_up=True)
    yield Setting(
        Case("hours", "whrswk ~ husby + experience + region", linear),
        of_laplace("5", _REPLACE),
        20_000,
        made_up=True,
    )
    yield Setting(Case("wage", "wage ~ sex", ttest), of_gaussian("2", _ADD), 4_000, made_up=True)


SETTINGS = tuple(_settings())


def _records(setting: Setting, folder: Path) -> Records:
    """The records of a setting, in a file of their own where they are not all of one."""
    path = _FOLDER / f"numbers_{setting.case.file}.parquet"
    if not path.exists():
        raise SystemExit(f"needs {path.name} in ../shared/data, beside the repository")
    whole = Clamped(path, last=setting.last)
    if setting.made_up:
        own = folder / f"made_{SETTINGS.index(setting)}.parquet"
        frame = _made_up(whole.coding, setting.records, rng=np.random.default_rng(_SEED))
        frame.to_parquet(own)
        return _Declared(own, declared=whole.coding)
    if not setting.records:
        return whole
    own = folder / f"part_{SETTINGS.index(setting)}.parquet"
    pd.read_parquet(path).sample(setting.records, random_state=_SEED).to_parquet(own, index=False)
    return Clamped(own, last=setting.last)


@dataclass(frozen=True, eq=False)
class _Declared(Records):
    """Records whose schema is known."""

    declared: Coding | None = None

    @cached_property
    def vault(self) -> Vault:
        assert self.declared is not None
        return Vault(self.path, self.declared)


def _made_up(coding: Coding, records: int, *, rng: np.random.Generator) -> pd.DataFrame:
    """Independent columns: levels equally frequent, numbers uniform in equally frequent cells."""
    columns: dict[str, object] = {}
    for attribute in coding.attributes:
        own = attribute.coding
        if isinstance(own, Edges) and own.scale is not None:
            bounds = np.array([int(cell / own.scale.step) for cell in own.scale.cells])
            lows, highs = bounds[:-1], bounds[1:] - 1
            highs[-1] += 1
            cell = rng.integers(0, len(lows), records)
            columns[attribute.name] = own.scale.numbers(rng.integers(lows[cell], highs[cell] + 1))
        else:
            names = own.level_names[: own.size - own.missing]
            columns[attribute.name] = rng.choice(names, records)
    return pd.DataFrame(columns)


def estimates_of(kind: Analysis, answer: AnalysisAnswer) -> dict[Address, float]:
    """The numbers of an answer that are judged: coefficients, means, or the correlations of pairs.

    Raises:
        NoiseDrownsError: One was left out.
    """
    if kind is Analysis.MEANS:
        table = answer.table("means")
        rows = zip(table.row_names, table.values, strict=True)
        place = table.column_names.index("mean")
        return {Address("means", name, "mean"): _there(row[place]) for name, row in rows}
    if kind is Analysis.CORRELATION:
        table = answer.table("correlation")
        return {
            Address("correlation", one, other): _there(table.values[i][j])
            for i, one in enumerate(table.row_names)
            for j, other in enumerate(table.column_names)
            if i < j
        }
    if answer.coefficients is None:
        raise NoiseDrownsError
    pairs = zip(answer.coefficients.names, answer.coefficients.params, strict=True)
    return {Address(COEFFICIENTS, name, ""): float(value) for name, value in pairs}


def _there(value: float | None) -> float:
    if value is None:
        raise NoiseDrownsError
    return value


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Answers from draws of noise.

    Args:
        truth: The exact answer, shape ``(numbers,)``.
        sampling: Its standard errors; NaN where the answer has no coefficients.
        draws: How many there were.
        values: Shape ``(answers, numbers)``.
        noise: What the answers say of the noise in them, of the same shape.
        errors: Their standard errors, of the same shape.
        at_most: Whether each answer says that errors are at most those.
    """

    truth: FloatArray
    sampling: FloatArray
    draws: int
    values: FloatArray
    noise: FloatArray
    errors: FloatArray
    at_most: FloatArray

    @property
    def answered(self) -> float:
        return len(self.values) / self.draws

    @property
    def is_judged(self) -> bool:
        return self.answered >= _ANSWERED

    @property
    def coverage(self) -> FloatArray:
        return np.asarray((np.abs(self.values - self.truth) <= _Z * self.noise).mean(axis=0))

    @property
    def ratios(self) -> FloatArray:
        """Mean of the noise that is said, in units of the spread of the draws."""
        return np.asarray(self.noise.mean(axis=0) / self.values.std(axis=0, ddof=1))

    @property
    def marked(self) -> float:
        """Share of the answers that are marked "at most"."""
        return float(self.at_most.mean())

    @property
    def coverage_at_most(self) -> FloatArray:
        """Expected coverage of marked errors, over a normal sampling error; NaN without any."""
        chosen = self.at_most.astype(bool)
        if not chosen.any():
            return np.full(len(self.truth), np.nan)
        off, half = (self.values - self.truth)[chosen], _Z * self.errors[chosen]
        inside = special.ndtr((half - off) / self.sampling) - special.ndtr((-half - off) / self.sampling)
        return np.asarray(inside.mean(axis=0))

    def bounds(self, alarms: float) -> tuple[float, float]:
        """Between which observed coverages may lie; see ``benchmarks.answers``."""
        number = max(len(self.values), 1)
        low = float(stats.binom.ppf(alarms / 2, number, LEAST))
        return low / number, float(stats.binom.ppf(1 - alarms / 2, number, MOST)) / number

    def contradicting(self, alarms: float) -> int:
        low, high = self.bounds(alarms)
        return int(((self.coverage < low) | (self.coverage > high)).sum())

    @property
    def outside(self) -> int:
        return int(((self.coverage < LEAST) | (self.coverage > MOST)).sum())


def drawn(setting: Setting, records: Records, draws: int) -> Drawn:
    """Answers from draws of the card's noise."""
    case, coding, exact = setting.case, records.coding, records.psi(setting.case)
    rng = np.random.default_rng([_SEED, SETTINGS.index(setting)])
    known = estimates_of(case.kind, _answer(case, exact, coding))
    errors = _errors(case, _answer(case, exact, coding), len(known))
    values, noise, totals, marks = [], [], [], []
    for _ in range(draws):
        psi = noisy(exact, setting.privacy, Seeded(rng), coding=coding)
        try:
            answer = _answer(case, psi, coding)
            own = estimates_of(case.kind, answer)
        except NoiseDrownsError:
            continue
        if own.keys() != known.keys():
            continue
        table = answer.table(NOISE)
        stated = {name: row[0] for name, row in zip(table.row_names, table.values, strict=True)}
        values.append(list(own.values()))
        noise.append([stated[name_of(address)] for address in own])
        totals.append(_errors(case, answer, len(known)))
        marks.append(AT_MOST in answer.notes)
    shape = (-1, len(known))
    return Drawn(
        np.array(list(known.values())),
        errors,
        draws,
        np.array(values, dtype=float).reshape(shape),
        np.array(noise, dtype=float).reshape(shape),
        np.array(totals, dtype=float).reshape(shape),
        np.array(marks, dtype=float),
    )


def _answer(case: Case, psi: Psi, coding: Coding) -> AnalysisAnswer:
    return answer_of(case.formula, case.kind, margins_of(psi, coding), coding, missing="drop")


def _errors(case: Case, answer: AnalysisAnswer, numbers: int) -> FloatArray:
    if case.kind is not Analysis.LINEAR or answer.coefficients is None:
        return np.full(numbers, np.nan)
    return answer.coefficients.bse


def prediction(setting: Setting, records: Records) -> tuple[FloatArray, float]:
    """Return the noise that is predicted before measuring, and its distance from the noise in psi.

    Returns:
        The predicted noise in each number: infinite where it would drown the analysis, one NaN where
        nothing is predicted. The largest relative difference of the deviations of the card's noise,
        as they are known before measuring, from those that psi states.
    """
    case, exact, coding = setting.case, records.psi(setting.case), records.coding
    sums = tuple(one.sum for one in exact.sums)
    fine = tuple(one.attribute for one in exact.histograms)
    terms = Proposal(
        *("records", "benchmark", exact.cliques, "ipf", 1, setting.privacy), histograms=fine, sums=sums
    )
    held = measured_with(terms, coding)
    psi = noisy(exact, setting.privacy, Seeded(np.random.default_rng(_SEED)), coding=coding)
    stated = [(one.stddev, held[0][one.clique]) for one in psi.measurements]
    for one in psi.sums:
        stated += zip((one.stddev, one.counts_stddev), held[2][one.sum], strict=True)
    off = max(abs(own - known) / max(own, 1.0) for own, known in stated)
    prediction = predicted(
        *(case.formula, case.kind, coding, held, len(records.frame)), rng=rng_of(0), missing="drop"
    )
    if prediction is None:
        return np.array([np.nan]), off
    return np.array(
        prediction.noise if prediction.noise is not None else [np.inf] * len(prediction.names)
    ), off


_COLUMNS = (
    *("records and question", "noise", "answered", "covers", "said / spread", "predicted / said"),
    *("at most", "covers so"),
)


def _cells(setting: Setting, n: int, one: Drawn, foretold: FloatArray) -> tuple[Cell, ...]:
    mean = one.noise.mean(axis=0) if len(one.noise) else np.full(len(one.truth), np.nan)
    return (
        f"{setting.file}, {n:,}: {setting.case} ({setting.case.kind})",
        *(str(setting.privacy), one.answered),
        *(_range(part) for part in (one.coverage, one.ratios, foretold / mean)),
        one.marked,
        _range(one.coverage_at_most),
    )


def _range(numbers: FloatArray) -> str:
    """Least and largest; empty without any."""
    if np.isnan(numbers).any():
        return ""
    return f"{numbers.min():.3f}-{numbers.max():.3f}"


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """A setting with its draws, the noise predicted in each number, and how far deviations are off."""

    setting: Setting
    records: int
    drawn: Drawn
    predicted: FloatArray
    off: float

    @property
    def cells(self) -> tuple[Cell, ...]:
        return _cells(self.setting, self.records, self.drawn, self.predicted)

    @property
    def ahead(self) -> FloatArray:
        """Predictions over the noise that is said, and the inverse."""
        ratios = self.predicted / self.drawn.noise.mean(axis=0)
        return np.concatenate([ratios, 1 / ratios])


def measured(place: int, draws: int) -> Measured:
    """One of ``SETTINGS``, whose cells are written to standard error, too."""
    setting = SETTINGS[place]
    with tempfile.TemporaryDirectory() as folder:
        records = _records(setting, Path(folder))
        one = drawn(setting, records, draws)
        foretold, off = prediction(setting, records)
        own = Measured(setting, len(records.frame), one, foretold, off)
    print(*own.cells, file=sys.stderr, flush=True)
    return own


def run(quick: bool) -> Result:
    draws = _FEW if quick else _DRAWS
    every = [(place, draws) for place in range(len(SETTINGS))]
    results = bench.on_all_cores(measured, every)
    judged = [one.drawn for one in results if one.drawn.is_judged]
    alarms = _FALSE_ALARMS / max(sum(len(one.truth) for one in judged), 1)
    ahead = max(float(one.ahead.max()) for one in results if one.setting.made_up)
    title = f"Noise said and done in {len(SETTINGS)} settings, {draws:,} draws each"
    return Result(
        [Table(title, _COLUMNS, [one.cells for one in results])],
        [
            *_targets(judged, alarms, quick),
            Target(
                "deviations known before measuring, and psi's",
                max(one.off for one in results),
                1e-9,
                "at most",
            ),
            Target("predicted and said, made-up files", ahead, _PREDICTED, "at most", "times"),
        ],
    )


def _targets(judged: Sequence[Drawn], alarms: float, quick: bool) -> list[Target]:
    outside = sum(one.outside for one in judged)
    kept = sum(one.outside == 0 for one in judged)
    near = sum(bool((np.abs(one.ratios - 1) <= _NEAR).all()) for one in judged)
    least = min(float(one.ratios.min()) for one in judged)
    marked = [float(one.coverage_at_most.min()) for one in judged if one.at_most.any()]
    too_few = "too few draws" if quick else ""
    name = f"numbers that contradict {LEAST} to {MOST} ({outside} lie outside by chance or not)"
    contradicting = sum(one.contradicting(alarms) for one in judged)
    return [
        Target(
            f"settings with answers from {_ANSWERED:.0%} of draws", len(judged), _SETTINGS, "at least"
        ),
        Target(
            f"of these, with each coverage from {LEAST} to {MOST}",
            *(kept, _SETTINGS, "at least"),
            unchecked=too_few,
        ),
        Target(name, contradicting, 0, "at most"),
        Target("settings with noise as said", near, _SETTINGS, "at least", unchecked=too_few),
        Target("least noise said", least, 1 - _NEAR, "at least", "of the spread", unchecked=too_few),
        Target('coverage of errors "at most"', min(marked), LEAST, "at least", unchecked=too_few),
    ]


if __name__ == "__main__":
    bench.main("sums_noise", run)
