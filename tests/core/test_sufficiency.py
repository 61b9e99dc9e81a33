"""Phi of an analysis: it determines the fit, and nothing smaller does."""

from itertools import combinations, product
from math import prod

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gencard.analysis.answers.margins import RecordMargins
from gencard.analysis.formulas.answering import answer_of
from gencard.analysis.formulas.formulas import read_formula
from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import InvalidInputError, UnknownAttributeError
from gencard.core.generators.family import ipf
from gencard.core.statistics.formula import Analysis, Formula, analysis_of, sufficient_cliques
from gencard.core.statistics.marginals import closure, dimension
from gencard.core.statistics.psi import Measurement, Psi

DOMAIN = Domain.of({"a": 2, "y": 3, "b": 3, "c": 2})
SCORES = np.array([-1.0, 0.5, 3.0])
"""Scores of the response's levels, for linear regression."""

PAPER = Domain.of({"ethnic": 6, "birth": 3, "family": 7, "grade": 5})
"""Application 2 of Houssiau et al., 2022."""

FORMULAS = [
    "y ~ 1",
    "y ~ a",
    "y ~ b:c",
    "y ~ a + b",
    "y ~ a * b",
    "y ~ a + b + c",
    "y ~ a + b * c",
    "y ~ a:b + b:c",
    "y ~ a:b + b:c + a:c",
    "y ~ a * b * c",
]
NOTHING = Coding((Attribute("unused", Labels(("0",))),))
REGRESSIONS = [Analysis.LOGISTIC, Analysis.MULTINOMIAL, Analysis.LINEAR]
FITTED = [*REGRESSIONS, Analysis.CROSSTAB]


def read(text):
    return read_formula(text, NOTHING)


def random_table(rng):
    """Counts of every cell, all large enough for a few moves."""
    return rng.integers(20, 90, DOMAIN.sizes)


def move(inside, rng):
    """+1 and -1 on the corners of a cube: changes only marginals that hold all of ``inside``."""
    change = np.zeros(DOMAIN.sizes, dtype=np.int64)
    levels = [rng.permutation(size)[: 2 if name in inside else 1] for name, size in pairs_of(DOMAIN)]
    for corner in product(*(range(len(chosen)) for chosen in levels)):
        cell = tuple(chosen[side] for chosen, side in zip(levels, corner, strict=True))
        change[cell] = (-1) ** sum(corner)
    return change


def pairs_of(domain):
    return zip(domain.attributes, domain.sizes, strict=True)


def marginal(table, clique):
    outside = tuple(axis for axis, name in enumerate(DOMAIN.attributes) if name not in clique)
    return table.sum(axis=outside)


def fit(formula, kind, table):
    """Everything that the analysis reports, as one vector."""
    if kind is Analysis.CROSSTAB:
        cliques = [({formula.response} - {None}) | set(term) for term in formula.terms or [()]]
        return np.concatenate([marginal(table, clique).ravel() for clique in cliques])
    counts = np.moveaxis(table, DOMAIN.axis("y"), 0).reshape(DOMAIN.size("y"), -1)
    x = design(formula)
    if kind is Analysis.LINEAR:
        return least_squares(x, counts)
    if kind is Analysis.MULTINOMIAL:
        return newton(x, counts)
    return np.concatenate([newton(x, np.array([counts.sum(0) - one, one])) for one in counts])


def design(formula):
    """One row for each cell of the features, one column for each free effect; of full rank."""
    features = [name for name in DOMAIN.attributes if name != "y"]
    cells = np.array(list(product(*(range(DOMAIN.size(name)) for name in features))))
    columns = []
    for inside in sorted(closure([*formula.terms, ()]), key=sorted):
        axes = [features.index(name) for name in sorted(inside)]
        effects = product(*(range(1, DOMAIN.size(features[axis])) for axis in axes))
        columns.extend((cells[:, axes] == levels).all(axis=1) for levels in effects)
    return np.array(columns, dtype=float).T


def least_squares(x, counts):
    """Coefficients, their covariance, residual variance."""
    weights, sums = counts.sum(0), SCORES @ counts
    gram = (x.T * weights) @ x
    beta = np.linalg.solve(gram, x.T @ sums)
    residual = SCORES**2 @ counts.sum(1) - beta @ (x.T @ sums)
    variance = residual / (counts.sum() - x.shape[1])
    return np.concatenate([beta, variance * np.linalg.inv(gram).ravel(), [variance]])


