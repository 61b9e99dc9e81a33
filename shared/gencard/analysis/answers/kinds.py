"""Kinds of analysis: the function that answers each one, and what it needs; stored numbers; trials."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy import special

from gencard.analysis.answers.answer import EXACT, AnalysisAnswer, table_of
from gencard.analysis.answers.classifiers import (
    chow_liu_answer,
    components_answer,
    correspondence_answer,
    discriminant_answer,
    naive_bayes_answer,
)
from gencard.analysis.answers.correlations import correlation_answer, polychoric_answer
from gencard.analysis.answers.crosstabs import crosstab_answer
from gencard.analysis.answers.design import INTERCEPT, CheckedQuestion, Column, Option, occurring
from gencard.analysis.answers.groups import (
    SummedGroups,
    anova_answer,
    compared,
    means_answer,
    means_table,
    quantiles_answer,
    ttest_answer,
)
from gencard.analysis.answers.intervals import (
    Equations,
    Tests,
    f_with_noise,
    linear_noise,
    logistic_noise,
    loglinear_noise,
    multinomial_noise,
    poisson_noise,
    t_with_noise,
    with_noise,
)
from gencard.analysis.answers.levels import choice, level, one_term, quantile_shares, response_of
from gencard.analysis.answers.linear import linear_answer
from gencard.analysis.answers.loglinear import (
    Maximum,
    columns_of,
    diverging_levels,
    loglinear_answer,
    maximum,
    model_answer,
)
from gencard.analysis.answers.margins import (
    MadeUp,
    Margins,
    Mask,
    Occupied,
    RecordMargins,
    check_determined,
    summed,
    within,
)
from gencard.analysis.answers.noisy_margins import noisy_whole
from gencard.analysis.answers.regressions import (
    cox_answer,
    fit_scalars,
    kaplan_meier_answer,
    logistic_answer,
    multinomial_answer,
    poisson_answer,
)
from gencard.core.card.sums import level_values
from gencard.core.coding import MISSING, MISSING_BESIDE, Edges
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import GencardError, InvalidInputError, NoAnswerError, NoEstimateError
from gencard.core.statistics.formula import SUMMED_TERMS, Analysis
from gencard.core.types import FloatArray, IntArray

# Ordinal regression with proportional odds, from the joint table of response and features.
#
# .. math:: P(y \le j \mid x) = \frac{1}{1 + \exp(-(\theta_j - x'b))}
#
# No smaller marginal determines it: its likelihood is no exponential family in x and y.
#
# References:
#     P. McCullagh, "Regression Models for Ordinal Data", Journal of the Royal Statistical Society B 42,
#     1980. The log likelihood is concave: J. W. Pratt, "Concavity of the Log Likelihood", Journal of the
#     American Statistical Association 76, 1981.


def ordinal_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """Proportional odds: slopes, then thresholds between levels of the response, in their order.

    Thresholds are as they are, not as logarithms of differences; so R's ``polr`` has them.

    Raises:
        InvalidInputError: The response has a single level, or somebody lacks it.
        NoEstimateError: Features separate the levels of the response.
    """
    design = question.model()
    response = design.required_response()
    of_levels = margins.counts((response.attribute,))
    observed = np.flatnonzero(occurring(margins, (response.attribute,)))
    if np.any(of_levels[observed] <= 0):
        problem = "the noisy count of a level of the response is 0 or below"
        raise NoEstimateError(kind="ordinal", problem=problem)
    names = tuple(response.levels[level] for level in observed)
    if len(observed) < 2:
        raise InvalidInputError(field="formula", problem="the response has a single level")
    if names[-1] in (MISSING, MISSING_BESIDE):
        problem = "a missing response has no place in the order; use missing='drop'"
        raise InvalidInputError(field="formula", problem=problem)
    cells = margins.occupied((*design.attributes, response.attribute))
    features = Occupied(cells.codes[:, :-1], cells.counts)
    columns = columns_of(design, features, without=(INTERCEPT,))
    ranks = np.searchsorted(observed, cells.codes[:, -1])
    labels = (*columns.kept_names, *(f"{low}/{high}" for low, high in pairwise(names)))

    def where(params: FloatArray) -> str:
        fitted = columns.matrix @ params[: len(columns.kept)]
        return diverging_levels(fitted[:, None], features.codes, design.attributes, question.levels)

    fit = _fitted(columns.matrix, ranks, cells.counts, of_levels[observed], labels, where)
    # From parameters of centred columns to those of the columns as they were: the constant that
    # centring takes from the columns goes to each threshold.
    slopes = len(columns.kept)
    back = np.eye(len(labels))
    back[:slopes, :slopes] = columns.back
    back[slopes:, :slopes] = columns.centres @ columns.back
    known = of_levels[observed]
    null = float(special.xlogy(known, known / float(known.sum())).sum())
    scalars = fit_scalars(fit.llf, null, len(labels), len(known) - 1, float(known.sum()))
    n = float(cells.counts.sum())
    return model_answer(question, n, columns, fit.linear(back), labels, scalars)


def _fitted(
    matrix: FloatArray,
    ranks: IntArray,
    n: FloatArray,
    of_levels: FloatArray,
    names: tuple[str, ...],
    where: Callable[[FloatArray], str],
) -> Maximum:
    """Maximise the likelihood of the joint table, one row for each cell that holds somebody.

    Args:
        ranks: Of the response's level among those that somebody has.
        n: Records of each cell.
        of_levels: Records of each level of the response.
    """
    slopes, thresholds = matrix.shape[1], np.arange(len(of_levels) - 1)
    # Derivatives of the upper and the lower threshold less the linear predictor, for each cell.
    upper, lower = (np.hstack([-matrix, thresholds == one[:, None]]) for one in (ranks, ranks - 1))

    def objective(params: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        theta = np.concatenate([[-np.inf], params[slopes:], [np.inf]])
        if np.any(np.diff(theta) <= 0):
            return -np.inf, params, np.eye(len(params))
        eta = matrix @ params[:slopes]
        a, c = theta[ranks + 1] - eta, theta[ranks] - eta
        # F(a) - F(c) by the nearer tails, which keeps its digits where both are near 1.
        p = np.where(c > 0, special.expit(-c) - special.expit(-a), special.expit(a) - special.expit(c))
        f_a, f_c = (special.expit(x) * special.expit(-x) for x in (a, c))
        slope_a, slope_c = (f * (special.expit(-x) - special.expit(x)) for f, x in ((f_a, a), (f_c, c)))
        with np.errstate(divide="ignore", invalid="ignore"):
            value = float(n @ np.log(p))
            u, v = f_a / p, -f_c / p
            gradient = (n * u) @ upper + (n * v) @ lower
            aa, cc, ac = u**2 - slope_a / p, v**2 + slope_c / p, u * v
        cross = (upper.T * (n * ac)) @ lower
        information = (upper.T * (n * aa)) @ upper + (lower.T * (n * cc)) @ lower + cross + cross.T
        return value, gradient, information

    shares = np.cumsum(of_levels)[:-1] / of_levels.sum()
    start = np.concatenate([np.zeros(slopes), special.logit(shares)])
    return maximum(objective, start, names, "ordinal", where)


@dataclass(frozen=True, slots=True)
class AnalysisKind:
    """Functions and needs of one kind of analysis.

    Args:
        family: Name of the group of analyses that this kind belongs to, for people.
        answer: From margins that determine the question's cliques.
        numbers: Sides of the formula, "response" and "terms", whose levels it takes as numbers, where it
            has no model matrix.
        equations: What the coefficients solve, so that their intervals know the noise; None where the
            answer is a smooth function of a few tables.
        tests: Makes tests again that are not functions of the coefficients alone, with the noise.
    """

    family: str
    answer: Callable[[Margins, CheckedQuestion], AnalysisAnswer]
    has_design: bool = True
    options: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    equations: Callable[[Margins, CheckedQuestion, AnalysisAnswer], Equations] | None = None
    tests: Tests | None = None


_LEFT, _BOTH = ("response",), ("response", "terms")

KINDS: Mapping[Analysis, AnalysisKind] = {
    Analysis.LINEAR: AnalysisKind(
        "regression", linear_answer, options=("response",), equations=linear_noise
    ),
    Analysis.LOGISTIC: AnalysisKind("regression", logistic_answer, equations=logistic_noise),
    Analysis.MULTINOMIAL: AnalysisKind("regression", multinomial_answer, equations=multinomial_noise),
    Analysis.ORDINAL: AnalysisKind("regression", ordinal_answer),
    Analysis.POISSON: AnalysisKind("regression", poisson_answer, equations=poisson_noise),
    Analysis.LOGLINEAR: AnalysisKind("log-linear model", loglinear_answer, equations=loglinear_noise),
    Analysis.CROSSTAB: AnalysisKind("tables", crosstab_answer, False, ("alpha",)),
    Analysis.MEANS: AnalysisKind("groups", means_answer, False, ("alpha", "response"), _LEFT),
    Analysis.QUANTILES: AnalysisKind("groups", quantiles_answer, False, ("q", "response"), _LEFT),
    Analysis.TTEST: AnalysisKind(
        "groups", ttest_answer, False, ("test", "value", "alpha", "response"), _LEFT, tests=t_with_noise
    ),
    Analysis.ANOVA: AnalysisKind(
        "groups", anova_answer, False, ("test", "typ", "alpha", "response"), _LEFT, tests=f_with_noise
    ),
    Analysis.CORRELATION: AnalysisKind(
        "association", correlation_answer, False, ("method", "alpha", "response"), _BOTH
    ),
    Analysis.POLYCHORIC: AnalysisKind("association", polychoric_answer, False, (), _BOTH),
    Analysis.COMPONENTS: AnalysisKind(
        "components", components_answer, False, ("matrix", "components"), _BOTH
    ),
    Analysis.CORRESPONDENCE: AnalysisKind("components", correspondence_answer, False, ("components",)),
    Analysis.NAIVE_BAYES: AnalysisKind("classifiers", naive_bayes_answer, False, ("smoothing",)),
    Analysis.CHOW_LIU: AnalysisKind("classifiers", chow_liu_answer, False),
    Analysis.DISCRIMINANT: AnalysisKind("classifiers", discriminant_answer, False, (), ("terms",)),
    Analysis.KAPLAN_MEIER: AnalysisKind("survival", kaplan_meier_answer, False, (), _LEFT),
    Analysis.COX: AnalysisKind("survival", cox_answer),
}


def kind_of(analysis: Analysis, options: Iterable[str] = ()) -> AnalysisKind:
    """Return how an analysis is answered.

    Raises:
        InvalidInputError: Nothing answers such an analysis, or it has no such option.
    """
    if analysis not in KINDS:
        raise InvalidInputError(field="kind", problem=f"must be one of {', '.join(sorted(KINDS))}")
    kind = KINDS[analysis]
    if unknown := sorted(set(options) - set(kind.options)):
        choices = f"its options are {', '.join(kind.options)}" if kind.options else "it has no options"
        problem = f"'{analysis}' has no option '{unknown[0]}'; {choices}"
        raise InvalidInputError(field="options", problem=problem)
    return kind


def plain_answer(question: CheckedQuestion, margins: Margins) -> AnalysisAnswer:
    """The answer where counts are taken as they are, noise or not; raises as ``answered``."""
    return _resting(kind_of(question.kind).answer(margins, question), question, margins)


def answered(question: CheckedQuestion, margins: Margins) -> AnalysisAnswer:
    """The answer to a question.

    Raises:
        LackingMarginalsError: The margins do not determine it; names all that are lacking.
        NoEstimateError: The model has no estimate.
        NotConvergedError: The fit did not converge.
        NoiseDrownsError: The margins have noise, and too much of it.
        InvalidInputError: The question does not fit the kind of analysis.
        TooLargeError: A table would have too many cells.
    """
    check_determined(margins, question.cliques)
    if noisy_whole(margins) is None:
        return plain_answer(question, margins)
    kind = kind_of(question.kind)
    answer = with_noise(kind.answer, kind.equations, kind.tests, question, margins)
    return _resting(answer, question, margins)


def _resting(answer: AnalysisAnswer, question: CheckedQuestion, margins: Margins) -> AnalysisAnswer:
    sources = tuple(dict.fromkeys(margins.source(clique) for clique in question.cliques))
    sums = tuple(str(one) for one in question.sums)
    notes = (*question.notes, *answer.notes)
    variances = [margins.variances(clique) for clique in question.cliques]
    stddevs = [float(one.max(initial=0.0)) ** 0.5 for one in variances]
    noise = _spread(stddevs) if any(stddevs) else EXACT
    if question.sums:
        by_sum = summed(margins).sum_variances
        if any(by_sum(one.of, one.by, one.present).any() for one in question.sums):
            counts = [by_sum((), one.by, one.present) for one in question.sums]
            stddevs += [float(one.max(initial=0.0)) ** 0.5 for one in counts]
            noise = f"{_spread(stddevs)}, and noise on each sum"
    return replace(answer, rests_on=sources, sums=sums, noise=noise, notes=notes)


def _spread(stddevs: list[float]) -> str:
    low, high = min(stddevs), max(stddevs)
    spread = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    return f"noise of standard deviation {spread} on each count"


# Analyses of numbers as the records hold them, not by their levels.
#
# Sums of such numbers give means, tests and regressions by the same code as sums of psi. Quantiles are
# those of the numbers themselves, group by group.


STORED, LEVELS = "stored", "levels"
CHOICES = (LEVELS, STORED, "coded")
"""Values of the option ``response``; "coded" is the older name for "levels"."""

STORED_KINDS = {
    *(Analysis.MEANS, Analysis.TTEST, Analysis.ANOVA),
    *(Analysis.LINEAR, Analysis.CORRELATION, Analysis.QUANTILES),
}
"""Kinds whose runs take numbers as the records have them."""

ERRORS = "standard errors"
"""The table beside that of the quantiles."""

NOTE = "numbers count as the records have them, not by levels; records without one are left out"
_STEPS = (0.5, 0.25, 0.05, 0.01)
"""Each is a multiple of the next."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredRecords:
    """Records with numbers, none of which is missing.

    Args:
        numbers: By name: attributes, and functions of them, shape ``(n,)`` each.
    """

    dataset: Dataset
    numbers: Mapping[str, FloatArray]

    def of(self, column: Column) -> FloatArray:
        """A column of a model, or a response, at each record, shape ``(n,)``."""
        codes = {name: self.dataset.column(name) for name in self.dataset.domain.attributes}
        return np.broadcast_to(column.at(codes, self.numbers), (len(self.dataset),))

    def codes(self, attributes: Clique) -> IntArray:
        """Codes of some attributes, shape ``(n, attributes)``."""
        return self.dataset.codes[:, list(self.dataset.domain.axes(attributes))].astype(np.int64)

    def take(self, kept: Mask) -> "StoredRecords":
        numbers = {name: one[kept] for name, one in self.numbers.items()}
        return StoredRecords(self.dataset.take(np.flatnonzero(kept)), numbers)

    def margins(self, question: CheckedQuestion) -> RecordMargins:
        """Margins with sums of all numbers, which have scales in the question."""
        scales = question.scales
        units = {name: scales[name].units(one) for name, one in self.numbers.items()}
        return RecordMargins(self.dataset, units=units)


