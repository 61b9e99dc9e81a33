"""Analyses of tables from psi: equal to statsmodels, scipy and scikit-learn on the coded records."""

import json
from itertools import product

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from benchmarks.coded_samples import Coded, sample
from benchmarks.table_referees import CASES
from gencard.analysis.answers import crosstabs
from gencard.analysis.answers.classifiers import Correspondence
from gencard.analysis.answers.correlations import bivariate_normal, polychoric
from gencard.analysis.answers.groups import Groups, quantile_places
from gencard.analysis.answers.margins import PsiMargins, RecordMargins
from gencard.analysis.formulas.answering import answer_of
from gencard.analysis.formulas.formulas import read_formula
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.errors import (
    InvalidInputError,
    LackingMarginalsError,
    NoEstimateError,
    NoiseDrownsError,
)
from gencard.core.statistics.formula import Analysis, sufficient_cliques
from gencard.core.statistics.marginals import count
from gencard.core.statistics.psi import Measurement, Psi

CODING = Coding(
    (
        Attribute("sex", Labels(("f", "m"))),
        Attribute("ill", Labels(("no", "yes"))),
        Attribute("age", Edges((0, 20, 40, 60, 90), decimals=0)),
        Attribute("income", Edges((0, 1, 2, 5, 10), missing=True)),
        Attribute("health", Labels(("bad", "fair", "good"), ordered=True, missing=True)),
        Attribute("region", Labels(("east", "north", "west"))),
    )
)


