"""Cards with moments, from their price to replay and audit, over real TLS and with real jobs."""

import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from gencard.client import Analyst, group_means, mean, moment, variance
from gencard.client.shell.main import app
from gencard.client.terms import sum_stddevs
from gencard.controller.shell.main import app as stewards_app
from gencard.core.audit.report import Verdict
from gencard.core.card.budget import Price
from gencard.core.card.card import CardState
from gencard.core.card.terms import AuditTerms
from gencard.core.errors import InvalidCodingError, ProposalRefusedError
from gencard.core.statistics.linear import statistics_of
from tests.system.house import House, build, running, survey
from tests.system.raw_calls import configure, known_seeds, state_unchanged

KINDS = '["mean", "variance", "moment", "covariance", "group-means"]'
LEAKY = """
[[black_boxes]]
name = "smuggler"
kind = "adds_marginal"
generator = "maximum-entropy"
clique = ["sex", "age"]
description = "Says it releases moments, and smuggles in a marginal."
"""
PHI = (("work",), variance("age"), group_means("age", by="sex"))
MIDDLES = (23, 37.5, 55, 80)
"""Midpoints of the schema's intervals of age."""


def records() -> pd.DataFrame:
    """The survey with ages as the schema sees them."""
    frame = survey()
    bins = pd.cut(frame["age"], [16, 30, 45, 65, 95.1], right=False, labels=MIDDLES)
    return frame.assign(age=bins.astype(float))


def house_with_moments(folder) -> House:
    house = build(folder)
    with house.settings_file.open("a") as settings:
        settings.write(LEAKY)
    house.edit({"black_boxes": '["smuggler"]'})
    return configure(
        house,
        "datasets.policy",
        moments=f"{{ kinds = {KINDS}, highest = 3 }}",
        mechanisms='["exact", "laplace", "gaussian"]',
        noise='{ mechanism = "laplace", neighbouring = "replace-one", epsilon = "0.1" }',
    )


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    house = house_with_moments(tmp_path_factory.mktemp("moments"))
    caps = "{ statistics = 1_000_000, epsilon = 50, rho = 50 }"
    house.edit(dict.fromkeys(("dataset", "project", "analyst", "most_per_card"), caps))
    house.start()
    (house.person("ana") / "connection.toml").write_text(f'address = "{house.address}"\n')
    yield house
    house.stop()


@pytest.fixture(scope="module")
def ana(house):
    with house.analyst() as analyst:
        yield analyst


@pytest.fixture(scope="module")
def exact(ana):
    return propose(ana).accept()


def propose(analyst: Analyst, phi=PHI, **more):
    asked = {"generator": "maximum-entropy", "rows": 5_000} | more
    return analyst.propose("survey", list(phi), purpose="a test", **asked)


