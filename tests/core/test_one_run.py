"""Steinke's audit of one run: guesses about canaries bound epsilon at a delta."""

import json
from math import exp, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from gencard.core.card.budget import Neighbouring
from gencard.core.errors import InvalidNumberError
from gencard.measures.privacy.canary_findings import Guesses
from tests.shared_data import oracle_file

ADD = Neighbouring.ADD_REMOVE


def oracles(name):
    return json.loads(oracle_file("metrics/one_run_audits.json").read_text())[name]


def guesses_of(case):
    return Guesses(case["m"], case["guesses"], case["correct"])


@pytest.mark.shared
def test_p_values_are_those_of_another_program():
    for case in oracles("p_values"):
        found = guesses_of(case).p_value(epsilon=case["eps"], delta=case["delta"])
        assert found == pytest.approx(case["p"], rel=1e-9, abs=1e-15)


@pytest.mark.shared
def test_bounds_are_those_of_another_program():
    """The other program bisects to 2e-7; if a bound is above 0, p is beta to rounding here."""
    for case in oracles("one_run"):
        bound = guesses_of(case).bound(delta=case["delta"], beta=case["significance"], neighbouring=ADD)
        assert bound.epsilon == pytest.approx(case["eps_lower"], abs=1e-6)
        if bound.epsilon:
            p = guesses_of(case).p_value(epsilon=bound.epsilon, delta=case["delta"])
            assert p == pytest.approx(case["significance"], rel=1e-9)
        assert (bound.delta, bound.beta) == (case["delta"], case["significance"])


@given(st.integers(1, 40), st.data(), st.floats(0, 5), st.sampled_from([0, 1e-5, 1e-3]))
def test_p_is_that_of_the_definition(canaries, data, epsilon, delta):
    guesses = data.draw(st.integers(1, canaries))
    correct = data.draw(st.integers(0, guesses))
    chance = exp(epsilon) / (1 + exp(epsilon))
    masses = [float(binom.pmf(k, guesses, chance)) for k in range(guesses + 1)]
    shares = [sum(masses[correct - i : correct]) / i for i in range(1, correct + 1)]
    p = min(1, sum(masses[correct:]) + 2 * canaries * delta * max(shares, default=0))
    found = Guesses(canaries, guesses, correct).p_value(epsilon=epsilon, delta=delta)
    assert found == pytest.approx(p, rel=1e-9)


@given(st.integers(1, 300), st.data(), st.sampled_from([0, 1e-6, 1e-4, 1e-2]))
def test_every_smaller_epsilon_is_refuted(canaries, data, delta):
    guesses = data.draw(st.integers(1, canaries))
    correct = data.draw(st.integers(guesses // 2, guesses))
    made = Guesses(canaries, guesses, correct)
    bound = made.bound(delta=delta, beta=0.05, neighbouring=ADD).epsilon
    if bound:
        smaller = [made.p_value(epsilon=share * bound, delta=delta) for share in np.linspace(0, 1, 30)]
        assert max(smaller) <= 0.05 + 1e-9
        assert smaller[-1] == pytest.approx(0.05, abs=1e-8)
    else:
        assert made.p_value(epsilon=0, delta=delta) >= 0.05 - 1e-9


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 0.0), (1.0, 0.001)])
def test_randomised_response_is_bounded_by_its_own_epsilon(epsilon, delta):
    """Each coin is told outright with probability delta, else with odds of e^epsilon."""
    canaries, runs = 100, 4000
    chance = delta + (1 - delta) * exp(epsilon) / (1 + exp(epsilon))
    correct = np.random.default_rng(1).binomial(canaries, chance, runs)
    bounds = [
        Guesses(canaries, canaries, right).bound(delta=delta, beta=0.05, neighbouring=ADD).epsilon
        for right in range(canaries + 1)
    ]
    assert np.sum(np.array(bounds)[correct] > epsilon) <= binom.isf(1e-4, runs, 0.05)
    assert bounds[canaries] > epsilon


def test_p_that_floats_have_no_room_for():
    bounds = [
        Guesses(5000, 5000, 5000).bound(delta=delta, beta=0.05, neighbouring=ADD).epsilon
        for delta in (0, 5e-324)
    ]
    assert bounds[0] == pytest.approx(bounds[1])


def test_no_guess_says_nothing():
    for guesses in (Guesses(5, 0, 0), Guesses(5, 5, 0)):
        for delta in (0, 1e-3):
            assert guesses.bound(delta=delta, beta=0.05, neighbouring=ADD).epsilon == 0


@pytest.mark.parametrize("counts", [(0, 0, 0), (3, 4, 1), (3, 2, 3), (3, 2, -1)])
def test_counts_that_cannot_be_are_refused(counts):
    with pytest.raises(InvalidNumberError):
        Guesses(*counts)


@pytest.mark.parametrize(
    "wrong", [{"delta": -0.1}, {"delta": 1}, {"delta": np.nan}, {"beta": 0}, {"beta": 0.7}]
)
def test_levels_out_of_range_are_refused(wrong):
    with pytest.raises(InvalidNumberError):
        Guesses(3, 2, 1).bound(**{"delta": 0, "beta": 0.05, **wrong}, neighbouring=ADD)


@pytest.mark.parametrize("wrong", [{"epsilon": -1}, {"epsilon": inf}, {"delta": 1}])
def test_claims_out_of_range_are_refused(wrong):
    with pytest.raises(InvalidNumberError):
        Guesses(3, 2, 1).p_value(**{"epsilon": 0, "delta": 0, **wrong})
