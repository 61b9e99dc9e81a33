"""Figures of the page: their geometry, computed apart from any browser."""

from datetime import timedelta
from decimal import Decimal

import pytest

from gencard.controller.page import register_views as charts
from gencard.controller.page.server import environment
from gencard.controller.stewards.archive import Amount, amounts, courses
from gencard.core.card.budget import FREE, Price
from tests.controller.state.samples import NOW


def spent_daily(days, each=10, cap=100):
    """One currency that was spent evenly, the last day today."""
    spending = {NOW.date() - timedelta(days=back): Price(each) for back in range(days)}
    return courses(amounts(Price(each * days), FREE, Price(cap)), spending, NOW)[0]


@pytest.mark.parametrize(("spent", "reserved", "cap"), [(0, 0, 9), (5, 5, 9), (7, 2, 9), (20, 3, 9)])
def test_a_gauge_fits_its_place(spent, reserved, cap):
    (amount,) = amounts(Price(spent), Price(reserved), Price(cap))
    gauge = charts.gauge(amount, "all")
    assert 0 <= gauge.settled + gauge.reserved <= charts.WIDTH
    assert gauge.over == (spent > cap)
    assert gauge.percent == -(-100 * spent // cap)


def test_a_gauge_without_a_cap_has_no_share():
    gauge = charts.gauge(Amount("rho", Decimal(3), Decimal(0), None), "all")
    assert (gauge.percent, gauge.over, gauge.settled) == (None, False, charts.WIDTH)


@pytest.mark.parametrize(("days", "cap"), [(1, 11), (1, 10**6), (40, 400), (3, 0)])
def test_a_curve_stays_inside_its_figure(days, cap):
    curve = charts.curve(spent_daily(days, cap=cap), NOW)
    points = [tuple(map(float, one.split(","))) for one in f"{curve.spent} {curve.forecast}".split()]
    assert all(0 <= x <= charts.WIDTH and 0 <= y <= charts.HEIGHT for x, y in points)
    heights = [y for _, y in points]
    assert heights == sorted(heights, reverse=True)
    assert curve.first == f"{NOW - timedelta(days=days - 1):%Y-%m-%d}"


@pytest.mark.parametrize(
    ("course", "words"),
    [
        (spent_daily(5), "about 10 a day; the cap is reached on 2026-11-25"),
        (spent_daily(20), "about 10 a day; the cap is reached"),
        (spent_daily(3, each=1, cap=10**9), "about 1 a day; the cap is more than ten years away"),
        (spent_daily(1, each=410, cap=10**9), "no rate yet: spending began on 2026-11-20"),
        (spent_daily(2), "no rate yet: spending began on 2026-11-19"),
        (spent_daily(1, each=410), "no rate yet: spending began on 2026-11-20; the cap is reached"),
        (spent_daily(0), "nothing spent in the last four weeks"),
    ],
)
def test_a_forecast_in_words(course, words):
    assert charts.in_words(course) == words


def test_runs_of_an_audit_stand_on_one_scale():
    low, high = charts.lanes([("low", (1.0, 1.0)), ("high", (3.0,)), ("none", ())])
    assert low.marks[0] == low.mean < high.mean
    (alone,) = charts.lanes([("one", (2.0, 2.0))])
    assert alone.mean == charts.WIDTH / 2
    assert charts.bar(5, 0) == 0


def test_numbers_are_plain():
    assert charts.number(Decimal("1E+3")) == "1,000"
    assert charts.number(Decimal("0.000000001")) == "0.000000001"


def test_s57_texts_of_analysts_reorder_nothing_on_the_page():
    """A purpose with a bidirectional override would otherwise read as another one."""
    template = environment().from_string("{{ purpose }}")
    assert (
        template.render(purpose="safe \u202e gnihtyna \x07 <b>")
        == "safe \\u202e gnihtyna \\x07 &lt;b&gt;"
    )