@dataclass(frozen=True, slots=True, eq=False)
class StoredGroups:
    """Numbers of a response in the cells of a term that hold somebody.

    Args:
        names: Names of the cells, in row-major order.
        place: The cell of each record.
    """

    names: tuple[str, ...]
    place: IntArray
    values: FloatArray

    @classmethod
    def of(
        cls, dataset: Dataset, question: CheckedQuestion, term: Clique, values: FloatArray
    ) -> "StoredGroups":
        """The groups of some records, which have these numbers."""
        if not term:
            return cls(("all",), np.zeros(len(values), dtype=np.int64), values)
        codes = np.column_stack([dataset.column(name) for name in term])
        cells, place = np.unique(codes, axis=0, return_inverse=True)
        levels = [question.levels(name) for name in term]
        names = (", ".join(map(tuple.__getitem__, levels, cell)) for cell in cells)
        return cls(tuple(names), np.ravel(place), values)

    def quantiles(self, shares: Sequence[float]) -> tuple[FloatArray, FloatArray]:
        """Quantiles as numpy's default, and their standard errors; shapes ``(groups, shares)``.

        A standard error is half the distance of the order statistics that are one binomial standard
        deviation of ranks below and above.
        """
        order = np.lexsort((self.values, self.place))
        ends = np.cumsum(np.bincount(self.place, minlength=len(self.names)))[:-1]
        q = np.array(shares)
        rows = []
        for part in np.split(self.values[order], ends):
            wide = np.sqrt(q * (1 - q) / len(part))
            low, middle, high = np.quantile(part, np.clip([q - wide, q, q + wide], 0, 1))
            rows.append((middle, (high - low) / 2))
        values, errors = np.swapaxes(rows, 0, 1)
        return values, errors


