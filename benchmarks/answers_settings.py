"""Populations and questions of ``benchmarks.answers_grid``: every kind of answer by every design."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy import stats

from benchmarks.answers_cases import with_moments
from gencard.analysis.answers.answer import Address, numbers_of
from gencard.analysis.answers.correlations import bivariate_normal
from gencard.analysis.answers.design import CheckedQuestion, Option
from gencard.analysis.answers.kinds import plain_answer
from gencard.analysis.answers.margins import PsiMargins
from gencard.analysis.formulas.answering import read_question
from gencard.core.card.privacy import AddedNoise, gaussian, laplace
from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.domain import Clique
from gencard.core.statistics.formula import Analysis
from gencard.core.statistics.psi import Measurement, Psi
from gencard.core.types import FloatArray, IntArray

DESIGNS = ("even", "skewed", "sparse", "empty")
NOISES: Mapping[str, AddedNoise] = {
    "Laplace 1": laplace("1", neighbouring="replace-one"),
    "Gaussian 0.25": gaussian("0.25", neighbouring="replace-one"),
}


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
    def question(self) -> CheckedQuestion:
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
        answer = plain_answer(self.question, PsiMargins(self.measured(large)))
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


def _rare() -> list[Setting]:
    """Designs whose rarest cell or group is answered in some draws and not in others."""
    noise, kept = "Laplace 1", []
    for records in (6.0, 12.0, 24.0):
        few = records / 2_000
        groups = np.array([0.5 - few / 2, 0.5 - few / 2, few])
        flat = np.multiply.outer(np.full(4, 0.25), groups)
        two = np.array([0.6, 0.4])
        fourfold = np.array([[0.5, 0.3], [0.2 - few, few]])
        pair = np.multiply.outer(np.full(4, 0.25), [1 - few, few])
        lives = _lives("even").sum(axis=2)
        made: list[tuple[str, str, FloatArray, str, bool]] = [
            ("crosstab", "y ~ b", fourfold, "yb", False),
            ("logistic", "y ~ C(a)", np.multiply.outer(two, groups), "ya", False),
            ("poisson", "y ~ C(a)", np.multiply.outer(_poisson(0.8, 5), groups), "ya", False),
            ("means", "y ~ a", flat, "ya", False),
            ("ttest", "y ~ b", pair, "yb", True),
            ("anova", "y ~ a", flat, "ya", True),
            ("kaplan-meier", "t ~ e + g", np.multiply.outer(lives, [1 - few, few]), "teg", False),
            ("cox", "t ~ e + C(g)", np.multiply.outer(lives, [1 - few, few]), "teg", False),
        ]
        kept += [
            Setting(
                f"{kind} {formula}, rarest of {records:.0f}",
                Analysis(kind),
                formula,
                shares,
                tuple(attributes),
                2_000,
                noise,
                null=null,
            )
            for kind, formula, shares, attributes, null in made
        ]
    return kept


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
    made += _rare()
    return [Setting(**{**vars(one), "shares": one.shares / one.shares.sum()}) for one in made]
