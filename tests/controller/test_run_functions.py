"""Numbers that an analyst chooses for levels: in no run on records, whatever function they hide in."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.controller.earlier import Earlier
from gencard.controller.jobs.answering import checked
from gencard.controller.jobs.measurement import earlier_of
from gencard.controller.jobs.tasks import Before, EndedQuestion
from gencard.controller.run_question import RunQuestion
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.errors import GencardError, InvalidFormulaError, InvalidInputError
from gencard.core.policy import USUAL_RULES
from gencard.core.statistics.formula import Analysis
from gencard.wire.canonical import document_of, json_bytes
from gencard.wire.documents import Question, answer_of_document
from gencard.wire.dsse import DOCUMENT

GOLDEN = Path(__file__).parents[1] / "fixtures" / "golden" / "documents"

CODING = Coding(
    (
        Attribute("age", Edges(tuple(map(float, range(20, 41))), decimals=0)),
        Attribute("sex", Labels(("f", "m"))),
        Attribute("ill", Labels(("no", "yes"))),
        Attribute("income", Edges((0.0, 10.0, 20.0, 50.0, 100.0))),
        Attribute("school years", Labels(("0", "4", "8"), integer=True, ordered=True)),
        Attribute("balance", Edges((-20.0, -10.0, 0.0, 10.0, 20.0))),
        Attribute("region", Labels(("north", "south", "isle"))),
    )
)
NAMES = CODING.domain.attributes


def records(rows=4_000, **columns):
    """Uniform records, with some columns as given."""
    rng = np.random.default_rng(4)
    drawn = {name: rng.integers(0, CODING.domain.size(name), rows) for name in NAMES}
    return Dataset.of_columns(CODING.domain, [(drawn | columns)[name] for name in NAMES])


MANY = records()


def asked(kind, formula, where="", missing="level", options=None):
    text = "" if options is None else json_bytes(options).decode()
    return RunQuestion.new(Question(kind, formula, where, missing, text), CODING)


def of_before(kind, formula, where="", **options):
    """A run that the checks of today would refuse."""
    text = json_bytes(options).decode() if options else ""
    return RunQuestion.of(Question(kind, formula, where, options=text), CODING)


def judged(run, dataset=MANY, earlier=()):
    return checked(run, Earlier(CODING, tuple(earlier), ()), dataset, {}, USUAL_RULES)


@pytest.mark.parametrize("kind", list(Analysis))
@pytest.mark.parametrize(
    "values", [{"age": [0.0] * 19 + [1e9]}, {"age": [1]}, {"none": []}, {}, None, 3]
)
def test_no_kind_takes_numbers_of_the_analyst_s_own(kind, values):
    """Not even wrong ones, or none at all: the error says what to do instead."""
    with pytest.raises(InvalidInputError, match="the schema declares") as refused:
        asked(kind, "age ~ sex", options={"values": values})
    assert "card.answer" in str(refused.value)


@pytest.mark.parametrize("options", [{"Values": {}}, {" values": {}}, {"options": {"values": {}}}])
def test_no_other_spelling_reaches_the_numbers(options):
    with pytest.raises(InvalidInputError, match="option"):
        asked("linear", "age ~ sex", options=options)


BOTH = "region in ['north', 'isle']"
HEAVY = {"age": [0.0] * 19 + [1e9]}


@pytest.mark.parametrize(
    ("formula", "options"), [("age ~ sex", {"values": HEAVY}), ("I((age > 39) * 1e9) ~ sex", {})]
)
def test_a_run_of_before_is_read_and_judged_beside_but_not_carried_out(formula, options):
    """The earlier run's population is that of the new run and nine people of the isle."""
    few = np.where(np.arange(4_000) < 9, 2, np.arange(4_000) % 2)
    dataset, old = records(region=few), of_before("linear", formula, BOTH, **options)
    assert old.question.design.response.values.tolist() == HEAVY["age"]
    with pytest.raises(InvalidInputError):
        judged(old, dataset)
    new = asked("linear", "income ~ sex", where="region == 'north'")
    assert judged(new, dataset).reasons == ()
    assert judged(new, dataset, [old]).reasons == ("output-rules",)


