"""Checked runs on numbers as the file has them: beside statsmodels, pandas and scipy, and attacked."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats
from statsmodels.stats.anova import anova_lm

from gencard.controller.earlier import Earlier
from gencard.controller.jobs.answering import checked
from gencard.controller.run_question import RunQuestion
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.errors import InvalidFormulaError
from gencard.core.policy import Colour, Rule, Rules
from gencard.core.scale import Scale
from gencard.wire.documents import Question
from tests.core.stored_runs import dataset_of, stored_run

N = 4_000


def edges(*numbers, step="1", missing=False):
    cells = tuple(map(Decimal, map(str, numbers)))
    scale = Scale(Decimal(step), cells)
    places = tuple(map(float, numbers))
    return Edges(places, missing=missing, decimals=scale.decimals, scale=scale)


CODING = Coding(
    (
        Attribute("cost", edges(0, 100, 1_000, 10_000, step="0.01")),
        Attribute("age", edges(18, 30, 45, 60, 90)),
        Attribute("hours", edges(0, 20, 40, 80, step="0.5", missing=True)),
        Attribute("sex", Labels(("f", "m"))),
        Attribute("region", Labels(("east", "north", "west"))),
        Attribute("score", Labels(("1", "2", "3", "4"), ordered=True)),
    )
)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(11)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 91, N).astype(float),
            "hours": np.round(2 * np.clip(rng.normal(35, 12, N), 0, 80)) / 2,
            "sex": rng.choice(["f", "m"], N, p=[0.6, 0.4]),
            "region": rng.choice(["east", "north", "west"], N, p=[0.5, 0.3, 0.2]),
            "score": rng.integers(1, 5, N),
        }
    )
    cost = np.exp(rng.normal(4, 0.8, N) + 0.01 * frame.age + 0.3 * (frame.sex == "m"))
    frame["cost"] = np.round(np.minimum(cost, 9_999), 2)
    frame.loc[rng.choice(N, 400, replace=False), "hours"] = np.nan
    return frame


def columns_of(frame):
    columns = {name: frame[name] for name in ("cost", "age", "hours")}
    for name in ("sex", "region"):
        columns[name] = pd.Categorical(frame[name], CODING.attribute(name).coding.labels).codes
    return columns | {"score": frame.score - 1}


def run(frame, kind, formula, kept=None, **options):
    return stored_run(kind, formula, CODING, columns_of(frame), kept, options=options)


LINEAR = [
    ("cost ~ sex", "cost ~ sex"),
    ("cost ~ age", "cost ~ age"),
    ("cost ~ age + sex + region", "cost ~ age + sex + region"),
    ("cost ~ age * sex", "cost ~ age * sex"),
    ("cost ~ age * hours", "cost ~ age * hours"),
    ("cost ~ age:hours", "cost ~ age:hours"),
    ("log1p(cost) ~ age + sex", "np.log1p(cost) ~ age + sex"),
    ("sqrt(cost) ~ log(age) * sex", "np.sqrt(cost) ~ np.log(age) * sex"),
    ("cost ~ age + I(age ** 2)", "cost ~ age + I(age ** 2)"),
    ("hours ~ age + C(score)", "hours ~ age + C(score)"),
    ("I(2 * hours) ~ I(age - 40) + sex", "I(2 * hours) ~ I(age - 40) + sex"),
    ("hours ~ cost + sex - 1", "hours ~ cost + sex - 1"),
    ("cost ~ age + C(age > 44) + sex", "cost ~ age + C(age > 44) + sex"),
]


@pytest.mark.parametrize(("formula", "referee"), LINEAR, ids=[one for one, _ in LINEAR])
def test_a_regression_is_that_of_statsmodels_on_the_file(people, formula, referee):
    given = run(people, "linear", formula).answer
    exact = smf.ols(referee, people).fit()
    assert given.n == exact.nobs
    one = given.coefficients
    assert len(one.names) == len(exact.params)
    order = [list(exact.params.index).index(referee_name(name, exact)) for name in one.names]
    params, errors = exact.params.to_numpy()[order], exact.bse.to_numpy()[order]
    assert np.all(np.abs(one.params - params) <= 1e-6 * errors)
    assert one.bse == pytest.approx(errors, rel=1e-6)


def referee_name(name, exact):
    """The referee's name of a coefficient."""
    for text in ("log1p", "sqrt", "log"):
        name = name.replace(f"{text}(", f"np.{text}(") if f"np.{text}(" not in name else name
    return next((one for one in exact.params.index if one == name), name)


