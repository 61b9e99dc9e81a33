"""Predicted noise, before measuring, beside the noise in results."""

import numpy as np
import pandas as pd
import pytest

from gencard.analysis.answers.noisy_margins import margins_of
from gencard.analysis.formulas.answering import answer_of, predicted
from gencard.analysis.formulas.summing import question_needs
from gencard.core.card.sums import product_ends
from gencard.core.errors import GencardError
from gencard.core.generators.contract import rng_of
from gencard.core.statistics.formula import Analysis
from tests.core.test_answers_of_numbers import CODING, noisy_of, psi_with

N = 4_000


@pytest.fixture(scope="module")
def uniform() -> pd.DataFrame:
    """Records with the margins that a prediction makes up: levels of numbers equally frequent."""
    rng = np.random.default_rng(5)
    columns: dict[str, object] = {"g": rng.choice(["a", "b", "c"], N), "h": rng.choice(["no", "yes"], N)}
    ranges = {
        "x": (1, [0, 20, 40, 101]),
        "y": (0.01, [0, 10, 100, 1000.01]),
        "z": (0.5, [-5, 0, 2, 9.5]),
    }
    for name, (step, edges) in ranges.items():
        level = rng.integers(0, 3, N)
        low, high = np.array(edges)[level], np.array(edges)[level + 1]
        columns[name] = np.floor((low + rng.random(N) * (high - low)) / step) * step
    columns["y"] = np.round(np.asarray(columns["y"], dtype=float), 2)
    columns["k"] = rng.integers(0, 3, N).astype(float)
    return pd.DataFrame(columns)


def measured(needs, stddev: float):
    """Statistics with a noise of so many records on counts."""
    sums = {
        one: (
            stddev * max(map(abs, product_ends(CODING, one.of))) if one.of else stddev,
            stddev if one.counts_beside(needs.cliques, CODING) else 0.0,
        )
        for one in needs.sums
    }
    return (dict.fromkeys(needs.cliques, stddev), {}, sums)


def made_up(text: str, kind: Analysis, statistics):
    return predicted(text, kind, CODING, statistics, N, rng=rng_of(0), missing="drop")


@pytest.mark.parametrize(
    ("text", "kind", "stddev"),
    [
        ("y ~ g + x", Analysis.LINEAR, 0.5),
        ("y ~ g * z", Analysis.LINEAR, 0.5),
        ("y ~ g", Analysis.TTEST, 0.5),
        ("k ~ z", Analysis.LINEAR, 2.0),
    ],
)
def test_it_is_within_a_factor_of_two_of_the_noise_in_answers(uniform, text, kind, stddev):
    text = text.replace("g", "h") if kind is Analysis.TTEST else text
    needs = question_needs(text, kind, CODING, missing="drop")
    said = made_up(text, kind, measured(needs, stddev))
    assert said is not None
    assert said.noise is not None
    psi = noisy_of(psi_with(uniform, needs.cliques, needs.sums), stddev, np.random.default_rng(2))
    answer = answer_of(text, kind, margins_of(psi, CODING), CODING, missing="drop")
    if kind is Analysis.LINEAR:
        part = [row[0] for row in answer.table("noise").values]
        assert answer.coefficients.names == said.names
        ratios = np.array(said.noise) / np.array(part)
        assert (ratios < 2).all(), ratios
        assert (ratios > 0.5).all(), ratios
    total = np.hypot(said.sampling, said.noise)
    assert np.allclose(total, answer.coefficients.bse, rtol=0.5)


def test_noise_that_drowns_is_said():
    needs = question_needs("y ~ g + x", Analysis.LINEAR, CODING, missing="drop")
    said = predicted(
        "y ~ g + x", Analysis.LINEAR, CODING, measured(needs, 900.0), N, rng=rng_of(0), missing="drop"
    )
    assert said is not None
    assert said.noise is None
    assert said.near


def test_noise_that_nearly_drowns_is_said_to_drown_probably():
    """Between 0.2 and the limit of 1/4: there may be an answer, with little in it."""
    needs = question_needs("y ~ g + x", Analysis.LINEAR, CODING, missing="drop")
    said = [
        made_up("y ~ g + x", Analysis.LINEAR, measured(needs, stddev))
        for stddev in np.geomspace(1.0, 900.0, 40)
    ]
    kinds = [(one.noise is None, one.near) for one in said]
    assert kinds == sorted(kinds)
    assert {*kinds} == {(False, False), (False, True), (True, True)}
    for one in said:
        assert ("will probably drown this analysis (NOISE_DROWNS)" in str(one)) is one.near
        assert ("sampling errors" in str(one)) is (one.noise is not None)


def test_what_has_no_standard_error_has_no_prediction():
    needs = question_needs("g ~ h", Analysis.CROSSTAB, CODING)
    said = predicted(
        "y ~ x", Analysis.CORRELATION, CODING, measured(needs, 1.0), N, rng=rng_of(0), missing="drop"
    )
    assert said is None


def test_means_without_squares_by_groups_have_no_prediction():
    needs = question_needs("y ~ g", Analysis.LINEAR, CODING, missing="drop")
    assert made_up("y ~ g", Analysis.LINEAR, measured(needs, 0.5)) is not None
    assert made_up("y ~ g", Analysis.MEANS, measured(needs, 0.5)) is None


def test_it_does_not_depend_on_a_draw():
    needs = question_needs("y ~ g", Analysis.LINEAR, CODING, missing="drop")
    one, other = (made_up("y ~ g", Analysis.LINEAR, measured(needs, 0.5)) for _ in range(2))
    assert one == other


@pytest.mark.parametrize("kind", [*Analysis])
def test_every_kind_is_predicted_or_has_no_standard_errors(kind):
    """The means of a discriminant are a table without them."""
    predictions = {}
    for text in ("g ~ h", "g ~ x + z", "y ~ x + g", "~ x + z", "k ~ h", "h ~ k + x"):
        try:
            needs = question_needs(text, kind, CODING, missing="drop")
        except GencardError:
            continue
        predictions[text] = made_up(text, kind, measured(needs, 0.5))
    assert predictions
    assert all(one is None or one.names for one in predictions.values())
    if kind in (Analysis.DISCRIMINANT, Analysis.COMPONENTS):
        assert {*predictions.values()} == {None}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("g ~ x + z", Analysis.DISCRIMINANT),
        ("~ x + z", Analysis.COMPONENTS),
        ("~ x + z", Analysis.CORRELATION),
        ("y ~ g", Analysis.MEANS),
    ],
)
def test_noise_that_drowns_is_said_where_nothing_has_a_standard_error(text, kind):
    needs = question_needs(text, kind, CODING, missing="drop")
    said = made_up(text, kind, measured(needs, 1e7))
    assert said is not None
    assert (said.noise, said.near) == (None, True)
    assert "drown" in str(said)