def newton(x, counts):
    """Maximum likelihood of a multinomial logit: coefficients, their covariance, log likelihood."""
    records, others = counts.sum(0), len(counts) - 1
    beta = np.zeros((others, x.shape[1]))
    for _ in range(60):
        shares = np.exp(np.vstack([np.zeros(len(x)), beta @ x.T]))
        shares /= shares.sum(0)
        gradient = ((counts - records * shares)[1:] @ x).ravel()
        spread = np.einsum("ki,kl->kli", shares[1:], np.eye(others)) - np.einsum(
            "ki,li->kli", shares[1:], shares[1:]
        )
        information = np.einsum("kli,i,ip,iq->kplq", spread, records, x, x).reshape(beta.size, -1)
        beta += np.linalg.solve(information, gradient).reshape(beta.shape)
    assert np.abs(gradient).max() < 1e-7, "Newton's method has not arrived"
    covariance = np.linalg.inv(information).ravel()
    return np.concatenate([beta.ravel(), covariance, [(counts * np.log(shares)).sum()]])


def differ(one, other):
    """Largest difference in what is reported, relative to its size."""
    return np.max(np.abs(one - other) / (1e-3 + np.abs(one)))


@st.composite
def analyses(draw):
    names = [name for name in DOMAIN.attributes if name != "y"]
    terms = [term for order in (1, 2, 3) for term in combinations(names, order)]
    chosen = draw(st.lists(st.sampled_from(terms), min_size=1, max_size=4, unique=True))
    return Formula("y", tuple(chosen)), draw(st.sampled_from(FITTED))


@settings(max_examples=60, deadline=None)
@given(analyses(), st.integers(0, 2**32 - 1))
def test_equal_phi_gives_the_same_fit(analysis, seed):
    formula, kind = analysis
    rng = np.random.default_rng(seed)
    phi = sufficient_cliques(formula, kind, DOMAIN)
    every = [frozenset(s) for order in (2, 3, 4) for s in combinations(DOMAIN.attributes, order)]
    free = [inside for inside in every if inside not in closure(phi)]
    assume(free)
    table = random_table(rng)
    moved = table + sum(move(inside, rng) * rng.integers(1, 3) for inside in free)
    assert (moved > 0).all()
    assert (moved != table).any()
    for clique in phi:
        assert (marginal(moved, clique) == marginal(table, clique)).all()
    assert differ(fit(formula, kind, table), fit(formula, kind, moved)) < 1e-8


@pytest.mark.parametrize("kind", FITTED)
@pytest.mark.parametrize("text", FORMULAS)
def test_without_any_marginal_of_phi_two_fits_are_possible(text, kind):
    """Even where all smaller marginals inside the one that is left out stay."""
    formula = read(text)
    rng = np.random.default_rng(7)
    phi = sufficient_cliques(formula, kind, DOMAIN)
    for dropped in phi:
        table = random_table(rng)
        moved = table + 10 * move(dropped, rng)
        for kept in closure(phi) - {frozenset(dropped)}:
            assert (marginal(moved, kept) == marginal(table, kept)).all()
        assert differ(fit(formula, kind, table), fit(formula, kind, moved)) > 1e-4, dropped


@pytest.mark.parametrize("kind", FITTED)
@pytest.mark.parametrize("text", FORMULAS)
def test_a_generator_that_sees_phi_alone_gives_the_fit_of_the_records(text, kind):
    """The model's table, scaled to the number of records, takes the place of the records."""
    formula, table = read(text), random_table(np.random.default_rng(3))
    phi = sufficient_cliques(formula, kind, DOMAIN)
    measured = tuple(Measurement(clique, marginal(table, clique)) for clique in phi)
    model = ipf(tolerance=1e-12).fit(Psi(DOMAIN.covered_by(phi), measured), DOMAIN)
    made = model.probabilities * table.sum()
    assert differ(fit(formula, kind, table), fit(formula, kind, made)) < 1e-6


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("y ~ a + b", "logistic", ["y a", "y b", "a b"]),
        ("y ~ a + b * c", "multinomial", ["y a", "y b c", "a b c"]),
        ("y ~ a + b + c", "linear", ["y a", "y b", "y c", "a b", "a c", "b c"]),
        ("y ~ a + b * c", "linear", ["y a", "y b c", "a b c"]),
        ("y ~ a * b * c", "logistic", ["y a b c"]),
        ("y ~ 1", "logistic", ["y"]),
        ("y ~ a + b", "crosstab", ["y a", "y b"]),
        ("~ a:b + c", "crosstab", ["a b", "c"]),
        ("~ a + a:b", "crosstab", ["a b"]),
        ("y ~ a + b", "ordinal", ["y a b"]),
        ("y ~ a + b", "poisson", ["y a", "y b", "a b"]),
        ("y ~ a + b + c", "anova", ["y a", "y b", "y c", "a b", "a c", "b c"]),
        ("~ a:b + c", "loglinear", ["a b", "c"]),
        ("y ~ a + b", "ttest", ["y a", "y b"]),
        ("y ~ a + b", "naive-bayes", ["y a", "y b"]),
        ("~ a + b * c", "correlation", ["a b", "a c", "b c"]),
        ("y ~ a + b:c", "discriminant", ["y a", "y b", "y c", "a b", "a c", "b c"]),
    ],
)
def test_phi_by_hand(text, kind, expected):
    found = sufficient_cliques(read(text), analysis_of(kind), DOMAIN)
    assert {frozenset(clique) for clique in found} == {frozenset(names.split()) for names in expected}
    assert all(clique == DOMAIN.canonical(clique) for clique in found)


