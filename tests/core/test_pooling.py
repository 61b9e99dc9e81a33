"""Pooling of tries: the laws of the p-value, and what an author who submits again and again gets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gencard.core.audit.exploration import Evidence, pooled_over_windows, pooled_p_value, windows
from gencard.core.audit.plan import level

P_VALUES = st.floats(1e-12, 1.0)
DIRECTIONS = st.sampled_from([-1, 1])
DIRECTED = st.builds(Evidence, P_VALUES, DIRECTIONS, st.floats(0.1, 10.0))
ALONG = st.builds(Evidence, P_VALUES, st.just(1), st.floats(0.1, 10.0))
UNDIRECTED = st.builds(Evidence, P_VALUES, st.just(0), st.just(1.0))


class TestLaws:
    @given(st.one_of(DIRECTED, UNDIRECTED))
    def test_one_try_keeps_its_p_value(self, evidence):
        assert pooled_p_value([evidence]) == evidence.p_value
        assert pooled_over_windows([evidence], [True]) == evidence.p_value

    @given(st.lists(st.one_of(DIRECTED, UNDIRECTED), min_size=1, max_size=8), st.randoms())
    def test_it_is_a_p_value_in_any_order(self, evidence, random):
        shuffled = random.sample(evidence, len(evidence))
        p_value = pooled_p_value(evidence)
        assert 0 <= p_value <= 1
        assert pooled_p_value(shuffled) == pytest.approx(p_value, rel=1e-9, abs=1e-15)

    @given(st.lists(DIRECTED, min_size=2, max_size=8))
    def test_the_names_of_the_directions_do_not_matter(self, evidence):
        turned = [Evidence(one.p_value, -one.direction, one.weight) for one in evidence]
        assert pooled_p_value(turned) == pytest.approx(pooled_p_value(evidence), rel=1e-9)

    @given(st.lists(ALONG, min_size=2, max_size=8), st.integers(0, 7), st.floats(0.01, 1.0))
    def test_more_evidence_in_one_direction_never_raises_it(self, evidence, which, factor):
        position = which % len(evidence)
        one = evidence[position]
        stronger = list(evidence)
        stronger[position] = Evidence(one.p_value * factor, 1, one.weight)
        assert pooled_p_value(stronger) <= pooled_p_value(evidence) * (1 + 1e-9)

    @given(st.lists(UNDIRECTED, min_size=2, max_size=8))
    def test_a_test_that_says_nothing_adds_nothing_but_its_place(self, evidence):
        nothing = Evidence(1.0, 0, 1.0)
        said = -2 * sum(np.log(one.p_value) for one in evidence)
        expected = stats.chi2.sf(said, 2 * len(evidence) + 2)
        assert pooled_p_value([*evidence, nothing]) == pytest.approx(expected)

    @given(P_VALUES, DIRECTIONS)
    def test_a_weak_try_hardly_changes_a_strong_one(self, p_value, direction):
        """Two rows and three runs beside 50,000 rows and ten runs."""
        weak, strong = Evidence(0.5, direction, 6**0.5), Evidence(p_value, 1, 500_000**0.5)
        assert pooled_p_value([strong, *[weak] * 5]) <= 1.1 * p_value + 1e-12

    def test_proof_in_one_try_stays_proof(self):
        proof, nothing = Evidence(0.0, 1, 1.0), Evidence(1.0, -1, 1.0)
        assert pooled_p_value([proof] + [nothing] * 19) < 1e-15
        assert pooled_p_value([Evidence(0.0, 0, 1.0)] + [Evidence(1.0, 0, 1.0)] * 19) < 1e-200

    def test_it_is_uniform_without_a_leak(self):
        rng = np.random.default_rng(0)
        for directed in (True, False):
            p_values = [
                pooled_p_value(
                    [
                        Evidence(p, int(rng.choice([-1, 1])) * directed, w)
                        for p, w in rng.random((5, 2)) + 1e-9
                    ]
                )
                for _ in range(2_000)
            ]
            assert stats.kstest(p_values, "uniform").pvalue > 1e-6


class TestWindows:
    @given(st.lists(st.booleans(), max_size=40))
    def test_each_holds_the_last_try_and_they_are_few(self, earlier):
        same = [*earlier, True]
        sets = windows(same)
        assert all(positions[-1] == len(same) - 1 for positions in sets)
        assert len(sets) == len(set(sets)) <= len(same).bit_length() + 2
        assert tuple(range(len(same))) in sets
        assert (len(same) - 1,) in sets
        assert tuple(position for position, equal in enumerate(same) if equal) in sets

    @given(st.lists(st.tuples(DIRECTED, st.booleans()), min_size=1, max_size=8))
    def test_the_smallest_p_value_of_all_windows_counts_as_often_as_there_are_windows(self, tries):
        evidence = [one for one, _ in tries]
        same = [*(equal for _, equal in tries[:-1]), True]
        sets = windows(same)
        smallest = min(pooled_p_value([evidence[k] for k in positions]) for positions in sets)
        assert pooled_over_windows(evidence, same) == min(1, len(sets) * smallest)


def accused(
    p_values: np.ndarray, directions: np.ndarray, same_bytes: list[bool], alpha: float
) -> list[int]:
    """The tries, from 1, at which a family is accused."""
    numbers = []
    for number in range(1, len(p_values) + 1):
        evidence = [
            Evidence(p, d, 1.0) for p, d in zip(p_values[:number], directions[:number], strict=True)
        ]
        same = [one == same_bytes[number - 1] for one in same_bytes[:number]]
        if pooled_over_windows(evidence, same) <= level(alpha, number):
            numbers.append(number)
    return numbers


def tries(effects: list[float], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """p-values and directions of tests whose z have these means."""
    z = rng.normal(effects)
    return 2 * stats.norm.sf(abs(z)), np.sign(z).astype(int)


class TestFamilies:
    """z of one try is normal; in the measured case of copies of 1 % its mean is 3."""

    def test_honest_families_are_accused_at_most_at_alpha_over_twenty_tries(self):
        rng, families, alpha = np.random.default_rng(1), 300, 0.05
        wrong = 0
        for _ in range(families):
            same = (rng.random(20) < 0.5).tolist()
            p_values, directions = tries([0.0] * 20, rng)
            directions = directions * int(rng.integers(0, 2))  # some tests have no direction
            wrong += bool(accused(p_values, directions, same, alpha))
        assert wrong <= stats.binom.ppf(1 - 1e-6, families, alpha)

    @pytest.mark.parametrize(
        "effects",
        [
            [3.0] * 5,
            [0.0] * 15 + [3.0] * 5,  # many honest versions first
            [0.0, 3.0] * 8,  # an honest version before each leaky one
        ],
        ids=["the same again", "honest first", "by turns"],
    )
    def test_a_leak_that_is_tried_again_is_found(self, effects):
        rng, families = np.random.default_rng(2), 200
        same = [bool(effect) for effect in effects]
        found = sum(bool(accused(*tries(effects, rng), same, 0.05)) for _ in range(families))
        assert found >= stats.binom.ppf(1e-6, families, 0.99)

    def test_a_strong_leak_after_honest_tries_is_found_at_once(self):
        """In a pool of all twenty alone, its z of 7 would be 1.6."""
        rng, families = np.random.default_rng(3), 200
        same = [False] * 19 + [True]
        found = sum(20 in accused(*tries([0.0] * 19 + [7.0], rng), same, 0.05) for _ in range(families))
        assert found >= stats.binom.ppf(1e-6, families, 0.97)
