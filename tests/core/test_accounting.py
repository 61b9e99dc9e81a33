"""Sums of budgets: every path against dp-accounting, which adds up whole loss distributions.

A reference that rounds losses down gives an epsilon that is at most the true one: whatever a card
claims must not be below it.
"""

from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import combinations
from math import log, log1p

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp
from dp_accounting.pld.privacy_loss_distribution import (
    PrivacyLossDistribution,
    from_discrete_gaussian_mechanism,
    from_discrete_laplace_mechanism,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.core.card.budget import Neighbouring
from gencard.core.card.privacy import Mechanism, Privacy, gaussian, laplace
from gencard.core.statistics.linear import Function, LinearStatistic
from gencard.core.statistics.noise import epsilon_of, rho_of, rho_of_pure, scales, sum_scales, together

WEIGHTS = ((1,), (1, 1, 1), (5, 1, 2))
STEP = 1e-4
"""Step of the reference's losses: for each count that moves the error is at most half a step."""
amounts = st.decimals("0.001", 3, places=3)
deltas = st.sampled_from([Decimal("1e-9"), Decimal("1e-6"), Decimal("0.001")])


@cache
def losses(
    privacy: Privacy, weights: tuple[int, ...], *, upper: bool = False
) -> PrivacyLossDistribution:
    """Losses of a whole card: a record moves one count of each marginal, or two if it is replaced."""
    moved = 2 if privacy.neighbouring is Neighbouring.REPLACE_ONE else 1
    found = [
        from_discrete_laplace_mechanism(
            1 / scale, pessimistic_estimate=upper, value_discretization_interval=STEP
        )
        if privacy.mechanism is Mechanism.LAPLACE
        else from_discrete_gaussian_mechanism(
            scale, pessimistic_estimate=upper, value_discretization_interval=STEP
        )
        for scale in scales(privacy, weights)
        for _ in range(moved)
    ]
    return composed(found)


def composed(found: list[PrivacyLossDistribution]) -> PrivacyLossDistribution:
    whole, *rest = found
    for part in rest:
        whole = whole.compose(part)
    return whole


class TestLaplace:
    @pytest.mark.parametrize("neighbouring", Neighbouring)
    @pytest.mark.parametrize("weights", WEIGHTS)
    @pytest.mark.parametrize("epsilon", ["0.01", "0.5", "3"])
    def test_a_card_spends_what_it_says_and_no_less(self, neighbouring, weights, epsilon):
        privacy = laplace(epsilon, neighbouring=neighbouring)
        lower = losses(privacy, weights).get_epsilon_for_delta(1e-15)
        upper = losses(privacy, weights, upper=True).get_epsilon_for_delta(1e-12)
        assert lower <= float(epsilon) + 1e-9
        assert upper >= 0.999 * float(epsilon)

    def test_half_the_sensitivity_would_be_found(self):
        """One count where two move: the test above would see a claim of half the epsilon."""
        privacy = laplace(1, neighbouring="replace-one")
        wrong = laplace("0.5", neighbouring="add-remove")
        assert scales(privacy, [1]) == scales(wrong, [1])
        assert losses(privacy, (1,)).get_epsilon_for_delta(1e-15) > 0.9
        assert losses(wrong, (1,), upper=True).get_epsilon_for_delta(1e-15) < 0.51


class TestGaussian:
    @pytest.mark.parametrize("neighbouring", Neighbouring)
    @pytest.mark.parametrize("weights", WEIGHTS)
    @pytest.mark.parametrize("rho", ["0.005", "0.1", "2"])
    @pytest.mark.parametrize("delta", ["1e-9", "1e-5"])
    def test_a_card_spends_no_more_than_it_says(self, neighbouring, weights, rho, delta):
        privacy = gaussian(rho, neighbouring=neighbouring)
        true = losses(privacy, weights).get_epsilon_for_delta(float(delta))
        claimed = float(epsilon_of(Decimal(rho), Decimal(delta)))
        assert true <= claimed
        assert claimed <= 1.25 * true

    @pytest.mark.parametrize("rho", ["0.001", "0.01", "0.1", "1", "5"])
    @pytest.mark.parametrize("delta", ["1e-9", "1e-6", "1e-3"])
    def test_the_conversion_is_that_of_an_rdp_accountant(self, rho, delta):
        orders = [1 + step / 20 for step in range(1, 20_000)]
        accountant = rdp.RdpAccountant(orders=orders)
        accountant.compose(dp_accounting.GaussianDpEvent((2 * float(rho)) ** -0.5))
        theirs = accountant.get_epsilon(float(delta))
        ours = float(epsilon_of(Decimal(rho), Decimal(delta)))
        assert theirs * (1 - 1e-4) <= ours <= theirs + 1e-9


STATISTIC = LinearStatistic(
    ("a",), (Function("1", (1, 1, 1)), Function("x", (0, 2, 3)), Function("y", (-1, 0, 4)))
)


class TestLinearStatistics:
    """Each pair of cells that a record can leave and enter, or each one cell, sum by sum."""

    @pytest.mark.parametrize("neighbouring", Neighbouring)
    @pytest.mark.parametrize("privacy_of", [laplace, gaussian])
    def test_sums_spend_what_they_say(self, neighbouring, privacy_of):
        privacy = privacy_of("0.5", neighbouring=neighbouring)
        pure = privacy.mechanism is Mechanism.LAPLACE
        found = sum_scales(STATISTIC, privacy, Fraction(1, 2))
        delta = 1e-12 if pure else 1e-5
        claimed = 0.5 if pure else float(epsilon_of(Decimal("0.5"), Decimal("1e-5")))
        true = max(self._epsilon(moved, found, delta, pure=pure) for moved in self._moved(neighbouring))
        assert 0.75 * claimed <= true <= claimed + 1e-9

    def _moved(self, neighbouring):
        cells = STATISTIC.numerators.T
        if neighbouring is Neighbouring.ADD_REMOVE:
            return cells
        return [one - other for one, other in combinations(cells, 2)]

    def _epsilon(self, moved, found, delta, *, pure):
        from_one = from_discrete_laplace_mechanism if pure else from_discrete_gaussian_mechanism
        parts = [
            from_one(
                1 / scale if pure else scale,
                sensitivity=int(abs(units)),
                pessimistic_estimate=False,
                value_discretization_interval=STEP,
            )
            for units, scale in zip(moved, found, strict=True)
            if units
        ]
        return composed(parts).get_epsilon_for_delta(delta)


class TestTogether:
    @pytest.mark.parametrize(
        ("epsilons", "rho"), [((1,), "0.1"), (("0.1",) * 20, "0.001"), ((2, "0.5"), "0.5")]
    )
    @pytest.mark.parametrize("delta", ["1e-9", "1e-5"])
    def test_cards_of_both_kinds_spend_no_more_than_is_said(self, epsilons, rho, delta):
        cards = [laplace(epsilon, neighbouring="replace-one") for epsilon in epsilons]
        cards.append(gaussian(rho, neighbouring="replace-one"))
        true = composed([losses(card, (1, 1)) for card in cards]).get_epsilon_for_delta(float(delta))
        amounts = [Decimal(epsilon) for epsilon in epsilons]
        assert true <= float(together(amounts, Decimal(rho), Decimal(delta)))

    @given(st.lists(amounts, max_size=5), amounts, deltas)
    def test_neither_bound_is_missed(self, epsilons, rho, delta):
        found = together(epsilons, rho, delta)
        assert found <= sum(epsilons, epsilon_of(rho, delta))
        assert found <= epsilon_of(sum(map(rho_of_pure, epsilons), rho), delta)
        assert found >= epsilon_of(rho, delta)

    def test_pure_epsilons_alone_need_no_delta(self):
        assert together([Decimal("0.25"), Decimal("0.5")], Decimal(0), Decimal("1e-12")) == Decimal(
            "0.75"
        )

    def test_many_small_epsilons_add_up_as_zcdp(self):
        found = together([Decimal("0.01")] * 10_000, Decimal(0), Decimal("1e-6"))
        assert found < 7


class TestConversion:
    @given(amounts, deltas)
    @settings(max_examples=50)
    def test_it_is_the_least_of_the_bounds_rounded_up(self, rho, delta):
        over = np.exp(np.linspace(-8, 12, 40_001))
        rest = np.log1p(1 / over) + (log(delta) + np.log1p(over)) / over
        least = float(np.min(float(rho) * (1 + over) - rest))
        assert least * (1 - 1e-6) <= float(epsilon_of(rho, delta)) <= max(least, 0.0) + 2e-9

    @given(amounts, amounts, deltas, deltas)
    def test_more_rho_or_less_delta_is_more_epsilon(self, rho, more, delta, other):
        low, high = sorted([delta, other])
        assert epsilon_of(rho, high) <= epsilon_of(rho + more, low)

    @given(amounts, deltas)
    @settings(max_examples=50)
    def test_rho_of_is_the_other_way_and_never_says_too_much(self, epsilon, delta):
        rho = rho_of(epsilon, delta)
        assert epsilon_of(rho, delta) <= epsilon
        assert epsilon_of(rho + Decimal("2e-9"), delta) >= epsilon - Decimal("1e-6")

    def test_pure_epsilon_is_half_its_square(self):
        assert rho_of_pure(Decimal("0.3")) == Decimal("0.045")
        assert epsilon_of(Decimal(0), Decimal("1e-6")) == 0

    def test_a_bound_by_hand(self):
        """rho 1/2, delta 1e-6 at alpha 6: what any alpha gives holds, and the least is below it."""
        bound = 0.5 * 6 + log1p(-1 / 6) - (log(1e-6) + log(6)) / 5
        assert float(epsilon_of(Decimal("0.5"), Decimal("1e-6"))) < bound < 5.3
