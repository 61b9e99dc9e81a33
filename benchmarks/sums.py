"""Answers from exact sums, and checked runs, beside the file: ``python -m benchmarks.sums``.

Each formula is planned on a schema that was drafted without a hand; psi is what the plan asks for, read
from the file exactly. This answer, and that of a checked run at the records, are compared, before any
output rule, with

* normal equations of the values, rounded to the drafted step, solved in fractions, and
* statsmodels on the file's own values, whose columns are scaled first.

A value that the draft proposes as a mark of missing values, -1 of ``experience``, is missing for all.
Differences of coefficients, standard errors and confidence bounds are in units of the standard error;
those of t are relative where t is above 1, those of p values are as they are.

Beside it, what becomes of each run under the rules of a drafted policy, as the first one of its records:
it is told, waits for a steward, or is refused; and the same where the schema declares a last edge of
``med``, above which numbers count as this edge.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from math import floor
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from formulaic import model_matrix
from scipy import stats

from benchmarks import bench
from benchmarks.bench import Cell, Result, Table, Target
from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.analysis.answers.margins import PsiMargins, RecordMargins
from gencard.analysis.formulas.answering import answer_of
from gencard.analysis.formulas.formulas import read_factors
from gencard.analysis.formulas.numbers import Needs
from gencard.analysis.formulas.summing import question_needs
from gencard.analysis.output_checks.stored import StoredRun
from gencard.controller.drafting.schema_draft import draft_schema
from gencard.controller.earlier import Earlier
from gencard.controller.jobs.answering import checked
from gencard.controller.records.vault import Vault
from gencard.controller.run_question import RunQuestion
from gencard.core.card.sums import Histogram, Sum
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import InvalidFormulaError
from gencard.core.policy import USUAL_RULES
from gencard.core.statistics.formula import Analysis
from gencard.core.statistics.measure import measure
from gencard.core.statistics.psi import Psi
from gencard.core.types import FloatArray
from gencard.wire.documents import Question

_FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"

EXACT, STATSMODELS = 1e-8, 1e-6
"""Largest differences, in standard errors."""


@dataclass(frozen=True, slots=True)
class Case:
    """One question.

    Args:
        file: Of the file, without "numbers_".
        where: A condition on levels, also as pandas reads it.
    """

    file: str
    formula: str
    kind: Analysis = Analysis.LINEAR
    where: str = ""

    def __str__(self) -> str:
        where = f" where {self.where}" if self.where else ""
        return f"{self.formula}{where}"


def _cases() -> Iterator[Case]:
    linear = {
        "medexp": (
            "med ~ sex", "med ~ sex + health", "med ~ sex + health + age", "med ~ age",
            "med ~ linc", "med ~ age + linc", "med ~ sex * age", "med ~ health * linc",
            "med ~ physlim + ndisease", "med ~ ndisease + age + linc", "age ~ sex + child",
            "linc ~ educdec + age + sex", "med ~ I(age / 10) + sex",
            "med ~ C(health, Treatment('good')) + age", "lpi ~ idp + fmde",
        ),
        "hours": (
            "whrswk ~ hhi", "whrswk ~ hhi + race", "whrswk ~ hhi + race + experience",
            "whrswk ~ experience", "whrswk ~ husby + kidslt6", "whrswk ~ race * husby",
            "whrswk ~ education + experience + husby", "husby ~ education",
            "husby ~ experience + region", "experience ~ race + whrswk",
            "whrswk ~ region + kidslt6 + kids618", "husby ~ region * hispanic",
        ),
        "wage": (
            "wage ~ sex", "wage ~ exper", "wage ~ sex + exper + school", "wage ~ sex * school",
            "wage ~ C(school)", "I(wage / 2 + 1) ~ sex + exper", "wage ~ school - 1",
        ),
        "price": (
            "price ~ speed", "price ~ ram + premium", "price ~ hd + premium + trend",
            "price ~ hd * premium", "price ~ ads + trend", "price ~ I(hd + ads) + cd",
            "hd ~ ram + trend", "price ~ C(screen) + hd", "price ~ premium:hd + multi",
        ),
        "visits": (
            "ofp ~ sex", "ofp ~ hlth + numchron", "ofp ~ age + faminc", "ofp ~ sex * age",
            "ofp ~ privins + medicaid + school", "faminc ~ school + age",
            "ofp ~ C(region) + faminc", "ofp ~ ofnp + opp",
        ),
    }  # fmt: skip
    for file, formulas in linear.items():
        yield from (Case(file, formula) for formula in formulas)
    yield Case("medexp", "med ~ age + sex", where="health == 'good'")
    yield Case("hours", "whrswk ~ experience", where="race != 'other'")
    yield Case("price", "price ~ hd + trend", where="premium == 'yes'")
    yield Case("visits", "ofp ~ age", where="sex == 'female'")
    others = {
        Analysis.MEANS: (
            ("medexp", "med ~ sex"), ("medexp", "med ~ health"), ("hours", "husby ~ race"),
            ("hours", "experience ~ hhi"), ("wage", "wage ~ sex"), ("visits", "ofp ~ hlth"),
        ),
        Analysis.TTEST: (
            ("medexp", "med ~ sex"), ("wage", "wage ~ sex"), ("hours", "experience ~ hhi"),
        ),
        Analysis.ANOVA: (
            ("medexp", "med ~ health"), ("visits", "ofp ~ region"), ("price", "price ~ ram"),
        ),
        Analysis.CORRELATION: (
            ("medexp", "~ med + age + linc"), ("hours", "~ whrswk + husby + experience"),
            ("price", "price ~ hd"),
        ),
    }  # fmt: skip
    for kind, questions in others.items():
        yield from (Case(file, formula, kind) for file, formula in questions)


CASES = tuple(_cases())


def data_file(name: str) -> Path:
    """The file of some numbers, without which the benchmark ends."""
    path = _FOLDER / f"numbers_{name}.parquet"
    if not path.exists():
        raise SystemExit(f"needs {path.name} in ../shared/data, beside the repository")
    return path


def psi_of(vault: Vault, needs: Needs) -> Psi:
    """Measure the statistics of a plan, exactly."""
    phi: list[Clique | Histogram | Sum] = [*needs.cliques, *needs.sums]
    phi += map(Histogram, needs.histograms)
    return measure(vault, phi, vault.coding.domain)


@dataclass(frozen=True, eq=False)
class Records:
    """One of the files, with a schema that was drafted from it."""

    path: Path

    @cached_property
    def vault(self) -> Vault:
        draft = draft_schema(self.path, self.path.stem, today=date(2026, 1, 1))
        return Vault(self.path, draft.schema.coding, draft.schema.readings)

    @property
    def coding(self) -> Coding:
        return self.vault.coding

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The file, its texts as categories in the schema's order, without the draft's missing marks."""
        frame = pd.read_parquet(self.path)
        for name, reading in self.vault.readings.items():
            marks = {float(mark) for mark in reading.absent}
            frame[name] = frame[name].where(~frame[name].isin(marks))
        for one in self.coding.attributes:
            if isinstance(one.coding, Labels) and not pd.api.types.is_numeric_dtype(frame[one.name]):
                frame[one.name] = pd.Categorical(frame[one.name], one.coding.labels)
        return frame

    @cached_property
    def rounded(self) -> dict[str, list[Fraction]]:
        """The numbers of the file as the drafted steps have them."""
        return {
            one.name: _rounded(one.coding, self.frame[one.name])
            for one in self.coding.attributes
            if isinstance(one.coding, Edges) and one.coding.scale is not None
        }

    def psi(self, case: Case) -> Psi:
        """Return the exact statistics that the plan of a question names."""
        needs = question_needs(case.formula, case.kind, self.coding, where=case.where, missing="drop")
        return psi_of(self.vault, needs)

    def answer(self, case: Case, psi: Psi | None = None) -> AnalysisAnswer:
        margins = PsiMargins(psi or self.psi(case), self.coding)
        return answer_of(case.formula, case.kind, margins, self.coding, where=case.where, missing="drop")

    def run(self, case: Case) -> "Run | None":
        """Return the checked run of a question; None if runs do not take the formula."""
        question = Question(case.kind, case.formula, case.where, "drop")
        try:
            run = RunQuestion.new(question, self.coding)
        except InvalidFormulaError:
            return None
        attributes = Earlier(self.coding, (), ()).attributes_with(run)
        return Run(run, *self.vault.read(attributes, run.stored, most_records=1_000_000))

    def chosen(self, case: Case) -> pd.DataFrame:
        """The records that the question is of."""
        names = read_factors(case.formula, self.coding).formula.attributes
        frame = self.frame.query(case.where) if case.where else self.frame
        return frame.dropna(subset=list(names))