def test_the_papers_second_application():
    """Counts of the features together and of each with the response; 448 dimensions stay hidden."""
    formula = read("grade ~ ethnic + birth + family")
    phi = sufficient_cliques(formula, Analysis.LOGISTIC, PAPER)
    expected = [("ethnic", "birth", "family"), *((name, "grade") for name in PAPER.attributes[:3])]
    assert sorted(phi) == sorted(expected)
    assert prod(PAPER.sizes) - dimension(PAPER, phi) == 448


@pytest.mark.parametrize("kind", REGRESSIONS)
@pytest.mark.parametrize(("text", "problem"), [("~ a", "needs a response"), ("one ~ a", "single level")])
def test_a_regression_needs_a_response_that_varies(kind, text, problem):
    domain = Domain.of({"a": 2, "one": 1})
    with pytest.raises(InvalidInputError, match=problem):
        sufficient_cliques(read(text), kind, domain)


@pytest.mark.parametrize("text", ["income ~ a", "y ~ income", "y ~ a:income"])
@pytest.mark.parametrize("kind", Analysis)
def test_an_unknown_attribute_is_named(text, kind):
    with pytest.raises(UnknownAttributeError, match="income"):
        sufficient_cliques(read(text), kind, DOMAIN)


def test_a_table_of_nothing_is_none():
    with pytest.raises(InvalidInputError, match="names no attribute"):
        sufficient_cliques(read("~ 1"), Analysis.CROSSTAB, DOMAIN)


def test_an_analysis_that_is_none():
    with pytest.raises(InvalidInputError, match="logistic, multinomial, ordinal"):
        analysis_of("probit")


CODED = Coding(
    tuple(
        Attribute(name, Labels(tuple(map(str, range(size))), integer=True, ordered=True))
        for name, size in pairs_of(DOMAIN)
    )
)
TABLE_ANALYSES = [
    ("means", "y ~ a + b * c"),
    ("quantiles", "y ~ a:b"),
    ("ttest", "y ~ c"),
    ("anova", "y ~ b"),
    ("anova", "y ~ a * b + c"),
    ("correlation", "~ y + a + b"),
    ("polychoric", "~ y + a + b"),
    ("components", "~ y + a + b + c"),
    ("correspondence", "~ y + a + b"),
    ("naive-bayes", "y ~ a + b:c"),
    ("chow-liu", "~ y + a + b + c"),
    ("discriminant", "y ~ a + b + c"),
]
JOINT = {"accuracy", "log_loss", "confusion"}
"""Numbers of a classifier that need the table of all attributes."""


def answer_vector(kind, text, table):
    """Every number of an answer that could use any marginal of the table."""
    cells = np.array(list(np.ndindex(table.shape)))
    records = RecordMargins.of(Dataset(DOMAIN, cells), table.reshape(-1).astype(float))
    answer = answer_of(text, Analysis(kind), records, CODED)
    numbers = [scalar.value for scalar in answer.scalars if scalar.name not in JOINT]
    for one in answer.tables:
        if one.name not in JOINT:
            numbers += [number for row in one.values for number in row]
    return np.array([0.0 if number is None else number for number in numbers])


@pytest.mark.parametrize(("kind", "text"), TABLE_ANALYSES)
def test_an_answer_uses_phi_and_all_of_it(kind, text):
    rng = np.random.default_rng(11)
    phi = sufficient_cliques(read_formula(text, CODED), Analysis(kind), DOMAIN)
    every = [frozenset(s) for order in (2, 3, 4) for s in combinations(DOMAIN.attributes, order)]
    table = random_table(rng)
    first = answer_vector(kind, text, table)
    free = [move(inside, rng) for inside in every if inside not in closure(phi)]
    assert differ(first, answer_vector(kind, text, table + sum(free))) < 1e-8
    for dropped in phi:
        moved = table + 10 * move(dropped, rng)
        for kept in closure(phi) - {frozenset(dropped)}:
            assert (marginal(moved, kept) == marginal(table, kept)).all()
        other = answer_vector(kind, text, moved)
        assert first.shape != other.shape or differ(first, other) > 1e-4, dropped
