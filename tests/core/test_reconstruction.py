"""The reconstruction audit: bounds on epsilon from how near rows come to planted canaries."""

import json
from itertools import product
from math import exp, inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import cKDTree
from scipy.stats import binom

from gencard.core.card.budget import Neighbouring
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import (
    ComputationError,
    DomainMismatchError,
    InvalidDatasetError,
    InvalidNumberError,
)
from gencard.measures.privacy import canary_findings as distance_sums
from gencard.measures.privacy.canaries import (
    Cube,
    EpsilonBound,
    HammingSpace,
    Reconstruction,
    draw_cells,
    draw_points,
    log_chance,
    reconstruct_cells,
    reconstruct_points,
    tilted_chance,
)
from gencard.measures.privacy.canary_findings import (
    HitCount,
    hit_count,
    log_q_of,
    log_sum_at_most,
    published_bound,
    sum_bound,
)
from tests.shared_data import oracle_file

BETA = 0.05
REPLACE = Neighbouring.REPLACE_ONE
ADD = Neighbouring.ADD_REMOVE
POINTS = [(1, 1, 1), (2, 1, 1), (2, 5, 1), (3, 10, 3), (5, 5, 2), (10, 10, 2), (10, 10, 5), (20, 50, 2)]
CELLS = [(1, 1, (20,)), (4, 3, (3, 4, 5)), (10, 10, (2,) * 8), (5, 20, (9, 7, 6)), (10, 5, (2,) * 12)]


def grids():
    return json.loads(oracle_file("metrics/eps_lower_grid.json").read_text())


def domain_of(sizes):
    return Domain.of({f"a{axis}": size for axis, size in enumerate(sizes)})


def found_sum(space, rows, m, nu):
    return Reconstruction(space, rows, np.full(m, nu / m))


# The published figures and those of another program ---------------------------------------------


@pytest.mark.shared
def test_published_bounds_are_those_of_sixty_digits():
    grid = grids()["grid"]
    for case in grid:
        sizes = case["m"], case["n"], case["d"]
        found = distance_sums.epsilon_lower(case["nu"], *sizes, beta=case["beta"])
        assert found == pytest.approx(case["eps_lower"], rel=1e-9, abs=1e-9)
        threshold = distance_sums.published_log_p(case["nu_threshold_eps0"], *sizes, epsilon=0)
        assert threshold == pytest.approx(log(case["beta"]), rel=1e-9)
    assert any(case["eps_lower"] == inf for case in grid)


@pytest.mark.shared
def test_published_p_values_are_those_of_sixty_digits():
    for case in grids()["pvalues"]:
        sizes = case["m"], case["n"], case["d"]
        found = distance_sums.published_log_p(case["nu"], *sizes, epsilon=case["eps"])
        assert found == pytest.approx(case["log_p"], rel=1e-9, abs=1e-9)


def test_the_published_example():
    """Three sums for m = n = d = 10 at level 1/1000; the text truncates the second to 40.36."""
    found = [distance_sums.epsilon_lower(nu, 10, 10, 10, beta=0.001) for nu in (1, 0.1, 0.01)]
    assert found == pytest.approx([17.340006675123618, 40.36585760506408, 63.39170853500453], abs=1e-9)


@pytest.mark.shared
def test_count_bounds_are_those_of_another_program():
    for case in grids()["count"]:
        log_q = log_q_of(Cube(case["d"]), case["r"], case["n"])
        assert exp(log_q) == pytest.approx(case["q"], rel=1e-9)
        found = HitCount(case["m"], case["K"], log_q).bound(beta=case["beta"], neighbouring=REPLACE)
        assert found.epsilon == pytest.approx(case["eps_lower_count"], abs=1e-6)  # printed to 1e-6


@pytest.mark.shared
def test_refined_sums_are_within_the_tolerance_of_a_coarser_grid():
    """The file names 0.03, and rounds down more coarsely: its bounds are no higher."""
    for case in grids()["sequential_sum"]:
        found = sum_bound(
            found_sum(Cube(case["d"]), case["n"], case["m"], case["nu"]),
            beta=case["beta"],
            neighbouring=REPLACE,
        ).epsilon
        assert found == pytest.approx(case["eps_lower_sequential_sum"], abs=0.03)
        assert found >= case["eps_lower_seed"] - 0.02
        sizes = case["m"], case["n"], case["d"]
        published = distance_sums.epsilon_lower(case["nu"], *sizes, beta=case["beta"])
        assert published == pytest.approx(case["eps_lower_seed"], rel=1e-9, abs=1e-9)


