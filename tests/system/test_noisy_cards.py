"""Cards with noise, from what they would cost to the replay, over real TLS and with real jobs."""

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gencard.client import all_marginals
from gencard.client.terms import stddevs
from gencard.controller.jobs.descriptions import Descriptions
from gencard.controller.state import results
from gencard.controller.state.ledger import Account, Scope
from gencard.core.card.budget import Neighbouring, Price, SpendState
from gencard.core.errors import BudgetExceededError, CardStateError, StorageError
from gencard.core.statistics.noise import epsilon_of, in_words, together
from gencard.wire.psi import psi_document
from tests.system.consistency import assert_consistent, lines_of
from tests.system.house import House, survey
from tests.system.noisy import NOISE, PAIRS, RELATION, noisy, propose
from tests.system.raw_calls import state_unchanged


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    with noisy(tmp_path_factory.mktemp("noisy")) as started:
        yield started


@pytest.fixture(scope="module")
def ana(house):
    with house.analyst() as analyst:
        yield analyst


def spent(house: House, name: str = "ana") -> Price:
    with house.analyst(name) as analyst:
        return analyst.budget("survey").spent


def truth(clique) -> np.ndarray:
    levels = {
        "sex": ["female", "male"],
        "health": ["good", "fair", "bad", "very bad"],
        "work": ["none", "part", "full"],
    }
    frame = survey()[list(clique)].apply(lambda column: pd.Categorical(column, levels[column.name]))
    return (
        frame.groupby(list(clique), observed=False)
        .size()
        .to_numpy()
        .reshape([len(levels[name]) for name in clique])
    )


WAYS = {
    "laplace": {"epsilon": "0.5", "neighbouring": RELATION},
    "laplace, weighted": {
        "epsilon": 0.5,
        "neighbouring": RELATION,
        "weights": {("health", "sex"): 3, ("work", "sex"): 2},
    },
    "gaussian": {"rho": Decimal("0.02"), "neighbouring": RELATION, "delta": "1e-9"},
    "gaussian, weighted": {"rho": "0.02", "neighbouring": RELATION, "weights": {("sex", "work"): 7}},
}


class TestTheWholeWay:
    @pytest.mark.parametrize("way", WAYS)
    def test_priced_agreed_measured_replayed(self, house, ana, way):
        measured = WAYS[way]
        before = spent(house)
        with state_unchanged(house):
            price = ana.price("survey", PAIRS, **measured)
        expected = Price(
            epsilon=Decimal(str(measured.get("epsilon", 0))), rho=Decimal(measured.get("rho", 0))
        )
        assert price == expected
        card = propose(ana, **measured)
        assert card.changes == ()
        assert card.price == price
        assert spent(house) == before
        data = card.accept().generate(rows=2_000, seed=5, progress=False)
        assert spent(house) == before + price
        self._check_noise(card)
        assert card.replay(data).rows == 2_000
        assert card.generate(rows=2_000, seed=5, progress=False).equals(data)
        assert card.generate(rows=10, seed=6, progress=False).shape == (10, 3)
        assert spent(house) == before + price

    def _check_noise(self, card) -> None:
        """Compare noise with the predicted stddev. A false alarm has less than one chance in 10^9: 26
        draws are not all 0, and none is 40 stddevs off.
        """
        tables, expected = card.psi.measurements, stddevs(card.terms)
        assert [table.stddev for table in tables] == pytest.approx(expected)
        off = [(table.values - truth(table.clique)).ravel() / table.stddev for table in tables]
        assert 0 < np.abs(np.concatenate(off)).max() < 40

    def test_weights_follow_their_marginals_into_the_cards_order(self, ana):
        weights = {("work", "health"): 3, "region": 5}
        card = propose(ana, [*PAIRS, ("region",)], epsilon=1, neighbouring=RELATION, weights=weights)
        assert card.terms.marginals == (("region",), *PAIRS)
        assert card.terms.weights == (5, 1, 1, 3)
        region, sex_health, _, health_work = stddevs(card.terms)
        assert region < health_work < sex_health

    def test_the_page_for_analysts_shows_what_works(self, ana):
        page = (Path(__file__).resolve().parents[2] / "docs" / "analysts.md").read_text()
        (block,) = re.findall(r"```python\n(card = .*?)```", page, re.DOTALL)
        names = {"analyst": ana, "all_marginals": all_marginals}
        exec(block, names)
        assert names["card"].price == Price(epsilon=Decimal("0.5"))
        assert sorted(names["card"].terms.weights) == [1] * 9 + [3]

    def test_the_card_says_what_it_costs_and_how_far_counts_are_off(self, ana):
        others = [("region", "sex"), ("region", "health"), ("region", "work")]  # held by no other card
        lines = dict(propose(ana, others, rho="0.02", neighbouring=RELATION, delta="1e-9").lines())
        assert lines["Measured"] == "gaussian, rho 0.02, delta 0.000000001, replace-one"
        assert lines["Price"] == "rho 0.02"
        assert (
            lines["Error"] == "standard deviation of 12.2 records on each count"
        )  # sqrt(2 * 3 / (2 * 0.02))
        assert lines["Equivalent to"] == "epsilon 1.1633 at delta 1e-9"
        assert Decimal("1.1632") < epsilon_of(Decimal("0.02"), Decimal("1e-9")) <= Decimal("1.1633")