def test_groups_that_functions_of_before_made_are_judged_beside():
    few = np.where(np.arange(4_000) < 9, 2, np.arange(4_000) % 2)
    old = of_before("linear", "income ~ I((region != 'south') * 1e9)")
    new = asked("linear", "income ~ sex", where="region == 'north'")
    assert judged(new, records(region=few), [old]).reasons == ("output-rules",)


def test_the_saved_answer_of_before_is_read_and_judged_beside():
    """The golden document: it verifies as it is, and its question tells what it told."""
    document = document_of((GOLDEN / "answer-released").read_bytes(), "answer")["predicate"]
    signed = answer_of_document(document)
    assert DOCUMENT.write(signed) == document
    assert signed.question.values == {"age": [8.0, 40.0, 82.5]}
    coding = Coding(
        (
            Attribute("age", Edges((0.0, 16.0, 65.0, 100.0))),
            Attribute("sex", Labels(("f", "m"))),
            Attribute("weight", Edges((40.0, 60.0, 80.0, 120.0))),
        )
    )
    earlier = earlier_of(Before(earlier=(EndedQuestion(signed.question),)), coding)
    assert earlier.runs[0].question.values["age"] == (8.0, 40.0, 82.5)
    rng = np.random.default_rng(2)
    few = np.where(np.arange(2_000) < 9, 0, rng.integers(1, 3, 2_000))
    rows = [few, rng.integers(0, 2, 2_000), rng.integers(0, 3, 2_000)]
    dataset = Dataset.of_columns(coding.domain, rows)
    new = RunQuestion.new(Question("means", "weight ~ 1", "16 <= age and age < 65"), coding)
    assert earlier.differs_by_few(new, dataset, 10)


ALLOWED = [
    ("linear", "income ~ age + I(age ** 2) + I(age ^ 3) + log(age) + log1p(age) + np.sqrt(age)"),
    ("linear", "log(income + 1) ~ I((age - 30) / 10) + {2 * age} + I(-age)"),
    ("linear", "income ~ I(`school years` ** 2) + Q('school years') + C(sex, Sum) * age"),
    ("linear", "income ~ C(sex, levels=['m', 'f']) + C(region, Treatment('south'))"),
    ("linear", "I(age < 30) ~ sex"),
    ("linear", "income ~ I(age < 30 and sex == 'f') + ifelse(balance > 0, 1, 0)"),
    ("linear", "income ~ C(floor(age / 10)) + C(ifelse(sex == 'f', 7, 3))"),
    ("logistic", "I(age >= 30) ~ I(region in ['north', 'south'])"),
    ("poisson", "age ~ (ill + sex + balance) ** 2"),
    ("correlation", "~ I(age ** 2) + log1p(income)"),
    ("means", "I(age ** 2) ~ sex"),
    ("ttest", "sqrt(income) ~ sex"),
    ("kaplan-meier", "age ~ ill + sex"),
    ("cox", "age ~ ill + log(income) + C(region)"),
]


@pytest.mark.parametrize(("kind", "formula"), ALLOWED)
def test_usual_functions_are_answered(kind, formula):
    assert judged(asked(kind, formula, missing="drop")).reasons == ()