class TestExact:
    def test_a_price_is_that_of_the_sums(self, house, ana):
        with state_unchanged(house):
            price = ana.price("survey", list(PHI), generator="maximum-entropy")
        assert price == Price(statistics=3 + 3 + 4)  # work; age and its square; both sexes

    def test_the_card_says_what_is_asked(self, exact):
        lines = dict(exact.lines())
        assert lines["Marginals"] == "work"
        assert lines["Moments"] == "variance of age; means of age by sex"
        assert [str(moment) for moment in exact.terms.moments] == lines["Moments"].split("; ")

    def test_psi_holds_the_sums_of_the_records(self, exact):
        exact.generate(rows=10, seed=1, progress=False)
        spread, groups = exact.psi.linear
        frame = records()
        assert exact.psi.exact
        assert spread.values[0] == len(frame)
        np.testing.assert_allclose(
            spread.means, [1, frame["age"].mean(), (frame["age"] ** 2).mean()], rtol=1e-12
        )
        by_sex = frame.groupby("sex")["age"]
        np.testing.assert_allclose(
            groups.means[2::2] / groups.means[1::2], by_sex.mean().loc[["female", "male"]], rtol=1e-12
        )

    def test_rows_follow_the_moments_and_are_replayed(self, exact):
        release = exact.release(rows=5_000, seed=5, progress=False)
        assert exact.replay(release).rows == 5_000
        assert release.dataset.domain.attributes == ("sex", "work", "age")
        ages, female = (
            np.array(MIDDLES)[release.dataset.column("age")],
            release.dataset.column("sex") == 0,
        )
        frame = records()
        error = frame["age"].std() / np.sqrt(5_000)
        assert abs(ages.mean() - frame["age"].mean()) < 5 * error
        for sex, mine in (("female", female), ("male", ~female)):
            theirs = frame.loc[frame["sex"] == sex, "age"]
            assert abs(ages[mine].mean() - theirs.mean()) < 8 * error

    def test_a_release_is_verified_and_replayed_offline(self, house, exact, tmp_path):
        release = tmp_path / "release"
        run(house, "generate", exact.name, "--rows", "300", "--seed", "4", "-o", str(release))
        assert "Every byte agrees" in run(house, "replay", str(release))
        run(house, "verify", str(release))
        text = (release / "psi.json").read_text()
        sums = json.loads(text)["linear"][0]["functions"]
        (release / "psi.json").write_text(text.replace(sums[1]["sum"], str(int(sums[1]["sum"]) + 1)))
        assert "VERIFICATION" in run(house, "replay", str(release), code=1)


class TestNoise:
    @pytest.mark.parametrize(
        "measured",
        [
            {"epsilon": "0.5", "neighbouring": "replace-one"},
            {"rho": "0.05", "neighbouring": "replace-one", "weights": {group_means("age", by="sex"): 4}},
        ],
        ids=["laplace", "gaussian, weighted"],
    )
    def test_priced_agreed_measured_replayed(self, ana, measured):
        card = propose(ana, **measured).accept()
        assert card.changes == ()
        assert card.price == Price(
            epsilon=Decimal(measured.get("epsilon", 0)), rho=Decimal(measured.get("rho", 0))
        )
        data = card.generate(rows=1_000, seed=5, progress=False)
        assert card.replay(data).rows == 1_000
        assert not card.psi.exact
        stddevs = np.concatenate([linear.stddevs for linear in card.psi.linear])
        np.testing.assert_allclose(
            stddevs,
            sum_stddevs(card.terms, statistics_of(card.terms.moments, card.entry.coding)),
            rtol=1e-9,
        )
        exact = np.concatenate([_true_sums(linear.statistic) for linear in card.psi.linear])
        off = np.concatenate([linear.values for linear in card.psi.linear]) - exact
        assert 0 < np.abs(off / stddevs).max() < 40

    def test_moments_alone_make_a_card(self, ana):
        card = propose(ana, [mean("age")], epsilon="1", neighbouring="replace-one").accept()
        data = card.generate(rows=200, seed=1, progress=False)
        assert list(data.columns) == ["age"]
        assert card.replay(data).rows == 200


class TestNegotiation:
    def test_what_is_not_offered_is_left_out_with_its_reason(self, ana):
        card = propose(ana, [("sex",), moment("age", 4), moment("age", 3), mean("age")])
        assert [str(kept) for kept in card.terms.moments] == ["mean of age", "moment 3 of age"]
        (change,) = card.changes
        assert (change.old, change.new, change.reason) == ("moment 4 of age", "", "ORDER_TOO_HIGH")

    def test_generators_of_marginals_do_not_take_them(self, ana):
        card = propose(ana, [("sex",), mean("age")], generator="ipf")
        assert card.terms.moments == ()
        assert [change.reason for change in card.changes] == ["GENERATOR_NOT_ALLOWED"]

    def test_labels_that_are_no_numbers_are_refused_before_anything_is_stored(self, house, ana):
        with state_unchanged(house), pytest.raises(InvalidCodingError, match="health"):
            propose(ana, [mean("health")])

    def test_a_counter_may_name_others(self, ana):
        card = propose(ana)
        card = card.counter(marginals=[("sex",), mean("age")])
        assert [str(kept) for kept in card.terms.moments] == ["mean of age"]
        assert card.state is CardState.OFFERED

    def test_a_house_that_offers_none_offers_none(self, tmp_path):
        with running(tmp_path) as plain, plain.analyst() as analyst:
            card = propose(analyst, [("sex",), mean("age")])
            assert [change.reason for change in card.changes] == ["MOMENT_NOT_OFFERED"]
            with pytest.raises(ProposalRefusedError, match="MOMENT_NOT_OFFERED"):
                propose(analyst, [mean("age")])

    def test_the_catalogue_says_what_is_on_offer(self, ana):
        assert "group-means; up to order 3" in dict(ana.dataset("survey").policy.lines())["Moments"]