@pytest.mark.shared
def test_hamming_balls_are_those_of_another_program():
    for case in grids()["hamming_balls"]:
        domain = domain_of(case["levels"])
        assert domain.cells == case["cells"]
        assert HammingSpace(domain).balls[case["r"]] == case["ball"]


# Against the definition -------------------------------------------------------------------------


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_hamming_balls_by_enumeration(sizes):
    distances = [sum(map(bool, cell)) for cell in product(*map(range, sizes))]
    counted = [sum(d <= radius for d in distances) for radius in range(len(sizes) + 1)]
    space = HammingSpace(domain_of(sizes))
    assert list(space.balls) == counted
    shares = np.exp(space.log_ball(np.arange(len(sizes) + 3.0)))
    assert shares == pytest.approx([*np.array(counted) / len(distances), 1, 1])


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=6), st.integers(1, 6), st.floats(1e-12, 1))
def test_a_sum_by_convolution(weights, terms, rare):
    """Masses on 0..K, the rest of the probability beyond."""
    masses = rare * np.array(weights) / sum(weights)
    sums = np.ones(1)
    for _ in range(terms):
        sums = np.convolve(sums, masses)
    found = log_sum_at_most(np.log(np.cumsum(masses)), terms)
    assert found == pytest.approx(log(sums[: len(masses)].sum()), rel=1e-9, abs=1e-9)


@given(st.integers(1, 4), st.integers(1, 6), st.floats(0.01, 0.4), st.floats(0, 6))
def test_one_canary_is_known_in_closed_form(d, n, nu, epsilon):
    """A sum of one distance is at most nu with probability G(nu)."""
    found = found_sum(Cube(d), n, 1, nu)
    exact = float(tilted_chance(log_chance(Cube(d), np.array([nu]), n), epsilon)[0])
    p = distance_sums.refined_log_p(found, epsilon=epsilon, neighbouring=REPLACE)
    assert exact - 1e-9 <= p <= exact + 2 * d / 4096


@given(st.integers(1, 40), st.integers(1, 50), st.integers(1, 8), st.floats(0.01, 1), st.floats(0, 9))
def test_the_refined_sum_refutes_at_least_what_was_published(m, n, d, share, epsilon):
    nu = share * m * n ** (-1 / d) / 2
    published = distance_sums.published_log_p(nu, m, n, d, epsilon=epsilon)
    refined = distance_sums.refined_log_p(
        found_sum(Cube(d), n, m, nu), epsilon=epsilon, neighbouring=REPLACE
    )
    assert refined <= published + m * d * m / (64 * m * d) + 1e-6


@given(st.integers(1, 60), st.floats(-30, -0.01), st.data())
def test_at_the_count_bound_p_is_beta(canaries, log_q, data):
    hits = data.draw(st.integers(1, canaries))
    count = HitCount(canaries, hits, log_q)
    bound = count.bound(beta=BETA, neighbouring=REPLACE)
    p = exp(count.log_p_value(epsilon=bound.epsilon, neighbouring=REPLACE))
    if bound.epsilon:
        assert p == pytest.approx(BETA, rel=1e-6)
    else:
        assert p >= BETA * (1 - 1e-9)


@given(st.integers(1, 60), st.floats(-5, -0.01), st.floats(0, 4), st.data())
def test_p_of_a_count_is_the_tail_of_the_binomial(canaries, log_q, epsilon, data):
    hits = data.draw(st.integers(0, canaries))
    chance = exp(log_q) / (exp(log_q) + exp(-epsilon) * (1 - exp(log_q)))
    p = exp(HitCount(canaries, hits, log_q).log_p_value(epsilon=epsilon, neighbouring=REPLACE))
    assert p == pytest.approx(binom.sf(hits - 1, canaries, chance), rel=1e-8, abs=1e-300)


def test_what_floats_have_no_room_for():
    count = HitCount(300, 300, -900.0)
    assert count.log_p_value(epsilon=0, neighbouring=REPLACE) == pytest.approx(-270_000)
    assert count.bound(beta=BETA, neighbouring=REPLACE).epsilon == pytest.approx(904.6, abs=0.01)
    found = found_sum(Cube(40), 1000, 5, 1e-200)
    bound = sum_bound(found, beta=BETA, neighbouring=REPLACE).epsilon
    published = published_bound(found, beta=BETA, neighbouring=REPLACE).epsilon
    assert published - 0.1 < bound < published + 9
    assert published > 18_000