def wants_stored(question: CheckedQuestion) -> bool:
    """Whether numbers count as the records have them, by the option ``response``.

    Raises:
        InvalidInputError: The option is none of ``CHOICES``, or what is asked for cannot be had of
            stored numbers: no number of the formula has edges, the analysis is one of ranks, or a share
            is not a whole percentage.
    """
    if choice(question, "response", CHOICES) != STORED:
        return False
    names = question.formula.attributes if question.kind in SUMMED_TERMS else (response_of(question),)
    if not any(isinstance(question.coding.attribute(name).coding, Edges) for name in names):
        problem = f"'{names[0]}' is not a number with declared edges"
        raise InvalidInputError(field="response", problem=problem, advice="Omit the option.")
    if question.kind is Analysis.QUANTILES:
        declared = level_values(question.coding)[names[0]]
        if not np.array_equal(question.values[names[0]], declared, equal_nan=True):
            problem = "quantiles of stored numbers cannot be combined with functions or values="
            raise InvalidInputError(field="response", problem=problem)
        one_term(question, "a table of quantiles")
        if any(step_of(share) is None for share in quantile_shares(question)):
            problem = "must be multiples of 0.01 for stored numbers"
            advice = 'Choose such shares, or response="levels".'
            raise InvalidInputError(field="q", problem=problem, advice=advice)
    elif not question.is_summed:
        problem = "this analysis takes levels in their order, or functions of levels"
        raise InvalidInputError(field="response", problem=problem, advice="Omit the option.")
    level(question)
    return True