@dataclass(frozen=True, eq=False)
class Clamped(Records):
    """A file with other last edges than the drafted ones, as which larger values count."""

    last: Mapping[str, int] | None = None

    @cached_property
    def vault(self) -> Vault:
        drafted = super().vault
        last = self.last or {}
        attributes = (
            _clamped(one, last[one.name]) if one.name in last else one
            for one in drafted.coding.attributes
        )
        return replace(drafted, coding=Coding(tuple(attributes)))


def _clamped(attribute: Attribute, last: int) -> Attribute:
    own = attribute.coding
    assert isinstance(own, Edges)
    assert own.scale is not None
    end = Decimal(last)
    edges = [Decimal(repr(edge)) for edge in own.edges if edge < last]
    cells = (*(cell for cell in own.scale.cells if cell < end), end)
    scale = replace(own.scale, cells=cells, above=True)
    return replace(attribute, coding=Edges.of_scale(tuple(edges), scale, missing=own.missing))


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A checked run, with its records in memory.

    Args:
        numbers: As the records have them, by attribute.
    """

    question: RunQuestion
    dataset: Dataset
    numbers: Mapping[str, FloatArray]

    def unrounded(self) -> AnalysisAnswer:
        """Return the answer before any output rule."""
        kept = self.question.output.kept(self.dataset)
        inside, outside = (
            self.question.records(self.dataset, self.numbers, one) for one in (kept, ~kept)
        )
        question = self.question.at(RecordMargins.of(inside.dataset))
        return StoredRun(question, inside, outside).answer

    def end(self) -> str:
        """Say whether the run is told, waits or is refused, and by which rules."""
        before = Earlier(self.question.question.coding, (), ())
        result = checked(self.question, before, self.dataset, self.numbers, USUAL_RULES)
        rules = dict.fromkeys(str(rule) for mark in result.marks or () for rule in mark.rules)
        if result.answer is not None and not result.review:
            return "told"
        return f"{'waits' if result.review else 'refused'}: {', '.join(rules)}"


def _rounded(coding: Edges, column: pd.Series) -> list[Fraction]:
    """Values rounded half up to the step: each is its shortest decimal."""
    step = Fraction(coding.scale.step) if coding.scale else Fraction(1)
    return [
        floor(Fraction(repr(value)) / step + Fraction(1, 2)) * step
        for value in column.astype(float).fillna(0.0).tolist()
    ]


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Least squares, as numbers in one order of names."""

    names: tuple[str, ...]
    params: FloatArray
    errors: FloatArray
    degrees: float

    @property
    def t(self) -> FloatArray:
        return self.params / self.errors

    @property
    def p(self) -> FloatArray:
        return np.asarray(2 * stats.t.sf(np.abs(self.t), self.degrees))

    def bounds(self, side: int) -> FloatArray:
        return np.asarray(self.params + side * stats.t.ppf(0.975, self.degrees) * self.errors)

    def farthest(self, other: "Fit") -> float:
        """Largest difference from another fit, in units of the module's text."""
        place = [self.names.index(name) for name in other.names]
        own = Fit(other.names, self.params[place], self.errors[place], self.degrees)
        differences = [
            np.abs(own.params - other.params) / other.errors,
            np.abs(own.errors - other.errors) / other.errors,
            np.abs(own.t - other.t) / np.maximum(np.abs(other.t), 1),
            *(np.abs(own.bounds(side) - other.bounds(side)) / other.errors for side in (-1, 1)),
            np.abs(own.p - other.p),
        ]
        return float(max(one.max(initial=0.0) for one in differences))