def records(rows=2_000, seed=5):
    """Six attributes with one common cause."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(rows, len(CODING.attributes))) + rng.normal(size=(rows, 1))
    cuts = [np.linspace(-1.5, 1.5, size + 1)[1:-1] for size in CODING.domain.sizes]
    columns = [np.searchsorted(cut, column) for cut, column in zip(cuts, scores.T, strict=True)]
    return Dataset.of_columns(CODING.domain, columns)


def psi_of(dataset, cliques, stddev=0.0):
    measured = tuple(Measurement(clique, count(dataset, clique), stddev) for clique in cliques)
    return Psi(dataset.domain.covered_by(cliques), measured)


def margins_for(formula, kind, dataset, coding=CODING):
    """Only what the analysis needs."""
    cliques = sufficient_cliques(read_formula(formula, coding), Analysis(kind), coding.domain)
    return PsiMargins(psi_of(dataset, cliques))


def answered(formula, kind, dataset=None, **options):
    dataset = records() if dataset is None else dataset
    margins = margins_for(formula, kind, dataset)
    return answer_of(formula, Analysis(kind), margins, CODING, options=options)


def values(answer, name):
    return np.array(answer.table(name).values, dtype=float)


def sampled(name) -> Coded:
    try:
        return sample(name)
    except SystemExit as absent:
        pytest.skip(str(absent))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_answer_is_that_of_the_field_s_software_on_the_coded_records(case):
    coded = sampled(case.sample)
    margins = margins_for(case.formula, case.kind, coded.dataset, coded.coding)
    if case.kind in ("naive-bayes", "discriminant"):  # for accuracy, which needs all attributes
        margins = RecordMargins.of(coded.dataset)
    answer = answer_of(case.formula, Analysis(case.kind), margins, coded.coding, options=case.options)
    for ours, theirs in case.referee(coded, answer):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-13)


GRID = [
    ("crosstab", "~ health"),
    ("crosstab", "ill ~ sex"),
    ("crosstab", "ill ~ sex + region"),
    ("crosstab", "ill ~ sex:region"),
    ("means", "age ~ health"),
    ("means", "age ~ sex + region"),
    ("quantiles", "health ~ sex"),
    ("ttest", "age ~ 1"),
    ("ttest", "income ~ sex"),
    ("anova", "income ~ health"),
    ("anova", "age ~ sex * region"),
    ("correlation", "~ age + income"),
    ("polychoric", "~ health + age + income"),
    ("components", "~ age + income"),
    ("correspondence", "~ health + region + sex"),
    ("naive-bayes", "ill ~ sex + region"),
    ("chow-liu", "ill ~ sex + region + health"),
    ("discriminant", "region ~ age"),
]


@pytest.mark.parametrize(("kind", "formula"), GRID)
def test_psi_and_records_give_the_same_answer(kind, formula):
    dataset = records()
    if kind == "components":
        dataset = dataset.take(np.flatnonzero(dataset.column("income") < 4))
    from_psi = answered(formula, kind, dataset)
    from_records = answer_of(formula, Analysis(kind), RecordMargins.of(dataset), CODING)
    assert type(from_psi).of_json(json.loads(json.dumps(from_psi.to_json()))) == from_psi
    assert from_psi.scalars == from_records.scalars[: len(from_psi.scalars)]
    for table in from_psi.tables:
        np.testing.assert_array_equal(values(from_psi, table.name), values(from_records, table.name))


@pytest.mark.parametrize(("kind", "formula"), GRID)
def test_what_psi_lacks_is_named(kind, formula):
    dataset = records()
    lacking = sufficient_cliques(read_formula(formula, CODING), Analysis(kind), CODING.domain)[0]
    rest = [name for name in CODING.domain.attributes if name != lacking[0]]
    margins = PsiMargins(psi_of(dataset, [(name,) for name in rest]))
    with pytest.raises(LackingMarginalsError, match=" × ".join(lacking)):
        answer_of(formula, Analysis(kind), margins, CODING)


@pytest.mark.parametrize(("kind", "formula"), GRID)
def test_noise_that_makes_counts_negative_breaks_nothing(kind, formula):
    dataset = records(60)
    cliques = sufficient_cliques(read_formula(formula, CODING), Analysis(kind), CODING.domain)
    rng = np.random.default_rng(3)
    noisy = tuple(
        Measurement(clique, counts + np.rint(rng.normal(0, 4, counts.shape)).astype(int), 4.0)
        for clique, counts in ((clique, count(dataset, clique)) for clique in cliques)
    )
    margins = PsiMargins(Psi(CODING.domain.covered_by(cliques), noisy))
    try:
        answer = answer_of(formula, Analysis(kind), margins, CODING)
    except (InvalidInputError, NoEstimateError, NoiseDrownsError):
        return
    assert answer.noise != "exact"
    assert type(answer).of_json(json.loads(json.dumps(answer.to_json()))) == answer


def test_missing_values_of_a_number_are_left_out_and_the_answer_says_so():
    dataset = records()
    answer = answered("income ~ sex", "means", dataset)
    present = dataset.column("income") < 4
    income = np.array([0.5, 1.5, 3.5, 7.5])[dataset.column("income")[present]]
    sex = dataset.column("sex")[present]
    assert answer.n == present.sum()
    np.testing.assert_allclose(
        values(answer, "means")[:, 1], [income[sex == group].mean() for group in (0, 1)]
    )
    assert "dropped where missing: income" in answer.notes


def test_correlations_of_each_pair_are_of_the_records_that_have_both():
    dataset = records()
    answer = answered("~ age + income + health", "correlation", dataset, method="spearman")
    both = (dataset.column("income") < 4) & (dataset.column("health") < 3)
    rho = stats.spearmanr(dataset.column("income")[both], dataset.column("health")[both]).statistic
    np.testing.assert_allclose(values(answer, "correlation")[1, 2], rho)
    assert values(answer, "nobs")[1, 2] == both.sum()


def test_components_of_attributes_with_missing_values_are_refused_with_what_to_do():
    with pytest.raises(InvalidInputError, match="missing='drop'"):
        answered("~ age + income", "components")


def test_a_level_that_nobody_has_is_no_row():
    dataset = records()
    kept = dataset.take(np.flatnonzero(dataset.column("region") != 1))
    assert answered("ill ~ region", "crosstab", kept).table("counts").row_names == ("east", "west")


def test_an_empty_cell_has_no_odds_ratio():
    dataset = records()
    gone = (dataset.column("sex") == 1) & (dataset.column("ill") == 0)
    answer = answered("ill ~ sex", "crosstab", dataset.take(np.flatnonzero(~gone)))
    assert answer.coefficients is None
    assert any("empty" in note for note in answer.notes)


@pytest.mark.parametrize(
    ("kind", "formula", "options", "problem"),
    [
        ("ttest", "age ~ region", {}, "two groups"),
        ("ttest", "age ~ sex + ill", {}, "one term"),
        ("ttest", "age ~ sex", {"test": "paired"}, "pooled, welch, mann-whitney"),
        ("means", "ill ~ sex", {}, "number for each of its levels"),
        ("anova", "age ~ 1", {}, "term"),
        ("anova", "age ~ sex + ill", {"test": "welch"}, "one term"),
        ("anova", "age ~ sex * ill", {"typ": 3}, "1 or 2"),
        ("correlation", "~ age", {}, "2 attributes"),
        ("correlation", "~ age + sex", {}, "number for each of its levels"),
        ("components", "~ age + income", {"components": 3}, "from 1 to 2|missing"),
        ("quantiles", "age ~ sex", {"q": 1.5}, "between 0 and 1"),
        ("crosstab", "~ sex", {"alpha": 0}, "between 0 and 1"),
        ("naive-bayes", "sex ~ 1", {}, "predictor"),
        ("naive-bayes", "sex ~ ill", {"smoothing": -1}, "negative"),
        ("means", "age ~ sex", {"tset": "welch"}, "no option 'tset'; its options are alpha"),
        ("polychoric", "~ age + sex", {"alpha": 0.1}, "it has no options"),
    ],
)
def test_a_wrong_question_is_refused_with_what_to_do(kind, formula, options, problem):
    with pytest.raises(InvalidInputError, match=problem):
        answered(formula, kind, **options)


def test_one_class_or_constant_numbers_have_no_estimate():
    dataset = records()
    same = dataset.take(np.flatnonzero((dataset.column("age") == 1) & (dataset.column("income") < 4)))
    for kind, formula in [
        ("ttest", "age ~ sex"),
        ("anova", "age ~ region"),
        ("components", "~ age + income"),
        ("discriminant", "sex ~ age"),
        ("polychoric", "~ age + health"),
    ]:
        with pytest.raises(NoEstimateError):
            answered(formula, kind, same)


def test_a_function_of_a_number_gives_its_levels_other_numbers():
    dataset = records()
    plain, logs = (answered(f"{text} ~ sex", "means", dataset) for text in ("age", "log(age)"))
    age = np.log([9.5, 29.5, 49.5, 75.0])[dataset.column("age")]
    sex = dataset.column("sex")
    np.testing.assert_allclose(values(logs, "means")[:, 1], [age[sex == one].mean() for one in (0, 1)])
    assert answered("I(age) ~ C(sex)", "means", dataset).tables == plain.tables


@pytest.mark.parametrize(
    ("kind", "formula", "problem"),
    [
        ("crosstab", "I(age > 40) ~ sex", "uses the levels"),
        ("means", "age ~ I(income > 1)", "uses the levels"),
        ("correlation", "~ I(age * income) + age", "functions of several"),
        ("components", "~ age + log(age)", "in two forms"),
        ("correlation", "~ log(age - 9.5) + income", "not a finite number"),
    ],
)
def test_a_function_that_an_analysis_cannot_have_is_refused(kind, formula, problem):
    with pytest.raises(InvalidInputError, match=problem):
        answered(formula, kind)


def test_quantile_classes_are_those_of_numpy():
    rng = np.random.default_rng(2)
    counts = rng.integers(0, 9, (6, 5)).astype(float)
    for q in (0.1, 0.25, 0.3, 0.5, 0.75, 0.9):
        repeated = [np.repeat(np.arange(5), row.astype(int)) for row in counts]
        expected = [np.quantile(levels, q, method="inverted_cdf") for levels in repeated]
        np.testing.assert_array_equal(quantile_places(counts, q), expected)


def test_bivariate_normal_probabilities_are_those_of_scipy():
    points = np.array([(-3.0, 2.0), (0.0, 0.0), (0.0, -1.0), (1.0, 0.0), (0.5, 0.7), (-1.0, -2.0)])
    for rho in (-0.999, -0.5, 0.0, 0.3, 0.99):
        normal = stats.multivariate_normal([0, 0], [[1, rho], [rho, 1]])
        np.testing.assert_allclose(
            bivariate_normal(*points.T, rho), [normal.cdf(point) for point in points], atol=1e-12
        )


def brute_likelihood(table, rho):
    """Each cell by numerical integration over the first variable."""
    cuts = [
        np.concatenate([[-9.0], stats.norm.ppf(np.cumsum(table.sum(axis))[:-1] / table.sum()), [9.0]])
        for axis in (1, 0)
    ]
    scale = np.sqrt(1 - rho**2)
    total = 0.0
    for row, column in product(range(table.shape[0]), range(table.shape[1])):
        low, high = cuts[1][column], cuts[1][column + 1]
        share, _ = integrate.quad(
            lambda x, low=low, high=high: (
                stats.norm.pdf(x)
                * (stats.norm.cdf((high - rho * x) / scale) - stats.norm.cdf((low - rho * x) / scale))
            ),
            *cuts[0][row : row + 2],
            epsabs=1e-12,
        )
        total += table[row, column] * np.log(share)
    return total


TABLE = np.array([[30.0, 20.0, 6.0], [18.0, 40.0, 21.0], [4.0, 17.0, 33.0]])


def test_the_polychoric_correlation_has_the_largest_likelihood():
    estimate = polychoric(TABLE)
    best = optimize.minimize_scalar(
        lambda rho: -brute_likelihood(TABLE, rho), bounds=(0.4, 0.8), options={"xatol": 1e-7}
    )
    assert abs(estimate.rho - best.x) < 1e-5
    assert estimate.fit is not None
    assert estimate.fit.degrees == 3


def test_the_gradient_of_the_polychoric_correlation_is_that_of_differences():
    gradient, numeric = polychoric(TABLE).gradient, np.zeros_like(TABLE)
    for cell in np.ndindex(TABLE.shape):
        step = np.zeros_like(TABLE)
        step[cell] = 1e-3
        numeric[cell] = (polychoric(TABLE + step).rho - polychoric(TABLE - step).rho) / 2e-3
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-9)
    assert abs(np.sum(TABLE * gradient)) < 1e-12, "more records in the same shares change nothing"


def test_the_standard_error_of_the_polychoric_correlation_is_that_of_many_samples():
    rng = np.random.default_rng(1)
    draws = rng.multinomial(2_000, TABLE.ravel() / TABLE.sum(), 150).reshape(-1, *TABLE.shape)
    spread = np.std([polychoric(draw.astype(float)).rho for draw in draws])
    error = polychoric(2_000 / TABLE.sum() * TABLE).standard_error
    assert 0.8 < spread / error < 1.2


def test_an_order_that_follows_from_the_other_has_no_polychoric_correlation():
    with pytest.raises(InvalidInputError, match="no finite estimate"):
        polychoric(np.diag([5.0, 6.0, 7.0]))


def test_correspondence_analysis_is_that_of_prince():
    """Figures of prince 0.23.0, ``MCA(n_components=8)`` without and with Greenacre's correction."""
    coded = sampled("fair")
    answer = answer_of(
        "~ rate_marriage + religious + any_affair",
        Analysis.CORRESPONDENCE,
        RecordMargins.of(coded.dataset),
        coded.coding,
    )
    inertias = values(answer, "inertias")
    np.testing.assert_allclose(inertias[:3, 0], [0.46745303, 0.34850388, 0.33826652], rtol=2e-8)
    np.testing.assert_allclose(
        inertias[:4, 2], [4.04732076e-02, 5.17827151e-04, 5.47567700e-05, 1.08398012e-05], rtol=1e-8
    )
    np.testing.assert_allclose(inertias[:2, 3], [0.840033541, 0.0107476575], rtol=1e-8)
    first = [1.884808, 1.457774, 1.115309, 0.060575, -0.721763]
    np.testing.assert_allclose(values(answer, "coordinates")[:5, 0], first, atol=5e-7)
    shares = [0.039395, 0.082839, 0.138361, 0.000922, 0.156620]
    np.testing.assert_allclose(values(answer, "contributions")[:5, 0], shares, atol=5e-7)


