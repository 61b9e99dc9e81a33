"""A formula is about the attributes that it names, whatever they are called; truth values are levels."""

import keyword
from functools import cache

import numpy as np
import pandas as pd
import patsy
import pytest
import statsmodels.formula.api as smf

from gencard.analysis.answers.kinds import KINDS
from gencard.analysis.answers.margins import RecordMargins
from gencard.analysis.formulas.answering import answer_of
from gencard.analysis.formulas.model_matrix import read_condition, read_design
from gencard.core.coding import BOOLEANS, Attribute, Coding, Edges, Labels
from gencard.core.dataset import Dataset
from gencard.core.errors import GencardError
from gencard.core.statistics.formula import Analysis

NUMBERS = ("0", "1", "2")
SIZE = 600
ODD_NAMES = (
    "x.1",
    "a b",
    "T",
    "pi",
    "NA",
    "C",
    "Q",
    "I",
    "log",
    "1",
    "a-b",
    "ﬁrst",
    "a..b",
    "é",
    "as.factor",
    "~",
    "in",
)
"""Attributes of which code, R or formulaic could make something else."""


def column(seed):
    return np.random.default_rng(seed).integers(0, 3, SIZE)


X, NAMED = column(1), (column(1) + np.random.default_rng(2).integers(0, 2, SIZE)) % 3
Y = (NAMED + column(3)) % 3


def coding_with(name):
    numbers = Labels(NUMBERS, integer=True, ordered=True)
    two = Labels(("no", "yes"), ordered=True)
    return Coding(
        (
            Attribute("y", numbers),
            Attribute("ill", two),
            Attribute("x", numbers),
            Attribute(name, numbers),
        )
    )


def margins_with(name):
    return RecordMargins.of(
        Dataset(coding_with(name).domain, np.stack([Y, (Y > 0).astype(int), X, NAMED], axis=1))
    )


FORMS = (
    "{y} ~ {w}", "{y} ~ {w} + x", "{y} ~ {w}:x", "{y} ~ {w} * x", "{y} ~ x / {w}", "{y} ~ C({w})",
    "{y} ~ I({w} * 2)", "{y} ~ 0 + {w}", "{y} ~ np.log({w} + 1)", "{y} ~ (x + {w}) ** 2",
    "{y} ~ x + C({w}, Sum)", "{y} ~ I({w} > 1) + x", "{y} ~ x - {w}", "{y} ~ {w} %in% x",
)  # fmt: skip
RESPONSES = {
    "logistic": "ill", "poisson": "y", "linear": "y", "multinomial": "y", "ordinal": "y", "anova": "y",
    "cox": "y",
}  # fmt: skip
OTHERS = {
    "loglinear": "~ {w} + ill", "crosstab": "{w} ~ ill", "means": "y ~ {w}", "quantiles": "{w} ~ ill",
    "ttest": "{w} ~ ill", "correlation": "~ {w} + x", "polychoric": "~ {w} + ill",
    "components": "~ {w} + x", "correspondence": "~ {w} + x", "naive-bayes": "ill ~ {w}",
    "chow-liu": "~ {w} + ill + x", "discriminant": "ill ~ {w} + x", "kaplan-meier": "{w} ~ ill",
}  # fmt: skip
QUESTIONS = [
    *((kind, form.replace("{y}", y)) for kind, y in RESPONSES.items() for form in FORMS),
    *OTHERS.items(),
]


def test_the_questions_are_of_all_kinds():
    assert {kind for kind, _ in QUESTIONS} == {*map(str, KINDS)} == {*map(str, Analysis)}


@cache
def outcome(kind, form, name, written):
    """Every number of the answer, or the reason why there is none."""
    text = form.replace("{w}", written)
    try:
        answer = answer_of(text, Analysis(kind), margins_with(name), coding_with(name))
    except GencardError as error:
        return error.reason
    model = answer.coefficients
    params = () if model is None else model.params
    return (*params, *(one.value for one in answer.scalars), len(answer.tables))


def same(one, other):
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return len(one) == len(other) and np.allclose(
        np.array(one, dtype=float), np.array(other, dtype=float), rtol=1e-6, atol=1e-9, equal_nan=True
    )


@pytest.mark.parametrize("name", [*keyword.kwlist, *ODD_NAMES])
def test_an_attribute_may_have_any_name(name):
    """In backticks and as Q(...), a question is the same as about an attribute with a plain name."""
    wrong = []
    for kind, form in QUESTIONS:
        expected = outcome(kind, form, "plain", "plain")
        quoted = [f"`{name}`"] + [f'Q("{name}")'] * (kind in ("linear", "crosstab"))
        wrong += [
            (kind, form, written)
            for written in quoted
            if not same(outcome(kind, form, name, written), expected)
        ]
    assert wrong == []


