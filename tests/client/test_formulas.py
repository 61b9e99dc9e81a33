"""Formulas: what is read, what is written again, what Phi follows, and what is refused with advice."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.analysis.formulas.formulas import LONGEST, read_formula
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.errors import InvalidFormulaError, TooLargeError, UnknownAttributeError
from gencard.core.statistics.formula import MOST_TERMS, Analysis, Formula, sufficient_cliques

SIZES = {"a": 2, "y": 3, "b": 3, "c": 2, "d": 2, "age group": 4, "sex.of.head": 2, "1": 2, "größe": 3}
CODING = Coding(
    (
        *(Attribute(name, Labels(tuple(map(str, range(size))))) for name, size in SIZES.items()),
        Attribute("age", Edges((0, 18, 65))),
        Attribute("kids", Labels(("0", "1", "2"), integer=True)),
    )
)


def read(text):
    return read_formula(text, CODING)


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
    assert read(str(formula)) == formula


EXPRESSIONS = st.recursive(
    st.sampled_from("abcd1"), lambda inner: st.tuples(inner, st.sampled_from("+*:"), inner), max_leaves=5
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
    terms = read(f"y ~ {text_of(expression)}").terms
    assert set(map(frozenset, terms)) == meaning(expression) - {frozenset()}
    assert len(set(map(frozenset, terms))) == len(terms)


@pytest.mark.parametrize(
    ("text", "written", "logistic", "linear", "crosstab"),
    [
        ("y ~ 1", "y ~ 1", "y", "y", "y"),
        ("y ~ a", "y ~ a", "a,y", "a,y", "a,y"),
        ("~ a", "~ a", "", "", "a"),
        ("y~a+b*c", "y ~ a + b + c + b:c", "a,b,c; a,y; y,b,c", "a,b,c; a,y; y,b,c", "a,y; y,b,c"),
        ("y ~ a*b*c", "y ~ a + b + a:b + c + a:c + b:c + a:b:c", "a,y,b,c", "a,y,b,c", "a,y,b,c"),
        (
            "y ~ a + b:c*d",
            "y ~ a + b:c + d + b:c:d",
            "a,b,c,d; a,y; y,b,c,d",
            "a,b,c,d; a,y; y,b,c,d",
            "a,y; y,b,c,d",
        ),
        ("y ~ (a + b):c", "y ~ a:c + b:c", "a,b,c; a,y,c; y,b,c", "a,b,c; a,y,c; y,b,c", "a,y,c; y,b,c"),
        ("y ~ b:a + a:b + a + a", "y ~ b:a + a", "a,y,b", "a,y,b", "a,y,b"),
        ("y ~ 1 + a", "y ~ a", "a,y", "a,y", "a,y"),
        ("y ~ a + 1", "y ~ a", "a,y", "a,y", "a,y"),
        ("y ~ 1:a", "y ~ a", "a,y", "a,y", "a,y"),
        ("y ~ (1 + a)*b", "y ~ a + b + a:b", "a,y,b", "a,y,b", "a,y,b"),
        ("~ a:a", "~ a", "", "", "a"),
        ("~ a:b + c", "~ a:b + c", "", "", "a,b; c"),
        (
            "`age group` ~ `1` + sex.of.head",
            "`age group` ~ `1` + sex.of.head",
            "age group,1; age group,sex.of.head; sex.of.head,1",
            "age group,1; age group,sex.of.head; sex.of.head,1",
            "age group,1; age group,sex.of.head",
        ),
        (
            "y ~ `age group`*a",
            "y ~ `age group` + a + `age group`:a",
            "a,y,age group",
            "a,y,age group",
            "a,y,age group",
        ),
        ("y ~ ((a))", "y ~ a", "a,y", "a,y", "a,y"),
        (
            "y ~ (a + b)*(c + d)",
            "y ~ a + b + c + d + a:c + a:d + b:c + b:d",
            "a,b,c,d; a,y,c; a,y,d; y,b,c; y,b,d",
            "a,b,c,d; a,y,c; a,y,d; y,b,c; y,b,d",
            "a,y,c; a,y,d; y,b,c; y,b,d",
        ),
        (
            "y ~ a * b + c * d",
            "y ~ a + b + a:b + c + d + c:d",
            "a,b,c,d; a,y,b; y,c,d",
            "a,b,c,d; a,y,b; y,c,d",
            "a,y,b; y,c,d",
        ),
        ("y ~ a:b:c", "y ~ a:b:c", "a,y,b,c", "a,y,b,c", "a,y,b,c"),
        (
            "y ~ größe + a",
            "y ~ größe + a",
            "a,größe; a,y; y,größe",
            "a,größe; a,y; y,größe",
            "a,y; y,größe",
        ),
        ("  y  ~\n a\t+ b ", "y ~ a + b", "a,b; a,y; y,b", "a,b; a,y; y,b", "a,y; y,b"),
        ("`y` ~ `a`", "y ~ a", "a,y", "a,y", "a,y"),
        (
            "y ~ a:(b + c):d",
            "y ~ a:b:d + a:c:d",
            "a,b,c,d; a,y,b,d; a,y,c,d",
            "a,b,c,d; a,y,b,d; a,y,c,d",
            "a,y,b,d; a,y,c,d",
        ),
        ("~ 1 + a*b", "~ a + b + a:b", "", "", "a,b"),
        (
            "y ~ a + b + c",
            "y ~ a + b + c",
            "a,b,c; a,y; y,b; y,c",
            "a,b; a,c; a,y; b,c; y,b; y,c",
            "a,y; y,b; y,c",
        ),
        (
            "y ~ a:b + b:c + a:d",
            "y ~ a:b + b:c + a:d",
            "a,b,c,d; a,y,b; a,y,d; y,b,c",
            "a,b,c,d; a,y,b; a,y,d; y,b,c",
            "a,y,b; a,y,d; y,b,c",
        ),
        (
            "y ~ `age group` + größe*c",
            "y ~ `age group` + größe + c + größe:c",
            "c,age group,größe; y,age group; y,c,größe",
            "c,age group,größe; y,age group; y,c,größe",
            "y,age group; y,c,größe",
        ),
    ],
)
def test_what_the_first_grammar_read_gives_the_same_phi(text, written, logistic, linear, crosstab):
    """These were read by the parser of before; cliques by hand are in ``test_sufficiency``."""
    formula = read(text)
    assert str(formula) == written
    kinds = dict(
        zip(
            ("logistic", "multinomial", "linear", "crosstab"),
            (logistic, logistic, linear, crosstab),
            strict=True,
        )
    )
    for kind, phi in kinds.items():
        if phi:
            cliques = sufficient_cliques(formula, Analysis(kind), CODING.domain)
            assert "; ".join(map(",".join, sorted(cliques))) == phi


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("y ~ -1 + a", "y ~ a"),
        ("y ~ 0 + a + -1", "y ~ a"),
        ("y ~ a*b - a:b + 0", "y ~ a + b"),
        ("y ~ a - a", "y ~ 1"),
        ("y ~ . - (a + b + c + d + age + kids)", "y ~ `age group` + sex.of.head + `1` + größe"),
        ("y ~ (a + b + c)**2", "y ~ a + b + c + a:b + a:c + b:c"),
        ("y ~ (a + b)^9", "y ~ a + b + a:b"),
        ("y ~ (a + b) / c", "y ~ a + b + a:b:c"),
        ("y ~ b %in% a", "y ~ a + a:b"),
        ("C(y) ~ C(a, Treatment(reference='0')):factor(b) + as.factor(c)", "y ~ a:b + c"),
        ("y ~ Q('age group') + C(Q(\"größe\"))", "y ~ `age group` + größe"),
        ("y ~ C(`age group`, contr.sum)", "y ~ `age group`"),
        ("y ~ log(age) + np.log(age + 1) + poly(kids, 2, raw=TRUE)", "y ~ age + kids"),
        ("y ~ I(age**2) + I(kids^2) + {age * kids}", "y ~ age + kids + age:kids"),
        ("y ~ center(log(age)):bs(kids, df=3)", "y ~ age:kids"),
        ("I(y == '0') ~ ifelse(age > 18, kids, 0)", "y ~ age:kids"),
        ("log(kids) ~ offset(age) + a", "kids ~ age + a"),
        ("y ~ `a\\\\` + `(` + `%`", "y ~ `a\\\\` + `(` + `%`"),
    ],
)
def test_operators_and_functions_of_r_and_patsy(text, written):
    assert str(read(text)) == written


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("", 1, "'~' was expected; write the response"),
        ("a + b", 6, "'~' was expected"),
        ("y ~", 4, "an attribute was expected"),
        ("y ~ a +", 8, "an attribute was expected"),
        ("y ~ a * -b", 9, "an attribute was expected"),
        ("y ~ ()", 6, "an attribute was expected"),
        ("y ~ a b", 7, "an operator, such as '+', was expected"),
        ("y ~ log (age)", 9, "write '(' directly after the name of a function"),
        ("y ~ a ~ b", 7, "only one '~'"),
        ("y ~ (a + b", 11, "')' was expected"),
        ("y ~ a)", 6, "this ')' has no matching '('"),
        ("y ~ 10", 5, "only the numbers 0 and 1 are allowed"),
        ("y ~ 2 * a", 5, "write a multiple as I(2 * a)"),
        ("y ~ 'age group'", 5, "in backticks or as Q('...')"),
        ("y ~ `a", 5, "this quote, backtick or parenthesis is not closed"),
        ("y ~ log(age", 5, "this quote, backtick or parenthesis is not closed"),
        ("y ~ ``", 5, "the name in backticks is empty"),
        ("y ~ a {}", 7, "nothing between these parentheses or quotes"),
        ("y ~ a # b", 7, "unexpected character '#'"),
        ("y ~ a + y", 9, "the response is also a predictor"),
        ("y ~ a:(b + `y`)", 12, "the response is also a predictor"),
        ("y ~ a + I(y == '1')", 9, "the response is also a predictor"),
        ("1 ~ a", 1, "the response must be one attribute"),
        (". ~ a", 1, "the response must be one attribute"),
        ("y + a ~ b", 1, "plan each response separately"),
        ("cbind(y, a) ~ b", 1, "plan each response separately"),
        ("y ~ a + (1 | b)", 12, "write the group as a term"),
        ("y ~ [a ~ b]", 5, "stages in brackets"),
        ("y ~ a == 1", 7, "inside I(...)"),
        ("y ~ df$a", 7, "write only the attribute"),
        ("y ~ a, b", 6, "join terms with '+'"),
        ("y ~ a %o% b", 7, "%in%"),
        ("y ~ a ** b", 10, "from 1 to 99"),
        ("y ~ a ^ 0", 9, "from 1 to 99"),
        ("y ~ (a - a):b", 12, "needs a term on each side"),
        ("y ~ log(a)", 5, "'a' has text labels; use it without the function"),
        ("y ~ lag(age)", 5, "rows have no order"),
        ("y ~ s(age)", 5, "which gives each level its own effect"),
        ("y ~ a + foo(age)", 9, "'foo' is not supported; write the attribute itself"),
        ("y ~ I(foo(age))", 5, "'foo' is not supported"),
        ("y ~ I(1)", 5, "uses no attribute"),
        ("y ~ C()", 5, "needs an attribute as its first argument"),
        ("y ~ C(a b)", 5, "cannot be parsed"),
        (f"y ~ I({'-' * 3_000}age)", 5, "cannot be parsed"),
    ],
)
def test_a_wrong_formula_says_where_and_what_to_write(text, position, problem):
    with pytest.raises(InvalidFormulaError, match=re.escape(problem)) as caught:
        read(text)
    assert caught.value.fields["position"] == str(position)


@pytest.mark.parametrize("text", ["y ~ I(income)", "y ~ C(Q('income'))", "y ~ log(`income`)"])
def test_a_function_of_an_unknown_attribute_names_it(text):
    with pytest.raises(UnknownAttributeError, match="income"):
        read(text)


def test_long_chains_and_deep_parentheses_are_no_burden():
    deep, long = f"y ~ {'(' * 1_900}a{')' * 1_900}", "y ~ " + "+".join("a" * 1_900)
    assert read(deep) == read(long) == Formula("y", (("a",),))


@given(st.text(alphabet="yab12 ~+*:()`-^/.C'%{}\\\\|", max_size=30))
def test_any_text_is_a_formula_or_an_error_of_ours(text):
    try:
        formula = read(text)
    except (InvalidFormulaError, TooLargeError, UnknownAttributeError):
        return
    assert read(str(formula)) == formula


def test_bounds_are_kept_before_the_work():
    many = " + ".join(f"a{i}" for i in range(MOST_TERMS))
    assert len(read(f"y ~ {many}").terms) == MOST_TERMS
    for text in (
        f"y ~ {many} + b",
        "y ~ " + "*".join(f"a{i}" for i in range(40)),
        f"y ~ ({many}):({many})",
        "y ~ a" + " " * LONGEST,
    ):
        with pytest.raises(TooLargeError):
            read(text)
