"""Cards with noise, from what they would cost to the replay, over real TLS and with real jobs."""

import json
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from itertools import combinations
from pathlib import Path

import grpc
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from gencard.client import all_marginals
from gencard.client.measuring import stddevs
from gencard.client.shell.main import app
from gencard.controller.jobs import tasks
from gencard.controller.state.accounts import Account, Scope
from gencard.core.budget import EXACT, Neighbouring, Price, gaussian, laplace
from gencard.core.errors import (
    BudgetExceededError,
    InvalidInputError,
    InvalidNumberError,
    ProposalRefusedError,
)
from gencard.core.negotiation import CardState
from gencard.core.statistics.accounting import epsilon_of, in_words, together
from gencard.v1 import common_pb2 as common
from gencard.v1 import negotiation_pb2
from gencard.wire.psi_document import psi_document
from tests.system.books import assert_in_order, lines_of
from tests.system.edge import call, configure, enrolled, nothing_changes
from tests.system.house import House, build, request_id, survey

NAMES = ("sex", "health", "work")
PAIRS = tuple(combinations(NAMES, 2))
PROPOSE = "/gencard.v1.NegotiationService/ProposeCard"
RELATION = "replace-one"
NOISE = '{ mechanism = "gaussian", neighbouring = "replace-one", rho = "0.01" }'
CAP = "{ statistics = 1_000, epsilon = 5, rho = 0.5 }"


def noisy_house(folder, **policy: str) -> House:
    """A house that offers every mechanism."""
    house = build(folder)
    house.edit({"most_per_card": "{ statistics = 1_000, epsilon = 2, rho = 0.2 }"})
    house.edit(dict.fromkeys(("dataset", "project", "analyst"), CAP))
    offered = {"mechanisms": '["exact", "laplace", "gaussian"]', "noise": NOISE} | policy
    return configure(house, "datasets.policy", **offered)


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    house = noisy_house(tmp_path_factory.mktemp("noisy"))
    enrolled(house, "bob")
    yield house.start()
    house.stop()


@pytest.fixture(scope="module")
def own_house(tmp_path_factory):
    """A house of which the ledger is empty."""
    house = noisy_house(tmp_path_factory.mktemp("own"))
    enrolled(house, "bob")
    yield house.start()
    house.stop()


@pytest.fixture(scope="module")
def ana(house):
    with house.analyst() as analyst:
        yield analyst


def spent(house: House, name: str = "ana") -> Price:
    with house.analyst(name) as analyst:
        return analyst.budget("survey").spent


