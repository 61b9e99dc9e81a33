"""Every number of an answer from noisy psi includes the noise or is left out: all kinds, all places."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from benchmarks.answers_grid import alarming, contradicting, misstated, outcome, settings
from gencard.analysis.answers import kinds
from gencard.analysis.answers.answer import (
    COEFFICIENTS,
    NOISE,
    RECORDS,
    SCALARS,
    Address,
    Scalar,
    Use,
    numbers_in_json,
    numbers_of,
    rule_of,
    table_of,
    use_of,
)
from gencard.analysis.answers.intervals import with_noise
from gencard.analysis.answers.margins import PsiMargins, RecordMargins
from gencard.analysis.answers.noisy_estimates import name_of
from gencard.analysis.answers.noisy_margins import Bootstrap, NoisyMargins, margins_of
from gencard.analysis.formulas.answering import answer_of, read_question
from gencard.analysis.formulas.formulas import read_formula
from gencard.core.card.privacy import gaussian, laplace
from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.errors import GencardError, NoEstimateError, NoiseDrownsError, TooLargeError
from gencard.core.statistics.formula import Analysis, sufficient_cliques
from gencard.core.statistics.noise import noisy
from gencard.core.statistics.psi import Measurement, Psi
from tests.core.seeded_noise import SeededNoise
from tests.core.test_answers_of_tables import CODING, psi_of, records

BIT = Labels(("0", "1"), integer=True, ordered=True)
BITS = Coding((Attribute("y", BIT), Attribute("a", BIT)))
LAPLACE = laplace("1", neighbouring="replace-one")

COMPLETE = {"sex", "ill", "age", "region"}
"""Attributes without missing values."""

ASKED = [
    ("linear", "age ~ C(sex) + region", {}),
    ("logistic", "ill ~ C(sex)", {}),
    ("multinomial", "region ~ C(sex)", {}),
    ("ordinal", "age ~ C(sex)", {}),
    ("poisson", "age ~ C(sex)", {}),
    ("loglinear", "~ sex + ill", {}),
    ("loglinear", "~ sex * ill", {}),
    ("crosstab", "ill ~ sex", {}),
    ("crosstab", "ill ~ region", {}),
    ("crosstab", "~ region", {}),
    ("crosstab", "ill ~ sex:region", {}),
    ("crosstab", "region ~ sex:age", {}),
    ("crosstab", "ill ~ sex + region", {}),
    ("means", "age ~ sex + region", {}),
    ("means", "age ~ sex", {}),
    ("quantiles", "age ~ sex", {}),
    ("ttest", "age ~ sex", {}),
    ("ttest", "age ~ sex", {"test": "welch"}),
    ("ttest", "age ~ sex", {"test": "mann-whitney"}),
    ("ttest", "age ~ 1", {"value": 40.0}),
    ("anova", "age ~ region", {}),
    ("anova", "age ~ region", {"test": "welch"}),
    ("anova", "age ~ region", {"test": "kruskal"}),
    ("anova", "age ~ region + sex", {}),
    ("correlation", "~ age + ill", {"method": "kendall"}),
    ("correlation", "~ age + region", {"method": "spearman"}),
    ("correlation", "~ age + income", {}),
    ("correlation", "~ age + sex + ill", {"method": "spearman"}),
    ("polychoric", "~ age + ill", {}),
    ("polychoric", "~ age + ill + sex", {}),
    ("components", "~ age + income", {}),
    ("components", "~ age + income", {"matrix": "covariance"}),
    ("correspondence", "~ sex + ill + region", {}),
    ("naive-bayes", "ill ~ sex + region", {}),
    ("chow-liu", "~ sex + ill + region", {}),
    ("discriminant", "ill ~ age + income", {}),
    ("discriminant", "region ~ age + income", {}),
    ("kaplan-meier", "age ~ ill + sex", {}),
    ("cox", "age ~ ill + C(sex)", {}),
]

JUDGED = {
    "linear": {
        "interval": "coefficients",
        "spread": "n",
        "left out": (
            "scalars.aic, scalars.bic, scalars.fvalue, scalars.fvalue pvalue, scalars.llf, "
            "scalars.rsquared, scalars.rsquared_adj, scalars.scale, scalars.ssr"
        ),
    },
    "logistic": {
        "interval": "coefficients",
        "spread": "n",
        "left out": (
            "scalars.aic, scalars.bic, scalars.llf, scalars.llnull, scalars.llr, "
            "scalars.llr pvalue, scalars.prsquared"
        ),
    },
    "multinomial": {
        "interval": "coefficients",
        "spread": "n",
        "left out": (
            "scalars.aic, scalars.bic, scalars.llf, scalars.llnull, scalars.llr, "
            "scalars.llr pvalue, scalars.prsquared"
        ),
    },
    "ordinal": {
        "interval": "coefficients",
        "spread": "n",
        "left out": (
            "scalars.aic, scalars.bic, scalars.llf, scalars.llnull, scalars.llr, "
            "scalars.llr pvalue, scalars.prsquared"
        ),
    },
    "poisson": {
        "interval": "coefficients",
        "spread": "n",
        "left out": (
            "scalars.aic, scalars.bic, scalars.deviance, scalars.llf, scalars.llnull, "
            "scalars.llr, scalars.llr pvalue, scalars.prsquared"
        ),
    },
    "loglinear": {
        "interval": "coefficients",
        "spread": "n",
        "given": "scalars.df_resid",
        "left out": (
            "scalars.deviance, scalars.deviance pvalue, scalars.llf, scalars.pearson_chi2, "
            "scalars.pearson_chi2 pvalue"
        ),
    },
    "crosstab": {
        "interval": (
            "coefficients, ratios.estimate, ratios.lower, ratios.upper, scalars.log_oddsratio, "
            "scalars.log_oddsratio pvalue, scalars.log_oddsratio standard_error, "
            "scalars.log_riskratio, scalars.log_riskratio pvalue, "
            "scalars.log_riskratio standard_error, scalars.oddsratio, "
            "scalars.oddsratio_pooled, scalars.riskratio, shares.lower, shares.share, "
            "shares.upper"
        ),
        "spread": "column shares.*, counts.*, n, row shares.*, shares.nobs",
        "left out": (
            "expected.*, scalars.chi2, scalars.chi2 pvalue, scalars.chi2_corrected, "
            "scalars.chi2_corrected pvalue, scalars.cramers_v, scalars.g, scalars.g pvalue, "
            "scalars.mutual_information, scalars.test_equal_odds, "
            "scalars.test_equal_odds pvalue, scalars.test_null_odds, "
            "scalars.test_null_odds pvalue, standardized_resids.*"
        ),
    },
    "means": {
        "interval": "means.lower, means.mean, means.std_mean, means.upper",
        "spread": "means.nobs, means.std, means.var, n",
    },
    "quantiles": {"spread": "cumulative shares.*, n", "left out": "lower.*, quantiles.*, upper.*"},
    "ttest": {
        "interval": (
            "coefficients, means.lower, means.mean, means.std_mean, means.upper, "
            "scalars.tvalue, scalars.tvalue pvalue"
        ),
        "spread": "means.nobs, means.std, means.var, n, scalars.auc, scalars.cohens_d",
        "left out": "scalars.u, scalars.u pvalue",
    },
    "anova": {
        "interval": (
            "anova.F, anova.PR(>F), anova.df, means.lower, means.mean, means.std_mean, means.upper"
        ),
        "spread": "means.nobs, means.std, means.var, n",
        "left out": (
            "anova.sum_sq, scalars.bartlett, scalars.bartlett pvalue, scalars.eta_squared, "
            "scalars.fvalue, scalars.fvalue pvalue, scalars.h, scalars.h pvalue, "
            "scalars.levene, scalars.levene pvalue, scalars.omega_squared, scalars.rsquared"
        ),
    },
    "correlation": {
        "interval": (
            "correlation.*, lower.*, pvalues.*, scalars.kendalltau, scalars.kendalltau pvalue, "
            "scalars.pearsonr, scalars.pearsonr pvalue, scalars.spearmanr, "
            "scalars.spearmanr pvalue, upper.*"
        ),
        "spread": "n, nobs.*",
        "given": "correlation.*",
    },
    "polychoric": {
        "interval": (
            "coefficients, correlation.*, scalars.rho, scalars.rho standard_error, standard errors.*"
        ),
        "spread": "n, nobs.*",
        "given": "correlation.*",
        "left out": "scalars.normality, scalars.normality pvalue",
    },
    "components": {
        "spread": (
            "attributes.mean, attributes.std, components.*, explained_variance.cumulative, "
            "explained_variance.eigenvalue, explained_variance.ratio, loadings.*, n"
        )
    },
    "correspondence": {
        "spread": (
            "contributions.*, coordinates.*, inertias.adjusted, inertias.adjusted_ratio, "
            "inertias.burt, inertias.indicator, masses.mass, n"
        )
    },
    "naive-bayes": {
        "spread": (
            "class_prior.nobs, class_prior.prior, features.mutual_information, n, probabilities.*"
        ),
        "left out": (
            "confusion.*, features.accuracy_alone, scalars.accuracy, scalars.baseline, scalars.log_loss"
        ),
    },
    "chow-liu": {
        "spread": "edges.mutual_information, mutual_information.*, n, probabilities.*",
        "left out": "scalars.aic, scalars.bic, scalars.llf, scalars.llnull",
    },
    "discriminant": {
        "spread": (
            "coef.*, coef.Intercept, covariance.*, distances.*, "
            "explained_variance_ratio.ratio, means.*, n, priors.prior, scalars.normal_error, "
            "scalings.*"
        ),
        "given": "distances.*",
        "left out": (
            "confusion.*, scalars.accuracy, scalars.fvalue, scalars.fvalue pvalue, "
            "scalars.log_loss, scalars.wilks_lambda"
        ),
    },
    "kaplan-meier": {
        "interval": "survival.std_err, survival.survival",
        "spread": "n, survival.at_risk, survival.events",
        "given": "survival.time",
    },
    "cox": {
        "interval": "coefficients",
        "spread": "n, scalars.nevents",
        "left out": "scalars.llf, scalars.llnull",
    },
}
"""Judgement of every number of an analysis: a new number needs an entry here, and in ``RULES``."""


def judged_name(address):
    """A number's name: a scalar's, or a table's and column's; "*" for columns that are levels."""
    place = address.place.partition("[")[0]
    if address.place in {COEFFICIENTS, RECORDS}:
        return place
    if address.place == SCALARS:
        name = address.row.partition("[")[0]
        return f"{place}.{name}" + ("" if address.column == "value" else f" {address.column}")
    levels = {level for one in CODING.attributes for level in one.coding.level_names}
    levels |= {*CODING.domain.attributes, "0.25", "0.5", "0.75"}
    axis = address.column.startswith(("comp_", "dim_", "ld_"))
    return f"{place}." + ("*" if axis or address.column in levels else address.column)


def question_of(kind, formula, options):
    return read_question(formula, Analysis(kind), CODING, options=options)


def exact_answer(kind, formula, options):
    margins = RecordMargins.of(records())
    return answer_of(formula, Analysis(kind), margins, CODING, options=options, missing="drop")


def noisy_psi(kind, formula, rows=20_000, seed=1):
    """Noisy psi of the analysis; all attributes together if one has missing values."""
    read = read_formula(formula, CODING)
    cliques = list(sufficient_cliques(read, Analysis(kind), CODING.domain))
    if not COMPLETE.issuperset(read.attributes):
        cliques = [CODING.domain.canonical(read.attributes)]
    return noisy(psi_of(records(rows), cliques), LAPLACE, SeededNoise(seed))


def noisy_answer(kind, formula, options, **more):
    margins = margins_of(noisy_psi(kind, formula))
    more = {"options": options, "missing": "drop"} | more
    return answer_of(formula, Analysis(kind), margins, CODING, **more)


@pytest.fixture(scope="module")
def exact():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [(kind, exact_answer(kind, formula, options)) for kind, formula, options in ASKED]


def test_every_kind_is_asked():
    assert {kind for kind, _, _ in ASKED} == {*map(str, Analysis)} == {*JUDGED}


@pytest.mark.parametrize("kind", JUDGED)
def test_every_number_is_judged(exact, kind):
    uses = {}
    for one, answer in exact:
        if one != kind:
            continue
        for address, value in numbers_of(answer).items():
            if value is not None:
                uses.setdefault(str(use_of(Analysis(kind), address)), set()).add(judged_name(address))
    assert uses == {use: {*names.split(", ")} for use, names in JUDGED[kind].items()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "formula", "options"), ASKED)
def test_a_noisy_answer_has_no_number_without_its_noise(kind, formula, options):
    answer = noisy_answer(kind, formula, options)
    numbers = {address: value for address, value in numbers_of(answer).items() if value is not None}
    stated = {row for table in answer.tables if table.name == NOISE for row in table.row_names}
    numbers = {at: value for at, value in numbers.items() if at.place not in {NOISE, RECORDS}}
    for address in numbers:
        use = use_of(Analysis(kind), address)
        assert use is not Use.LEFT_OUT
        if use is Use.SPREAD:
            assert name_of(address) in stated
    assert any(note.startswith("n has noise of standard deviation") for note in answer.notes)
    assert answer.coefficients is not None or numbers
    exact = exact_answer(kind, formula, options)
    known = replace(answer, tables=tuple(table for table in answer.tables if table.name != NOISE))
    assert numbers_in_json(known.to_json()) <= numbers_in_json(exact.to_json())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "formula", "options"), ASKED)
def test_what_says_how_sure_a_number_is_is_wider_than_without_noise(kind, formula, options):
    if not COMPLETE.issuperset(read_formula(formula, CODING).attributes):
        return
    question = read_question(formula, Analysis(kind), CODING, options=options)
    blind = kinds.plain_answer(question, NoisyMargins.of(noisy_psi(kind, formula)))
    known = noisy_answer(kind, formula, options)
    plain = numbers_of(blind)
    for address, value in numbers_of(known).items():
        rule = rule_of(Analysis(kind), address)
        if rule is None or rule.error is None or value is None:
            continue
        error = rule.beside(address, rule.error)
        assert numbers_of(known)[error] > plain[error]
    if known.coefficients is not None:
        assert np.all(known.coefficients.bse > blind.coefficients.bse)


def test_noise_is_not_forgotten_where_margins_were_not_reconciled():
    psi = noisy_psi("anova", "age ~ region")
    asked = ("age ~ region", Analysis.ANOVA)
    assert answer_of(*asked, PsiMargins(psi), CODING) == answer_of(*asked, margins_of(psi), CODING)


def test_a_number_that_no_rule_names_is_left_out():
    formula = "ill ~ sex"
    psi = noisy(psi_of(records(), [("sex", "ill")]), LAPLACE, SeededNoise(2))
    question = question_of("crosstab", formula, {})

    def with_more(margins, question):
        answer = kinds.KINDS[Analysis.CROSSTAB].answer(margins, question)
        table = table_of("something new", ("a",), ("b",), np.ones((1, 1)))
        more = Scalar("new", 1.0, None, (), 0.01)
        return replace(answer, scalars=(*answer.scalars, more), tables=(*answer.tables, table))

    answer = with_noise(with_more, None, None, question, margins_of(psi))
    assert "new" not in {one.name for one in answer.scalars}
    assert "something new" not in {one.name for one in answer.tables}
    assert any("left out" in note and "something new" in note for note in answer.notes)


def test_a_bootstrap_gives_no_error_or_p_value_that_ignores_the_noise():
    how = Bootstrap(np.random.default_rng(3), replicates=20)
    for kind, formula, options in (
        ("correlation", "~ age + ill", {"method": "spearman"}),
        ("anova", "age ~ region", {}),
        ("ttest", "age ~ sex", {}),
    ):
        answer = noisy_answer(kind, formula, options, bootstrap=how)
        columns = {name for table in answer.tables for name in table.column_names}
        assert not columns & {"PR(>F)", "std_mean", "lower", "upper"}
        assert not {table.name for table in answer.tables} & {"pvalues", "lower", "upper"}
        assert all(one.pvalue is None and one.standard_error is None for one in answer.scalars)


def test_more_counts_than_can_be_moved_are_an_error_that_says_what_to_do():
    formula, kind = "~ a + b + c + d", Analysis.CORRELATION
    levels = Labels(tuple(map(str, range(15))), integer=True, ordered=True)
    coding = Coding(tuple(Attribute(name, levels) for name in "abcd"))
    cliques = sufficient_cliques(read_formula(formula, coding), kind, coding.domain)
    tables = tuple(Measurement(one, np.full((15, 15), 50), 2.0) for one in cliques)
    with pytest.raises(TooLargeError) as caught:
        answer_of(formula, kind, margins_of(Psi(coding.domain, tables)), coding)
    assert "bootstrap=" in caught.value.advice


FEW_DRAWS = {
    "correlation 7 x 7": 60,
    "correlation 7 x 7 no effect": 60,
    "anova 7 x 5 no effect": 40,
    "ttest skewed no effect": 80,
    "polychoric x ~ y, even": 25,
    "kaplan-meier t ~ e + g, sparse": 40,
    "means y ~ a, sparse": 40,
    "crosstab ~ a, sparse": 60,
    "multinomial 6 x 3, 5,000 records": 300,
    "poisson y ~ C(a), sparse": 300,
}


@pytest.mark.parametrize("name", FEW_DRAWS)
def test_numbers_of_a_setting_keep_what_they_say(name):
    """A claim is contradicted by chance in one run of a hundred; the seed is fixed."""
    setting = next(one for one in settings() if one.name == name)
    with np.errstate(all="ignore"):
        one = outcome(setting, FEW_DRAWS[name], FEW_DRAWS[name])
    assert one.answered or name.startswith("multinomial")
    assert (contradicting(one), alarming(one), misstated(one)) == (0, 0, 0)


def test_correlation_of_noisy_counts_is_unbiased_and_so_is_its_number_of_records():
    setting = next(one for one in settings() if one.name == "correlation 7 x 7")
    rng, values, sizes = np.random.default_rng(4), [], []
    for _ in range(80):
        psi = noisy(setting.drawn(rng), LAPLACE, SeededNoise(rng.integers(1 << 30)))
        plain = kinds.plain_answer(setting.question, NoisyMargins.of(psi))
        values.append(plain["pearsonr"])
        sizes.append(plain.n)
    truth = setting.truth[Address("correlation", "x", "y")]
    assert abs(np.mean(values) - truth) < 4 * np.std(values) / 80**0.5
    assert abs(np.mean(sizes) - setting.records) < 4 * np.std(sizes) / 80**0.5


def test_t_test_is_as_linear_regression_on_the_same_psi():
    setting = next(one for one in settings() if one.name == "ttest skewed no effect")
    rng, scores = np.random.default_rng(5), []
    for _ in range(60):
        psi = noisy(setting.drawn(rng), LAPLACE, SeededNoise(rng.integers(1 << 30)))
        margins = NoisyMargins.of(psi)
        answer = kinds.answered(setting.question, margins)
        line = kinds.answered(
            read_question("y ~ C(b)", Analysis.LINEAR, setting.question.coding), margins
        )
        assert answer.coefficients.params[0] == pytest.approx(-line.coefficients.params[1])
        assert answer.coefficients.bse[0] == pytest.approx(line.coefficients.bse[1], rel=0.1)
        scores.append(answer["tvalue"])
    assert abs(np.mean(scores)) < stats.norm.isf(1e-4) / 60**0.5


@pytest.mark.filterwarnings("ignore")
def test_a_level_whose_noisy_count_is_0_or_below_drowns_an_ordinal_model_and_nothing_else():
    setting = next(one for one in settings() if one.name == "ordinal rare level")
    exact = setting.measured(np.array([[60, 40], [50, 46], [2, 2]]))
    for change in ([0, 0], [1, -1], [-1, 1], [-3, -2]):
        values = exact.measurements[0].values.copy()
        values[2] = change
        psi = Psi(exact.domain, (Measurement(exact.measurements[0].clique, values, 2.8),))
        with pytest.raises(NoiseDrownsError):
            kinds.answered(setting.question, NoisyMargins.of(psi))


def test_levels_do_not_depend_on_whether_noise_left_a_count_at_0():
    """A logistic response with a noisy count of 0 drowns; it is not said to have one level."""
    for kind, formula in (("logistic", "y ~ a"), ("multinomial", "y ~ a"), ("poisson", "y ~ a")):
        psi = Psi(BITS.domain, (Measurement(("y", "a"), np.array([[50, 60], [3, -3]]), 2.0),))
        with pytest.raises(NoiseDrownsError):
            answer_of(formula, Analysis(kind), margins_of(psi), BITS)


def test_crosstab_does_not_call_a_cell_empty_because_of_noise():
    psi = Psi(BITS.domain, (Measurement(("y", "a"), np.array([[500, 600], [300, -2]]), 4.0),))
    answer = answer_of("y ~ a", Analysis.CROSSTAB, margins_of(psi), BITS)
    assert answer.coefficients is None
    assert answer.table("counts").values[1][1] == -2
    assert not any("a cell is empty" in note for note in answer.notes)
    assert any("does not mean that the cell is empty" in note for note in answer.notes)


@pytest.mark.parametrize("kind", ["logistic", "multinomial", "poisson", "ordinal"])
@pytest.mark.parametrize("level", range(4))
def test_a_refusal_for_separation_names_the_level_that_separates(kind, level):
    coding = Coding(
        (
            Attribute(
                "y", Labels(("0", "1", "2")[: 2 + (kind != "logistic")], integer=True, ordered=True)
            ),
            Attribute("a", Labels(("0", "1", "2", "3"), integer=True)),
        )
    )
    cells = np.full(coding.domain.sizes, 40)
    cells[0, 1] += 7
    cells[1:, level] = 0
    psi = Psi(coding.domain, (Measurement(coding.domain.attributes, cells),))
    with pytest.raises(NoEstimateError, match=f"at a = {level}$|at a = {level}\\."):
        answer_of("y ~ C(a)", Analysis(kind), PsiMargins(psi), coding)


def test_a_rare_cell_is_not_answered_because_noise_made_it_larger():
    """The reported design, 6 by 3 with 1,500 records: of the answers at most half covered."""
    setting = next(one for one in settings() if one.name == "multinomial 6 x 3, 1,500 records")
    rng, answered = np.random.default_rng(6), 0
    privacy = gaussian("0.25", neighbouring="replace-one")
    for _ in range(150):
        psi = noisy(setting.drawn(rng), privacy, SeededNoise(rng.integers(1 << 30)))
        try:
            kinds.answered(setting.question, NoisyMargins.of(psi))
        except GencardError:
            continue
        answered += 1
    assert answered <= 2