@pytest.mark.parametrize("space", [Cube(3), HammingSpace(domain_of((4, 5, 6, 7)))])
def test_at_the_bound_of_the_sum_p_is_beta_and_add_remove_halves_it(space):
    radii = np.full(5, 0.01) if isinstance(space, Cube) else np.array([0, 0, 1, 0, 1])
    found = Reconstruction(space, 4, radii)
    bound = sum_bound(found, beta=BETA, neighbouring=REPLACE)
    half = sum_bound(found, beta=BETA, neighbouring=ADD)
    assert bound.epsilon > 1
    assert half.epsilon == pytest.approx(bound.epsilon / 2)
    for relation, epsilon in ((REPLACE, bound.epsilon), (ADD, half.epsilon)):
        p = distance_sums.refined_log_p(found, epsilon=epsilon, neighbouring=relation)
        assert exp(p) == pytest.approx(BETA, rel=1e-6)


@given(st.integers(1, 30), st.integers(1, 30), st.sampled_from([(3, 4), (2,) * 6, (9, 9, 9)]))
def test_distances_among_cells_by_brute_force(m, n, sizes):
    rng = np.random.default_rng([m, n, len(sizes)])
    domain = domain_of(sizes)
    canaries, rows = (draw_cells(domain, size, rng=rng) for size in (m, n))
    found = reconstruct_cells(canaries, rows)
    apart = (canaries.codes[:, None, :] != rows.codes[None]).sum(axis=2)
    np.testing.assert_array_equal(found.radii, apart.min(axis=1))
    assert (found.rows, found.nu) == (n, apart.min(axis=1).sum())


# How often an honest generator is refuted -------------------------------------------------------


def sums_of_points(m, n, d, runs, rng):
    """Sum of distances of each run: canaries in the cube, rows that never saw them."""
    rows = 0.25 + rng.random((n, d)) / 2
    return cKDTree(rows).query(rng.random((runs, m, d)))[0]


def radii_of_cells(m, n, sizes, runs, rng):
    rows = np.stack([rng.integers(0, size, n) for size in sizes], axis=1)
    canaries = np.stack([rng.integers(0, size, (runs, m)) for size in sizes], axis=2)
    found = np.full((runs, m), len(sizes))
    for row in rows:
        np.minimum(found, (canaries != row).sum(axis=2), out=found)
    return found


def refuted_sums(space, rows, sums, m):
    """Return the sums that a level of 5 % refutes at epsilon 0, by bisection: p grows with the sum."""

    def refutes(nu):
        found = found_sum(space, rows, m, nu)
        return distance_sums.refined_log_p(found, epsilon=0, neighbouring=REPLACE) <= log(BETA)

    ordered = np.unique(sums)
    low, high = 0, len(ordered)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if refutes(float(ordered[middle])) else (low, middle)
    return int(np.sum(sums < (ordered[low] if low < len(ordered) else inf)))


def at_most(runs):
    """A number of false positives that a rate of 5 % exceeds once in ten thousand times."""
    return binom.isf(1e-4, runs, BETA)


def refuted_counts(space, rows, m, radius, radii):
    counts = (radii <= radius).sum(axis=1)
    log_q = log_q_of(space, radius, rows)
    epsilons = [
        HitCount(m, hits, log_q).bound(beta=BETA, neighbouring=REPLACE).epsilon for hits in range(m + 1)
    ]
    return int(np.sum(np.array(epsilons)[counts] > 0))


@pytest.mark.parametrize(("m", "n", "d"), POINTS)
def test_numbers_are_refuted_by_chance_at_most_at_the_level(m, n, d):
    runs = 3000
    radii = sums_of_points(m, n, d, runs, np.random.default_rng([m, n, d]))
    nu = radii.sum(axis=1)
    published = [distance_sums.epsilon_lower(value, m, n, d, beta=BETA) > 0 for value in nu]
    radius = (0.3 / n / exp(float(Cube(d).log_ball(np.ones(1))[0]))) ** (1 / d)
    assert sum(published) <= at_most(runs)
    assert refuted_sums(Cube(d), n, nu, m) <= at_most(runs)
    assert refuted_counts(Cube(d), n, m, radius, radii) <= at_most(runs)