def propose(analyst, marginals=PAIRS, **measured):
    return analyst.propose("survey", list(marginals), purpose="a test", rows=5_000, **measured)


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
        with nothing_changes(house):
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
        """Of the stddev that was foretold. A false alarm has less than one chance in 10^9: 26 draws are
        not all 0, and none is 40 stddevs off.
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

    def test_the_page_on_budgets_shows_what_works(self, ana):
        page = (Path(__file__).resolve().parents[2] / "docs" / "budgets.md").read_text()
        (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        names = {"analyst": ana, "all_marginals": all_marginals}
        exec(block, names)
        assert names["card"].price == Price(epsilon=Decimal("0.5"))
        assert sorted(names["card"].terms.weights) == [1] * 9 + [3]

    def test_the_card_says_what_it_costs_and_how_far_counts_are_off(self, ana):
        lines = dict(propose(ana, rho="0.02", neighbouring=RELATION, delta="1e-9").lines())
        assert lines["Measured"] == "gaussian, rho 0.02, delta 0.000000001, replace-one"
        assert lines["Price"] == "rho 0.02"
        assert lines["Error"] == "stddev of 12.2 records on each count"  # sqrt(2 * 3 / (2 * 0.02))
        assert lines["Comes to"] == "epsilon 1.1633 at delta 1e-9"
        assert Decimal("1.1632") < epsilon_of(Decimal("0.02"), Decimal("1e-9")) <= Decimal("1.1633")


class TestOnce:
    def test_a_card_is_measured_once_whatever_happens(self, house, ana, monkeypatch):
        """Each further release of a card begins at psi; noise is drawn once, with nothing to average."""
        card = propose(ana, epsilon="0.1", neighbouring=RELATION).accept()
        card.generate(rows=10, progress=False)
        first = psi_document(card.psi)
        monkeypatch.setattr(tasks.Descriptions, "measure", lambda *_: pytest.fail("measured again"))
        for seed in range(3):
            card.generate(rows=10, seed=seed, progress=False)
        assert psi_document(ana.card(card.name).psi) == first
        assert len(lines_of(house.controller.desk, card.name)) == 1

    def test_after_a_restart_psi_is_the_same(self, tmp_path):
        house = noisy_house(tmp_path).start()
        try:
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
        finally:
            house.stop()

    def test_another_card_pays_and_draws_again(self, ana):
        psis = []
        for _ in range(2):
            card = propose(ana, epsilon="0.1", neighbouring=RELATION).accept()
            card.generate(rows=10, progress=False)
            psis.append(psi_document(card.psi))
        assert psis[0] != psis[1]


class TestComposition:
    """One currency for each mechanism, one sum for each account, whoever spends."""

    def test_cards_add_up_to_the_cap_and_no_further(self, own_house):
        house = own_house
        with house.analyst() as ana, house.analyst("bob") as bob:
            for analyst, measured in (
                (ana, {"epsilon": "1.5"}),
                (bob, {"epsilon": 2}),
                (ana, {"rho": "0.2"}),
                (bob, {"rho": "0.125"}),
                (ana, {}),
                (ana, {"epsilon": "1.5"}),
            ):
                relation = {"neighbouring": RELATION} if measured else {}
                propose(analyst, **measured, **relation).accept().generate(rows=9, progress=False)
            late = propose(bob, epsilon="0.000000001", neighbouring=RELATION).accept()
            with nothing_changes(house), pytest.raises(BudgetExceededError, match="dataset"):
                late.generate(rows=9, progress=False)
            exact = ana.price("survey", PAIRS).statistics
            assert ana.budget("survey").spent == Price(exact, Decimal(3), Decimal("0.2"))
            assert bob.budget("survey").spent == Price(0, Decimal(2), Decimal("0.125"))
            lines = dict(ana.budget("survey").lines())
        assert lines["epsilon (Laplace)"] == "3 of 5"
        assert lines["rho (Gaussian)"] == "0.2 of 0.5"
        added = together([Decimal(3)], Decimal("0.2"), Decimal("1e-6"))
        assert lines["All noise together"] == in_words(added, Decimal("1e-6"))
        desk = house.controller.desk
        with desk.database.reading() as tx:
            account = Account(Scope.DATASET, "datasets/survey")
            assert desk.ledger.spent(tx, account) == Price(exact, Decimal(5), Decimal("0.325"))
        assert_in_order(desk)

    def test_cards_that_are_measured_at_once_share_one_cap(self, tmp_path):
        """Eight cards of epsilon 1 in two hands, and 3 to spend."""
        house = noisy_house(tmp_path)
        enrolled(house, "bob")
        house.edit({"dataset": "{ epsilon = 3 }"})
        house.start()
        try:
            with house.analyst() as ana, house.analyst("bob") as bob:
                cards = [
                    propose(who, [("sex",)], epsilon=1, neighbouring=RELATION).accept()
                    for who in (ana, bob) * 4
                ]
                with ThreadPoolExecutor(len(cards)) as pool:
                    endings = Counter(pool.map(_measured, cards))
            assert endings == {"measured": 3, "BUDGET_EXCEEDED": 5}
            assert_in_order(house.controller.desk)
        finally:
            house.stop()

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
        house = noisy_house(tmp_path).start()
        try:
            with house.analyst() as analyst:
                propose(analyst, rho="0.01", neighbouring=RELATION).accept()
            house.stop()
            house.edit({"noise": NOISE.replace("replace-one", "add-remove")})
            house.start()
            with house.analyst() as analyst:
                changes = propose(analyst, rho="0.01", neighbouring="add-remove").changes
                assert [change.reason for change in changes] == ["NEIGHBOURING_NOT_OFFERED"]
                assert analyst.price("survey", PAIRS, rho="0.01", neighbouring=RELATION).rho == 0
        finally:
            house.stop()

    def test_where_exact_counts_are_not_offered_noise_is(self, tmp_path):
        house = noisy_house(tmp_path, mechanisms='["laplace", "gaussian"]').start()
        try:
            with house.analyst() as analyst:
                card = propose(analyst)
                assert [change.reason for change in card.changes] == ["MECHANISM_NOT_OFFERED"]
                assert card.price == Price(rho=Decimal("0.01"))
        finally:
            house.stop()


def _measured(card) -> str:
    try:
        card.generate(rows=9, progress=False)
    except BudgetExceededError as error:
        return error.reason
    return "measured"


BAD = {
    "epsilon NaN": ({"epsilon": float("nan"), "neighbouring": RELATION}, InvalidNumberError, "epsilon"),
    "epsilon 0": ({"epsilon": 0, "neighbouring": RELATION}, InvalidNumberError, "epsilon"),
    "epsilon below 0": ({"epsilon": -1, "neighbouring": RELATION}, InvalidNumberError, "epsilon"),
    "epsilon infinite": ({"epsilon": "inf", "neighbouring": RELATION}, InvalidNumberError, "epsilon"),
    "epsilon in words": ({"epsilon": "much", "neighbouring": RELATION}, InvalidNumberError, "epsilon"),
    "rho too fine": ({"rho": "1e-10", "neighbouring": RELATION}, InvalidNumberError, "rho"),
    "delta 1": ({"rho": 1, "delta": 1, "neighbouring": RELATION}, InvalidNumberError, "delta"),
    "no relation": ({"epsilon": 1}, InvalidInputError, "add-remove or replace-one"),
    "an unknown relation": ({"rho": 1, "neighbouring": "next"}, InvalidInputError, "add-remove or"),
    "a relation without noise": ({"neighbouring": RELATION}, InvalidInputError, "belongs to noise"),
    "a delta without rho": (
        {"epsilon": 1, "delta": "1e-6", "neighbouring": RELATION},
        InvalidInputError,
        "belongs to gaussian",
    ),
    "epsilon and rho": ({"epsilon": 1, "rho": 1}, InvalidInputError, "exclude each other"),
    "privacy and epsilon": ({"privacy": EXACT, "epsilon": 1}, InvalidInputError, "takes the place"),
    "a misspelt word": ({"epsilom": 1}, InvalidInputError, "epsilom"),
    "weights without noise": ({"weights": {("sex", "work"): 2}}, InvalidInputError, "belong to noise"),
    "a weight of nothing": (
        {"epsilon": 1, "neighbouring": RELATION, "weights": {("sex", "age"): 2}},
        InvalidInputError,
        "not asked for",
    ),
    "a weight of 0": (
        {"epsilon": 1, "neighbouring": RELATION, "weights": {("sex", "work"): 0}},
        InvalidNumberError,
        "from 1 to",
    ),
    "a weight with a fraction": (
        {"epsilon": 1, "neighbouring": RELATION, "weights": {("sex", "work"): 1.5}},
        InvalidNumberError,
        "whole numbers",
    ),
}


def raw(**changes: object) -> common.Terms:
    """Terms with noise, as no client of ours would send them."""
    privacy = {"mechanism": 2, "neighbouring": 2, "epsilon": "1"} | changes.pop("privacy", {})
    cliques = [common.Clique(attributes=clique) for clique in PAIRS]
    usual = {"dataset": "datasets/survey", "purpose": "to see", "generator": "ipf", "rows": 9}
    return common.Terms(**usual | changes, marginals=cliques, privacy=common.Privacy(**privacy))


RAW = {
    "epsilon NaN": (raw(privacy={"epsilon": "NaN"}), "INVALID_NUMBER"),
    "epsilon 0": (raw(privacy={"epsilon": "0"}), "INVALID_NUMBER"),
    "rho NaN": (raw(privacy={"mechanism": 3, "epsilon": "", "rho": "NaN"}), "INVALID_NUMBER"),
    "rho for Laplace": (raw(privacy={"rho": "1"}), "INVALID_INPUT"),
    "delta for Laplace": (raw(privacy={"delta": "0.1"}), "INVALID_INPUT"),
    "delta 2": (
        raw(privacy={"mechanism": 3, "epsilon": "", "rho": "1", "delta": "2"}),
        "INVALID_NUMBER",
    ),
    "no relation": (raw(privacy={"neighbouring": 0}), "INVALID_INPUT"),
    "an unknown relation": (raw(privacy={"neighbouring": 77}), "INVALID_INPUT"),
    "an unknown mechanism": (raw(privacy={"mechanism": 77}), "INVALID_INPUT"),
    "too few weights": (raw(weights=[1, 2]), "INVALID_INPUT"),
    "a weight of 0": (raw(weights=[1, 0, 2]), "INVALID_NUMBER"),
    "a weight too large": (raw(weights=[1, 2**32 - 1, 2]), "INVALID_NUMBER"),
    "checks of noisy counts": (raw(transform=common.Transform(threshold=3)), "INVALID_INPUT"),
    "rounding out of range": (raw(transform=common.Transform(rounding=2**32 - 1)), "INVALID_NUMBER"),
}


class TestErrors:
    @pytest.mark.parametrize("name", RAW)
    def test_the_service_refuses_what_the_client_would_not_send(self, house, name):
        terms, reason = RAW[name]
        request = negotiation_pb2.ProposeCardRequest(terms=terms, request_id=request_id())
        with nothing_changes(house):
            ending = call(house.channel(), PROPOSE, request)
        assert (ending.code, ending.reason) == (grpc.StatusCode.INVALID_ARGUMENT, reason)

    @pytest.mark.parametrize("name", BAD)
    def test_bad_budgets_have_their_typed_errors_and_spend_nothing(self, house, ana, name):
        measured, kind, says = BAD[name]
        with nothing_changes(house), pytest.raises(kind, match=says) as error:
            propose(ana, **measured)
        assert type(error.value) is kind

    def test_what_no_policy_offers_is_refused(self, tmp_path):
        house = build(tmp_path)
        configure(house, "datasets.policy", mechanisms='["exact"]')
        house.start()
        try:
            with house.analyst() as analyst:
                card = propose(analyst, epsilon=1, neighbouring=RELATION)
                assert card.terms.privacy == EXACT
                assert [change.reason for change in card.changes] == ["MECHANISM_NOT_OFFERED"]
        finally:
            house.stop()

    def test_a_budget_that_no_card_may_have_is_refused(self, tmp_path):
        house = noisy_house(tmp_path)
        house.edit({"most_per_card": "{ statistics = 1_000, rho = 0.2 }"})
        house.start()
        try:
            with house.analyst() as analyst, pytest.raises(ProposalRefusedError, match="PRICE_TOO_HIGH"):
                propose(analyst, epsilon=1, neighbouring=RELATION)
        finally:
            house.stop()


class TestCounterOffers:
    def test_words_change_what_they_say_and_leave_the_rest(self, ana):
        card = propose(ana, epsilon=1, neighbouring=RELATION, weights={("sex", "work"): 4})
        card.counter(epsilon="0.25", neighbouring=RELATION)
        assert card.terms.privacy == laplace("0.25", neighbouring=RELATION)
        assert card.terms.weights == (1, 4, 1)
        card.counter(marginals=[("sex",)])
        assert (card.terms.weights, card.price) == ((), Price(epsilon=Decimal("0.25")))
        card.counter(rho="0.01", neighbouring=RELATION)
        assert card.terms.privacy == gaussian("0.01", neighbouring=RELATION)
        card.counter(privacy=EXACT)
        assert card.terms.privacy == EXACT
        assert card.state is CardState.OFFERED


class TestShell:
    @pytest.fixture(autouse=True)
    def at_the_terminal(self, house, monkeypatch):
        monkeypatch.setenv("GENCARD_CONNECTION", str(house.person("ana")))
        (house.person("ana") / "connection.toml").write_text(f'address = "{house.address}"\n')

    def run(self, *words: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, list(words))
        assert result.exit_code == code, result.output
        return result.output

    def test_propose_price_and_plan_take_noise(self):
        noise = ("--epsilon", "0.5", "--neighbouring", RELATION, "--json")
        marginals = ("--marginals-of-order", "2", "--attributes", "sex,health,work")
        weight = ("--weight", "work,sex=3", "--purpose", "a test")
        card = json.loads(self.run("propose", "survey", *marginals, *noise, *weight))
        assert card["terms"]["privacy"] == {
            "mechanism": "laplace",
            "epsilon": "0.5",
            "neighbouring": RELATION,
        }
        assert card["terms"]["weights"] == ["1", "3", "1"]
        for words in (("price", "survey", *marginals), ("plan", "survey", "health ~ sex")):
            found = json.loads(self.run(*words, *noise))
            assert found["price"] == {"statistics": "0", "epsilon": "0.5", "rho": "0"}
        countered = json.loads(
            self.run("counter", card["name"], "--rho", "0.1", "--neighbouring", RELATION, "--json")
        )
        assert countered["price"] == {"statistics": "0", "epsilon": "0", "rho": "0.1"}

    def test_a_noisy_release_is_verified_and_replayed_offline(self, ana, tmp_path):
        card = propose(ana, rho="0.001", neighbouring=RELATION, weights={("sex", "work"): 2}).accept()
        release = tmp_path / "release"
        self.run("generate", card.name, "--rows", "300", "--seed", "4", "-o", str(release))
        assert "Every byte agrees" in self.run("replay", str(release))
        self.run("verify", str(release))
        psi = json.loads((release / "psi.json").read_text())
        assert len({entry["stddev"] for entry in psi["measurements"]}) == 2
        shown = (release / "psi.json").read_text()
        (release / "psi.json").write_text(shown.replace(psi["measurements"][0]["stddev"], "0.5"))
        assert "VERIFICATION" in self.run("replay", str(release), code=1)

    def test_the_budget_shows_each_currency(self, ana):
        propose(ana, [("region",)], epsilon="0.001", neighbouring=RELATION).accept().generate(
            rows=9, progress=False
        )
        shown = self.run("budget", "survey")
        assert "epsilon (Laplace)" in shown
        assert "of 5" in shown
        told = json.loads(self.run("budget", "survey", "--json"))
        assert told["cap"] == {"statistics": "1000", "epsilon": "5", "rho": "0.5"}
        assert Decimal(told["together"]["epsilon"]) > 0
        assert told["together"]["delta"] == "0.000001"

    def test_the_catalogue_says_what_is_offered(self):
        policy = json.loads(self.run("datasets", "survey", "--json"))["policy"]
        assert policy["mechanisms"] == ["exact", "laplace", "gaussian"]
        assert policy["noise"] == {"mechanism": "gaussian", "neighbouring": RELATION, "rho": "0.01"}
        assert policy["transform"] == {}

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (("--epsilon", "NaN", "--neighbouring", RELATION), "INVALID_NUMBER"),
            (("--epsilon", "0", "--neighbouring", RELATION), "INVALID_NUMBER"),
            (("--rho", "1", "--neighbouring", "neighbour"), "add-remove or replace-one"),
            (("--rho", "1"), "add-remove or replace-one"),
            (("--rho", "1", "--neighbouring", RELATION, "--weight", "sex"), "sex,health=3"),
            (("--rho", "1", "--neighbouring", RELATION, "--weight", "sex=-1"), "sex,health=3"),
        ],
    )
    def test_mistakes_end_in_one_line_and_what_to_do(self, words, says):
        asked = ("propose", "survey", "--marginal", "sex", "--purpose", "a test")
        assert says in self.run(*asked, *words, code=1)