class TestShell:
    def test_moments_may_be_named(self, house):
        asked = ("price", "survey", "--marginal", "work", "--generator", "maximum-entropy", "--json")
        moments = ("mean=age", "moment3=age", "group-means=sex,age", "variance=age")
        options = [word for moment in moments for word in ("--moment", moment)]
        card = json.loads(run(house, *asked, *options))
        assert card["terms"]["marginals"] == [["work"]]
        assert card["terms"]["moments"] == [
            {"attributes": ["age"], "kind": "mean"},
            {"attributes": ["age"], "kind": "variance"},
            {"attributes": ["age"], "kind": "moment", "order": "3"},
            {"attributes": ["sex", "age"], "kind": "group-means"},
        ]

    def test_the_steward_sees_them(self, house, exact):
        environment = {"GENCARD_CONTROLLER": str(house.settings_file), "COLUMNS": "200"}
        one, all_of_them = (
            CliRunner(env=environment).invoke(stewards_app, ["emergency", "cards", *words]).stdout
            for words in ((exact.name,), ())
        )
        assert "moments: kind group-means; attributes sex, age" in one
        assert "marginals: 1; moments: 2;" in all_of_them
        assert "price: 10 exact statistics" in all_of_them

    @pytest.mark.parametrize(
        "moment", ["age", "mean=", "mean=age,sex", "moment=age", "moment9=age", "x=age"]
    )
    def test_what_is_none_is_refused(self, house, moment):
        options = ("--moment", moment, "--generator", "maximum-entropy")
        assert "moment" in run(house, "price", "survey", *options, code=1)


@pytest.fixture(scope="module")
def card(ana):
    """Strict: an honest generator must not fail by chance."""
    strict = AuditTerms(alpha="0.000001")
    with known_seeds():
        yield propose(ana, [("sex",), variance("age")], audit=strict).accept()


class TestAudits:
    def test_the_generator_of_the_card_uses_no_more_than_its_moments(self, card):
        found = card.audit("maximum-entropy", where="card", seed=3, progress=False)
        assert found.verdict is Verdict.NO_EVIDENCE

    @pytest.mark.parametrize(("where", "runs"), [("made-up", 6), ("card", None)])
    def test_one_that_smuggles_in_the_marginal_is_found(self, card, where, runs):
        found = card.audit("smuggler", where=where, runs=runs, seed=3, progress=False)
        assert found.verdict is Verdict.LEAKAGE


def run(house: House, *arguments: str, code: int = 0) -> str:
    found = CliRunner(env={"GENCARD_CONNECTION": str(house.person("ana"))}).invoke(app, arguments)
    assert found.exit_code == code, found.output
    return found.output


def _true_sums(statistic) -> np.ndarray:
    frame = records()
    levels = {"age": list(MIDDLES), "sex": ["female", "male"]}
    sizes = [len(levels[name]) for name in statistic.clique]
    codes = [frame[name].map(levels[name].index).to_numpy() for name in statistic.clique]
    counts = np.bincount(np.ravel_multi_index(codes, sizes), minlength=int(np.prod(sizes)))
    return statistic.numerators @ counts
