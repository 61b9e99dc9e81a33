"""Numbers of an answer beside each other: derivatives, what follows from rounded ones, and influence."""

from dataclasses import replace

import numpy as np
import pytest

from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.analysis.answers.design import observed_levels
from gencard.analysis.answers.kinds import KINDS, answered
from gencard.analysis.answers.margins import RecordMargins
from gencard.analysis.formulas.answering import read_question
from gencard.analysis.output_checks import facts
from gencard.analysis.output_checks.judgement import COUNTED, judged
from gencard.analysis.output_checks.lattice import Lattice
from gencard.analysis.output_checks.released import numbers_of, released, slopes_of
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.policy import USUAL_RULES, Colour, Rule
from gencard.core.statistics.formula import Analysis

CODING = Coding(
    (
        Attribute("ill", Labels(("no", "yes"), ordered=True)),
        Attribute("age", Edges((0, 20, 40, 60), decimals=0)),
        Attribute("income", Edges((0, 10, 20, 40))),
    )
)
HEAVY = Coding(
    (
        Attribute("ill", Labels(("no", "yes"), ordered=True)),
        Attribute("age", Edges((0, 20, 40, 60), decimals=0)),
        Attribute("income", Edges((0, 10, 20, 1_000_000))),
    )
)

FORMULAS = {
    Analysis.LINEAR: "income ~ age",
    Analysis.LOGISTIC: "ill ~ age",
    Analysis.MULTINOMIAL: "ill ~ age",
    Analysis.ORDINAL: "age ~ ill",
    Analysis.POISSON: "age ~ income",
    Analysis.LOGLINEAR: "~ ill + age",
    Analysis.CROSSTAB: "ill ~ age",
    Analysis.MEANS: "income ~ ill",
    Analysis.QUANTILES: "income ~ ill",
    Analysis.TTEST: "income ~ ill",
    Analysis.ANOVA: "income ~ age",
    Analysis.CORRELATION: "~ age + income",
    Analysis.POLYCHORIC: "~ age + ill",
    Analysis.COMPONENTS: "~ age + income",
    Analysis.CORRESPONDENCE: "~ age + ill",
    Analysis.NAIVE_BAYES: "ill ~ age",
    Analysis.CHOW_LIU: "ill ~ age",
    Analysis.DISCRIMINANT: "ill ~ income",
    Analysis.KAPLAN_MEIER: "age ~ ill",
    Analysis.COX: "age ~ ill + income",
}


