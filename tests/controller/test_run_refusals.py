"""Refusals of checked runs: what an analyst can read of one is the same, whatever the records are.

Two worlds differ by one record, or in one. A secret of it decides which rule is broken.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import attacks_refusals
from gencard.analysis.answers.kinds import KINDS, tried
from gencard.controller.answers.answers import outcome_of
from gencard.controller.answers.decisions import RunOutcome
from gencard.controller.earlier import Earlier
from gencard.controller.jobs.answering import check_answerable, checked
from gencard.controller.run_question import Population, RunQuestion
from gencard.core.card.terms import Analyses
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.errors import GencardError, NoAnswerError
from gencard.core.policy import OUTPUT_RULES, USUAL_RULES, Rule
from gencard.wire.documents import Question

CODING = Coding(
    (
        Attribute("hiv", Labels(("no", "yes"))),
        Attribute("sex", Labels(("f", "m"))),
        Attribute("age", Edges((20.0, 30.0, 40.0, 50.0, 60.0, 70.0), decimals=0)),
        Attribute("region", Labels(("a", "b", "c", "d"))),
        Attribute("pay", Edges((0.0, 10.0, 20.0, 40.0), missing=True)),
    )
)
SIZE = 900
QUESTIONS = {
    "linear": "age ~ sex",
    "logistic": "hiv ~ age",
    "multinomial": "region ~ sex",
    "ordinal": "region ~ sex",
    "poisson": "age ~ sex",
    "loglinear": "~ sex + hiv",
    "crosstab": "hiv ~ region",
    "means": "age ~ region",
    "quantiles": "age ~ sex",
    "ttest": "age ~ sex",
    "anova": "age ~ region",
    "correlation": "~ age + pay",
    "polychoric": "~ age + region",
    "components": "~ age + pay",
    "correspondence": "~ region + sex",
    "naive-bayes": "hiv ~ region",
    "chow-liu": "~ hiv + region",
    "discriminant": "hiv ~ age + pay",
    "kaplan-meier": "age ~ hiv + sex",
    "cox": "age ~ hiv + sex",
}
"""A question of each kind that has answers."""


def records(rng, yes=9):
    """People of whom few have it; the target is the first, and the only one of its cell."""
    columns = {
        name: rng.integers(0, CODING.domain.size(name), SIZE) for name in CODING.domain.attributes
    }
    columns["hiv"] = np.zeros(SIZE, dtype=int)
    columns["hiv"][1 : yes + 1] = 1
    return np.stack(list(columns.values()), axis=1)


def run_of(kind, formula, where="", missing="drop", options=""):
    return RunQuestion.of(Question(kind, formula, where, missing, options), CODING)


def read(result):
    """Return the part of a job's result that reaches an analyst: the signed fields and the price."""
    outcome = outcome_of(result, Analyses(kinds=("linear",), checked_runs=1, numbers=10_000))
    signed = {"answer": outcome.answer, "reasons": outcome.reasons, "rules": outcome.rules}
    return json.dumps(signed | {"numbers": outcome.numbers, "waits": outcome.review})


def ask(run, codes, earlier=Earlier(CODING, (), ())):  # noqa: B008 - frozen
    return checked(run, earlier, Dataset(CODING.domain, codes), {}, USUAL_RULES)


CONDITIONS = (
    "",
    "hiv == 'yes'",
    "hiv == 'yes' and age < 40",
    "region != 'a'",
    "not (hiv == 'yes' and region == 'b')",
    "hiv == 'yes' or (sex == 'f' and age < 30)",
)


@pytest.mark.parametrize("kind", QUESTIONS)
def test_all_refusals_of_a_kind_look_the_same(kind):
    refused, rules = set(), set()
    rng = np.random.default_rng(3)
    for where in CONDITIONS:
        run = run_of(kind, QUESTIONS[kind], where)
        codes = records(rng)
        for status in (0, 1):
            codes[0, 0] = status
            result = ask(run, codes)
            if result.answer is None:
                refused.add(read(result))
                rules.update(rule for mark in result.marks for rule in mark.rules)
    assert len(refused) == 1
    assert json.loads(refused.pop())["reasons"] == [OUTPUT_RULES]
    assert len(rules) > 1, "several rules refused, and stewards see which"


def test_poisson_no_longer_tells_one_person_s_status():
    """Ten people in a group: "threshold" if the target is one of the few, "no-answer" if not."""
    run = run_of("poisson", "hiv ~ age", missing="level")
    with pytest.raises(NoAnswerError):
        check_answerable(run, 100)
    public = set()
    for seed in range(40):
        codes = records(np.random.default_rng(seed), yes=0)
        for codes[0, 0] in (0, 1):
            public.add(read(ask(run, codes)))
    assert len(public) == 1


def test_a_failed_run_and_too_many_numbers_are_refused_alike():
    codes = records(np.random.default_rng(1))
    refused = ask(run_of("linear", "age ~ region", "hiv == 'yes'"), codes)
    answered = ask(run_of("crosstab", "sex ~ region"), codes)
    assert answered.answer is not None
    few = Analyses(kinds=("linear",), checked_runs=1, numbers=5)
    for other in (outcome_of(answered, few), RunOutcome.refused(Rule.FAILED)):
        assert replace(outcome_of(refused, few), marks=None) == replace(other, marks=None)


@pytest.mark.parametrize("kind", QUESTIONS)
def test_what_a_kind_answers_is_not_refused_by_the_trial(kind):
    run = run_of(kind, QUESTIONS[kind])
    assert tried(run.question, run.conditions)
    assert {*QUESTIONS} == {str(one) for one in KINDS}