REFUSED = [
    *(f"income ~ {one}" for one in (
        "I(age ** 30)", "I(age ** 4)", "I(age ** 0.5)", "I(age ** -1)", "I(1 / age)", "{1 / age}",
        "exp(age)", "I((age == 37) * 1e9)", "I(1e9 * (age > 30) + age)", "I((age > 30) + (age > 35))",
        "ifelse(age == 37, 1e9, 0)", "ifelse(age < 30, 1, ifelse(age < 35, 0, 7))",
        "ifelse(age < 30, age, 0)", "np.where(age == 37, age, 1)", "I(age % 7)", "I(age // 7)",
        "round(age)", "floor(age)", "abs(balance)", "sign(balance)", "maximum(age, 30)", "pmin(age, 30)",
        "I((age - 30) ** 2)", "I((`school years` - 2.5) ** 2)", "I(I(age ** 3) ** 3)", "I(age * age)",
        "log(age - 19.999)", "log(2 * age)", "log(log(age))", "sqrt(age - 20)", "I(sqrt(age) ** 3)",
        "I(age + sex)", "I(age * balance)", "I(age + 1000 * balance)", "I(balance ** 2)", "log(balance)",
        "sqrt(balance)", "I(age * 1e-300)", "I(age * 1e300)", "I(age + 1e17 - 1e17)", "I(age + 1e12)",
        "I(0 * age)", "I(age / 0)", "I(age * (1 - 1))", "I(age ** 3):I(age ** 2)", "age:I(age ** 3)",
        "scale(age)", "center(age)", "standardize(age)", "poly(age, 3)", "bs(age, df=4)", "cut(age, 3)",
        "C(age + 100 * balance)", "C(sex, levels=['f'])", "C(sex, [[1], [2]])", "C(region, custom)",
        "C(sex, Poly('f'))", "C(sex, Sum('f'))",
        "C(region, Helmert('isle'))", "C(region, contr=[0, 1, 1e9])",
        "C(region, Poly([1, 2, 30]))",
        "hash(age)", "lag(age)", "as_numeric(region)", "C(log(balance))", "I(~age)", "I(not age)",
        "I(age & 1)", "I(age == 37) * I(age == 37):age", "I(True * age)",
    )),
    *(f"{one} ~ sex" for one in (
        "I(age + 1000000)", "I(age ** 30)", "exp(age)", "I((age == 37) * 1e9)", "log(balance)",
        "C(age > 30)", "I((age - 30) ** 2)", "ifelse(age == 37, 1000, 0)", "I(age > 30) + 0",
    )),
]  # fmt: skip


@pytest.mark.parametrize("formula", REFUSED)
@pytest.mark.parametrize("kind", ["linear", "poisson"])
def test_a_function_that_chooses_numbers_is_refused_before_records_are_read(kind, formula):
    with pytest.raises(GencardError):
        asked(kind, formula, missing="drop")


@pytest.mark.parametrize(
    ("kind", "formula"),
    [
        ("kaplan-meier", "I(-age) ~ ill"),
        ("kaplan-meier", "I(age ** 2) ~ ill"),
        ("cox", "I(-age) ~ ill + sex"),
        ("cox", "age ~ I(ill == 'no') + sex"),
        ("multinomial", "I(age < 30) ~ sex"),
        ("ordinal", "I(balance > 0) ~ sex"),
        *(
            ("correlation", f"~ income + {one}")
            for one in ("exp(age)", "I(age + 1e6)", "I((age == 37) * 2)")
        ),
        ("components", "~ income + I(balance ** 2)"),
        ("polychoric", "~ income + I((age - 30) ** 2)"),
        ("discriminant", "sex ~ income + I(age ** 30)"),
        *((kind, "I((age == 37) * 1e9) ~ sex") for kind in ("means", "ttest", "anova", "quantiles")),
    ],
)
def test_the_same_in_every_kind_that_takes_numbers(kind, formula):
    with pytest.raises(InvalidFormulaError):
        asked(kind, formula, missing="drop")


_NUMBERS = st.one_of(st.integers(-50, 50), st.floats(-1e9, 1e9), st.sampled_from([1e-300, 1e300, 0, 37]))
_ATTRIBUTES = st.sampled_from(["age", "balance", "`school years`"])


