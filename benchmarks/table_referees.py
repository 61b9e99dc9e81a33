"""Referees of the analyses of tables: statsmodels, scipy and scikit-learn on the coded records.

Each function takes the records and an answer and yields pairs of arrays that have to be equal.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.naive_bayes import CategoricalNB
from statsmodels.formula.api import ols
from statsmodels.multivariate.manova import MANOVA
from statsmodels.multivariate.pca import PCA
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.contingency_tables import StratifiedTable, Table, Table2x2
from statsmodels.stats.oneway import anova_oneway
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

from benchmarks.coded_samples import Coded
from gencard.analysis.answers.answer import AnalysisAnswer

Pairs = Iterator[tuple[Any, Any]]


def _crosstab(records: Coded, *names: str) -> Any:
    """Counts of the levels that somebody has."""
    columns = [records.names(name) for name in names]
    counts = np.zeros([len(column.categories) for column in columns])
    np.add.at(counts, tuple(column.codes for column in columns), 1)
    return counts


def _groups(records: Coded, response: str, by: str) -> list[Any]:
    """Numbers of the response in each group."""
    codes = records.names(by).codes
    return [records.numbers(response)[codes == group] for group in range(codes.max() + 1)]


def _test(answer: AnalysisAnswer, name: str) -> tuple[float, ...]:
    scalar = answer.scalar(name)
    return scalar.value, scalar.pvalue  # type: ignore[return-value]


def _values(answer: AnalysisAnswer, name: str) -> Any:
    return np.array(answer.table(name).values, dtype=float)


def shares(records: Coded, answer: AnalysisAnswer, name: str) -> Pairs:
    """A table of one attribute."""
    counts = _crosstab(records, name)
    ends = proportion_confint(counts, counts.sum(), method="wilson")
    yield _values(answer, "shares").T, np.array([counts, counts / counts.sum(), *ends])


def crosstab(records: Coded, answer: AnalysisAnswer, response: str, term: str) -> Pairs:
    """A table of two attributes."""
    counts = _crosstab(records, term, response)
    yield _values(answer, "counts"), counts
    table = Table(counts, shift_zeros=False)
    yield _values(answer, "expected"), table.fittedvalues
    yield _values(answer, "standardized_resids"), table.standardized_resids
    plain = stats.chi2_contingency(counts, correction=False)
    yield _test(answer, "chi2"), plain[:2]
    yield answer.scalar("chi2").degrees, (plain[2],)
    ratio = stats.chi2_contingency(counts, lambda_="log-likelihood", correction=False)
    yield _test(answer, "g"), ratio[:2]
    yield answer["cramers_v"], stats.contingency.association(counts.astype(int))
    if counts.shape == (2, 2):
        yield _test(answer, "chi2_corrected"), stats.chi2_contingency(counts)[:2]
        yield from _two_by_two(answer, Table2x2(counts, shift_zeros=False))


def _two_by_two(answer: AnalysisAnswer, table: Table2x2) -> Pairs:
    assert answer.coefficients is not None
    logs = [table.log_oddsratio, table.log_riskratio]
    yield answer.coefficients.params, logs
    yield answer.coefficients.bse, [table.log_oddsratio_se, table.log_riskratio_se]
    yield _test(answer, "log_oddsratio"), (table.log_oddsratio, table.log_oddsratio_pvalue())
    ratios = [
        (table.oddsratio, *table.oddsratio_confint()),
        (table.riskratio, *table.riskratio_confint()),
    ]
    yield _values(answer, "ratios"), ratios


def strata(records: Coded, answer: AnalysisAnswer, response: str, term: str, within: str) -> Pairs:
    """A table of two attributes within the levels of a third."""
    counts = _crosstab(records, term, response, within)
    tables = [counts[:, :, place] for place in range(counts.shape[2])]
    tests = [stats.chi2_contingency(table, correction=False) for table in tables]
    yield answer["chi2"], sum(test[0] for test in tests)
    yield answer.scalar("chi2").degrees, (sum(test[2] for test in tests),)
    if counts.shape[:2] != (2, 2):
        return
    assert answer.coefficients is not None
    table = StratifiedTable(counts)
    yield answer.coefficients.params, [table.logodds_pooled]
    yield answer.coefficients.bse, [table.logodds_pooled_se]
    for name in ("test_null_odds", "test_equal_odds"):
        test = getattr(table, name)()
        yield _test(answer, name), (test.statistic, test.pvalue)


def means(records: Coded, answer: AnalysisAnswer, response: str, term: str) -> Pairs:
    """Means by group."""
    rows = []
    for group in _groups(records, response, term):
        described = DescrStatsW(group, ddof=1)
        moments = (described.mean, described.var, described.std, described.std / np.sqrt(len(group)))
        rows.append((len(group), *moments, *described.tconfint_mean()))
    yield _values(answer, "means"), rows


def quantiles(records: Coded, answer: AnalysisAnswer, response: str, term: str) -> Pairs:
    """Quantiles by group, of type 1: the middle of the level that holds each."""
    wanted = [float(name) for name in answer.table("quantiles").column_names]
    groups = _groups(records, response, term)
    rows = [np.quantile(group, wanted, method="inverted_cdf") for group in groups]
    if any(table.name == "lower" for table in answer.tables):
        yield (_values(answer, "lower") + _values(answer, "upper")) / 2, rows
    else:
        yield _values(answer, "quantiles"), rows


def ttest(
    records: Coded, answer: AnalysisAnswer, response: str, term: str, test: str = "pooled"
) -> Pairs:
    """Two means, or two samples of ranks."""
    one, other = _groups(records, response, term)
    if test == "mann-whitney":
        yield _test(answer, "u"), tuple(stats.mannwhitneyu(one, other, method="asymptotic"))
        return
    assert answer.coefficients is not None
    usevar = "pooled" if test == "pooled" else "unequal"
    compared = CompareMeans(DescrStatsW(one), DescrStatsW(other))
    t, pvalue, degrees = compared.ttest_ind(usevar=usevar)
    yield _test(answer, "tvalue"), (t, pvalue)
    yield answer.coefficients.degrees, degrees
    yield answer.coefficients.params, [one.mean() - other.mean()]
    yield answer.coefficients.conf_int()[0], compared.tconfint_diff(usevar=usevar)
    yield answer["cohens_d"], t_effect(one, other)


def t_effect(one: Any, other: Any) -> float:
    """Cohen's d with the pooled standard deviation."""
    squares = ((one - one.mean()) ** 2).sum() + ((other - other.mean()) ** 2).sum()
    return float((one.mean() - other.mean()) / np.sqrt(squares / (len(one) + len(other) - 2)))