UNSUITABLE = [
    ("linear", "pay ~ sex", "", "level"),  # missing is a level that stands for no number
    ("linear", "region ~ sex", "", "drop"),
    ("linear", "~ sex", "", "drop"),
    ("logistic", "age ~ sex", "", "drop"),
    ("logistic", "hiv ~ sex", "hiv == 'no'", "drop"),
    ("logistic", "hiv ~ sex", "(hiv == 'no' and sex == 'f') or (hiv == 'yes' and sex == 'm')", "drop"),
    ("multinomial", "region ~ sex", "region == 'a'", "drop"),
    ("ordinal", "pay ~ sex", "", "level"),
    ("ordinal", "age ~ sex", "age < 30", "drop"),
    ("poisson", "region ~ sex", "", "drop"),
    ("loglinear", "hiv ~ sex", "", "drop"),
    ("means", "region ~ sex", "", "drop"),
    ("ttest", "age ~ region", "", "drop"),
    ("ttest", "age ~ sex", "sex == 'f'", "drop"),
    ("anova", "region ~ sex", "", "drop"),
    ("correlation", "~ region + age", "", "drop"),
    ("polychoric", "~ sex + age", "sex == 'f'", "drop"),
    ("components", "~ region + age", "", "drop"),
    ("discriminant", "hiv ~ region", "", "drop"),
    ("kaplan-meier", "region ~ hiv", "", "drop"),
    ("cox", "age ~ hiv", "", "drop"),
    ("means", "age ~ sex", "age < 20", "drop"),
]


@pytest.mark.parametrize(("kind", "formula", "where", "missing"), UNSUITABLE)
def test_what_the_schema_leaves_no_answer_is_refused_before_records_are_read(
    kind, formula, where, missing
):
    """Two very different files of records agree that the run has no answer."""
    try:
        run = run_of(kind, formula, where, missing)
    except GencardError:
        return  # refused by the service itself, before anything is charged
    with pytest.raises(NoAnswerError):
        check_answerable(run, 10_000)
    for seed in (1, 2):
        codes = records(np.random.default_rng(seed), yes=400)
        codes[:, 4] = np.arange(SIZE) % 4
        assert ask(run, codes).answer is None


def test_too_many_numbers_are_counted_by_the_schema():
    run = run_of("crosstab", "region ~ age")
    with pytest.raises(NoAnswerError, match="the card grants 50"):
        check_answerable(run, 50)
    check_answerable(run, 2_000)


def test_a_wide_question_is_not_tried():
    wide = tuple(Attribute(f"x{place}", Labels(tuple("abcdefghij"))) for place in range(6))
    question = Question("loglinear", "~ x0 + x1 + x2 + x3 + x4 + x5", missing="drop")
    run = RunQuestion.of(question, Coding(wide))
    assert tried(run.question, run.conditions) is None


EDGES = (20, 30, 40, 50, 60, 70)


def text_of(cells):
    """A condition that chooses cells of age and region."""
    regions = CODING.attribute("region").coding.level_names
    below = [f" and age < {edge}" for edge in EDGES[1:-1]] + [""]
    texts = [
        f"(age >= {EDGES[age]}{below[age]} and region == '{regions[place]}')" for age, place in cells
    ]
    return f"hiv == 'no' and ({' or '.join(texts)})"


def _asked(cells):
    where = text_of(cells) if cells else ""
    return Question("means", "age ~ 1", where)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 18), st.booleans())
def test_a_population_that_differs_from_a_refused_one_by_few_is_refused(seed, size, status):
    """By one record or by none, so that neither outcome tells whether there is one."""
    rng = np.random.default_rng(seed)
    places = [(age, place) for age in range(5) for place in range(4)]
    cells = [places[one] for one in rng.permutation(len(places))[: size + 1]]
    codes = records(rng)
    of_target = (codes[:, 2] == cells[-1][0]) & (codes[:, 3] == cells[-1][1])
    codes = np.concatenate([[(int(status), 0, *cells[-1], 0)], codes[~of_target]])
    dataset, alone = Dataset(CODING.domain, codes), Earlier(CODING, (), ())
    before, run = (RunQuestion.of(_asked(one), CODING) for one in (cells[:-1], cells))
    remembered = replace(alone, refused=(before.population,))
    assert remembered.differs_by_few(run, dataset, 10)
    again = remembered.differs_by_few(before, dataset, 10)
    assert again == alone.differs_by_few(before, dataset, 10), "the same population is no difference"


def test_a_refused_population_does_not_block_all_records():
    """A refusal about everybody but a few must not keep anybody from asking about everybody."""
    codes = records(np.random.default_rng(1))
    near = run_of("means", "age ~ sex", "not (hiv == 'yes' and region == 'b')")
    assert ask(near, codes).answer is None
    earlier = Earlier(CODING, (), (), (near.population,))
    assert ask(run_of("means", "age ~ sex"), codes, earlier).answer is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("age < 30", "not (age >= 30)"),
        ("sex == 'f' and age < 30", "age < 30 and sex == 'f' and (hiv == 'yes' or hiv == 'no')"),
    ],
)
def test_a_condition_in_other_words_is_the_same_one(one, other):
    populations = [Population.of(replace(_asked([]), where=text), CODING) for text in (one, other)]
    assert populations[0].chosen == populations[1].chosen
    another = Population.of(replace(_asked([]), where="age < 40"), CODING)
    assert another.chosen != populations[0].chosen


def test_a_search_by_refusals_names_the_target_only_where_they_name_their_rule():
    """The attack works, so its failure against the present refusals means something."""
    searches = [
        attacks_refusals.searched(True, oracle=attacks_refusals.many, most=None, leaks=leaks)
        for leaks in (True, False)
    ]
    assert searches[0].successes == searches[0].tries == 24
    assert searches[1].successes < 20