def _wider(inner):
    two = st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "**", "//", "%"]), inner)
    function = st.tuples(st.sampled_from(["log", "sqrt", "exp", "abs", "I", "log1p", "round"]), inner)
    compared = st.tuples(inner, st.sampled_from(["==", "<", ">="]), inner)
    return st.one_of(
        two.map(lambda one: f"({one[0]} {one[1]} {one[2]})"),
        function.map(lambda one: f"{one[0]}({one[1]})"),
        compared.map(lambda one: f"({one[0]} {one[1]} {one[2]})"),
        st.tuples(inner, inner, inner).map(lambda one: f"ifelse({', '.join(one)})"),
    )


FUNCTIONS = st.recursive(st.one_of(_ATTRIBUTES, _NUMBERS.map(repr)), _wider, max_leaves=6)


@settings(max_examples=300)
@given(function=FUNCTIONS, response=st.booleans())
def test_numbers_of_a_run_are_listed_functions_of_declared_numbers_or_groups(function, response):
    """Functions of one attribute, but for unit and origin; else cells of each value are judged."""
    formula = f"I({function}) ~ sex" if response else f"income ~ I({function})"
    try:
        run = asked("linear", formula, missing="drop")
    except GencardError:
        return
    question = run.question
    if question.grouping is not None:
        assert all(
            set(np.unique(one.codes)) <= {0, 1}
            for part in question.grouping.parts
            for one in part.groups
        )
        return
    declared, column = _numbers_of(question, response)
    size = np.abs(declared).max()
    powers = [declared, declared**2, declared**3]
    with np.errstate(all="ignore"):
        powers += [np.sqrt(declared), np.log(declared), np.log1p(declared)]
    listed = [one for one in powers if np.isfinite(one).all()]
    distance = min(_distance_from_line(column, one) for one in listed)
    assert distance < 1e-6, (function, size)


def _numbers_of(question, response):
    """Declared numbers of the one attribute of a function, and those that it gives."""
    if response:
        one = question.design.response
        return np.array(question.values[one.attribute]), one.values
    column = next(one for one in question.design.columns if one.attributes)
    (name,) = column.attributes
    return np.array(question.values[name]), column.values


def _distance_from_line(numbers, base):
    """Largest residual of numbers from a linear function of others, relative to their range."""
    matrix = np.column_stack([np.ones(len(base)), base])
    fitted = matrix @ np.linalg.lstsq(matrix, numbers, rcond=None)[0]
    return np.abs(fitted - numbers).max() / np.ptp(numbers)