def test_the_questions_have_answers():
    """Otherwise formulas with odd names would be equal for no reason."""
    without = [one for one in QUESTIONS if isinstance(outcome(*one, "plain", "plain"), str)]
    assert len(without) < len(QUESTIONS) / 8, without


@pytest.mark.parametrize("name", [*keyword.kwlist, *ODD_NAMES])
def test_conditions_take_any_name_too(name):
    for written in (f"`{name}`", f'Q("{name}")'):
        attributes, mask = read_condition(f"{written} in [1, 2] and x == 0", coding_with(name))
        assert attributes == ("x", name)
        assert mask.tolist() == [[False, True, True], [False] * 3, [False] * 3]


@pytest.mark.parametrize("form", [form for form in FORMS if "%" not in form])
@pytest.mark.parametrize("name", ["True", "None", "lambda", "in"])
def test_as_statsmodels_reads_q(name, form):
    text = form.replace("{y}", "y")
    frame = pd.DataFrame({"y": Y, "x": X, name: NAMED})
    theirs = smf.ols(text.replace("{w}", f'Q("{name}")'), frame).fit()
    ours = outcome("linear", text, name, f"`{name}`")
    assert np.allclose(sorted(ours[: len(theirs.params)]), sorted(theirs.params), atol=1e-8)


# Truth values -------------------------------------------------------------------------------------

TRUTHS = (
    "flag", "0 + flag", "flag:x", "flag:a", "flag/x", "x:flag + x", "flag*a", "x*flag - x",
    "I(flag)", "C(flag)",
    "I(flag * 2)", "I(x > 1)", "0 + I(x > 1)", "I(x > 1):x", "flag:I(x > 1)", "flag + flag:sure",
    "flag/sure", "0 + flag:sure", "I(flag & sure)", "I(~flag) + x", "0 + I(a == 'p')", "C(flag, Sum)",
    "C(flag, Treatment(True))", "(flag + x) ** 2", "I(flag + x)", "I((x > 1) * 2)",
)  # fmt: skip
TRUTH_CODING = Coding(
    (
        Attribute("flag", Labels(BOOLEANS, boolean=True)),
        Attribute("sure", Labels(BOOLEANS, boolean=True)),
        Attribute("x", Labels(NUMBERS, integer=True, ordered=True)),
        Attribute("a", Labels(("p", "q"))),
        Attribute("z", Edges((0.0, 2.0, 4.0))),
    )
)
TRUTH_RECORDS = np.random.default_rng(5).integers(0, TRUTH_CODING.domain.sizes, (300, 5))


def truth_frame():
    flag, sure, x, a, z = TRUTH_RECORDS.T
    letters = pd.Categorical(np.array(["p", "q"])[a])
    values = {"flag": flag == 1, "sure": sure == 1, "x": x, "a": letters, "z": np.array([1.0, 3.0])[z]}
    return pd.DataFrame(values)


@pytest.mark.parametrize("text", TRUTHS)
def test_truth_values_are_levels_as_in_statsmodels(text):
    design = read_design(f"z ~ {text}", TRUTH_CODING)
    axes = list(TRUTH_CODING.domain.axes(design.attributes))
    ours = design.matrix(TRUTH_RECORDS[:, axes])
    theirs = patsy.dmatrix(text, truth_frame())
    plain = [name.replace(" ", "") for name in theirs.design_info.column_names]
    order = [plain.index(name.replace(" ", "")) for name in design.names]
    assert sorted(order) == list(range(len(plain)))
    np.testing.assert_allclose(ours, np.asarray(theirs)[:, order])


@pytest.mark.parametrize("text", ["flag", "flag:x", "0 + flag"])
def test_a_missing_truth_value_is_a_level_unless_it_is_dropped(text):
    coding = Coding(
        (Attribute("flag", Labels(BOOLEANS, boolean=True, missing=True)), *TRUTH_CODING.attributes[2:])
    )
    names = read_design(f"z ~ {text}", coding).names
    assert any("missing" in name for name in names)
    kept = {"flag": np.array([True, True, False])}
    assert not any("missing" in name for name in read_design(f"z ~ {text}", coding, observed=kept).names)


def test_numbers_that_the_analyst_gives_truth_values_are_numbers():
    names = read_design("z ~ 0 + flag", TRUTH_CODING, values={"flag": [2, 5]}).names
    assert names == ("flag",)
