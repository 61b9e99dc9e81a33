"""Populations in which a model holds, made from two public files, and one analysis of each.

Adult (48,842 records) and the census sample (50,000), with levels joined as a survey would join them.
The attributes of an analysis are drawn from a table that the model fits: in it, what an interval has to
cover is known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod

import numpy as np

from benchmarks.adult import adult
from benchmarks.census import census
from gencard.analysis.answers.design import CheckedQuestion
from gencard.analysis.answers.kinds import answered
from gencard.analysis.answers.margins import PsiMargins
from gencard.analysis.formulas.answering import read_question
from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.domain import Clique
from gencard.core.statistics.formula import Analysis
from gencard.core.statistics.psi import Measurement, Psi
from gencard.core.types import FloatArray, IntArray

Columns = Mapping[str, IntArray]

_STEPS = 500


@dataclass(frozen=True, eq=False)
class Case:
    """An analysis, and a population in which its model holds.

    Args:
        shares: Of the population in each cell, one axis for each attribute of the coding.
        records: How many are drawn from it.
    """

    name: str
    kind: Analysis
    question: CheckedQuestion
    shares: FloatArray
    records: int

    @property
    def coding(self) -> Coding:
        return self.question.coding

    @cached_property
    def cliques(self) -> tuple[Clique, ...]:
        """Marginals that the card measures because the analysis needs them."""
        return self.question.cliques

    @cached_property
    def truth(self) -> FloatArray:
        """The coefficients in the population."""
        return _params(self.question, self.shares * self.records)

    @property
    def judged(self) -> slice:
        """The coefficients that are judged: all but a log-linear constant, the size of the sample."""
        return slice(1 if self.kind is Analysis.LOGLINEAR else 0, None)

    def drawn(self, *, rng: np.random.Generator) -> Psi:
        """Exact statistics of records drawn from the population."""
        cells = rng.multinomial(self.records, self.shares.reshape(-1)).reshape(self.shares.shape)
        return self.measured(cells)

    def measured(self, cells: FloatArray | IntArray) -> Psi:
        """The statistics of the card, of a table of counts."""
        domain = self.coding.domain
        tables = (
            Measurement(clique, cells.sum(axis=tuple(_outside(domain.attributes, clique))))
            for clique in self.cliques
        )
        return Psi(domain, tuple(tables))


def cases() -> list[Case]:
    """Linear, logistic and log-linear model, and a table's odds ratio, on both files."""
    wages, people = _adult(), _census()
    return [
        _linear("Adult", "education ~ C(sex) + C(marital) + age", wages),
        _logistic("Adult", "income ~ C(sex) + C(marital) + education", wages),
        _loglinear("Adult", "~ (income + sex + marital) ** 2", wages),
        _table("Adult", "income ~ sex", wages),
        _linear("census", "age ~ C(sex) + C(region)", people),
        _logistic("census", "ill ~ C(sex) + C(grade) + age", people),
        _loglinear("census", "~ (ill + sex + region) ** 2", people),
        _table("census", "ill ~ sex", people),
    ]