def test_two_attributes_have_the_inertias_of_their_own_table():
    """For two attributes the adjusted inertias are those of simple correspondence analysis."""
    table = TABLE
    burt = np.block([[np.diag(table.sum(1)), table], [table.T, np.diag(table.sum(0))]])
    analysis = Correspondence.of(burt, 2)
    chi2 = crosstabs.pearson(table).statistic
    np.testing.assert_allclose(analysis.adjusted.sum(), chi2 / table.sum())
    np.testing.assert_allclose(analysis.adjusted_total, chi2 / table.sum())


def test_the_tree_of_chow_and_liu_has_the_likelihood_of_its_records():
    dataset = records()
    answer = answered("~ ill + sex + age + region", "chow-liu", dataset)
    tree = {tuple(name.split(" → ")) for name in answer.table("edges").row_names}
    logs = np.log(count(dataset, ("ill",)) / len(dataset))[dataset.column("ill")].sum()
    for parent, child in tree:
        table = count(dataset, (parent, child)).astype(float)
        shares = table / table.sum(axis=1, keepdims=True)
        logs += np.log(shares[dataset.column(parent), dataset.column(child)]).sum()
    assert len(tree) == 3
    np.testing.assert_allclose(answer["llf"], logs)


def test_no_other_tree_has_a_larger_likelihood():
    answer = answered("~ ill + sex + age + region", "chow-liu")
    information = values(answer, "mutual_information")
    names = answer.table("mutual_information").row_names
    pairs = [(i, j) for i in range(4) for j in range(i)]
    trees = [chosen for chosen in product(pairs, repeat=3) if len({*chosen}) == 3 and connected(chosen)]
    best = max(sum(information[pair] for pair in tree) for tree in trees)
    np.testing.assert_allclose(values(answer, "edges").sum(), best)
    assert set(names) == {"ill", "sex", "age", "region"}


def connected(edges):
    reached = {0}
    for _ in range(3):
        reached |= {end for edge in edges if reached & set(edge) for end in edge}
    return len(reached) == 4


def test_accuracy_is_given_where_the_joint_table_is_in_psi_and_only_there():
    dataset = records()
    formula = "ill ~ sex + region"
    assert "accuracy" not in {scalar.name for scalar in answered(formula, "naive-bayes").scalars}
    wide = PsiMargins(psi_of(dataset, [("sex", "ill", "region")]))
    answer = answer_of(formula, Analysis.NAIVE_BAYES, wide, CODING)
    confusion = values(answer, "confusion")
    assert confusion.sum() == len(dataset)
    assert answer["accuracy"] == np.trace(confusion) / len(dataset)


def test_groups_about_a_centre_keep_their_records():
    groups = Groups(TABLE, np.array([1.0, 2.0, 4.0]))
    about = groups.about(np.array([2.0, 2.0, 1.0]))
    np.testing.assert_array_equal(about.sizes, groups.sizes)
    assert about.means[0] == (30 * 1 + 6 * 2) / 56
