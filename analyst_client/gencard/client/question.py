"""Questions to psi or to the records: a formula, a kind of analysis, and its options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from gencard.core.errors import InvalidInputError, InvalidNumberError, advice_on

Values = Mapping[str, Sequence[float]]
"""By attribute, the number that each level stands for, in the order of the schema."""

KINDS = {
    "linear": "linear regression of a number: y ~ a + b",
    "logistic": "logistic regression of an attribute with two levels",
    "multinomial": "logistic regression of an attribute with several levels",
    "ordinal": "proportional odds of an attribute with ordered levels",
    "poisson": "Poisson regression of a count",
    "loglinear": "log-linear model of a table: ~ a:b + b:c",
    "crosstab": "tables with chi-squared, Cramér's V, odds ratio: y ~ a, or ~ a:b",
    "means": "mean and variance of a number in each group: y ~ group",
    "quantiles": "the level that contains a quantile, in each group: y ~ group",
    "ttest": "t test of a number between two groups: y ~ group",
    "anova": "analysis of variance of a number between groups: y ~ group",
    "correlation": "correlation matrix of numbers: ~ a + b + c",
    "components": "principal components of numbers: ~ a + b + c",
    "correspondence": "multiple correspondence analysis: ~ a + b + c",
    "polychoric": "polychoric correlations of ordered attributes: ~ a + b + c",
    "naive-bayes": "naive Bayes classifier: y ~ a + b + c",
    "chow-liu": "Chow-Liu tree of the strongest dependences: ~ a + b + c",
    "discriminant": "linear discriminant analysis: y ~ a + b + c",
    "kaplan-meier": "survival curves of groups: time ~ event + group",
    "cox": "Cox regression: time ~ event + a + b",
}
"""A line for each kind of analysis that psi can determine."""

TAKES: Mapping[str, tuple[str, ...]] = {
    "crosstab": ("alpha",),
    "linear": ("response",),
    "means": ("alpha", "response"),
    "quantiles": ("q", "response"),
    "ttest": ("alpha", "response", "test", "value"),
    "anova": ("alpha", "response", "test", "typ"),
    "correlation": ("alpha", "method", "response"),
    "components": ("components", "matrix"),
    "correspondence": ("components",),
    "naive-bayes": ("smoothing",),
}
"""Options that a kind takes besides those of every kind."""


class AnswerOptions(TypedDict, total=False):
    """Options of an analysis, besides formula and kind.

    Args:
        values: In answers from psi, by attribute, the number that each level stands for, such as
            ``{"age": [20, 40, 70]}``; default: whole-number labels, and the midpoints of edges. Runs on
            the records take the declared numbers only.
        where: Only these records, such as ``"region == 'North' and age < 40"``.
        missing: "level": missing values are a level; "drop": leave out records with one.
        bootstrap: Draws of a bootstrap, 100 or more: an interval of each number, where psi has noise.
        bootstrap_seed: From which they are drawn.
        alpha: 1 minus the coverage of intervals in tables.
        test: Of ``ttest``: "pooled", "welch" or "mann-whitney"; of ``anova``, its statistic.
        value: Of ``ttest``: the mean or difference to compare with.
        typ: Of ``anova``: type of the sums of squares.
        q: Of ``quantiles``: shares, such as ``[0.25, 0.5, 0.75]``.
        response: In a run on the records: "levels" for a number for each level, "stored" for numbers as
            the records have them; default: these, where the schema declares a step and the policy
            permits them.
        method: Of ``correlation``: "pearson", "spearman" or "kendall".
        matrix: Of ``components``: "correlation" or "covariance".
        components: Of ``components`` and ``correspondence``: how many.
        smoothing: Of ``naive-bayes``: added to each count.
    """

    values: Values | None
    where: str | None
    missing: str | None
    bootstrap: int | None
    bootstrap_seed: int | None
    alpha: float | None
    test: str | None
    value: float | None
    typ: float | None
    q: Sequence[float] | None
    response: str | None
    method: str | None
    matrix: str | None
    components: int | None
    smoothing: float | None


_OF_ALL = ("values", "where", "missing", "bootstrap", "bootstrap_seed")
_FEWEST_DRAWS, _MOST_DRAWS = 100, 100_000


@dataclass(frozen=True, slots=True)
class AnalystQuestion:
    """A formula and its kind.

    Raises:
        InvalidInputError: The kind does not take one of the options.
        InvalidNumberError: Too few draws of a bootstrap, or too many, or a seed below 0.
    """

    formula: str
    kind: str = "logistic"
    values: Values | None = None
    where: str = ""
    missing: str = "level"
    bootstrap: int = 0
    bootstrap_seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, formula: str, kind: str, given: AnswerOptions) -> "AnalystQuestion":
        """The question; options that are None count as not given."""
        own_options = {name: value for name, value in given.items() if value is not None}
        common = {name: own_options.pop(name) for name in _OF_ALL if name in own_options}
        return cls(formula, kind, options=own_options, **common)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        if self.bootstrap and not _FEWEST_DRAWS <= self.bootstrap <= _MOST_DRAWS:
            expected = f"a whole number from {_FEWEST_DRAWS} to {_MOST_DRAWS}"
            raise InvalidNumberError(field="bootstrap", expected=expected)
        if self.bootstrap_seed < 0:
            raise InvalidNumberError(field="bootstrap_seed", expected="a whole number of 0 or more")
        takes = TAKES.get(self.kind, ())
        for name in self.options:
            if name not in takes:
                problem = f"is not an option of kind {self.kind}"
                raise InvalidInputError(
                    field=name, problem=problem, advice=advice_on(name, [*_OF_ALL, *takes])
                )
