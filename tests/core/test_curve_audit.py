"""Guesses under an assumed Gaussian curve: another program's numbers, the curve itself, calibration."""

import json
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binom, norm

from gencard.core.card.budget import Neighbouring
from gencard.core.errors import InvalidNumberError
from gencard.core.privacy.canaries.curve_audit import excess, if_gaussian
from gencard.core.privacy.canaries.epsilon_bound import EpsilonBound
from gencard.core.privacy.canaries.gaussian_curve import delta_of_curve, epsilon_of_curve, least_share
from gencard.core.privacy.canaries.one_run import Guesses
from tests.shared_data import oracle_file

ADD = Neighbouring.ADD_REMOVE


@pytest.mark.shared
def test_another_program_says_the_same():
    """It bisects to 1e-6."""
    cases = json.loads(oracle_file("metrics/one_run_audits.json").read_text())["one_run"]
    cases = [case for case in cases if "eps_lower_fdp" in case]
    assert len(cases) == 40
    for case in cases:
        found = if_gaussian(
            Guesses(case["m"], case["guesses"], case["correct"]),
            delta=case["delta"], beta=case["significance"], neighbouring=ADD,
        )  # fmt: skip
        assert found.epsilon == pytest.approx(case["eps_lower_fdp"], abs=2e-6)


@pytest.mark.parametrize("mu", [0.3, 1, 4])
@pytest.mark.parametrize("epsilon", [0, 0.5, 3])
def test_delta_is_what_two_normal_distributions_differ_by(mu, epsilon):
    """Integrated; and no set of outputs has less than the least share."""

    def over(x):
        return max(0.0, norm.pdf(x, mu) - exp(epsilon) * norm.pdf(x))

    delta, _ = quad(over, epsilon / mu + mu / 2, mu + 12)
    assert delta_of_curve(mu, epsilon) == pytest.approx(delta, rel=1e-6, abs=1e-12)
    for share in (1e-6, 0.3, 1):
        assert least_share(share, mu) == pytest.approx(norm.sf(norm.isf(share), -mu))


@given(st.floats(0.01, 20), st.floats(1e-12, 0.5))
def test_epsilon_and_delta_are_of_one_curve(mu, delta):
    epsilon = epsilon_of_curve(mu, delta)
    if epsilon:
        assert delta_of_curve(mu, epsilon) == pytest.approx(delta, rel=1e-4)
    else:
        assert delta_of_curve(mu, 0.0) <= delta


@given(st.integers(1, 200), st.data(), st.sampled_from([0.3, 0.05, 1e-3]))
def test_every_flatter_curve_is_refuted(canaries, data, beta):
    guesses = data.draw(st.integers(1, canaries))
    made = Guesses(canaries, guesses, data.draw(st.integers(0, guesses)))
    mu = if_gaussian(made, delta=1e-5, beta=beta, neighbouring=ADD).mu
    assert excess(made, mu + 1e-6, beta) <= 0
    if mu:
        assert min(excess(made, share * mu, beta) for share in (0, 0.3, 0.6, 0.9)) > 0


@pytest.mark.parametrize("mu", [0.0, 1.0, 2.0])
def test_a_gaussian_generator_s_own_curve_is_seldom_refuted(mu):
    """Scores are normal, mu higher where a canary is in; the 100 highest of 200 are guessed in."""
    rng, runs = np.random.default_rng(3), 2000
    put_in = rng.random((runs, 200)) < 0.5
    highest = np.argsort(-(rng.normal(size=put_in.shape) + mu * put_in), axis=1)[:, :100]
    correct = np.take_along_axis(put_in, highest, axis=1).sum(axis=1)
    found = [
        if_gaussian(Guesses(200, 100, right), delta=1e-5, beta=0.05, neighbouring=ADD).mu
        for right in range(101)
    ]
    assert np.sum(np.array(found)[correct] > mu) <= binom.isf(1e-4, runs, 0.05)
    assert np.median(np.array(found)[correct]) >= mu / 5


def test_it_says_what_it_assumes_and_is_no_bound():
    found = if_gaussian(Guesses(100, 100, 100), delta=1e-5, beta=0.05, neighbouring=ADD)
    assert str(found) == (
        "mu 1.703, epsilon 8.216 at delta 1e-05, if the trade-off curve is Gaussian; no bound otherwise"
    )
    assert not isinstance(found, EpsilonBound)
    assert not hasattr(found, "refutes")


def test_no_right_guess_says_nothing():
    for guesses in (Guesses(5, 0, 0), Guesses(5, 5, 0)):
        found = if_gaussian(guesses, delta=0.1, beta=0.05, neighbouring=ADD)
        assert (found.mu, found.epsilon) == (0, 0)


@pytest.mark.parametrize(
    "wrong", [{"delta": 0}, {"delta": 1}, {"delta": np.nan}, {"beta": 0}, {"beta": 0.7}]
)
def test_levels_out_of_range_are_refused(wrong):
    with pytest.raises(InvalidNumberError):
        if_gaussian(Guesses(3, 2, 1), **{"delta": 0.1, "beta": 0.05, **wrong}, neighbouring=ADD)