def anova(
    records: Coded, answer: AnalysisAnswer, response: str, term: str, test: str = "pooled"
) -> Pairs:
    """One-way analysis of variance, with tests of equal variances."""
    groups = _groups(records, response, term)
    if test == "kruskal":
        yield _test(answer, "h"), tuple(stats.kruskal(*groups))
        return
    one_way = anova_oneway(groups, use_var="equal" if test == "pooled" else "unequal")
    yield _test(answer, "fvalue"), (one_way.statistic, one_way.pvalue)
    yield answer.scalar("fvalue").degrees, one_way.df
    if test == "pooled":
        yield _test(answer, "levene"), tuple(stats.levene(*groups))
        yield _test(answer, "bartlett"), tuple(stats.bartlett(*groups))
        yield from anova_of_terms(records, answer, response, "C(x)", {"x": term})


def anova_of_terms(
    records: Coded,
    answer: AnalysisAnswer,
    response: str,
    terms: str,
    names: Mapping[str, str],
    typ: int = 1,
) -> Pairs:
    """Analysis of variance of several terms.

    Args:
        terms: Such as ``C(a) * C(b)``.
        names: From the names in ``terms`` to the attributes.
    """
    frame = pd.DataFrame({short: records.names(name) for short, name in names.items()})
    frame["y"] = records.numbers(response)
    reference = anova_lm(ols(f"y ~ {terms}", frame).fit(), typ=typ)
    yield _values(answer, "anova"), reference[["sum_sq", "df", "F", "PR(>F)"]].to_numpy()


