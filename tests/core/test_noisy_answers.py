"""Answers from noisy psi: covariances against brute force, coverage, and noise that drowns."""

from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gencard.analysis.answers import kinds
from gencard.analysis.answers.design import Block
from gencard.analysis.answers.margins import PsiMargins, within
from gencard.analysis.answers.noisy_margins import (
    INTERVALS,
    Bootstrap,
    NoisyMargins,
    bootstrapped,
    margins_of,
    simulated,
)
from gencard.analysis.formulas.answering import answer_of, read_question
from gencard.analysis.formulas.model_matrix import read_condition
from gencard.core.card.privacy import NOISES, Mechanism, laplace
from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.errors import InvalidInputError, LackingMarginalsError, NoiseDrownsError
from gencard.core.statistics.formula import Analysis
from gencard.core.statistics.noise import noisy
from gencard.core.statistics.psi import Measurement, Psi, agreeing
from tests.core.seeded_noise import SeededNoise
from tests.core.test_reconcile import each_stddev, least_squares, noisy_workloads, psi_of

CODING = Coding(
    tuple(
        Attribute(name, Labels(tuple(map(str, range(size))), integer=True, ordered=True))
        for name, size in (("y", 2), ("a", 3), ("b", 2), ("z", 4))
    )
)
DOMAIN = CODING.domain
CLIQUES = [("y", "a"), ("y", "b"), ("a", "b"), ("z", "a"), ("z", "b"), ("a", "z")]

QUESTIONS = {
    "linear": ("z ~ C(a) + b", Analysis.LINEAR),
    "logistic": ("y ~ C(a) + b", Analysis.LOGISTIC),
    "multinomial": ("z ~ C(a) + b", Analysis.MULTINOMIAL),
    "poisson": ("z ~ C(a) + b", Analysis.POISSON),
    "loglinear": ("~ a * b + a * y", Analysis.LOGLINEAR),
    "table": ("y ~ b", Analysis.CROSSTAB),
}

HARDER = {
    "three tables": ("~ (y + a + b) ** 2", Analysis.LOGLINEAR),
    "ordinal": ("z ~ b", Analysis.ORDINAL),
}


def population(n, *, seed):
    """Records over the four attributes, which depend on each other."""
    rng = np.random.default_rng(seed)
    a, b = rng.choice(3, n, p=[0.5, 0.3, 0.2]), rng.integers(0, 2, n)
    y = rng.random(n) < 1 / (1 + np.exp(0.5 - 0.6 * (a == 1) + 0.4 * b))
    z = np.clip(np.rint(1.5 + 0.4 * (a == 2) - 0.3 * b + rng.normal(0, 1, n)), 0, 3).astype(int)
    joint = np.zeros(DOMAIN.sizes)
    np.add.at(joint, (y.astype(int), a, b, z), 1)
    return joint


def measured(joint, cliques=tuple(CLIQUES), stddev=0.0):
    order = "".join(DOMAIN.attributes)
    tables = (np.einsum(f"{order}->{''.join(clique)}", joint) for clique in cliques)
    return Psi(DOMAIN, tuple(Measurement(c, t, stddev) for c, t in zip(cliques, tables, strict=True)))


def with_noise(joint, epsilon, seed):
    return noisy(measured(joint), laplace(epsilon, neighbouring="replace-one"), SeededNoise(seed))


@cache
def question(name):
    return read_question(*(QUESTIONS | HARDER)[name], CODING)


def answered(name, psi, where="", answer=kinds.answered):
    margins = margins_of(psi)
    part = within(margins, *read_condition(where, CODING)) if where else margins
    return answer(question(name), part)


def covariance(answer):
    size = len(answer.coefficients.names)
    return np.reshape(answer.coefficients.covariance, (size, size))