def wants_stored_quantiles(question: CheckedQuestion) -> bool:
    """Whether quantiles of the numbers themselves are asked for: they tell of no level who has it."""
    return question.kind is Analysis.QUANTILES and question.options.get("response") == STORED


def check_coded(options: Mapping[str, Option]) -> None:
    """Raises InvalidInputError where counts are asked for what the records alone have."""
    if options.get("response", LEVELS) == STORED:
        raise InvalidInputError(
            field="response",
            problem="psi and runs with noise have counts of intervals and sums, not the numbers",
            advice="Use card.run under a card whose runs have no noise, or omit the option.",
        )


def step_of(share: float) -> float | None:
    """The largest step that a share is a multiple of; None below a hundredth.

    >>> [step_of(share) for share in (0.5, 0.75, 0.9, 0.33, 0.333)]
    [0.5, 0.25, 0.05, 0.01, None]
    """
    multiples = (step for step in _STEPS if abs(share / step - round(share / step)) < 1e-9)
    return next(multiples, None)


def quantiles_of(
    question: CheckedQuestion, records: StoredRecords
) -> tuple[StoredGroups, AnalysisAnswer]:
    """Quantiles of the response in the groups of the term, with their standard errors."""
    response, term = response_of(question), one_term(question, "a table of quantiles")
    groups = StoredGroups.of(records.dataset, question, term, records.numbers[response])
    shares = quantile_shares(question)
    columns = tuple(f"{share:g}" for share in shares)
    tables = tuple(
        table_of(name, groups.names, columns, numbers)
        for name, numbers in zip(("quantiles", ERRORS), groups.quantiles(shares), strict=True)
    )
    n = float(len(records.dataset))
    return groups, AnalysisAnswer(question.kind, question.text, n, tables=tables, notes=(NOTE,))


