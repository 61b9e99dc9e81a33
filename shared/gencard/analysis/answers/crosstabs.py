"""Cross-tabulations: the table, shares, tests of independence, association, odds ratios, strata."""

from dataclasses import dataclass, replace
from math import log, nan, sqrt

import numpy as np
from scipy import special

from gencard.analysis.answers.answer import (
    AnalysisAnswer,
    AnswerTable,
    Coefficients,
    Scalar,
    coefficients_of,
    table_of,
)
from gencard.analysis.answers.design import CheckedQuestion
from gencard.analysis.answers.levels import (
    LevelTable,
    Test,
    has_noise,
    level,
    level_names,
    level_table,
    test_scalar,
)
from gencard.analysis.answers.margins import Margins, records_of
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError
from gencard.core.types import FloatArray

# Statistics of contingency tables: independence, association, ratios of 2 x 2 tables and their strata.
#
# With counts :math:`n_{rc}`, expected counts :math:`e_{rc} = n_{r.} n_{.c} / n`:
#
# .. math:: \chi^2 = \sum (n - e)^2 / e, \quad G = 2 \sum n \ln (n / e), \quad
#    V = \sqrt{\chi^2 / (n (\min(r, c) - 1))}
#
# Rows and columns without records are left out before: they have no expected count.
#
# References:
#     A. Agresti, *Categorical Data Analysis*, 3rd edition, 2013, sections 2.3, 3.2, 6.4.


def expected_counts(table: FloatArray) -> FloatArray:
    """Counts where rows and columns are independent."""
    return np.asarray(np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum())


def pearson(table: FloatArray, *, correction: bool = False) -> Test:
    """Pearson's test of independence; with Yates' continuity correction where there is one degree.

    The corrected difference is at most the difference itself, as in R and scipy.
    """
    expected = expected_counts(table)
    differences = np.abs(table - expected)
    if correction and table_freedom(table) == 1:
        differences = differences - np.minimum(0.5, differences)
    return Test.chi2(float(np.sum(differences**2 / expected)), table_freedom(table))


def likelihood_ratio(table: FloatArray) -> Test:
    """The likelihood-ratio test of independence, G."""
    terms = special.rel_entr(table, expected_counts(table))
    return Test.chi2(2 * float(terms.sum()), table_freedom(table))


def table_freedom(table: FloatArray) -> int:
    """Degrees of freedom of independence."""
    return int(np.prod([size - 1 for size in table.shape]))


def cramers_v(table: FloatArray) -> float:
    """Cramér's V, 0 to 1; NaN where a side has a single level."""
    smaller = min(table.shape) - 1
    return sqrt(pearson(table).statistic / (table.sum() * smaller)) if smaller > 0 else nan


def adjusted_residuals(table: FloatArray) -> FloatArray:
    """Differences from independence in standard errors, as Agresti's standardized residuals."""
    expected = expected_counts(table)
    rows, columns = (table.sum(axis=axis) / table.sum() for axis in (1, 0))
    variances = expected * np.outer(1 - rows, 1 - columns)
    scale = np.sqrt(np.where(variances > 0, variances, np.inf))
    return np.asarray((table - expected) / scale)


