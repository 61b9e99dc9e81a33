"""S27: privacy noise is OpenDP's: exact, on whole numbers, without a seed; and nobody else draws any.

OpenDP's noise cannot be seeded, so these tests are statistical. Each bound below is exact (binomial) or
proved (Bernstein): on right noise, less than one run of this file in 10^9 raises a false alarm.
"""

import ast
from decimal import Decimal
from fractions import Fraction
from math import log, sqrt

import numpy as np
import opendp.prelude as dp
import pytest
from scipy import stats

from docs.house.sources import SOURCES, imported_by, reached_from
from gencard.controller.jobs.measurement import _noise
from gencard.controller.noise import OpenDpNoise
from gencard.core.card.budget import Neighbouring
from gencard.core.card.privacy import NOISES, AddedNoise, Gaussian, Laplace, gaussian, laplace
from gencard.core.domain import Domain
from gencard.core.statistics.noise import noisy, scales
from gencard.core.statistics.psi import Measurement, Psi

FALSE_ALARM = 1e-11
"""Probability of a false alarm in one test; there are less than a hundred tests."""
DRAWS = 20_000
NOISE = OpenDpNoise()
LAWS = [(mechanism, scale) for mechanism in NOISES for scale in (0.4, 1.0, 7.3, 500.0)]


def drawn(mechanism: type[AddedNoise], scale: float, counts: np.ndarray) -> np.ndarray:
    return mechanism.draw(NOISE, counts, scale)


def weight(mechanism: type[AddedNoise], scale: float, steps: np.ndarray) -> np.ndarray:
    return np.exp(-np.abs(steps) / scale if mechanism.norm == 1 else -((steps / scale) ** 2) / 2)