def pooled_tables(
    answer: AnalysisAnswer, question: CheckedQuestion, margins: Margins, terms: Sequence[Clique]
) -> AnalysisAnswer:
    """The answer with one variance within all groups of some terms, in place of each group's own."""
    pooled = {}
    for term in terms:
        part = compared(margins, question, term)
        name = _table_name(answer, term)
        groups = part.groups
        variance = groups.within / (float(groups.sizes.sum()) - len(groups.sizes))
        one = SummedGroups(
            groups.sizes, groups.means, np.full(len(groups.sizes), variance), groups.within
        )
        pooled[name] = means_table(part.names, one, question, name)
    return replace(answer, tables=tuple(pooled.get(table.name, table) for table in answer.tables))


def without_spreads(answer: AnalysisAnswer, terms: Sequence[Clique]) -> AnalysisAnswer:
    """The answer without what tells the standard deviations of the groups of some terms."""
    names = {_table_name(answer, term) for term in terms}
    tables = list(answer.tables)
    for place, table in enumerate(answer.tables):
        if table.name in names:
            stays = [name not in _SPREADS for name in table.column_names]
            rows = [
                tuple(value if kept else None for value, kept in zip(row, stays, strict=True))
                for row in table.values
            ]
            tables[place] = replace(table, values=tuple(rows))
    return replace(answer, tables=tuple(tables))