def same_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names of columns without spaces, and the parts of products in one order."""
    return tuple(":".join(sorted(name.replace(" ", "").split(":"))) for name in names)


def _matrices(records: Records, case: Case, *, exact: bool) -> tuple[Any, Any, tuple[str, ...]]:
    """Response and model matrix: of the file in floats, or of rounded values in whole numbers.

    Returns:
        Response, matrix and names; whole numbers are divided by a power of ten.
    """
    frame = records.chosen(case)
    if exact:
        numbers = {name: records.rounded[name] for name in records.rounded}
        columns = {name: [float(numbers[name][place]) for place in frame.index] for name in numbers}
        frame = frame.assign(**columns)
    y, x = model_matrix(case.formula, frame, na_action="ignore")
    kept = [place for place in range(x.shape[1]) if x.iloc[:, place].to_numpy().any()]
    x = x.iloc[:, kept]
    return y.to_numpy(dtype=float)[:, 0], x.to_numpy(dtype=float), same_names(list(x.columns))


def referee(records: Records, case: Case) -> Fit:
    """Normal equations in fractions; each float is taken as its shortest decimal."""
    y, x, names = _matrices(records, case, exact=True)
    whole = np.column_stack([x, y])
    columns = [_wholes(column) for column in whole.T]
    size = len(names)
    gram = [
        [Fraction(_dot(one[0], other[0]), one[1] * other[1]) for other in columns] for one in columns
    ]
    inverse = _inverted([row[:size] for row in gram[:size]])
    b = [sum((inverse[i][j] * gram[j][size] for j in range(size)), Fraction(0)) for i in range(size)]
    explained = sum((b[i] * gram[i][size] for i in range(size)), Fraction(0))
    degrees = len(y) - size
    scale = (gram[size][size] - explained) / degrees
    errors = [float(scale * inverse[i][i]) ** 0.5 for i in range(size)]
    return Fit(names, np.array(list(map(float, b))), np.array(errors), degrees)


def _wholes(column: FloatArray) -> tuple[list[int], int]:
    """Floats as whole numbers over a power of ten."""
    exact = [Fraction(repr(value)) for value in column.tolist()]
    under = max((one.denominator for one in exact), default=1)
    while any((one * under).denominator != 1 for one in exact):
        under *= 10
    return [int(one * under) for one in exact], under


def _dot(one: Sequence[int], other: Sequence[int]) -> int:
    return sum(x * y for x, y in zip(one, other, strict=True))


def _inverted(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    size = len(matrix)
    rows = [[*row, *(Fraction(int(i == j)) for j in range(size))] for i, row in enumerate(matrix)]
    for place in range(size):
        pivot = rows[place][place]
        rows[place] = [value / pivot for value in rows[place]]
        for other in range(size):
            if other != place and rows[other][place]:
                factor = rows[other][place]
                rows[other] = [x - factor * z for x, z in zip(rows[other], rows[place], strict=True)]
    return [row[size:] for row in rows]


def of_statsmodels(records: Records, case: Case) -> Fit:
    """Statsmodels on the file's values, with each column and the response divided by its size."""
    y, x, names = _matrices(records, case, exact=False)
    sizes, size = np.abs(x).max(axis=0), float(np.abs(y).max())
    fit = sm.OLS(y / size, x / sizes).fit()
    return Fit(names, fit.params * size / sizes, fit.bse * size / sizes, float(fit.df_resid))