def log_ratios(table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Logarithms of odds ratio and risk ratio of a 2 x 2 table, and their covariance.

    The risk is the share of the first column in a row; ratios are first row to second. Both are
    functions of the logits of two binomial shares, so the covariance is theirs by the delta method.

    Raises:
        InvalidInputError: A count is 0 (or below, under noise): a ratio is 0 or infinite.
    """
    if not np.all(table > 0):
        raise InvalidInputError(field="table", problem="has an empty cell, so it has no odds ratio")
    (a, b), (c, d) = table.tolist()
    odds, risk = log(a) - log(b) - log(c) + log(d), log(a / (a + b)) - log(c / (c + d))
    shared = 1 / a - 1 / (a + b) + 1 / c - 1 / (c + d)
    full = 1 / a + 1 / b + 1 / c + 1 / d
    # cov(logit p, log p) = Var(p) / (p (1 - p) p) = 1 / (n p) = 1 / a, in each row.
    return np.array([odds, risk]), np.array([[full, 1 / a + 1 / c], [1 / a + 1 / c, shared]])


@dataclass(frozen=True, slots=True)
class Strata:
    """A 2 x 2 table in each of k strata; ``counts`` has shape ``(2, 2, k)``.

    Strata whose rows or columns are all empty say nothing; they are left out.
    """

    counts: FloatArray

    @classmethod
    def of(cls, counts: FloatArray) -> "Strata":
        """Select the strata of ``counts`` in which both rows and both columns hold records."""
        occupied = (counts.sum(axis=0) > 0).all(axis=0) & (counts.sum(axis=1) > 0).all(axis=0)
        if not occupied.any():
            problem = "no stratum has records in both rows and both columns"
            raise InvalidInputError(field="strata", problem=problem)
        return cls(counts[:, :, occupied])

    def pooled_odds(self) -> tuple[float, float]:
        """Logarithm of the Mantel-Haenszel odds ratio, and its standard error.

        The variance is that of Robins, Breslow and Greenland (Biometrics 42, 1986), which holds for few
        large strata and for many small ones.
        """
        (a, b), (c, d), n = *self.counts, self.counts.sum(axis=(0, 1))
        same, cross = a * d / n, b * c / n
        if not (same.sum() > 0 and cross.sum() > 0):
            problem = "have too many empty cells for an odds ratio"
            raise InvalidInputError(field="strata", problem=problem)
        concordant, discordant = (a + d) / n, (b + c) / n
        variance = np.sum(concordant * same) / same.sum() ** 2
        variance += np.sum(concordant * cross + discordant * same) / (same.sum() * cross.sum())
        variance += np.sum(discordant * cross) / cross.sum() ** 2
        return log(same.sum() / cross.sum()), sqrt(variance / 2)

    def no_association(self) -> Test:
        """The Mantel-Haenszel test that all odds ratios are 1, without continuity correction."""
        (a, b), (c, d), n = *self.counts, self.counts.sum(axis=(0, 1))
        difference = np.sum(a - (a + b) * (a + c) / n)
        variance = np.sum((a + b) * (c + d) * (a + c) * (b + d) / (n**2 * np.maximum(n - 1, 1)))
        return Test.chi2(float(difference**2 / variance), 1)

    def equal_odds(self) -> Test:
        """The Breslow-Day test that all odds ratios are equal, without Tarone's adjustment."""
        (a, b), (c, _), n = *self.counts, self.counts.sum(axis=(0, 1))
        ratio = np.exp(self.pooled_odds()[0])
        row, column = a + b, a + c
        # The count of the first cell that has this odds ratio solves a quadratic equation.
        leading, linear = 1 - ratio, n - row - column + ratio * (row + column)
        root = np.sqrt(np.maximum(linear**2 + 4 * leading * ratio * row * column, 0))
        first = 2 * ratio * row * column / (linear + root)
        others = (row - first, column - first, n - row - column + first)
        variance = 1 / (1 / first + sum(1 / other for other in others))
        return Test.chi2(float(np.sum((a - first) ** 2 / variance)), len(n) - 1)


def share_intervals(counts: FloatArray, alpha: float = 0.05) -> FloatArray:
    """Wilson's interval of each cell's share of all; shape ``(2, k)``, lower and upper bounds."""
    n = counts.sum()
    shares = np.clip(counts / n, 0.0, 1.0)  # noise leaves some below 0: their sampling error is of 0
    z = -float(special.ndtri(alpha / 2))
    centre = (shares + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(shares * (1 - shares) / n + z**2 / (4 * n**2))
    return np.array([centre - half, centre + half])


_ROUGH = 5
"""Expected counts from which the chi-squared approximation is good (Cochran 1954)."""

_EMPTY = "a cell is empty, so odds ratio and risk ratio are 0 or infinite"

_NOISE_EMPTIED = (
    "the noisy count of a cell is 0 or below, which does not mean that the cell is empty; odds ratio "
    "and risk ratio are left out"
)


def crosstab_answer(margins: Margins, question: CheckedQuestion) -> AnalysisAnswer:
    """One table for each term: its first attribute by the response, within the term's other attributes.

    Without a response, a term's first attribute by its second one; a single attribute has shares with
    intervals. Where there are several tables, the names of their numbers end in the table's attributes.
    """
    formula = question.formula
    response = (formula.response,) if formula.response else ()
    terms = formula.terms or (response,)
    cliques = [tuple(dict.fromkeys((*term[:1], *response, *term[1:]))) for term in terms]
    parts = [_part(margins, question, clique) for clique in cliques]
    if len(parts) == 1:
        return parts[0]
    labelled = [(part, " × ".join(clique)) for part, clique in zip(parts, cliques, strict=True)]
    return replace(
        parts[0],
        coefficients=None,
        scalars=tuple(
            replace(one, name=f"{one.name}[{text}]") for part, text in labelled for one in part.scalars
        ),
        tables=tuple(
            replace(one, name=f"{one.name}[{text}]") for part, text in labelled for one in part.tables
        ),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )


def _part(margins: Margins, question: CheckedQuestion, clique: Clique) -> AnalysisAnswer:
    answer = AnalysisAnswer(question.kind, question.text, records_of(margins))
    if len(clique) == 1:
        shares = level_table(margins, question, clique, (), signed=True)
        counts = shares.counts[:, 0]
        lower, upper = share_intervals(counts, level(question))
        values = np.stack([counts, counts / counts.sum(), lower, upper], axis=1)
        columns = ("nobs", "share", "lower", "upper")
        return replace(answer, tables=(table_of("shares", shares.rows.names, columns, values),))
    if len(clique) == 2:
        sides = (clique[:1], clique[1:])
        table = level_table(margins, question, *sides, signed=True)
        tested = level_table(margins, question, *sides)
        is_noisy = has_noise(margins, clique)
        return _two_way(answer, table, tested, level(question), is_noisy=is_noisy)
    return _stratified(answer, margins, question, clique)


def _two_way(
    answer: AnalysisAnswer, table: LevelTable, tested: LevelTable, alpha: float, *, is_noisy: bool
) -> AnalysisAnswer:
    """The table and what follows from it.

    Args:
        tested: The same counts from 0 up, for statistics that take roots and logarithms of them.
    """
    counts = table.counts
    with np.errstate(divide="ignore", invalid="ignore"):  # noise leaves some sums at 0
        tables = [
            table.table("counts", counts),
            table.table("row shares", counts / counts.sum(axis=1, keepdims=True)),
            table.table("column shares", counts / counts.sum(axis=0)),
        ]
    if min(tested.counts.shape) < 2:
        note = "one side of the table has a single level, so no test is possible"
        return replace(answer, tables=tuple(tables), notes=(note,))
    tables += [
        tested.table("expected", expected_counts(tested.counts)),
        tested.table("standardized_resids", adjusted_residuals(tested.counts)),
    ]
    if not is_noisy and expected_counts(counts).min() < _ROUGH:
        note = f"some expected counts are below {_ROUGH}: the p values of chi2 and g are approximate"
        answer = replace(answer, notes=(note,))
    chi2, ratio = pearson(tested.counts), likelihood_ratio(tested.counts)
    corrected = [pearson(tested.counts, correction=True)] if chi2.degrees == 1 else []
    scalars = (
        test_scalar("chi2", chi2),
        *(test_scalar("chi2_corrected", one) for one in corrected),
        test_scalar("g", ratio),
        Scalar("cramers_v", cramers_v(tested.counts)),
        Scalar("mutual_information", ratio.statistic / 2 / float(tested.counts.sum())),
    )
    answer = replace(answer, scalars=scalars, tables=tuple(tables))
    if counts.shape != (2, 2):
        return answer
    return _fourfold(answer, table, alpha, is_noisy=is_noisy)


def _fourfold(
    answer: AnalysisAnswer, table: LevelTable, alpha: float, *, is_noisy: bool
) -> AnalysisAnswer:
    """The answer with odds ratio and risk ratio of a 2 x 2 table."""
    if not np.all(table.counts > 0):
        note = _NOISE_EMPTIED if is_noisy else _EMPTY
        return replace(answer, notes=(*answer.notes, note))
    ratios = coefficients_of(("log_oddsratio", "log_riskratio"), *log_ratios(table.counts))
    scalars = list(answer.scalars)
    for name, value, error, pvalue in zip(
        ratios.names, ratios.params, ratios.bse, ratios.pvalues, strict=True
    ):
        # The ratio, and its logarithm with what tests that it is 0.
        scalars.append(Scalar(name.removeprefix("log_"), float(np.exp(value))))
        scalars.append(Scalar(name, value, float(error), (), float(pvalue)))
    (one, other), first = table.rows.names, table.columns.names[0]
    return replace(
        answer,
        coefficients=ratios,
        scalars=tuple(scalars),
        tables=(answer.tables[0], _ratio_table(ratios, alpha), *answer.tables[1:]),
        notes=(*answer.notes, f"ratios are of '{first}', '{one}' to '{other}'"),
    )


def _ratio_table(ratios: Coefficients, alpha: float) -> AnswerTable:
    values = np.exp(np.column_stack([ratios.params, ratios.conf_int(alpha)]))
    rows = tuple(name.removeprefix("log_").replace("logodds", "oddsratio") for name in ratios.names)
    return table_of("ratios", rows, ("estimate", "lower", "upper"), values)


def _stratified(
    answer: AnalysisAnswer, margins: Margins, question: CheckedQuestion, clique: Clique
) -> AnalysisAnswer:
    """The first attribute by the second within the cells of the others."""
    flat = level_table(margins, question, clique[:1], clique[1:2], signed=True)
    is_noisy = has_noise(margins, clique)
    whole = margins.counts(clique) if is_noisy else np.maximum(margins.counts(clique), 0)
    counts = whole.reshape(*whole.shape[:2], -1)[np.ix_(flat.rows.places, flat.columns.places)]
    names = level_names(question, clique[2:])
    occupied = np.flatnonzero((counts.sum(axis=(0, 1)) > 0) | is_noisy)
    tables = tuple(flat.table(f"counts[{names[place]}]", counts[:, :, place]) for place in occupied)
    tested = [np.maximum(counts[:, :, place], 0) for place in occupied]
    # Tests of independence within strata: the sums over them.
    inside = [one[one.sum(axis=1) > 0][:, one.sum(axis=0) > 0] for one in tested if one.any()]
    scalars: tuple[Scalar, ...] = ()
    for name, test in (("chi2", pearson), ("g", likelihood_ratio)):
        freedom = sum(table_freedom(table) for table in inside)
        summed = Test.chi2(sum(test(table).statistic for table in inside), freedom)
        scalars += (test_scalar(name, summed),)
    answer = replace(answer, scalars=scalars, tables=tables)
    if counts.shape[:2] != (2, 2):
        return answer
    return _pooled(answer, counts[:, :, occupied], level(question))


def _pooled(answer: AnalysisAnswer, counts: FloatArray, alpha: float) -> AnalysisAnswer:
    """Add the pooled odds of strata of 2 x 2 tables, under the names of statsmodels' StratifiedTable."""
    strata = Strata.of(counts)
    log_odds, error = strata.pooled_odds()
    ratios = coefficients_of(("logodds_pooled",), np.array([log_odds]), np.array([[error**2]]))
    tests = (
        test_scalar("test_null_odds", strata.no_association()),
        test_scalar("test_equal_odds", strata.equal_odds()),
    )
    odds = Scalar("oddsratio_pooled", float(np.exp(log_odds)))
    scalars, tables = (*answer.scalars, odds, *tests), (*answer.tables, _ratio_table(ratios, alpha))
    return replace(answer, coefficients=ratios, scalars=scalars, tables=tables)