def _table_name(answer: AnalysisAnswer, term: Clique) -> str:
    own = f"means[{' × '.join(term)}]"
    return own if any(table.name == own for table in answer.tables) else "means"


_SPREADS = ("var", "std", "std_mean", "lower", "upper")
"""Columns of a table of means that tell its standard deviations."""


# A trial of a question on made-up counts of the schema: whether it can have an answer at all.
#
# All levels of ``MadeUp`` occur, all attributes depend on each other a little, and no cell is small. So
# an analysis that has no result here lacks one because of its formula, its condition, its options or the
# schema: a response with a level that stands for no number, or an attribute of which the condition
# leaves one level.


MOST_TRIED = 1 << 16
"""Cells of all attributes of a question that is tried: the service must not spend seconds on a trial."""

_SEEDS = (1, 2)
"""Seeds of the made-up counts; a question is refused if no seed gives it an answer."""


def tried(question: CheckedQuestion, conditions: Iterable[tuple[Clique, Mask]]) -> AnalysisAnswer | None:
    """The answer to a question on made-up records; None if it is too wide to be tried.

    Args:
        conditions: Tests that choose its population: attributes, and the cells of them that are in.

    Raises:
        NoAnswerError: It has no answer, or the conditions leave no cell of the schema.
    """
    tests = [(attributes, cells) for attributes, cells in conditions if attributes]
    if not all(bool(cells.any()) for _, cells in tests):
        raise NoAnswerError(problem="no level of the schema fulfils the condition")
    names = (*question.formula.attributes, *(name for attributes, _ in tests for name in attributes))
    domain = question.coding.domain.covered_by([tuple(dict.fromkeys(names))])
    if domain.cells > MOST_TRIED:
        return None
    for seed in _SEEDS:
        margins: Margins = MadeUp.of(domain, seed)
        for attributes, cells in tests:
            margins = within(margins, attributes, cells)
        try:
            return answered(question, margins)
        except GencardError as error:
            problem = error.message
    raise NoAnswerError(problem=problem.rstrip("."))