class TestGroups:
    """A comparison is a group: it passes the threshold alone and with each other term."""

    @pytest.mark.parametrize(
        ("kind", "formula"),
        [
            ("linear", "income ~ I(region == 'isle')"),
            ("linear", "income ~ I(region != 'isle')"),
            ("linear", "income ~ ifelse(region == 'isle', 0, 1)"),
            ("linear", "income ~ C(region == 'isle')"),
            ("linear", "income ~ age + I(region == 'isle'):sex"),
            ("linear", "I(region == 'isle') ~ age"),
            ("logistic", "ill ~ I(region == 'isle')"),
            ("poisson", "balance ~ I(region == 'isle')"),
            ("poisson", "I(region == 'isle') ~ sex"),
            ("cox", "age ~ ill + I(region == 'isle')"),
            ("linear", "income ~ I(region == 'isle' or age < 21 and sex == 'f' and ill == 'yes')"),
        ],
    )
    def test_nine_people_are_no_group(self, kind, formula):
        few = np.where(np.arange(4_000) < 9, 2, np.arange(4_000) % 2)
        nobody = np.arange(4_000) % 2
        for region in (few, nobody):
            result = judged(asked(kind, formula, missing="drop"), records(region=region))
            assert result.answer is None

    @pytest.mark.parametrize(
        ("kind", "formula"),
        [
            ("linear", "income ~ I(age < 30) + sex"),
            ("linear", "income ~ sex + C(age < 30)"),
            ("linear", "income ~ I(age < 30):sex + ill"),
            ("linear", "income ~ I(age < 30) + I(sex == 'f')"),
            ("linear", "I(age < 30) ~ sex"),
            ("logistic", "sex ~ I(age < 30)"),
            ("discriminant", "sex ~ balance + I(age < 30)"),
            ("correlation", "~ balance + I(age < 30) + sexual"),
            ("means", "I(age < 30) ~ sex"),
            ("anova", "I(age < 30) ~ sex"),
        ],
    )
    def test_nor_with_another_term(self, kind, formula):
        """Each is large alone; nine young women are the small cell."""
        if "sexual" in formula:
            formula = formula.replace(" + sexual", "")
        sex = np.arange(4_000) % 2
        age = np.where((sex == 0) & (np.arange(4_000) >= 18), 15, np.arange(4_000) // 2 % 20)
        balance = np.where((sex == 0) & (age < 10), 0, 1 + np.arange(4_000) % 3)
        balance[(sex == 1) & (balance == 0)] = 1
        if "balance" in formula:
            balance[np.flatnonzero((sex == 1) & (age >= 10))[:9]] = 0
        dataset = records(sex=sex, age=age, balance=balance)
        assert judged(asked(kind, formula, missing="drop"), dataset).answer is None

    def test_groups_of_two_runs_differ_by_nobody_s_age(self):
        """The groups are ages below 30, then below 29: the few of 29 would be the difference."""
        age = np.where(np.arange(4_000) < 9, 9, np.arange(4_000) % 20)
        age[9:][age[9:] == 9] = 3
        dataset = records(age=age)
        first = asked("linear", "income ~ I(age < 30)", missing="drop")
        second = asked("linear", "income ~ I(age < 29)", missing="drop")
        assert judged(first, dataset).answer is not None
        assert judged(second, dataset).answer is not None
        assert judged(second, dataset, [first]).reasons == ("output-rules",)
        where = asked("linear", "income ~ sex", where="age < 29", missing="drop")
        assert judged(where, dataset, [first]).reasons == ("output-rules",)
        assert judged(first, dataset, [where]).reasons == ("output-rules",)

    def test_groups_of_one_run_are_no_chain_to_a_few(self):
        """Each pair of groups has large cells; those below 30 and from 30 to 35 leave the few of 35."""
        age = np.where(np.arange(4_000) < 9, 15, np.arange(4_000) % 20)
        age[9:][age[9:] == 15] = 3
        dataset = records(age=age)
        chain = "income ~ I(age < 30) + I(30 <= age and age < 35) + I(age <= 35)"
        assert judged(asked("linear", chain, missing="drop"), dataset).answer is None

    def test_tables_of_groups_count_for_the_widest_table(self):
        plain = asked("linear", "income ~ I(age < 30)", missing="drop")
        wide = asked("linear", "income ~ I(age < 30 and ill == 'yes') + sex", missing="drop")
        assert (plain.widest, wide.widest) == (1, 3)
        assert {"age", "ill", "sex", "income"} <= wide.attributes


@pytest.mark.parametrize("formula", ["income ~ C(age, Treatment('{}'))", "income ~ C(age, levels=[{}])"])
def test_a_level_that_nobody_has_ends_as_a_refusal_and_not_as_an_error(formula):
    """An error of its own would say, for nothing, that no record has the level."""
    coding = replace(
        CODING, attributes=(Attribute("age", Labels(("a", "b", "c"))), *CODING.attributes[1:])
    )
    named = formula.format("c" if "Treatment" in formula else "'c', 'a', 'b'")
    question = RunQuestion.new(Question("linear", named, missing="drop"), coding)
    rows = {name: MANY.column(name) for name in NAMES} | {"age": np.arange(4_000) % 2}
    dataset = Dataset.of_columns(coding.domain, [rows[name] for name in NAMES])
    for rules in (USUAL_RULES, replace(USUAL_RULES, checks=replace(USUAL_RULES.checks, zeros=False))):
        assert checked(question, Earlier(coding, (), ()), dataset, {}, rules).answer is None