def people(coding=CODING, rows=400, seed=4):
    """Made-up people whose attributes are related."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(rows, 3)) + 0.7 * rng.normal(size=(rows, 1))
    cuts = [np.linspace(-1.2, 1.2, size + 1)[1:-1] for size in coding.domain.sizes]
    columns = [np.searchsorted(cut, column) for cut, column in zip(cuts, scores.T, strict=True)]
    return Dataset.of_columns(coding.domain, columns)


def asked(kind, margins, coding=CODING, **options):
    observed = observed_levels(margins, coding.domain.attributes)
    return read_question(FORMULAS[kind], kind, coding, observed=observed, options=options)


def test_every_kind_has_a_formula_here():
    """A new kind must be added here, and so is tried by all tests of this file."""
    assert set(FORMULAS) == set(KINDS)


@pytest.mark.parametrize("kind", FORMULAS)
def test_every_kind_gives_facts_about_cells_or_waits(kind):
    dataset = people(rows=1_500)
    margins = RecordMargins.of(dataset)
    question = asked(kind, margins)
    protected = replace(USUAL_RULES.checks, threshold=10_000)
    lattice = Lattice.of(dataset, CODING.domain.attributes, protected)
    kept = np.ones(len(lattice.counts), dtype=bool)
    cells = RecordMargins.of(lattice.cells, lattice.counts.astype(float))
    stated = facts.facts_of_answer(question, kept, cells, lattice, USUAL_RULES)
    everybody = np.all(stated.rows == 1, axis=1)
    judgement = judged(margins, question, answered(question, margins), USUAL_RULES)
    assert not np.all(everybody) or Rule.UNKNOWN in judgement.verdict.broken


@pytest.mark.parametrize("kind", [kind for kind in FORMULAS if kind not in COUNTED])
def test_derivatives_are_the_change_of_each_number_by_one_record(kind):
    dataset = people(rows=4_000)
    margins = RecordMargins.of(dataset)
    question = asked(kind, margins)
    slopes = slopes_of(question, margins, USUAL_RULES)
    before = dict(zip(slopes.names, slopes.values, strict=True))
    for codes in (dataset.codes[0], dataset.codes[17]):
        more = RecordMargins.of(Dataset(dataset.domain, np.vstack([dataset.codes, codes])))
        after = {one.name: one.value for one in numbers_of(answered(question, more), USUAL_RULES)}
        changes = np.array([after[name] - before[name] for name in slopes.names])
        axes = [dataset.domain.attributes.index(name) for name in slopes.attributes]
        expected = slopes.slopes(codes[axes][None].astype(np.int64))[:, 0]
        assert np.all(np.abs(changes - expected) <= 0.05 * np.abs(expected) + 0.05 * slopes.units)


def files_that_look_alike(kind):
    """Two files that differ by the income of one record, and whose released answers are the same."""
    codes, counts = np.unique(people(rows=40_000).codes, axis=0, return_counts=True)
    cells = Dataset(CODING.domain, codes)
    for one in range(0, len(codes), 3):  # rows that differ in income alone stand side by side
        moved = counts + np.eye(len(codes), dtype=int)[one + 1] - np.eye(len(codes), dtype=int)[one]
        pair = [RecordMargins.of(cells, each.astype(float)) for each in (counts, moved)]
        first, second = (answered(asked(kind, margins), margins) for margins in pair)
        if first != second and released(first, USUAL_RULES) == released(second, USUAL_RULES):
            return pair
    raise AssertionError("no record leaves the rounded answer as it is")


@pytest.mark.parametrize(
    ("kind", "name", "choices"),
    [
        (Analysis.TTEST, "value", np.linspace(-12, 12, 41)),
        (Analysis.MEANS, "alpha", np.linspace(0.001, 0.999, 41)),
        (Analysis.TTEST, "alpha", np.linspace(0.001, 0.999, 41)),
        (Analysis.CORRELATION, "alpha", np.linspace(0.001, 0.999, 41)),
    ],
)
def test_no_choice_of_an_option_tells_more_than_the_rounded_estimate(kind, name, choices):
    """Intervals of many levels, each rounded by itself, told an estimate to any digit."""
    one, other = files_that_look_alike(kind)
    for choice in choices:
        pair = [
            released(answered(asked(kind, margins, **{name: float(choice)}), margins), USUAL_RULES)
            for margins in (one, other)
        ]
        assert pair[0] == pair[1]


@pytest.mark.parametrize("rows", [60, 90, 400])
@pytest.mark.parametrize(
    ("kind", "test"),
    [
        (Analysis.TTEST, "pooled"),
        (Analysis.TTEST, "welch"),
        (Analysis.ANOVA, "pooled"),
        (Analysis.ANOVA, "welch"),
    ],
)
def test_degrees_of_freedom_count_records_no_finer_than_counts(kind, test, rows):
    """In a small group they disclosed the number of records; Welch's, digits of the variances."""
    margins = RecordMargins.of(people(rows=rows))
    answer = released(answered(asked(kind, margins, test=test), margins), USUAL_RULES)
    of_records = [
        one.degrees[-1] for one in answer.scalars if len(one.degrees) > 1 or one.name == "tvalue"
    ]
    of_records += [
        row[1] for table in answer.tables if table.name == "anova" for row in table.values[-1:]
    ]
    assert of_records
    assert all(degrees % USUAL_RULES.checks.rounding == 0 for degrees in of_records)