def test_means_and_tests_are_those_of_pandas_and_scipy(people):
    by_sex = people.groupby("sex").cost
    rows = np.array(run(people, "means", "cost ~ sex").answer.table("means").values)
    frames = [by_sex.count(), by_sex.mean(), by_sex.var(), by_sex.std(), by_sex.sem()]
    assert rows[:, :5] == pytest.approx(np.column_stack(frames), rel=1e-12)
    groups = [people.cost[people.sex == one] for one in ("f", "m")]
    for test, equal in (("pooled", True), ("welch", False)):
        ours = run(people, "ttest", "cost ~ sex", test=test).answer
        theirs = stats.ttest_ind(*groups, equal_var=equal)
        assert (ours["tvalue"], ours.scalar("tvalue").pvalue) == pytest.approx(tuple(theirs), rel=1e-9)
    regions = [people.hours[people.region == one].dropna() for one in ("east", "north", "west")]
    ours = run(people, "anova", "hours ~ region").answer
    theirs = stats.f_oneway(*regions)
    assert (ours["fvalue"], ours.scalar("fvalue").pvalue) == pytest.approx(tuple(theirs), rel=1e-9)
    logs = run(people, "means", "log(cost + 1) ~ region").answer.table("means").values
    assert [row[1] for row in logs] == pytest.approx(
        np.log1p(people.cost).groupby(people.region).mean().tolist(), rel=1e-12
    )


def test_several_terms_of_variance_are_those_of_statsmodels(people):
    ours = run(people, "anova", "cost ~ sex + region").answer.table("anova")
    theirs = anova_lm(smf.ols("cost ~ sex + region", people).fit())
    assert [row[0] for row in ours.values] == pytest.approx(theirs["sum_sq"].tolist(), rel=1e-9)


def test_correlations_are_those_of_complete_cases(people):
    ours = run(people, "correlation", "~ cost + age + hours + score").answer
    theirs = people[["cost", "age", "hours", "score"]].dropna().corr().to_numpy()
    assert np.array(ours.table("correlation").values) == pytest.approx(theirs, abs=1e-12)
    assert ours.n == people.hours.notna().sum()


def test_quantiles_are_those_of_numpy(people):
    ours = run(people, "quantiles", "hours ~ sex", q=[0.25, 0.5]).answer.table("quantiles")
    theirs = people.groupby("sex").hours.quantile([0.25, 0.5]).unstack().to_numpy()
    assert np.array(ours.values) == pytest.approx(theirs)


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("log(cost) ~ sex", "not a finite number"),
        ("age ~ log(hours)", "not a finite number"),
        ("cost ~ exp(age)", "do not take"),
    ],
)
def test_functions_without_a_number_somewhere_in_a_level_are_refused_by_the_schema(
    people, formula, words
):
    with pytest.raises(InvalidFormulaError, match=words):
        run(people, "linear", formula)


def test_a_rounded_answer_is_the_exact_one_to_two_digits(people):
    one = run(people, "linear", "log1p(cost) ~ age + sex + region")
    judgement, exact, given = one.judged(Rules()), one.answer, one.released(Rules())
    assert judgement.colour is Colour.GREEN, judgement.marks
    errors = exact.coefficients.bse
    assert np.all(
        np.abs(np.subtract(given.coefficients.params, exact.coefficients.params)) <= errors / 20
    )
    assert given.n == 5 * round(N / 5)
    assert any("as the records have them" in note for note in given.notes)


@pytest.mark.parametrize(
    ("kind", "formula"),
    [
        ("means", "cost ~ sex"),
        ("ttest", "cost ~ sex"),
        ("anova", "cost ~ region"),
        ("anova", "cost ~ sex + region"),
        ("linear", "cost ~ sex"),
        ("linear", "age ~ cost"),
        ("correlation", "~ cost + age"),
    ],
)
def test_a_record_that_moves_a_number_makes_the_answer_wait(people, kind, formula):
    frame = people.copy()
    frame["cost"] = np.clip(frame.cost, 0, 300)
    assert run(frame, kind, formula).judged(Rules()).colour is Colour.GREEN
    frame.loc[3, "cost"] = 9_999.0
    verdict = run(frame, kind, formula).judged(Rules()).verdict
    assert {*verdict.broken} & {Rule.INFLUENCE, Rule.LEVERAGE, Rule.DOMINANCE, Rule.REMAINDER}
    kept = np.arange(len(frame)) != 3
    if kind != "correlation" and "cost ~" in formula:
        outside = run(frame, kind, formula, kept).judged(Rules()).verdict
        assert Rule.INFLUENCE in outside.broken, "who is in the population is a group, too"


