"""Exact sums of cards at the records: refused with one reason, alone and beside others."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from gencard.client import histogram, total
from gencard.controller.shell.main import app as steward_shell
from gencard.core.card.budget import SpendState
from gencard.core.errors import InvalidInputError, MeasurementRefusedError, RunRefusedError
from gencard.wire.steward import RiskState
from tests.system.house import House, build
from tests.system.raw_calls import configure
from tests.system.stewards import Steward
from tests.system.test_desk_risk import SAM, look
from tests.system.test_s25_checks import lines_of

pytestmark = pytest.mark.timeout(180)

SCHEMA = """
title = "Pay"
description = "For tests."
declared_by = "the tests"
reviewed = true

[[attributes]]
name = "sex"
labels = ["f", "m"]

[[attributes]]
name = "region"
labels = ["n", "s", "w"]

[[attributes]]
name = "health"
labels = ["good", "poor"]

[[attributes]]
name = "work"
labels = ["full", "part"]

[[attributes]]
name = "pay"
edges = [0, 1_000, 3_000, 10_000]
step = "1"
fine = [0, 500, 1_000, 2_000, 3_000, 9_500, 10_000]

[[attributes]]
name = "age"
edges = [0, 40, 100]
step = "1"
missing = true
"""
"""Four live in region w, three have no age, three in good health work part time, one has a large pay."""


def survey() -> pd.DataFrame:
    rng = np.random.default_rng(11)
    number = np.arange(400)
    good = rng.random(400) < 0.5
    part = np.where(good, np.cumsum(good) <= 3, rng.random(400) < 0.5)
    return pd.DataFrame(
        {
            "sex": np.where(number % 2, "f", "m"),
            "region": np.where(number < 4, "w", np.where(number % 3, "n", "s")),
            "health": np.where(good, "good", "poor"),
            "work": np.where(part, "part", "full"),
            "pay": np.where(number == 9, 9_900, rng.integers(1_500, 2_600, 400)),
            "age": pd.Series(rng.integers(20, 80, 400), dtype="Int64").mask(
                (number > 20) & (number < 24)
            ),
        }
    )


@pytest.fixture(scope="module")
def house(tmp_path_factory) -> Iterator[House]:
    built = build(tmp_path_factory.mktemp("sums"), survey(), SCHEMA)
    built.offer_private('["ipf"]')
    built.edit({"automatic": "false"})
    runs = '{ kinds = ["means"], checked_runs = 9, stored = true, influence = "off" }'
    offered = {"histograms": '"exact"', "sums": '"exact"', "largest_order": "3"}
    configure(built, "datasets.policy", analyses=runs, **offered)
    configure(built, "limits", refusals=100)
    yield built.start()
    built.stop()


@pytest.fixture
def desk(house):
    return house.controller.controller_state.desk(operations=house.controller.operations)


def agreed(house, analyst, *phi, **options):
    card = analyst.propose("survey", [("sex",), *phi], purpose="A test", rows=10, **options)
    Steward(house.controller.controller_state).approve(card.name)
    return analyst.card(card.name).accept()


def lines(house, card):
    found = lines_of(house.controller.controller_state, card.name)
    return [(line.state, line.price.statistics) for line in found]


@pytest.mark.parametrize("by", [["region"], ["sex", "region"]])
def test_a_group_of_few_refuses_the_card_which_pays_one_statistic(house, by):
    with house.analyst() as ana:
        card = agreed(house, ana, total("pay", by=by))
        assert (len(card.terms.sums), card.price.statistics > 1) == (1, True)
        with pytest.raises(MeasurementRefusedError) as refused:
            card.generate(rows=5, progress=False)
        assert refused.value.fields == {}
        assert lines(house, card) == [(SpendState.SETTLED, 1)]
        result = CliRunner().invoke(
            steward_shell,
            ["emergency", "refusals", "-c", str(house.settings_file)],
            env={"COLUMNS": "200"},
        )
        assert card.name.rpartition("/")[2][:8] in result.output


def test_two_cards_do_not_give_the_sum_of_the_three_without_an_age(house):
    """Whichever comes first, and whoever asks for the second."""
    house.enrol("bob")
    by_sex, present = total("pay", by=["sex"]), total("pay", by=["sex"], present=["age"])
    with house.analyst() as ana, house.analyst("bob") as bob:
        first = agreed(house, ana, by_sex)
        assert len(first.generate(rows=5, progress=False)) == 5
        second = agreed(house, bob, present)
        with pytest.raises(MeasurementRefusedError):
            second.generate(rows=5, progress=False)
        together = agreed(house, bob, ("sex", "age"), present, by_sex)
        with pytest.raises(MeasurementRefusedError):
            together.generate(rows=5, progress=False)
        whole = agreed(house, bob, total("pay"))
        assert len(whole.generate(rows=5, progress=False)) == 5, "it is inside the first"


EITHER = "health == 'good' or work == 'part'"


def test_a_run_is_judged_beside_the_sums_of_cards_and_a_card_beside_runs(house):
    """Sums by health, by work and of either give that of the three who are both."""
    runs = {"analyses": {"kinds": ["means"], "checked_runs": 9}}
    options = {"kind": "means", "response": "stored", "progress": False}
    by_health, by_work = total("pay", by=["health"]), total("pay", by=["work"])
    with house.analyst() as ana:
        assert len(agreed(house, ana, by_health).generate(rows=5, progress=False)) == 5
        card = agreed(house, ana, **runs)
        assert card.run("pay ~ 1", where=EITHER, **options).estimates.n > 100
        second = agreed(house, ana, by_work)
        with pytest.raises(MeasurementRefusedError):
            second.generate(rows=5, progress=False)
        with pytest.raises(RunRefusedError):
            card.run("pay ~ work", **options)


def test_a_histogram_is_measured_and_priced(house):
    with house.analyst() as ana:
        card = agreed(house, ana, histogram("age"))
        card.generate(rows=5, progress=False)
        (counts,) = card.psi.histograms
        assert counts.counts[-1] == 3


class TestStewards:
    def test_the_risk_names_the_failing_sum_and_small_fine_cells(self, house, desk):
        with house.analyst() as ana:
            phi = [("sex",), histogram("pay"), total("pay", by=["region"])]
            card = ana.propose("survey", phi, purpose="A test", rows=10)
        look(desk, card.name)
        report = desk.risks.view(SAM, card.name).report
        (failing,) = report.failing
        assert (failing.statistic, failing.cells, failing.records) == ("sum of pay by region", 1, 4)
        assert str(failing) == (
            "sum of pay by region: 1 cell fails threshold; fewest in region = w: 4 records"
        )
        assert any(line.startswith("Histogram of pay: 1 of") for line in report.histogram_lines)
        with pytest.raises(InvalidInputError, match="sum of pay by region"):
            Steward(house.controller.controller_state).approve(card.name)

    def test_a_release_that_makes_a_sum_fail_outdates_the_look(self, house, desk):
        with house.analyst() as ana:
            phi = [("region",), total("pay", "age"), total("pay", "age", by=["sex"])]
            card = ana.propose("survey", phi[:2], purpose="A test", rows=10)
            look(desk, card.name)
            assert desk.risks.view(SAM, card.name).report.failing == ()
            agreed(house, ana, phi[2]).generate(rows=5, progress=False)
            assert desk.risks.view(SAM, card.name).state is RiskState.OUTDATED

    def test_check_says_how_many_fine_cells_are_small(self, house):
        arguments = ["check", "-c", str(house.settings_file)]
        result = CliRunner().invoke(steward_shell, arguments, env={"COLUMNS": "200"})
        (line,) = (one for one in result.output.splitlines() if "histogram of pay" in one)
        assert line.split("│")[2].strip() == "1"
        assert "9500" in line.replace(",", "")


def test_a_pay_that_moves_a_mean_by_more_than_the_limit_refuses_the_card(tmp_path):
    """One pay of 9,900 among 200 of about 2,000, by the drafted limit."""
    built = build(tmp_path, survey(), SCHEMA)
    built.offer_private('["ipf"]')
    configure(built, "datasets.policy", sums='"exact"')
    built.start()
    try:
        with built.analyst() as ana:
            for phi, passes in ((total("pay", "pay"), True), (total("pay", by=["sex"]), False)):
                card = ana.propose("survey", [("sex",), phi], purpose="A test", rows=10).accept()
                if passes:
                    assert len(card.generate(rows=5, progress=False)) == 5
                else:
                    with pytest.raises(MeasurementRefusedError):
                        card.generate(rows=5, progress=False)
    finally:
        built.stop()