def _fit_of(answer: AnalysisAnswer) -> Fit:
    own = answer.coefficients
    assert own is not None
    return Fit(same_names(own.names), np.array(own.params), own.bse, float(own.degrees or np.inf))


def _of_groups(records: Records, case: Case, answer: AnalysisAnswer) -> float:
    """Largest difference of means, t tests, analyses of variance and correlations from scipy and pandas.

    Means are in standard errors, all others relative.
    """
    frame = records.chosen(case)
    if case.kind is Analysis.CORRELATION:
        names = list(answer.table("correlation").row_names)
        own = np.array(answer.table("correlation").values, dtype=float)
        return float(np.abs(own - frame[names].astype(float).corr().to_numpy()).max())
    response, term = (part.strip() for part in case.formula.split("~"))
    groups = [part[response].to_numpy(dtype=float) for _, part in frame.groupby(term, observed=True)]
    if case.kind is Analysis.ANOVA:
        theirs = float(stats.f_oneway(*groups).statistic)
        return abs(float(answer["fvalue"] or np.nan) - theirs) / theirs
    table = answer.table("means")
    labels = [str(name) for name in sorted(frame[term].unique(), key=table.row_names.index)]
    rows = [table.values[table.row_names.index(name)] for name in labels]
    parts = [frame.loc[frame[term] == name, response].to_numpy(dtype=float) for name in labels]
    worst = max(
        abs(float(row[1] or 0) - float(part.mean())) / float(stats.sem(part))
        for row, part in zip(rows, parts, strict=True)
    )
    if case.kind is Analysis.TTEST:
        ordered = [frame.loc[frame[term] == name, response] for name in table.row_names]
        theirs = float(stats.ttest_ind(*ordered).statistic)
        worst = max(worst, abs(float(answer["tvalue"] or np.nan) - theirs) / abs(theirs))
    return worst


