"""Rules and rounding of outputs at their bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.analysis.output_checks import rounding, rule_checks
from gencard.core.card.privacy import USUAL_CHECKS, Transform
from gencard.core.errors import InvalidNumberError
from gencard.core.policy import PASSED, USUAL_RULES, Colour, Rule, Rules, RuleVerdict, together

finite = st.floats(-1e9, 1e9).filter(lambda number: abs(number) > 1e-6)
errors = st.floats(1e-6, 1e6)


class TestRules:
    def test_the_worst_rule_gives_the_colour(self):
        amber, red = RuleVerdict((Rule.NEGATIVE,)), RuleVerdict((Rule.LEVERAGE,))
        assert [one.colour for one in (PASSED, amber, red)] == list(Colour)
        assert together([red, amber, amber]).broken == (Rule.NEGATIVE, Rule.LEVERAGE)
        assert together([red, amber]).colour is Colour.RED

    def test_defaults_are_those_of_cards_with_zeros(self):
        fields = ("threshold", "freedom", "dominance_count", "dominance_percent", "remainder_percent")
        for name in (*fields, "rounding"):
            assert getattr(USUAL_RULES.checks, name) == getattr(USUAL_CHECKS, name)
        with pytest.raises(InvalidNumberError):
            Rules(survival=0)


class TestTables:
    def test_counts_around_the_threshold(self):
        broken = rule_checks.of_counts(np.array([0, 1, 9, 10]), USUAL_RULES)
        assert [one.broken for one in rule_checks.verdicts(broken)] == [
            (Rule.ZERO,),
            (Rule.THRESHOLD,),
            (Rule.THRESHOLD,),
            (),
        ]
        possible = np.array([False, True, True, True])
        assert (
            rule_checks.verdicts(rule_checks.of_counts(np.zeros(4), USUAL_RULES, possible))[0] == PASSED
        )

    def test_one_large_contribution(self):
        groups = rule_checks.contributions(
            np.zeros(12, int), np.array([1.0] * 11 + [1000.0]), cells=2, most=2
        )
        first, empty = rule_checks.verdicts(rule_checks.of_sums(groups, USUAL_RULES))
        assert first.broken == (Rule.DOMINANCE, Rule.REMAINDER)
        assert empty.broken == (Rule.THRESHOLD,)

    def test_each_switch_of_the_rules(self):
        off = Rules(Transform(), missing=False)
        values = np.array([1.0] * 11 + [1000.0, np.nan])
        groups = rule_checks.contributions(np.zeros(13, int), values, cells=1, most=2)
        assert rule_checks.verdicts(rule_checks.of_sums(groups, off)) == [PASSED]
        careful = Rules(Transform(), missing=True)
        assert rule_checks.verdicts(rule_checks.of_sums(groups, careful))[0].broken == (Rule.MISSING,)

    def test_a_spread_of_nothing_says_the_value_of_all(self):
        groups = rule_checks.contributions(np.zeros(20, int), np.full(20, 7.0), cells=1, most=2)
        assert rule_checks.verdicts(rule_checks.of_spreads(groups, USUAL_RULES))[0].broken == (
            Rule.SAME,
        )

    @pytest.mark.parametrize(
        ("records", "level", "red"), [(20, 0.5, False), (19, 0.5, True), (99, 0.9, True)]
    )
    def test_quantiles_need_records_on_both_sides(self, records, level, red):
        broken = rule_checks.of_quantiles(np.array([records]), level, USUAL_RULES)
        assert (Rule.RANK in rule_checks.verdicts(broken)[0].broken) == red


class TestModels:
    def test_degrees_of_freedom_and_saturation(self):
        assert rule_checks.of_model(13, 3, 4, USUAL_RULES) == PASSED
        assert rule_checks.of_model(12, 3, 4, USUAL_RULES).broken == (Rule.FREEDOM,)
        assert rule_checks.of_model(500, 4, 4, USUAL_RULES).broken == (Rule.SATURATED,)

    @pytest.mark.parametrize(("few", "red"), [(1, True), (9, True), (10, False)])
    def test_the_dummy_of_a_few_in_any_disguise(self, few, red):
        """A dummy, a contrast, level values, a hidden sum, and the smallest of units."""
        counts = np.array([400, 300, few])
        dummy = np.array([[1.0, 0, 0], [1, 1, 0], [1, 0, 1]])
        disguises = [
            dummy,
            dummy @ np.array([[1.0, 1, 0], [0, 1, 1], [0, 0, 1]]),
            dummy * [1.0, 1.0, 1e-12],
            np.array([[1.0, 0], [1, 0], [1, 1]]),
        ]
        for matrix in disguises:
            assert (rule_checks.of_features(matrix, counts, USUAL_RULES) != PASSED) == red

    def test_leverage_is_the_diagonal_of_the_hat_matrix(self):
        rng = np.random.default_rng(1)
        cells, counts = rng.normal(size=(20, 4)), rng.integers(0, 9, 20)
        rows = np.repeat(cells, counts, axis=0)
        hat = rows @ np.linalg.pinv(rows)
        assert rule_checks.largest_leverage(cells, counts) == pytest.approx(np.diag(hat).max())
        assert rule_checks.largest_leverage(cells, np.zeros(20)) == 0


class TestRounding:
    @given(finite, errors)
    def test_a_number_moves_by_less_than_a_twentieth_of_its_error_or_its_digits(self, value, error):
        allowed = max(rounding.step(error) / 2, abs(value) * 10.0**-rounding.MOST_DIGITS * 5)
        assert abs(rounding.to_error(value, error) - value) <= allowed * 1.0001

    @given(finite, errors)
    def test_rounding_twice_is_rounding_once(self, value, error):
        once = rounding.to_error(value, error)
        assert rounding.to_error(once, error) == pytest.approx(once, rel=1e-12)

    @given(st.floats(0, 1))
    def test_no_number_carries_more_digits_than_it_may(self, value):
        """With any error, a caller's own included: a record does not fit into the last digits."""
        for error in (1e-300, 5e-324, 0.0, -1.0, float("nan"), float("inf")):
            digits = f"{rounding.to_error(value, error):.17g}"
            assert float(digits) == float(f"{float(digits):.6g}")

    def test_what_is_not_a_number_stays(self):
        assert np.isnan(rounding.to_error(float("nan"), 1.0))
        assert rounding.to_error(float("inf"), 1.0) == float("inf")

    def test_covariance(self):
        rng = np.random.default_rng(3)
        matrix = np.cov(rng.normal(size=(4, 50)))
        rounded = rounding.covariance(matrix)
        np.testing.assert_allclose(rounded, rounded.T)
        expected = [rounding.to_digits(error, 2) for error in np.sqrt(np.diag(matrix))]
        np.testing.assert_allclose(np.sqrt(np.diag(rounded)), expected)