@pytest.mark.parametrize(
    "formula", ["income ~ 1", "income ~ age", "income ~ age + ill", "income ~ age - 1"]
)
@pytest.mark.parametrize("rows", range(41, 62, 2))
def test_the_adjusted_share_is_no_larger_than_the_share(formula, rows):
    """The rounded degrees of freedom may be the rounded number of records."""
    margins = RecordMargins.of(people(rows=rows))
    observed = observed_levels(margins, CODING.domain.attributes)
    question = read_question(formula, Analysis.LINEAR, CODING, observed=observed, options={})
    exact = answered(question, margins)
    for answer in (exact, released(exact, USUAL_RULES)):
        values = {one.name: one.value for one in answer.scalars}
        assert values["rsquared_adj"] <= values["rsquared"] + 1e-12


@pytest.mark.parametrize("kind", [Analysis.LOGISTIC, Analysis.ORDINAL, Analysis.POISSON])
def test_criteria_follow_from_the_rounded_likelihood(kind):
    margins = RecordMargins.of(people(rows=1_003))
    answer = released(answered(asked(kind, margins), margins), USUAL_RULES)
    assert answer.coefficients is not None
    number = len(answer.coefficients.names)
    assert answer["aic"] == pytest.approx(2 * number - 2 * (answer["llf"] or 0.0))
    assert (answer["llf"] or 0.0) % 10 == 0


@pytest.mark.parametrize(
    "kind",
    [
        *(Analysis.CORRELATION, Analysis.COMPONENTS, Analysis.DISCRIMINANT, Analysis.COX),
        *(Analysis.LINEAR, Analysis.MEANS, Analysis.TTEST, Analysis.ANOVA, Analysis.POISSON),
    ],
)
def test_an_answer_that_one_heavy_record_decides_waits(kind):
    """One record has the largest declared level of income, far above the next."""
    dataset = people(HEAVY, 600)
    codes = np.array(dataset.codes)
    codes[codes[:, 2] == 2, 2] = 1
    codes[0, 2] = 2
    margins = RecordMargins.of(Dataset(HEAVY.domain, codes))
    question = asked(kind, margins, HEAVY)
    judgement = judged(margins, question, answered(question, margins), USUAL_RULES)
    assert judgement.colour is not Colour.GREEN
    everybody = replace(USUAL_RULES, influence=None)
    assert Rule.INFLUENCE in judgement.verdict.broken
    assert (
        Rule.INFLUENCE
        not in judged(margins, question, answered(question, margins), everybody).verdict.broken
    )


@pytest.mark.parametrize("kind", [kind for kind in FORMULAS if kind not in COUNTED])
def test_an_answer_about_many_is_not_stopped_by_influence(kind):
    margins = RecordMargins.of(people(rows=4_000))
    question = asked(kind, margins)
    answer: AnalysisAnswer = answered(question, margins)
    broken = judged(margins, question, answer, USUAL_RULES).verdict.broken
    assert not {Rule.INFLUENCE, Rule.UNKNOWN}.intersection(broken)


def test_a_curve_tells_how_few_events_came_before_each_time():
    """The first time that is told says that there were fewer than ten events by the time before."""
    dataset = people(rows=60)
    margins = RecordMargins.of(dataset)
    question = asked(Analysis.KAPLAN_MEIER, margins)
    lattice = Lattice.of(dataset, ("ill", "age"), USUAL_RULES.checks)
    kept = np.ones(len(lattice.counts), dtype=bool)
    cells = RecordMargins.of(lattice.cells, lattice.counts.astype(float))
    stated = facts.facts_of_answer(question, kept, cells, lattice, USUAL_RULES)
    curve = released(answered(question, margins), USUAL_RULES).tables[0]
    assert len(curve.values) < 3
    for _ in range(300):
        change = np.random.default_rng(_).integers(-3, 4, len(lattice.counts))
        counts = lattice.counts + change - np.where(lattice.counts + change < 0, change, 0)
        change = counts - lattice.counts
        if change.sum():
            continue
        told = released(answered(question, RecordMargins.of(lattice.cells, counts * 1.0)), USUAL_RULES)
        if told.tables[0] == curve:
            values = stated.rows @ change[lattice.changing]
            assert np.all((stated.low - 0.1 <= values) & (values <= stated.high + 0.1))