def _differences(records: Records, case: Case, answer: AnalysisAnswer) -> tuple[float | None, float]:
    """Largest difference of an answer from fractions, of linear models alone, and from the file."""
    if case.kind is not Analysis.LINEAR:
        return None, _of_groups(records, case, answer)
    own = _fit_of(answer)
    return own.farthest(referee(records, case)), own.farthest(of_statsmodels(records, case))


_ENDS = ("told", "waits", "refused", "not taken")
LASTS = (10_000, 5_000)
"""Last edges of ``med`` that a steward may declare."""


def _ends(case: Case, drafted: Records, declared: Sequence[Records]) -> Iterator[tuple[str, float]]:
    """End and seconds of a run, as drafted and with each last edge that the question is about."""
    about = "med" in read_factors(case.formula, drafted.coding).formula.attributes
    for one in (drafted, *(declared if about else ())):
        run = one.run(case)
        begin = perf_counter()
        end = "not taken: a function in the formula" if run is None else run.end()
        yield end, perf_counter() - begin


def run(quick: bool) -> Result:  # noqa: ARG001 - all cases take a minute or two
    files = {case.file: Records(data_file(case.file)) for case in CASES}
    declared = [Clamped(data_file("medexp"), {"med": last}) for last in LASTS]
    rows, of_runs = list[tuple[Cell, ...]](), list[tuple[Cell, ...]]()
    differences: dict[str, list[tuple[float | None, float | None]]] = {"psi": [], "runs": []}
    ends: list[list[str]] = [[], [], []]
    for case in CASES:
        records = files[case.file]
        psi, one = records.psi(case), records.run(case)
        of_psi = _differences(records, case, records.answer(case, psi))
        of_run = (None, None) if one is None else _differences(records, case, one.unrounded())
        differences["psi"].append(of_psi)
        differences["runs"].append(of_run)
        names = (case.file, str(case), str(case.kind))
        rows.append((*names, len(psi.measurements) + len(psi.sums), *map(_written, of_psi)))
        results = list(_ends(case, records, declared))
        outcomes = [end for end, _ in results]
        for place, some in enumerate(ends):
            some.append(outcomes[place] if place < len(outcomes) else outcomes[0])
        cells = outcomes + ["as drafted"] * (len(ends) - len(outcomes))
        seconds = f"{results[0][1]:.2f}"
        of_runs.append((*names, *map(_written, of_run), *cells, seconds))
    referees = ("from fractions", "from statsmodels, scipy, pandas")
    edges = ("as drafted", *(f"last edge {last:,}" for last in LASTS))
    counted: list[tuple[Cell, ...]] = [
        (schema, *(sum(end.startswith(word) for end in some) for word in _ENDS))
        for schema, some in zip(edges, ends, strict=True)
    ]
    return Result(
        tables=[
            Table(
                f"{len(CASES)} questions of five files, from psi",
                ("file", "question", "kind", "tables", *referees),
                rows,
            ),
            Table(
                "The same as checked runs", ("file", "question", "kind", *referees, *edges, "s"), of_runs
            ),
            Table("Runs under the drafted rules", ("schema", *_ENDS), counted),
        ],
        targets=[
            *(
                Target(
                    f"{name}: largest difference from {which}", _largest(pairs, place), most, "at most"
                )
                for name, pairs in differences.items()
                for place, (which, most) in enumerate((("fractions", EXACT), ("the file", STATSMODELS)))
            ),
            Target("questions", len(CASES), 60, "at least"),
        ],
        figures={"ends": dict(zip(edges, ends, strict=True))},
    )


def _written(difference: float | None) -> str | None:
    return None if difference is None else f"{difference:.1e}"


def _largest(pairs: Sequence[tuple[float | None, float | None]], place: int) -> float:
    return max(pair[place] or 0.0 for pair in pairs)


if __name__ == "__main__":
    bench.main("sums", run)
