"""Formulas: what is read, what is written again, and where a wrong one is wrong."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.errors import InvalidFormulaError, TooLargeError
from gencard.core.statistics.formula import DEEPEST, LONGEST, MOST_TERMS, Formula

NAMES = st.text(st.characters(exclude_characters="`", exclude_categories=["Cs"]), min_size=1, max_size=8)


@st.composite
def formulas(draw):
    """Any formula, with names that need backticks too."""
    names = draw(st.lists(NAMES | st.sampled_from("abcdef"), min_size=1, max_size=5, unique=True))
    response, *features = [*names, None] if draw(st.booleans()) else [None, *names]
    features = [name for name in features if name is not None]
    if not features:
        return Formula(response, ())
    term = st.lists(st.sampled_from(features), min_size=1, unique=True).map(tuple)
    return Formula(response, tuple(draw(st.lists(term, max_size=6, unique_by=frozenset))))


@given(formulas())
def test_what_was_written_reads_as_the_same(formula):
    assert Formula.of(str(formula)) == formula


EXPRESSIONS = st.recursive(
    st.sampled_from("abcd1"),
    lambda inner: st.tuples(inner, st.sampled_from("+*:"), inner),
    max_leaves=5,
)


def text_of(expression):
    if isinstance(expression, str):
        return expression
    left, mark, right = expression
    return f"({text_of(left)}) {mark} ({text_of(right)})"


def meaning(expression):
    """The definition, as a set of sets: what each mark does with the terms of both sides."""
    if isinstance(expression, str):
        return {frozenset() if expression == "1" else frozenset(expression)}
    left, mark, right = expression
    one, other = meaning(left), meaning(right)
    crossed = {a | b for a, b in product(one, other)}
    return {"+": one | other, ":": crossed, "*": one | other | crossed}[mark]


@given(EXPRESSIONS)
def test_an_expression_means_what_its_marks_say(expression):
    terms = Formula.of(f"y ~ {text_of(expression)}").terms
    assert set(map(frozenset, terms)) == meaning(expression) - {frozenset()}
    assert len(set(map(frozenset, terms))) == len(terms)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("y~a+b*c", "y ~ a + b + c + b:c"),
        ("y ~ a*b*c", "y ~ a + b + a:b + c + a:c + b:c + a:b:c"),
        ("y ~ a + b:c*d", "y ~ a + b:c + d + b:c:d"),
        ("y ~ (a + b):c", "y ~ a:c + b:c"),
        ("y ~ b:a + a:b + a + a", "y ~ b:a + a"),
        ("y ~ 1", "y ~ 1"),
        ("y ~ 1 + a", "y ~ a"),
        ("~ a:a", "~ a"),
        ("`age group` ~ `1` + sex.of.head", "`age group` ~ `1` + sex.of.head"),
    ],
)
def test_precedence_is_that_of_the_statistics_packages(text, written):
    assert str(Formula.of(text)) == written


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("", 1, "'~' was expected"),
        ("a + b", 3, "'~' was expected"),
        ("y ~", 4, "an attribute was expected"),
        ("y ~ a +", 8, "an attribute was expected"),
        ("y ~ a b", 7, "'+', '*', ':' or the end was expected"),
        ("y ~ a ~ b", 7, "'+', '*', ':' or the end was expected"),
        ("y ~ (a + b", 11, "')' was expected"),
        ("y ~ a - b", 7, "unexpected character '-'"),
        ("y ~ 0 + a", 5, "unexpected character '0'"),
        ("y ~ 10", 5, "unexpected character '1'"),
        ("y ~ .", 5, "unexpected character '.'"),
        ("y ~ `a", 5, "unexpected character '`'"),
        ("y ~ ``", 5, "unexpected character '`'"),
        ("y ~ a + y", 9, "the response is also a predictor"),
        ("y ~ a:(b + `y`)", 12, "the response is also a predictor"),
        ("1 ~ a", 1, "'~' was expected"),
        (f"y ~ {'(' * (DEEPEST + 1)}a", 5 + DEEPEST, f"more than {DEEPEST} nested parentheses"),
    ],
)
def test_a_wrong_formula_says_where(text, position, problem):
    with pytest.raises(InvalidFormulaError, match=re.escape(problem)) as caught:
        Formula.of(text)
    assert caught.value.fields["position"] == str(position)


@given(st.text(alphabet="yab1 ~+*:()`-", max_size=30))
def test_any_text_is_a_formula_or_an_error_of_ours(text):
    try:
        formula = Formula.of(text)
    except (InvalidFormulaError, TooLargeError):
        return
    assert Formula.of(str(formula)) == formula


def test_bounds_are_kept_before_the_work():
    many = " + ".join(f"a{i}" for i in range(MOST_TERMS))
    assert len(Formula.of(f"y ~ {many}").terms) == MOST_TERMS
    for text in (
        f"y ~ {many} + b",
        "y ~ " + "*".join(f"a{i}" for i in range(40)),
        f"y ~ ({many}):({many})",
        "y ~ a" + " " * LONGEST,
    ):
        with pytest.raises(TooLargeError):
            Formula.of(text)