class TestOnce:
    def test_a_card_is_measured_once_whatever_happens(self, house, ana, monkeypatch):
        """Each further release of a card begins at psi; noise is drawn once, with nothing to average."""
        card = propose(ana, epsilon="0.1", neighbouring=RELATION).accept()
        card.generate(rows=10, progress=False)
        first = psi_document(card.psi)
        monkeypatch.setattr(Descriptions, "measure", lambda *_: pytest.fail("measured again"))
        for seed in range(3):
            card.generate(rows=10, seed=seed, progress=False)
        assert psi_document(ana.card(card.name).psi) == first
        assert len(lines_of(house.controller.controller_state, card.name)) == 1

    def test_after_a_restart_psi_is_the_same(self, tmp_path):
        with noisy(tmp_path) as house:
            with house.analyst() as analyst:
                card = propose(analyst, epsilon="0.1", neighbouring=RELATION).accept()
                data = card.generate(rows=50, seed=1, progress=False)
                first = psi_document(card.psi)
            house.stop()
            house.start()
            with house.analyst() as analyst:
                card = analyst.card(card.name)
                assert card.generate(rows=50, seed=1, progress=False).equals(data)
                assert psi_document(card.psi) == first

    def test_a_psi_that_could_not_be_stored_is_paid_for_once_and_never_seen(
        self, house, ana, monkeypatch
    ):
        put, faults, before = results.put_psi, [StorageError()], spent(house)

        def failing(*arguments):
            if faults:
                raise faults.pop()
            return put(*arguments)

        monkeypatch.setattr(results, "put_psi", failing)
        card = propose(ana, epsilon="0.11", neighbouring=RELATION).accept()
        with pytest.raises(StorageError):
            card.generate(rows=10, progress=False)
        with pytest.raises(CardStateError):
            _ = card.psi
        card.generate(rows=10, progress=False)
        assert spent(house) == before + card.price
        states = [line.state for line in lines_of(house.controller.controller_state, card.name)]
        assert states == [SpendState.SETTLED, SpendState.VOIDED]

    def test_another_card_draws_again_unless_its_analyst_holds_the_very_same(self, house, ana):
        psis, before = [], spent(house, "bob")
        with house.analyst("bob") as bob:
            for analyst in (ana, bob, bob):
                card = propose(analyst, epsilon="0.1", neighbouring=RELATION).accept()
                card.generate(rows=10, progress=False)
                psis.append(psi_document(card.psi))
        assert psis[0] != psis[1] == psis[2]
        assert spent(house, "bob") == before + Price(epsilon=Decimal("0.1"))