def law(mechanism: type[AddedNoise], scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers, all but 1e-15 of the mass, and their probabilities, from the definition."""
    most = int(40 * scale) + 40
    steps = np.arange(-most, most + 1)
    weights = weight(mechanism, scale, steps)
    return steps, weights / weights.sum()


def is_usual(hits: int, tries: int, share: float, tests: int = 1) -> bool:
    """Whether a binomial count is none of the rarest on either side."""
    alarm = FALSE_ALARM / tests / 2
    low, high = stats.binom.cdf(hits, tries, share), stats.binom.sf(hits - 1, tries, share)
    return low > alarm and high > alarm


@pytest.fixture(scope="module", params=LAWS, ids=lambda pair: f"{pair[0]} {pair[1]}")
def sample(request):
    """A law, and draws of it around 7."""
    mechanism, scale = request.param
    return mechanism, scale, drawn(mechanism, scale, np.full(DRAWS, 7)) - 7


class TestDistribution:
    def test_s27_the_distribution_is_the_law_bin_by_bin(self, sample):
        mechanism, scale, found = sample
        steps, shares = law(mechanism, scale)
        edges = np.unique(steps[np.searchsorted(np.cumsum(shares), np.arange(1, 24) / 24)])
        expected = np.add.reduceat(shares, np.searchsorted(steps, [steps[0], *edges]))
        hits = np.bincount(np.searchsorted(edges, found, side="right"), minlength=len(expected))
        for bin_hits, share in zip(hits.tolist(), expected.tolist(), strict=True):
            assert is_usual(bin_hits, DRAWS, min(share, 1.0), len(expected))

    def test_s27_the_variance_is_the_one_that_psi_says(self, sample):
        r"""The mean of squares cut at 7 stddevs, by Bernstein: n values between 0 and B with variance
        V have a mean off by t with probability at most :math:`2 e^{-n t^2 / (2 (V + B t / 3))}`.
        """
        mechanism, scale, found = sample
        steps, shares = law(mechanism, scale)
        said = mechanism.stddev(scale)
        assert said == pytest.approx(sqrt(steps.astype(float) ** 2 @ shares))
        largest = 49 * said**2
        squares = np.minimum(steps.astype(float) ** 2, largest)
        expected = squares @ shares
        spread = squares**2 @ shares - expected**2
        linear = largest * log(2 / FALSE_ALARM) / 3 / DRAWS
        bound = linear + sqrt(linear**2 + 2 * spread * log(2 / FALSE_ALARM) / DRAWS)
        assert abs(np.mean(np.minimum(found.astype(float) ** 2, largest)) - expected) < bound
        assert bound < 0.25 * said**2

    def test_s27_there_are_as_many_of_each_sign(self, sample):
        *_, found = sample
        assert is_usual(int((found > 0).sum()), int((found != 0).sum()), 0.5)

    def test_s27_a_law_of_another_scale_would_be_found(self, sample):
        """The tests above can fail: they would on noise of half the epsilon, or of half the rho."""
        mechanism, scale, found = sample
        wrong = scale * (2 if mechanism.norm == 1 else sqrt(2))
        steps, shares = law(mechanism, wrong)
        near = int(max(1, round(scale)))
        share = shares[np.abs(steps) < near].sum()
        assert not is_usual(int((np.abs(found) < near).sum()), DRAWS, float(share))


class TestChoice:
    """The exponential mechanism draws by its law, whatever the size of the scores."""

    @pytest.mark.parametrize("far", [0, 2**40, -(2**40)])
    @pytest.mark.parametrize("scale", [0.3, 1.0, 4.5, 1e4])
    def test_s27_a_choice_is_the_law_position_by_position(self, scale, far):
        scores = np.rint(np.array([0.0, 1.0, 1.0, 2.5, -1.0]) * max(scale, 1)).astype(np.int64)
        weights = np.exp((scores - scores.max()) / scale)
        chosen = [NOISE.choose(scores + far, scale) for _ in range(DRAWS // 10)]
        hits = np.bincount(chosen, minlength=len(scores))
        for position_hits, share in zip(hits.tolist(), weights / weights.sum(), strict=True):
            assert is_usual(position_hits, len(chosen), float(share), 60)

    def test_s27_a_choice_among_one_is_that_one(self):
        assert NOISE.choose(np.array([-7]), 0.5) == 0

    def test_s27_opendp_counts_as_much_zcdp_as_we_do(self):
        """By its own map, on scores that move by so much."""
        for sensitivity, rho in ((1, Fraction(1, 3)), (1024, Fraction(1, 50)), (2048, Fraction(7))):
            scale = Gaussian.choice_scale(Fraction(sensitivity), rho)
            space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
            choice = space >> dp.m.then_noisy_max(dp.zero_concentrated_divergence(), scale)
            assert choice.map(sensitivity) == pytest.approx(float(rho), rel=1e-9)


class TestGrid:
    """Leaks through floats (Mironov 2012; Casacuberta et al. 2022) cannot occur here."""

    @pytest.mark.parametrize("mechanism", NOISES)
    @pytest.mark.parametrize("count", [0, 1, 2**31, 2**52 + 1])
    def test_s27_outputs_are_whole_and_take_every_residue(self, mechanism, count):
        found = drawn(mechanism, 1e4, np.full(4_000, count))
        assert found.dtype == np.int64
        for modulus in (2, 3, 8):
            for hits in np.bincount(found % modulus, minlength=modulus).tolist():
                assert is_usual(hits, len(found), 1 / modulus, 13)

    def test_s27_noise_does_not_depend_on_the_count_under_it(self):
        """Empty cells and full ones have the same share of draws below -1, that of the law."""
        counts = np.tile([0, 10**12], DRAWS // 2)
        found = NOISE.laplace(counts, 2.0) - counts
        steps, shares = law(Laplace, 2.0)
        below = float(shares[steps < -1].sum())
        for half in (found[::2], found[1::2]):
            assert is_usual(int((half < -1).sum()), len(half), below, 2)

    def test_s27_neighbouring_cells_have_independent_noise(self):
        found = NOISE.gaussian(np.zeros(DRAWS, dtype=np.int64), 5.0).reshape(-1, 2)
        kept = found[(found != 0).all(axis=1)]
        assert is_usual(int((np.sign(kept[:, 0]) == np.sign(kept[:, 1])).sum()), len(kept), 0.5)

    def test_s27_no_two_measurements_draw_the_same(self):
        counts = np.zeros(64, dtype=np.int64)
        draws = {NOISE.laplace(counts, 100.0).tobytes() for _ in range(4)}
        assert len(draws) == 4

    @pytest.mark.parametrize("scale", [1e-6, 2e15])
    @pytest.mark.parametrize("mechanism", NOISES)
    def test_s27_the_least_and_the_largest_budget_can_be_drawn(self, mechanism, scale):
        domain = Domain.of({"a": 2})
        psi = Psi(domain, (Measurement(("a",), np.array([2**52, 0])),))
        privacy = mechanism(Neighbouring.REPLACE_ONE, Decimal("1000000" if scale < 1 else "0.000000001"))
        (only,) = noisy(psi, privacy, NOISE).measurements
        assert only.stddev > 0
        assert np.abs(only.values).max() <= 2**53


class TestOpenDpAgrees:
    """Spending of the noise as OpenDP itself computes it."""

    @pytest.mark.parametrize("amount", ["0.000000001", "0.01", "0.3", "1", "17.123456789"])
    @pytest.mark.parametrize("weights", [(1,), (3, 1, 2), (7, 7, 1)])
    def test_s27_laplace(self, amount, weights):
        space = (dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"))
        for relation, moved in ((Neighbouring.ADD_REMOVE, 1), (Neighbouring.REPLACE_ONE, 2)):
            found = scales(laplace(amount, neighbouring=relation), weights)
            spent = sum((space >> dp.m.then_laplace(scale)).map(moved) for scale in found)
            assert float(amount) * (1 - 1e-9) <= spent <= float(amount) * (1 + 1e-12)

    @pytest.mark.parametrize("amount", ["0.000000001", "0.01", "0.3", "1", "17.123456789"])
    @pytest.mark.parametrize("weights", [(1,), (3, 1, 2), (7, 7, 1)])
    def test_s27_gaussian(self, amount, weights):
        space = (dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"))
        for relation, moved in ((Neighbouring.ADD_REMOVE, 1.0), (Neighbouring.REPLACE_ONE, sqrt(2))):
            found = scales(gaussian(amount, neighbouring=relation), weights)
            spent = sum((space >> dp.m.then_gaussian(scale)).map(moved) for scale in found)
            assert float(amount) * (1 - 1e-6) <= spent <= float(amount) * (1 + 1e-12)


class TestBanList:
    def test_s27_one_file_draws_privacy_noise(self):
        users = {
            name
            for name, source in SOURCES.items()
            if any(module.split(".")[0] == "opendp" for module in imported_by(source))
        }
        assert users == {"gencard.controller.noise"}
        assert type(_noise()) is OpenDpNoise

    def test_s27_no_other_randomness_is_in_reach_of_a_measurement(self):
        """No code that counts, adds noise or checks names a generator of random numbers.

        The sandbox of a program draws the user that a run has, and where a counter begins.
        """
        reached = reached_from("gencard.controller.jobs.measurement") | {"gencard.controller.noise"}
        rooms = (".core.statistics.", ".core.noise.", ".core.card.", ".controller.")
        path = {name for name in reached if any(room in name for room in rooms)}
        assert {"gencard.core.card.privacy", "gencard.core.statistics.measure"} <= path
        sandbox = {f"gencard.controller.sandbox.{name}" for name in ("namespaces", "zygote")}
        assert {name for name in path - sandbox if random_in(SOURCES[name])} == set()

    def test_s27_the_ban_list_bites(self):
        assert random_in("import numpy as np\nx = np.random.default_rng()")
        assert random_in("import secrets")
        assert random_in("def f(*, rng): ...")


def random_in(source: str) -> bool:
    """Whether a source imports randomness, names numpy's, or takes a generator."""
    modules = {name.split(".")[0] for name in imported_by(source)}
    names = {
        node.arg if isinstance(node, ast.arg) else node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute | ast.arg)
    }
    return bool(modules & {"random", "secrets"} or names & {"random", "rng", "urandom", "default_rng"})