@pytest.mark.parametrize(("m", "n", "sizes"), CELLS)
def test_levels_are_refuted_by_chance_at_most_at_the_level(m, n, sizes):
    runs, space = 3000, HammingSpace(domain_of(sizes))
    radii = radii_of_cells(m, n, sizes, runs, np.random.default_rng([m, n, len(sizes)]))
    assert refuted_sums(space, n, radii.sum(axis=1), m) <= at_most(runs)
    for radius in range(3):
        assert refuted_counts(space, n, m, radius, radii) <= at_most(runs)


def test_levels_taken_for_numbers_would_be_refuted_in_every_run():
    """Why there is a bound of their own: eight binary attributes as corners of a cube."""
    radii = radii_of_cells(10, 10, (2,) * 8, 300, np.random.default_rng(4))
    sums = np.sqrt(radii).sum(axis=1) / 4  # cells of half the cube's side, at their centres
    assert all(distance_sums.epsilon_lower(nu, 10, 10, 8, beta=BETA) > 0 for nu in sums)


@pytest.mark.parametrize("epsilon", [2.0, 4.0])
def test_randomised_response_is_bounded_by_its_own_epsilon(epsilon):
    """For one canary each row keeps the level, or takes any other: replace-one epsilon exactly."""
    m, size, runs = 8, 500, 3000
    rng = np.random.default_rng(5)
    space = HammingSpace(domain_of((size,)))
    kept = rng.random((runs, m)) < exp(epsilon) / (exp(epsilon) + size - 1)
    canaries = rng.integers(0, size, (runs, m))
    rows = np.where(kept, canaries, (canaries + rng.integers(1, size, (runs, m))) % size)
    hits = (canaries[:, :, None] == rows[:, None, :]).any(axis=2).sum(axis=1)
    log_q = log_q_of(space, 0, m)
    counts = [HitCount(m, k, log_q).bound(beta=BETA, neighbouring=REPLACE).epsilon for k in range(m + 1)]
    sums = [
        sum_bound(found_sum(space, m, m, m - k), beta=BETA, neighbouring=REPLACE).epsilon
        for k in range(m + 1)
    ]
    for bounds in (counts, sums):
        assert np.sum(np.array(bounds)[hits] > epsilon) <= at_most(runs)
    assert max(counts) > epsilon


# Copies, refusals -------------------------------------------------------------------------------


def test_copies_are_found_and_half_of_them_by_the_count_alone():
    rng = np.random.default_rng(6)
    canaries = draw_points(5, 100, rng=rng)
    rows = np.vstack([canaries[:50] + rng.normal(0, 0.001, (50, 5)), rng.random((50, 5))])
    found = reconstruct_points(canaries, rows)
    assert (found.rows, len(found.radii), found.space) == (100, 100, Cube(5))
    claims = {"beta": BETA, "neighbouring": REPLACE}
    counted = hit_count(found, 0.02).bound(**claims)
    assert counted.epsilon > 10
    published = published_bound(found, **claims).epsilon
    assert 1 < published < sum_bound(found, **claims).epsilon < 3
    assert published_bound(found, beta=BETA, neighbouring=ADD).epsilon == published


def test_copies_to_the_last_bit_refute_no_more_than_floats_can():
    canaries = draw_points(2, 3, rng=np.random.default_rng(7))
    found = reconstruct_points(canaries, canaries)
    bound = published_bound(found, beta=BETA, neighbouring=REPLACE)
    assert 60 < bound.epsilon < 2 * 53 * log(2)


def test_rows_may_lie_outside_the_cube():
    canaries = draw_points(2, 3, rng=np.random.default_rng(8))
    found = reconstruct_points(canaries, np.array([[5.0, -3.0]]))
    for statistic in (published_bound, sum_bound):
        assert statistic(found, beta=BETA, neighbouring=REPLACE).epsilon == 0


def test_where_blind_rows_hit_everything_nothing_is_refuted():
    space = HammingSpace(domain_of((2, 2)))
    found = Reconstruction(space, 4, np.zeros(30))
    assert sum_bound(found, beta=BETA, neighbouring=REPLACE).epsilon == 0
    assert hit_count(found, 0).bound(beta=BETA, neighbouring=REPLACE).epsilon == 0


def test_a_bound_speaks_of_its_own_claims_only():
    bound = EpsilonBound(2.0, 1e-5, BETA, REPLACE)
    assert bound.refutes(1.9, 0.0, REPLACE)
    assert not bound.refutes(2.0, 1e-5, REPLACE)
    for delta, neighbouring in ((1e-4, REPLACE), (0.0, ADD)):
        with pytest.raises(ComputationError):
            bound.refutes(1.0, delta, neighbouring)