class TestComposition:
    """One currency for each mechanism, one sum for each account, whoever spends."""

    def test_cards_add_up_to_the_cap_and_no_further(self, tmp_path):
        with noisy(tmp_path) as house, house.analyst() as ana, house.analyst("bob") as bob:
            for analyst, measured in (
                (ana, {"epsilon": "1.4"}),
                (bob, {"epsilon": 2}),
                (ana, {"rho": "0.2"}),
                (bob, {"rho": "0.125"}),
                (ana, {"epsilon": "1.6"}),
                (ana, {}),
            ):
                relation = {"neighbouring": RELATION} if measured else {}
                propose(analyst, **measured, **relation).accept().generate(rows=9, progress=False)
            late = propose(bob, epsilon="0.000000001", neighbouring=RELATION).accept()
            with state_unchanged(house), pytest.raises(BudgetExceededError, match="dataset"):
                late.generate(rows=9, progress=False)
            exact = bob.price("survey", PAIRS).statistics
            assert ana.budget("survey").spent == Price(exact, Decimal(3), Decimal("0.2"))
            assert bob.budget("survey").spent == Price(0, Decimal(2), Decimal("0.125"))
            lines = dict(ana.budget("survey").lines())
            assert lines["epsilon (Laplace)"] == "3 of 5"
            assert lines["rho (Gaussian)"] == "0.2 of 0.5"
            added = together([Decimal(3)], Decimal("0.2"), Decimal("1e-6"))
            assert lines["Total of all noisy cards"] == in_words(added, Decimal("1e-6"))
            controller_state = house.controller.controller_state
            with controller_state.database.reading() as tx:
                account = Account(Scope.DATASET, "datasets/survey")
                assert controller_state.ledger.spent(tx, account) == Price(
                    exact, Decimal(5), Decimal("0.325")
                )
            assert_consistent(controller_state)

    def test_cards_that_are_measured_at_once_share_one_cap(self, tmp_path):
        """Eight cards of epsilon 1 in two hands, and 3 to spend; no two share a draw of noise."""
        names = ("sex", "region", "health", "work")
        cliques = [*combinations(names, 1), *combinations(names, 3)]
        with noisy(tmp_path, cap="{ epsilon = 3 }") as house:
            with house.analyst() as ana, house.analyst("bob") as bob:
                cards = [
                    propose(who, [clique], epsilon=1, neighbouring=RELATION).accept()
                    for who, clique in zip((ana, bob) * 4, cliques, strict=True)
                ]
                with ThreadPoolExecutor(len(cards)) as pool:
                    endings = Counter(pool.map(_measured, cards))
            assert endings == {"measured": 3, "BUDGET_EXCEEDED": 5}
            assert_consistent(house.controller.controller_state)

    def test_noise_of_another_relation_becomes_that_of_the_dataset(self, ana):
        card = propose(ana, epsilon=1, neighbouring="add-remove")
        assert [change.reason for change in card.changes] == ["NEIGHBOURING_NOT_OFFERED"]
        assert card.terms.privacy.neighbouring is Neighbouring.REPLACE_ONE

    def test_too_large_a_budget_becomes_the_largest(self, ana):
        card = propose(ana, epsilon=100, neighbouring=RELATION)
        assert [change.reason for change in card.changes] == ["PRICE_TOO_HIGH"]
        assert card.price == Price(epsilon=Decimal(2))

    def test_budgets_of_two_relations_are_never_added(self, tmp_path):
        """The steward changes the dataset's relation after noise was granted under the other."""
        with noisy(tmp_path) as house:
            with house.analyst() as analyst:
                propose(analyst, rho="0.01", neighbouring=RELATION).accept()
            house.stop()
            house.edit({"noise": NOISE.replace("replace-one", "add-remove")})
            house.start()
            with house.analyst() as analyst:
                changes = propose(analyst, rho="0.01", neighbouring="add-remove").changes
                assert [change.reason for change in changes] == ["NEIGHBOURING_NOT_OFFERED"]
                assert analyst.price("survey", PAIRS, rho="0.01", neighbouring=RELATION).rho == 0

    def test_where_exact_counts_are_not_offered_noise_is(self, tmp_path):
        offered = '["laplace", "gaussian"]'
        with noisy(tmp_path, mechanisms=offered) as house, house.analyst() as analyst:
            card = propose(analyst)
            assert [change.reason for change in card.changes] == ["MECHANISM_NOT_OFFERED"]
            assert card.price == Price(rho=Decimal("0.01"))


def _measured(card) -> str:
    try:
        card.generate(rows=9, progress=False)
    except BudgetExceededError as error:
        return error.reason
    return "measured"