def correlation(records: Coded, answer: AnalysisAnswer, names: Sequence[str], method: str) -> Pairs:
    """Correlations of all pairs."""
    functions: Mapping[str, Callable[..., Any]] = {
        "pearson": stats.pearsonr,
        "spearman": stats.spearmanr,
        "kendall": stats.kendalltau,
    }
    ours, pvalues = _values(answer, "correlation"), _values(answer, "pvalues")
    for place, one in enumerate(names):
        for after, other in enumerate(names[place + 1 :], place + 1):
            result = functions[method](records.numbers(one), records.numbers(other))
            yield (ours[place, after], pvalues[after, place]), tuple(result)
            if method == "pearson":
                ends = (_values(answer, "lower")[place, after], _values(answer, "upper")[place, after])
                yield ends, tuple(result.confidence_interval())


def components(records: Coded, answer: AnalysisAnswer, names: Sequence[str], matrix: str) -> Pairs:
    """Principal components."""
    numbers = np.column_stack([records.numbers(name) for name in names])
    pca = PCA(numbers, standardize=matrix == "correlation", method="eig")
    divisor = len(numbers) if matrix == "correlation" else len(numbers) - 1
    yield _values(answer, "explained_variance")[:, 0], pca.eigenvals / divisor
    vectors = np.asarray(pca.eigenvecs)
    largest = vectors[np.argmax(np.abs(vectors), axis=0), np.arange(len(names))]
    yield _values(answer, "components"), vectors * np.sign(largest)


def naive_bayes(records: Coded, answer: AnalysisAnswer, response: str, names: Sequence[str]) -> Pairs:
    """Naive Bayes of levels."""
    codes = np.column_stack([records.names(name).codes for name in names])
    truth = records.names(response).codes
    fitted = CategoricalNB().fit(codes, truth)
    yield np.log(_values(answer, "class_prior")[:, 1]), fitted.class_log_prior_
    for name, logs in zip(names, fitted.feature_log_prob_, strict=True):
        yield _values(answer, f"probabilities[{name}]"), np.exp(logs)
    shares = fitted.predict_proba(codes)
    yield answer["accuracy"], np.mean(shares.argmax(axis=1) == truth)
    yield answer["log_loss"], -np.log(shares[np.arange(len(truth)), truth]).mean()


def discriminant(records: Coded, answer: AnalysisAnswer, response: str, names: Sequence[str]) -> Pairs:
    """Linear discriminant."""
    numbers = np.column_stack([records.numbers(name) for name in names])
    truth = records.names(response).codes
    fitted = LinearDiscriminantAnalysis(solver="eigen").fit(numbers, truth)
    ours = _values(answer, "coef")
    theirs = np.column_stack([fitted.intercept_, fitted.coef_])
    # Two classes have one function there, the difference; of more, a common part is arbitrary.
    yield ours[1:] - ours[:1], theirs if len(theirs) == 1 else theirs[1:] - theirs[:1]
    yield _values(answer, "priors")[:, 0], fitted.priors_
    yield _values(answer, "means"), fitted.means_
    yield np.abs(_values(answer, "scalings")), np.abs(fitted.scalings_[:, : truth.max()])
    yield _values(answer, "explained_variance_ratio")[:, 0], fitted.explained_variance_ratio_
    yield answer["accuracy"], fitted.score(numbers, truth)
    manova = MANOVA(numbers, np.eye(truth.max() + 1)[truth]).mv_test(
        [("groups", np.eye(truth.max() + 1)[1:] - np.eye(truth.max() + 1)[:1])]
    )
    wilks = manova.results["groups"]["stat"].loc["Wilks' lambda"]
    yield answer["wilks_lambda"], float(wilks["Value"])
    yield answer["fvalue"], float(wilks["F Value"])


@dataclass(frozen=True, slots=True)
class Case:
    """An analysis of a sample, and what judges its answer.

    Args:
        referee: From records and answer to pairs of arrays that have to be equal.
    """

    sample: str
    kind: str
    formula: str
    referee: Callable[[Coded, AnalysisAnswer], Pairs]
    options: Mapping[str, float | str] = field(default_factory=dict)

    def __str__(self) -> str:
        options = "".join(f", {name}={value}" for name, value in self.options.items())
        return f"{self.sample}: {self.formula} ({self.kind}{options})"