def test_levels_have_no_published_bound():
    with pytest.raises(ComputationError):
        published_bound(
            Reconstruction(HammingSpace(domain_of((9,))), 1, np.zeros(1)),
            beta=BETA,
            neighbouring=REPLACE,
        )


@pytest.mark.parametrize(
    "canaries",
    [
        np.zeros((0, 2)),
        np.zeros((2, 0)),
        np.full(3, 0.123456789),
        [[0.123456789, 1.5]],
        [[-0.123456789, 0.5123456789]],
        [[np.nan, 0.5123456789]],
        np.round(np.random.default_rng(9).random((5, 2)), 3),
        np.round(np.random.default_rng(9).random((5, 2)), 9),
        np.random.default_rng(9).random((5, 2), np.float32),
        np.floor(np.random.default_rng(9).random((30, 2)) * 99 + 1) / 101,
    ],
    ids=[
        "none",
        "no attribute",
        "flat",
        "above",
        "below",
        "missing",
        "rounded",
        "nine digits",
        "single",
        "repeated",
    ],
)
def test_canaries_that_are_no_uniform_numbers_are_refused(canaries):
    with pytest.raises(InvalidDatasetError):
        reconstruct_points(canaries, np.full((4, 2), 0.5))


@pytest.mark.parametrize(
    "rows", [np.zeros((0, 2)), np.zeros((3, 1)), np.zeros(2), [[0, np.nan]], [[0, inf]], [[1e300, 0]]]
)
def test_rows_that_cannot_be_compared_are_refused(rows):
    with pytest.raises(InvalidDatasetError):
        reconstruct_points(draw_points(2, 3, rng=np.random.default_rng(0)), np.array(rows))


def test_cells_that_cannot_be_compared_are_refused():
    one, other = domain_of((3, 4)), domain_of((4, 3))
    rng = np.random.default_rng(0)
    canaries, none = draw_cells(one, 3, rng=rng), Dataset(one, np.zeros((0, 2), int))
    with pytest.raises(DomainMismatchError):
        reconstruct_cells(canaries, draw_cells(other, 3, rng=rng))
    for pair in ((canaries, none), (none, canaries)):
        with pytest.raises(InvalidDatasetError):
            reconstruct_cells(*pair)
    for radii in (np.zeros(0), np.array([-1.0]), np.array([np.nan]), np.array([0.0, 0.1])):
        with pytest.raises(InvalidDatasetError):
            Reconstruction(Cube(1), 1, radii)


@pytest.mark.parametrize(
    "call",
    [
        lambda found: draw_points(0, 1, rng=np.random.default_rng(0)),
        lambda found: draw_cells(domain_of((2,)), 0, rng=np.random.default_rng(0)),
        lambda found: Cube(0),
        lambda found: distance_sums.epsilon_lower(1, 0, 1, 1, beta=BETA),
        lambda found: distance_sums.epsilon_lower(-1, 1, 1, 1, beta=BETA),
        lambda found: distance_sums.published_log_p(np.nan, 1, 1, 1, epsilon=0),
        lambda found: distance_sums.published_log_p(1, 1, 1, 1, epsilon=-1),
        lambda found: published_bound(found, beta=0, neighbouring=REPLACE),
        lambda found: sum_bound(found, beta=0.6, neighbouring=REPLACE),
        lambda found: sum_bound(found, beta=np.nan, neighbouring=REPLACE),
        lambda found: distance_sums.refined_log_p(found, epsilon=inf, neighbouring=REPLACE),
        lambda found: hit_count(found, 0),
        lambda found: hit_count(found, -1),
        lambda found: hit_count(found, np.nan),
        lambda found: log_q_of(Cube(1), 1, 0),
        lambda found: HitCount(3, 4, -1.0),
        lambda found: HitCount(0, 0, -1.0),
        lambda found: HitCount(3, 1, 0.1),
        lambda found: HitCount(3, 1, -1.0).bound(beta=1, neighbouring=REPLACE),
        lambda found: HitCount(3, 1, -1.0).log_p_value(epsilon=-1, neighbouring=REPLACE),
    ],
)
def test_numbers_out_of_range_are_refused(call):
    with pytest.raises(InvalidNumberError):
        call(Reconstruction(Cube(1), 2, np.array([0.1])))