@given(noisy_workloads(), st.integers(0, 999))
def test_margins_and_their_covariance_are_those_of_least_squares(drawn, seed):
    domain, cliques, stddevs = drawn
    rng = np.random.default_rng(seed)
    matrix = least_squares(*drawn)
    psi = psi_of(domain, cliques, stddevs, rng.normal(5, 30, len(matrix)))
    margins = NoisyMargins.of(psi)
    for made, expected in zip(cliques, agreeing(psi).measurements, strict=True):
        np.testing.assert_allclose(margins.counts(made), expected.values, atol=1e-8)
    brute = matrix @ np.diag(each_stddev(*drawn) ** 2) @ matrix.T
    functions = rng.normal(size=(2, len(matrix)))
    ends = np.cumsum([domain.project(clique).cells for clique in cliques])[:-1]
    parts = zip(cliques, np.split(functions, ends, axis=1), strict=True)
    blocks = [Block(clique, np.arange(2), values) for clique, values in parts]
    np.testing.assert_allclose(margins.covariance(blocks, 2), functions @ brute @ functions.T, rtol=1e-6)
    variances = np.concatenate([margins.variances(clique).ravel() for clique in cliques])
    np.testing.assert_allclose(variances, np.diag(brute), atol=1e-8)


@pytest.mark.parametrize("where", ["", "z > 0"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_what_noise_adds_is_what_moving_each_count_does(name, where):
    """Every measured count is moved; the estimates answer as first order says."""
    cliques = (("y", "a", "b", "z"), ("y", "a")) if where else (*CLIQUES, ("a", "b", "z"))
    psi = measured(population(50_000, seed=1), cliques, stddev=3.0)
    answer = answered(name, psi, where)
    exact = answered(name, measured(population(50_000, seed=1), cliques), where)
    brute = np.zeros_like(covariance(answer))
    for place, measurement in enumerate(psi.measurements):
        for cell in np.ndindex(measurement.values.shape):
            up, down = (moved(psi, place, cell, step) for step in (2.0, -2.0))
            params = (answered(name, side, where, kinds.plain_answer) for side in (up, down))
            slope = np.subtract(*(one.coefficients.params for one in params))
            brute += 9.0 * np.outer(slope, slope) / 16
    np.testing.assert_allclose(answer.coefficients.params, exact.coefficients.params, rtol=1e-6)
    added = covariance(answer) - covariance(exact)
    np.testing.assert_allclose(added, brute, rtol=2e-2, atol=1e-2 * np.abs(brute).max())
    assert np.all(answer.coefficients.bse > exact.coefficients.bse)


def moved(psi, place, cell, step):
    measurements = list(psi.measurements)
    values = measurements[place].values.copy()
    values[cell] += step
    measurements[place] = Measurement(measurements[place].clique, values, measurements[place].stddev)
    return Psi(psi.domain, tuple(measurements))


@pytest.mark.parametrize(
    ("name", "draws"),
    [
        *((name, 80) for name in ("linear", "logistic", "loglinear", "table")),
        *(("three tables", 40), ("ordinal", 25)),
    ],
)
def test_intervals_cover(name, draws):
    """Fewer hits than the bound come, of true coverage 0.95, once in a million runs."""
    joint = population(4_000_000, seed=2)
    truth = np.array(answered(name, measured(joint)).coefficients.params)
    rng = np.random.default_rng(3)
    hits, blind = np.zeros(len(truth)), np.zeros(len(truth))
    for draw in range(draws):
        sample = rng.multinomial(20_000, (joint / joint.sum()).ravel()).reshape(joint.shape)
        psi = with_noise(sample, "1", draw)
        hits += covers(answered(name, psi), truth)
        blind += covers(unaware(name, psi), truth)
    judged = slice(1, None) if name in {"loglinear", "three tables"} else slice(None)
    assert hits[judged].min() >= stats.binom.ppf(1e-6 / 40, draws, 0.95)
    assert hits[judged].min() >= blind[judged].min()


def covers(answer, truth):
    low, high = answer.coefficients.conf_int().T
    return (low <= truth) & (truth <= high)


def unaware(name, psi):
    """The answer from the same counts, said to be exact."""
    margins = NoisyMargins.of(psi)
    exact = tuple(Measurement(clique, margins.counts(clique)) for clique in psi.cliques)
    return answered(name, Psi(psi.domain, exact))


@pytest.mark.parametrize("name", QUESTIONS)
def test_noise_that_drowns_an_analysis_leaves_no_number(name):
    with pytest.raises(NoiseDrownsError, match="larger budget"):
        answered(name, with_noise(population(150, seed=4), "0.1", 5))


def test_p_values_that_know_no_noise_are_left_out():
    psi = with_noise(population(20_000, seed=6), "1", 7)
    assert all(
        scalar.pvalue is None or scalar.standard_error is not None
        for name in ("linear", "table")
        for scalar in answered(name, psi).scalars
    )


def test_exact_margins_are_taken_as_they_are():
    psi = measured(population(500, seed=8))
    assert isinstance(margins_of(psi), PsiMargins)
    with pytest.raises(LackingMarginalsError):
        NoisyMargins.of(psi).counts(("y", "a", "b"))


class TestBootstrap:
    def intervals(self, name, psi, seed, replicates=60):
        answer = bootstrapped(
            lambda margins: kinds.plain_answer(question(name), margins),
            NoisyMargins.of(psi),
            (("y", "b"),) if name == "table" else (("y", "a"), ("y", "b"), ("a", "b")),
            Bootstrap(np.random.default_rng(seed), replicates=replicates),
        )
        table = answer.table(INTERVALS)
        return dict(zip(table.row_names, table.values, strict=True)), answer

    def test_standard_errors_are_near_those_of_first_order(self):
        psi = with_noise(population(50_000, seed=9), "1", 10)
        rows, answer = self.intervals("table", psi, 11, replicates=200)
        names = answer.coefficients.names
        ratios = np.array([rows[name][1] for name in names]) / answer.coefficients.bse
        assert np.all((ratios > 0.8) & (ratios < 1.25))

    def test_bias_that_noise_makes_is_taken_away(self):
        """Cramér's V of independent attributes is far from 0 on noisy counts; its estimate is not."""
        joint = np.multiply.outer(np.array([500.0, 500.0]), np.full((3, 2, 4), 1 / 24))
        raw, corrected = [], []
        for seed in range(6):
            psi = with_noise(np.rint(joint).astype(int), "0.5", seed)
            rows, answer = self.intervals("table", psi, seed)
            raw.append(answer["cramers_v"])
            corrected.append(rows["cramers_v"][0])
        assert abs(np.mean(corrected)) < np.mean(raw)

    def test_what_psi_does_not_determine_has_no_interval(self):
        psi = with_noise(population(5_000, seed=12), "1", 13)
        rows, answer = self.intervals("loglinear", psi, 14)
        assert {*answer.coefficients.names} < {*rows}
        assert "deviance" not in rows

    def test_one_seed_gives_one_answer(self):
        psi = with_noise(population(5_000, seed=12), "1", 13)
        assert self.intervals("table", psi, 14)[0] == self.intervals("table", psi, 14)[0]


@pytest.mark.parametrize("mechanism", [Mechanism.EXACT, *(noise.mechanism for noise in NOISES)])
def test_simulated_noise_has_the_standard_deviation_of_psi(mechanism):
    draw = partial(simulated, (20_000,), mechanism=mechanism, rng=np.random.default_rng(15))
    for stddev in (0.7, 5.0, 40.0):
        assert abs(draw(stddev).std() / stddev - 1) < 0.1
    assert not simulated((3,), 0.0, mechanism, rng=np.random.default_rng(0)).any()


def test_a_bootstrap_of_a_part_is_of_the_part():
    psi = noisy(
        measured(population(20_000, seed=16), (("y", "a", "b", "z"),)),
        laplace("1", neighbouring="add-remove"),
        SeededNoise(17),
    )
    how = Bootstrap(np.random.default_rng(18), replicates=20)
    options = {"where": "z > 0", "bootstrap": how}
    answer = answer_of(*QUESTIONS["table"], margins_of(psi), CODING, **options)
    rows = answer.table(INTERVALS)
    estimate, _, low, high = rows.values[rows.row_names.index("log_oddsratio")]
    part = answer_of(*QUESTIONS["table"], margins_of(psi), CODING, where="z > 0")
    assert low < part.coefficients.params[0] < high
    assert low < estimate < high
    exact = margins_of(measured(population(100, seed=16)))
    with pytest.raises(InvalidInputError, match="exact"):
        answer_of(*QUESTIONS["table"], exact, CODING, bootstrap=how)
