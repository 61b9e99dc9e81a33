from dataclasses import fields
from decimal import Decimal
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.card import privacy
from gencard.core.card.budget import Neighbouring, Price, decimal_of, delta_of
from gencard.core.card.privacy import (
    CURRENCIES,
    EXACT,
    NOISES,
    Gaussian,
    Laplace,
    Mechanism,
    privacy_with,
    usual_noise,
)
from gencard.core.errors import InvalidInputError, InvalidNumberError

amounts = st.decimals(0, 1000, places=9)
prices = st.builds(Price, st.integers(0, 10**9), amounts, amounts)


@pytest.mark.parametrize(
    "text",
    [
        "nan",
        "NaN",
        "inf",
        "-inf",
        "-1",
        "0",
        "0.0000000001",
        "1e7",
        "",
        "one",
        "1,5",
        "1" * 33,
        "1.0000000001",
    ],
)
def test_a_budget_that_is_no_number_in_range_is_refused(text):
    with pytest.raises(InvalidNumberError, match="epsilon"):
        decimal_of(text, "epsilon")


@pytest.mark.parametrize("text", ["1", "0.5", "1e-9", "1000000", "0.000000001"])
def test_a_budget_in_range_is_exact(text):
    assert decimal_of(text, "epsilon") == Decimal(text)


class TestPrivacy:
    def test_exact_takes_nothing(self):
        assert EXACT.mechanism is Mechanism.EXACT

    @pytest.mark.parametrize(
        ("mechanism", "given"),
        [
            ("exact", {"epsilon": "1"}),
            ("exact", {"rho": "1"}),
            ("exact", {"delta": "0.1"}),
            ("exact", {"neighbouring": "add-remove"}),
            ("laplace", {"epsilon": "1"}),
            ("laplace", {"neighbouring": "add-remove"}),
            ("laplace", {"epsilon": "1", "neighbouring": "add-remove", "delta": "0.1"}),
            ("gaussian", {"epsilon": "1", "neighbouring": "replace-one"}),
            ("generator", {"neighbouring": "replace-one"}),
            ("generator", {"epsilon": "1", "rho": "1", "neighbouring": "replace-one"}),
        ],
    )
    def test_parameters_belong_to_their_mechanism(self, mechanism, given):
        with pytest.raises(InvalidInputError):
            privacy_with(Mechanism(mechanism), given)

    @pytest.mark.parametrize("epsilon", ["NaN", "Infinity", "0", "-1"])
    def test_zero_and_not_a_number_are_refused(self, epsilon):
        with pytest.raises(InvalidNumberError):
            Laplace(Neighbouring.ADD_REMOVE, Decimal(epsilon))

    def test_noise_names_its_relation(self):
        assert Gaussian(Neighbouring.REPLACE_ONE, Decimal("0.1")).rho == Decimal("0.1")


class TestCurrencies:
    def test_they_are_the_amounts_of_a_price_that_noise_spends(self):
        assert ["statistics", *CURRENCIES] == [field.name for field in fields(Price)]
        assert {noise.currency for noise in NOISES} == CURRENCIES.keys()

    def test_a_budget_means_the_noise_that_the_policy_offers(self, monkeypatch):
        """With a second noise that spends rho: named by a policy without the usual one."""
        second = SimpleNamespace(mechanism="second", currency="rho")
        monkeypatch.setattr(privacy, "NOISES", (*NOISES, second))
        assert usual_noise("rho", ["exact", "second"]) == "second"
        assert usual_noise("rho", ["second", Mechanism.GAUSSIAN]) is Mechanism.GAUSSIAN
        assert usual_noise("rho", ["exact"]) is usual_noise("rho") is Mechanism.GAUSSIAN
        assert usual_noise("epsilon", ["second"]) is Mechanism.LAPLACE


class TestPrice:
    @pytest.mark.parametrize(
        "fields",
        [
            {"statistics": -1},
            {"epsilon": Decimal(-1)},
            {"rho": Decimal("NaN")},
            {"rho": Decimal("1e-10")},
        ],
    )
    def test_a_price_is_zero_or_more(self, fields):
        with pytest.raises(InvalidNumberError):
            Price(**fields)

    @given(prices, prices)
    def test_sums_are_exact_and_commute(self, one, other):
        assert one + other == other + one
        assert one + Price() == one
        assert (one + other).statistics - other.statistics == one.statistics
        assert (one + other).epsilon - other.epsilon == one.epsilon

    @given(prices, prices)
    def test_a_price_fits_a_cap_only_in_every_currency(self, price, cap):
        assert price.fits(price)
        assert price.fits(price + cap)
        within = (price.statistics <= cap.statistics, price.epsilon <= cap.epsilon, price.rho <= cap.rho)
        assert price.fits(cap) == all(within)


@pytest.mark.parametrize("text", ["", "x", "NaN", "0", "1", "-0.1", "1e-19", "0.5" + 37 * "0" + "x"])
def test_a_delta_that_is_no_number_in_range_is_refused(text):
    with pytest.raises(InvalidNumberError, match="delta"):
        delta_of(text)
