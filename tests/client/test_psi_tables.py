"""psi with names: one marginal, all of them, tables, and what a notebook shows."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from gencard.client.common.psi_tables import SUMS, NamedPsi
from gencard.core.card.sums import Moment, MomentKind
from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.errors import InvalidInputError
from gencard.core.statistics.linear import statistic_of
from gencard.core.statistics.psi import LinearMeasurement, Measurement
from tests.client.fake_world import CODING, RECORDS
from tests.client.test_report import Page
from tests.client.test_views import rich_text

HEALTH = ("good", "fair", "bad")


@pytest.fixture
def psi(agreed):
    return agreed.psi


def by_hand(*columns):
    """Records with these codes."""
    matches = [RECORDS.column(name) == code for name, code in columns]
    return int(np.logical_and.reduce(matches).sum())


def test_one_marginal_has_a_line_for_each_cell_in_the_declared_order(psi):
    frame = psi.to_frame(("health", "sex"))
    assert list(frame.columns) == ["sex", "health", "count"]
    assert frame["sex"].tolist() == ["female"] * 3 + ["male"] * 3
    assert frame["health"].cat.ordered
    assert not frame["sex"].cat.ordered
    assert frame["count"].tolist() == [
        by_hand(("sex", sex), ("health", health)) for sex in range(2) for health in range(3)
    ]


def test_all_marginals_follow_one_another(psi):
    frame = psi.to_frame()
    assert list(frame.columns) == ["marginal", "sex", "age", "health", "count"]
    assert frame["marginal"].unique().tolist() == ["sex × health", "age × health"]
    assert frame.loc[frame["marginal"] == "age × health", "sex"].isna().all()
    assert frame["age"].cat.categories.tolist() == ["[0, 18)", "[18, 65)", "[65, 100]"]
    assert frame.groupby("marginal")["count"].sum().tolist() == [len(RECORDS)] * 2


def test_tables_have_the_last_attribute_in_columns(agreed):
    tables = agreed.tables()
    assert set(tables) == {("sex", "health"), ("age", "health")}
    table = tables["sex", "health"]
    assert (table.index.name, table.columns.name) == ("sex", "health")
    assert tuple(table.columns) == HEALTH
    assert table.loc["male", "bad"] == by_hand(("sex", 1), ("health", 2))


def test_tables_of_one_and_of_three_attributes(psi):
    counts = np.arange(24).reshape(2, 4, 3)
    three = Measurement(("sex", "children", "health"), counts)
    psi = replace(
        psi, domain=CODING.domain, measurements=(Measurement(("sex",), np.array([1, 2])), three)
    )
    tables = psi.tables()
    assert tables["sex",].loc["male", "count"] == 2
    assert tables["sex", "children", "health"].loc[("male", "missing"), "bad"] == 23


def test_noise_says_how_large_it_is(psi):
    noisy = replace(psi, measurements=tuple(replace(one, stddev=2.5) for one in psi.measurements))
    assert noisy.to_frame(["sex", "health"])["stddev"].unique().tolist() == [2.5]
    assert "stddev" in noisy.to_frame()
    assert "2.5" in rich_text(noisy)


def test_moments_are_a_table_of_sums(psi):
    statistic = statistic_of(Moment(MomentKind.MEAN, ("children",)), CODING)
    values = statistic.sums(np.array([10, 20, 5, 3]))
    linear = LinearMeasurement(statistic, values, np.zeros(len(values)))
    sums = replace(psi, domain=CODING.domain, linear=(linear,)).tables()[SUMS]
    assert sums["attributes"].unique().tolist() == ["children"]
    assert 30 in sums["sum"].tolist()
    assert isinstance(sums, pd.DataFrame)


def test_a_marginal_that_psi_does_not_hold_is_answered_by_those_it_holds(psi):
    with pytest.raises(InvalidInputError, match="one of psi: sex, health; age, health"):
        psi.to_frame("sex")


def test_attributes_may_have_the_names_of_columns():
    labels = Labels(("<b>x</b>", "y"))
    coding = Coding((Attribute("count", labels), Attribute("marginal", labels)))
    one = Measurement(("count", "marginal"), np.array([[1, 2], [3, 4]]))
    psi = NamedPsi(coding.domain, (one,), coding=coding)
    assert list(psi.to_frame().columns) == ["marginal_", "count", "marginal", "count_"]
    assert psi.to_frame()["count_"].tolist() == [1, 2, 3, 4]
    assert "b" not in {tag for tag, _ in Page(psi.tables()._repr_html_()).elements}


def test_a_notebook_shows_psi_and_its_tables(agreed):
    assert "sex × health" in Page(agreed.psi._repr_html_()).text
    assert "Psi: 15 counts in 2 marginals" in repr(agreed.psi)
    page = Page(agreed.tables()._repr_html_())
    assert {"sex × health", "good", "male"} <= set(page.text)
