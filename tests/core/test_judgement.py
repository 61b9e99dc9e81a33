"""Answers judged and rounded, kind by kind: what leaves where all have company, and what stays."""

import numpy as np
import pytest

from gencard.analysis.answers.design import observed_levels
from gencard.analysis.answers.kinds import answered
from gencard.analysis.answers.margins import RecordMargins
from gencard.analysis.formulas.answering import read_question
from gencard.analysis.formulas.formulas import read_formula
from gencard.analysis.output_checks.judgement import judged, output_cliques
from gencard.analysis.output_checks.released import numbers_in, released
from gencard.analysis.output_checks.rule_checks import judged_outputs
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.policy import USUAL_RULES, Colour, Rule
from gencard.core.program_outputs import (
    Output,
    OutputKind,
    check_outputs,
    difference_in_shape,
    outputs_of_json,
    outputs_to_json,
)
from gencard.core.statistics.formula import Analysis
from tests.core.stored_runs import stored_run

CODING = Coding(
    (
        Attribute("sex", Labels(("f", "m"))),
        Attribute("ill", Labels(("no", "yes"))),
        Attribute("age", Edges((0, 20, 40, 60, 80), decimals=0)),
        Attribute("income", Edges((0, 10, 20, 30, 50, 80))),
        Attribute("health", Labels(("bad", "fair", "good"), ordered=True)),
        Attribute("region", Labels(("east", "north", "isle"))),
    )
)

KINDS = [
    ("crosstab", "ill ~ region"),
    ("loglinear", "~ ill + region"),
    ("means", "age ~ region"),
    ("quantiles", "health ~ region"),
    ("ttest", "income ~ sex"),
    ("anova", "income ~ region"),
    ("correlation", "~ age + income"),
    ("polychoric", "~ health + age"),
    ("components", "~ age + income"),
    ("correspondence", "~ health + region"),
    ("naive-bayes", "ill ~ region"),
    ("chow-liu", "ill ~ region + health"),
    ("discriminant", "region ~ age + income"),
    ("linear", "income ~ age + region"),
    ("logistic", "ill ~ age + region"),
    ("multinomial", "health ~ region"),
    ("ordinal", "health ~ region"),
    ("poisson", "age ~ region"),
    ("kaplan-meier", "age ~ ill"),
    ("cox", "age ~ ill + income"),
]
NAMES_OF_FEW = {formula for _, formula in KINDS if "region" in formula}


def records(isle: int, rows: int = 6_000) -> Dataset:
    """Records with ``isle`` people on the isle and the others everywhere else."""
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(rows, len(CODING.attributes))) + 0.5 * rng.normal(size=(rows, 1))
    cuts = [np.linspace(-1.2, 1.2, size + 1)[1:-1] for size in CODING.domain.sizes]
    columns = [np.searchsorted(cut, column) for cut, column in zip(cuts, scores.T, strict=True)]
    columns[5] = np.where(np.arange(rows) < isle, 2, np.arange(rows) % 2)
    return Dataset.of_columns(CODING.domain, columns)


MANY, FEW = records(isle=2_000), records(isle=7)


def judgement_of(kind, formula, dataset):
    margins = RecordMargins.of(dataset)
    names = {name for term in (*read_formula(formula, CODING).terms,) for name in term}
    names |= {read_formula(formula, CODING).response} - {None}
    observed = observed_levels(margins, tuple(names))
    question = read_question(formula, Analysis(kind), CODING, observed=observed)
    answer = answered(question, margins)
    return question, answer, judged(margins, question, answer, USUAL_RULES)


@pytest.mark.parametrize(("kind", "formula"), KINDS)
def test_an_answer_of_many_leaves_rounded(kind, formula):
    question, answer, judgement = judgement_of(kind, formula, MANY)
    assert judgement.colour is not Colour.RED, judgement.marks
    rounded = released(answer, USUAL_RULES)
    assert rounded.n % 5 == 0
    assert 0 < numbers_in(rounded) <= numbers_in(answer)
    if answer.coefficients is not None and rounded.coefficients is not None:
        errors = answer.coefficients.bse
        moved = np.abs(np.subtract(rounded.coefficients.params, answer.coefficients.params))
        assert np.all(moved <= 0.06 * errors)
        assert np.allclose(rounded.coefficients.bse, errors, rtol=0.06)
    kept = [str(mark) for mark in judgement.marks]
    assert all(str(len(MANY)) not in mark for mark in kept), "marks hold no number of the records"
    possible = {one.name: np.ones(one.coding.size, dtype=bool) for one in CODING.attributes}
    assert {name for clique in output_cliques(question, possible) for name in clique} <= set(possible)


@pytest.mark.parametrize(("kind", "formula"), [one for one in KINDS if one[1] in NAMES_OF_FEW])
def test_an_answer_that_tells_of_seven_people_stays(kind, formula):
    *_, judgement = judgement_of(kind, formula, FEW)
    assert judgement.colour is Colour.RED, judgement.marks
    assert {*judgement.verdict.broken} & {Rule.THRESHOLD, Rule.LEVERAGE, Rule.ZERO, Rule.RANK}


@pytest.mark.parametrize("kind", ["means", "quantiles"])
@pytest.mark.parametrize("dataset", [MANY, FEW], ids=["many", "few"])
def test_numbers_as_stored_are_judged_by_what_single_records_contribute(kind, dataset):
    numbers = np.random.default_rng(1).gamma(20, size=len(dataset))
    columns = {one.name: dataset.column(one.name) for one in CODING.attributes}
    columns |= {"age": 10.0 + 0 * numbers, "income": numbers}
    run = stored_run(kind, "income ~ region", CODING, columns, options={"response": "stored"})
    judgement = run.judged(USUAL_RULES)
    if dataset is FEW:
        assert judgement.colour is Colour.RED
        return
    assert judgement.colour is not Colour.RED, judgement.marks
    rows = np.array(run.released(USUAL_RULES).tables[0].values, dtype=float)
    of_isle = numbers[dataset.column("region") == 2]
    exact = of_isle.mean() if kind == "means" else np.median(of_isle)
    assert rows[2, 1] == pytest.approx(exact, abs=of_isle.std() / np.sqrt(len(of_isle)) / 10)


def table(values, counts=(), kind=OutputKind.TABLE, name="t"):
    rows = tuple(f"r{number}" for number in range(len(values)))
    columns = tuple(f"c{number}" for number in range(len(values[0])))
    return Output(kind, name, rows, columns, tuple(map(tuple, values)), tuple(counts))


def test_numbers_of_a_program_are_marked_by_the_counts_beside_them():
    (marks,) = judged_outputs([table([(4.0, 1.5), (40.0, 2.5), (None, 1.0)], counts=["c0"])])
    colours = [[str(one.colour) for one in row] for row in marks]
    assert colours == [["red", "red"], ["green", "amber"], ["amber", "red"]]


def test_numbers_without_a_count_are_for_a_person_to_judge():
    (marks,) = judged_outputs([table([(4.0,)])])
    assert marks[0][0].colour is Colour.AMBER


def test_outputs_of_a_program_are_json_of_one_shape():
    outputs = (table([(1.0, None)], counts=["c0"]),)
    check_outputs(outputs)
    assert outputs_of_json(outputs_to_json(outputs)) == outputs
    assert difference_in_shape(outputs, outputs) is None
    assert difference_in_shape(outputs, (table([(1.0,)]),)) is not None
    assert difference_in_shape(outputs, ()) is not None