def _case(
    sample: str, kind: str, formula: str, referee: Callable[..., Pairs], *arguments: Any, **options: Any
) -> Case:
    return Case(sample, kind, formula, lambda *given: referee(*given, *arguments), options)


_BODY = ("age", "height", "weight", "depress")
_WORK = ("age", "education_num", "hours_per_week")
_YEARS = ("age", "yrs_married", "religious")

CASES = (
    _case("fair", "crosstab", "~ rate_marriage", shares, "rate_marriage"),
    *(
        _case(name, "crosstab", f"{response} ~ {term}", crosstab, response, term)
        for name, response, term in (
            ("fair", "any_affair", "religious"),
            ("adult", "income", "sex"),
            ("adult", "workclass", "marital_status"),
            ("sd2011", "smoke", "sex"),
            ("sd2011", "ls", "edu"),
            ("census", "health", "age"),
        )
    ),
    *(
        _case(name, "crosstab", f"{response} ~ {term}:{within}", strata, response, term, within)
        for name, response, term, within in (
            ("adult", "income", "sex", "race"),
            ("census", "student", "sex", "region"),
            ("sd2011", "ls", "edu", "sex"),
        )
    ),
    *(
        _case(name, kind, f"{response} ~ {term}", referee, response, term)
        for name, kind, referee, response, term in (
            ("fair", "means", means, "yrs_married", "rate_marriage"),
            ("adult", "means", means, "hours_per_week", "workclass"),
            ("sd2011", "quantiles", quantiles, "depress", "edu"),
            ("census", "quantiles", quantiles, "age", "marital_status"),
            ("fair", "ttest", ttest, "age", "any_affair"),
            ("sd2011", "ttest", ttest, "depress", "sex"),
            ("fair", "anova", anova, "affairs", "religious"),
            ("adult", "anova", anova, "hours_per_week", "race"),
        )
    ),
    *(
        _case(name, kind, f"{response} ~ {term}", referee, response, term, test, test=test)
        for name, kind, referee, response, term, test in (
            ("adult", "ttest", ttest, "age", "income", "welch"),
            ("sd2011", "ttest", ttest, "weight", "smoke", "mann-whitney"),
            ("sd2011", "anova", anova, "depress", "edu", "welch"),
            ("census", "anova", anova, "hours_worked_per_week", "region", "kruskal"),
        )
    ),
    _case(
        *("sd2011", "anova", "weight ~ sex * edu + smoke", anova_of_terms, "weight"),
        *("C(a) * C(b) + C(c)", {"a": "sex", "b": "edu", "c": "smoke"}, 2),
        typ=2,
    ),
    _case(
        *("fair", "anova", "age ~ religious * educ", anova_of_terms, "age"),
        *("C(a) * C(b)", {"a": "religious", "b": "educ"}),
    ),
    *(
        _case(name, "correlation", f"~ {' + '.join(names)}", correlation, names, method, method=method)
        for name, names, method in (
            ("sd2011", _BODY, "pearson"),
            ("adult", _WORK, "spearman"),
            ("fair", _YEARS, "kendall"),
        )
    ),
    *(
        _case(name, "components", f"~ {' + '.join(names)}", components, names, matrix, matrix=matrix)
        for name, names, matrix in (("sd2011", _BODY, "correlation"), ("adult", _WORK, "covariance"))
    ),
    *(
        _case(name, kind, f"{response} ~ {' + '.join(names)}", referee, response, names)
        for name, kind, referee, response, names in (
            ("adult", "naive-bayes", naive_bayes, "income", ("sex", "race", "education_num")),
            ("census", "naive-bayes", naive_bayes, "health", ("age", "sex", "region")),
            ("fair", "discriminant", discriminant, "any_affair", _YEARS),
            ("sd2011", "discriminant", discriminant, "edu", ("age", "height", "depress")),
        )
    ),
)