@pytest.mark.parametrize(
    ("kind", "formula"),
    [
        ("means", "cost ~ group"),
        ("ttest", "cost ~ group"),
        ("anova", "cost ~ group"),
        ("anova", "cost ~ group + sex"),
        ("linear", "cost ~ group"),
        ("linear", "cost ~ age:group"),
        ("linear", "cost ~ age + group:sex"),
        ("correlation", "~ cost + rare"),
        ("linear", "cost ~ rare"),
        ("quantiles", "cost ~ group"),
    ],
)
def test_no_kind_counts_fewer_records_than_the_threshold(people, kind, formula):
    """Two worlds: seven people have the level or number, or nine; the answer stays in both."""
    few = Labels(("no", "yes"))
    rare = edges(0, 1, 2)
    coding = Coding((*CODING.attributes, Attribute("group", few), Attribute("rare", rare)))
    for size in (7, 9):
        of_few = (np.arange(N) < size).astype(int)
        columns = columns_of(people) | {"group": of_few, "rare": 2.0 * of_few}
        one = stored_run(kind, formula, coding, columns)
        assert one.judged(Rules()).colour is Colour.RED


def test_correlations_of_estimates_do_not_say_who_has_the_largest_number(people):
    """The attacker knows who has the largest cost, and reads the means of cost in both groups from the
    correlation of the estimates.
    """
    rng, right, told = np.random.default_rng(1), 0, 0
    for _ in range(60):
        frame = people.sample(3_000, random_state=rng).reset_index(drop=True)
        frame["cost"] = np.clip(np.exp(rng.normal(4, 1, 3_000)), 0, 9_999).round(2)
        frame["sex"] = rng.choice(["f", "m"], 3_000)
        target = frame.cost.idxmax()
        one = run(frame, "linear", "age ~ cost + sex")
        if one.judged(Rules()).colour is Colour.GREEN:
            names = one.answer.coefficients.names
            covariance = np.array(one.released(Rules()).coefficients.covariance)
            guess = covariance[names.index("cost"), names.index("sex[T.m]")] < 0
            right, told = right + (guess == (frame.sex[target] == "m")), told + 1
    assert told == 0 or right / told < 0.5 + 0.15 + 2 * np.sqrt(0.25 / told)


def test_more_combinations_of_levels_than_can_be_tried_wait(people):
    many = [Attribute(f"g{place}", Labels(("a", "b"))) for place in range(11)]
    coding = Coding((*CODING.attributes, *many))
    rng = np.random.default_rng(1)
    columns = columns_of(people) | {one.name: rng.integers(0, 2, N) for one in many}
    formula = "age ~ " + " + ".join(one.name for one in many)
    verdict = stored_run("linear", formula, coding, columns).judged(Rules()).verdict
    assert verdict.broken == (Rule.INFLUENCE,)


@pytest.mark.parametrize(
    ("kind", "formula", "where"),
    [
        ("quantiles", "cost ~ 1", "sex == 'f'"),
        ("quantiles", "cost ~ sex", ""),
        ("means", "cost ~ sex", ""),
        ("ttest", "cost ~ sex", ""),
        ("linear", "age ~ cost", "sex == 'f'"),
        ("linear", "age ~ cost * sex", ""),
        ("linear", "cost ~ age + sex", ""),
        ("linear", "cost ~ age", "sex == 'f'"),
        ("ttest", "cost ~ sex", "age < 60"),
        ("means", "cost ~ sex", "age < 60"),
        ("correlation", "~ cost + age", "sex == 'f'"),
    ],
)
@pytest.mark.parametrize("largest", [1_500.0, 9_000.0])
def test_how_a_run_ends_does_not_say_where_the_largest_number_is(people, kind, formula, where, largest):
    """Two worlds: the one record of the highest level is of a woman, or of a man."""
    ends = set()
    for sex in ("f", "m"):
        frame = people.assign(cost=np.clip(people.cost, 0, 900))
        frame.loc[5, ["cost", "sex"]] = largest, sex
        question = Question(kind, formula, where, "level", "")
        numbers, dataset = dataset_of(CODING, columns_of(frame))
        result = checked(
            RunQuestion.new(question, CODING), Earlier(CODING, (), ()), dataset, numbers, Rules()
        )
        ends.add((result.answer is None, result.review))
    assert len(ends) == 1