def _adult() -> Columns:
    records = adult()
    columns = {name: records.column(name).astype(np.int64) for name in records.domain.attributes}
    return {
        "income": columns["income"],
        "sex": columns["sex"],
        "age": np.clip(columns["age"] // 4, 0, 5),
        "education": columns["education-num"],
        "marital": _joined(columns["marital-status"], ([1], [0, 6], [2, 3, 4, 5])),
    }


def _census() -> Columns:
    records = census(("Sex", "Age", "Region", "Approximated Social Grade", "Health"))
    columns = {name: records.column(name).astype(np.int64) for name in records.domain.attributes}
    return {
        "sex": columns["Sex"],
        "age": columns["Age"],
        "region": columns["Region"],
        "grade": columns["Approximated Social Grade"],
        "ill": _joined(columns["Health"], ([0, 1, 2], [3, 4, 5])),
    }


def _joined(codes: IntArray, groups: Sequence[Sequence[int]]) -> IntArray:
    joined = np.zeros(len(codes), dtype=np.int64)
    for place, group in enumerate(groups):
        joined[np.isin(codes, group)] = place
    return joined


def _counted(columns: Columns, attributes: Sequence[str]) -> tuple[Coding, FloatArray]:
    sizes = tuple(int(columns[name].max()) + 1 for name in attributes)
    levels = (Labels(tuple(map(str, range(size))), integer=True, ordered=True) for size in sizes)
    coding = Coding(tuple(Attribute(name, one) for name, one in zip(attributes, levels, strict=True)))
    cells = np.ravel_multi_index([columns[name] for name in attributes], sizes)
    return coding, np.bincount(cells, minlength=prod(sizes)).reshape(sizes).astype(np.float64)


def _asked(text: str, kind: Analysis, columns: Columns) -> tuple[CheckedQuestion, FloatArray]:
    """A question over the attributes that the formula names, and their table; the response is first."""
    names = [name for name in columns if name in text]
    names.sort(key=lambda name: (not text.startswith(name), text.index(name)))
    coding, table = _counted(columns, names)
    return read_question(text, kind, coding), table


def _params(question: CheckedQuestion, table: FloatArray) -> FloatArray:
    psi = Psi(question.coding.domain, (Measurement(question.coding.domain.attributes, table),))
    coefficients = answered(question, PsiMargins(psi)).coefficients
    assert coefficients is not None
    return np.array(coefficients.params)


def _predictor(question: CheckedQuestion, table: FloatArray) -> FloatArray:
    """The linear predictor of the model fitted to the file, in each cell of the design's attributes."""
    design = question.model()
    sizes = question.coding.domain.project(design.attributes).sizes
    codes = np.indices(sizes).reshape(len(sizes), -1).T
    return np.asarray((design.matrix(codes) @ _params(question, table)).reshape(sizes))


def _logistic(file: str, text: str, columns: Columns) -> Case:
    question, table = _asked(text, Analysis.LOGISTIC, columns)
    success = 1 / (1 + np.exp(-_ordered(question, _predictor(question, table))))
    shares = np.stack([1 - success, success]) * table.sum(axis=0) / table.sum()
    return Case(f"{file}: {text}", Analysis.LOGISTIC, question, shares, int(table.sum()))


def _loglinear(file: str, text: str, columns: Columns) -> Case:
    question, table = _asked(text, Analysis.LOGLINEAR, columns)
    design = question.model()
    means = np.exp(_predictor(question, table))
    means = np.transpose(means, [design.attributes.index(n) for n in question.coding.domain.attributes])
    shares = means / means.sum()
    return Case(f"{file}: {text}", Analysis.LOGLINEAR, question, shares, int(table.sum()))


def _table(file: str, text: str, columns: Columns) -> Case:
    question, table = _asked(text, Analysis.CROSSTAB, columns)
    shares = table / table.sum()
    return Case(f"{file}: {text}", Analysis.CROSSTAB, question, shares, int(table.sum()))


def _linear(file: str, text: str, columns: Columns) -> Case:
    """Each cell of the features has the mean that the model says, and all have one variance."""
    question, table = _asked(text, Analysis.LINEAR, columns)
    levels = np.arange(len(table), dtype=np.float64)
    means = _ordered(question, _predictor(question, table))
    features = table.sum(axis=0)
    residuals = (levels.reshape(-1, *(1,) * features.ndim) - means) ** 2
    variance = float((residuals * table).sum() / table.sum())
    base = table.reshape(len(table), -1).sum(axis=1) / table.sum()
    shares = np.empty_like(table)
    for cell in np.ndindex(features.shape):
        inside = with_moments(levels, base, float(means[cell]), variance)
        shares[(slice(None), *cell)] = inside * features[cell] / table.sum()
    return Case(f"{file}: {text}", Analysis.LINEAR, question, shares, int(table.sum()))


def _ordered(question: CheckedQuestion, values: FloatArray) -> FloatArray:
    """Axes in the order of the coding, whose first attribute is the response."""
    attributes = question.model().attributes
    return np.transpose(values, [attributes.index(n) for n in question.coding.domain.attributes[1:]])


def with_moments(levels: FloatArray, base: FloatArray, mean: float, variance: float) -> FloatArray:
    """The distribution nearest to ``base`` with a mean and a variance: tilted, by Newton."""
    functions = np.stack([levels - mean, ((levels - mean) ** 2 - variance) / variance], axis=1)
    tilt, shares = np.zeros(2), base
    best = _log_sum(base, functions @ tilt)
    for _ in range(_STEPS):
        weights = np.log(base) + functions @ tilt
        shares = np.exp(weights - weights.max())
        shares /= shares.sum()
        slope = shares @ functions
        if np.abs(slope).max() < 1e-12:
            break
        centred = functions - slope
        step = np.linalg.solve((centred * shares[:, None]).T @ centred + 1e-12 * np.eye(2), slope)
        size = 1.0
        while _log_sum(base, functions @ (tilt - size * step)) > best and size > 1e-9:
            size /= 2
        tilt = tilt - size * step
        best = _log_sum(base, functions @ tilt)
    if np.abs(shares @ functions).max() > 1e-6:
        raise ValueError("no distribution on the levels has this mean and variance")
    return shares


def _log_sum(base: FloatArray, exponents: FloatArray) -> float:
    highest = float(exponents.max())
    return highest + float(np.log(base @ np.exp(exponents - highest)))


def _outside(attributes: Clique, clique: Clique) -> list[int]:
    """Cliques of these analyses are in the domain's order."""
    assert clique in [*combinations(attributes, len(clique))]
    return [axis for axis, name in enumerate(attributes) if name not in clique]
