"""Rules of means and quantiles of stored numbers, from what single records contribute."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.policy import Colour, Rule, Rules
from gencard.core.typed_json import PLAIN
from tests.core.stored_runs import stored_run

RULES, OFF = Rules(), Rules(influence=None)
WIDE = (-1e6, 0.0, 1e6)


def judged(values, *, edges=WIDE, formula="y ~ g", rules=RULES, kind="means", outside=(), **options):
    """Judgement and released answer of two groups, each of every second record."""
    labels = Labels(("even", "odd"))
    coding = Coding((Attribute("y", Edges(edges, missing=True)), Attribute("g", labels)))
    numbers = np.append(np.asarray(values, dtype=float), outside)
    columns = {"y": numbers, "g": np.arange(len(numbers)) % 2}
    options = {"response": "stored", **options}
    kept = np.arange(len(numbers)) < len(values)
    run = stored_run(kind, formula, coding, columns, kept, options=options)
    return run.judged(rules), run.released(rules)


def normal(records=400, seed=1):
    return np.random.default_rng(seed).normal(100, 1, size=records)


def column(answer, name):
    table = answer.tables[0]
    return [row[table.column_names.index(name)] for row in table.values]


@pytest.mark.parametrize("place", [0, 1])
def test_a_value_that_moves_the_spreads_leaves_one_for_all_groups(place):
    values = normal()  # the even records vary more
    values[::2] = 1.15 * values[::2] - 15
    judgement, answer = judged(values)
    assert judgement.colour is Colour.GREEN
    assert len(set(column(answer, "std"))) == 2
    values[place] = 108.0  # eight standard deviations: no mean moves by one standard error
    judgement, answer = judged(values)
    assert judgement.colour is Colour.GREEN
    assert len(set(column(answer, "std"))) == 1
    assert any("one within groups" in note for note in answer.notes)


def test_a_value_outside_the_population_leaves_no_spread_of_it():
    judgement, answer = judged(normal(), formula="y ~ 1", outside=[108.0])
    assert judgement.colour is Colour.GREEN
    for name in ("std", "var", "std_mean", "lower", "upper"):
        assert column(answer, name) == [None]
    assert column(answer, "mean")[0] == pytest.approx(100, abs=0.2)
    alone = judged(np.append(normal(), 108.0), formula="y ~ 1")[1]
    assert column(alone, "std") != [None]  # whose value it is tells no group


@pytest.mark.parametrize("outside", [True, False])
def test_a_value_that_moves_a_mean_waits_wherever_it_is(outside):
    values = normal()
    where = {"outside": [130.0]} if outside else {}
    if not outside:
        values[3] = 130.0
    assert judged(values, **where)[0].verdict.broken == (Rule.INFLUENCE,)
    assert judged(values, rules=OFF, **where)[0].colour is Colour.GREEN


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.3, 2.5))
def test_debts_are_judged_as_incomes(seed, heavy):
    values = np.random.default_rng(seed).lognormal(3, heavy, size=60)
    one, other = judged(values)[0], judged(-values)[0]
    assert one.verdict == other.verdict


def test_no_record_contributes_more_than_half_of_a_sum():
    values = np.ones(80) + np.linspace(0, 0.01, 80)
    values[0] = 39.0
    assert Rule.DOMINANCE not in judged(values)[0].verdict.broken
    values[0] = 41.0
    assert Rule.DOMINANCE in judged(values)[0].verdict.broken


def test_contributions_count_from_what_all_records_have_at_least():
    values = np.linspace(1_000.0, 1_000.1, 80)
    values[0] = 1_009.0
    assert Rule.DOMINANCE in judged(values, edges=(1_000, 1_005, 1_010))[0].verdict.broken
    assert Rule.DOMINANCE not in judged(values)[0].verdict.broken
    debts = judged(-values, edges=(-1_010, -1_005, -1_000))[0]
    assert Rule.DOMINANCE in debts.verdict.broken


@pytest.mark.parametrize("kind", ["means", "quantiles"])
def test_missing_numbers_are_no_records(kind):
    values = np.where(np.arange(80) < 20, normal(80), np.nan)
    values[18:20] = np.nan  # nine of each group are left
    assert Rule.THRESHOLD in judged(values, kind=kind)[0].verdict.broken


def test_a_group_whose_numbers_are_alike_but_one_waits_or_is_refused():
    values = np.full(80, 5.0)
    assert judged(values)[0].colour is Colour.RED
    values[0] = 5.5
    assert judged(values)[0].colour is not Colour.GREEN


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.25, 0.5, 0.75]))
def test_many_records_round_to_the_quantile_that_leaves(seed, share):
    rng = np.random.default_rng(seed)
    values = rng.lognormal(3, 1, size=600)
    answer = judged(values, kind="quantiles", q=share)[1]
    for group, (value, error) in enumerate(
        zip(*(np.ravel(table.values) for table in answer.tables), strict=True)
    ):
        own = values[group::2]
        exact = np.quantile(own, share)
        assert abs(value - exact) <= error / 2 + 1e-9
        assert np.count_nonzero(np.abs(own - value) <= error / 2) >= 10


def test_rules_of_persons_hold_for_all_their_records():
    rules = RULES.of_persons(3)
    assert (rules.checks.threshold, rules.checks.dominance_count, rules.influence) == (30, 6, 1 / 3)
    assert RULES.of_persons(0) == RULES.of_persons(1) == RULES
    assert OFF.of_persons(3).influence is None
    values = np.repeat(normal(140), 3)  # of each person three equal records
    values[:3] = 104.0
    assert judged(values, formula="y ~ 1", outside=[100.0])[0].colour is Colour.GREEN
    assert judged(values, formula="y ~ 1", outside=[108.0], rules=rules)[0].colour is Colour.AMBER


def test_rules_of_before_have_a_limit_of_one_standard_error():
    before = PLAIN.write(RULES)
    assert "influence" not in before
    assert PLAIN.read(Rules, before, field="rules").influence == 1.0
    assert PLAIN.read(Rules, PLAIN.write(OFF), field="rules").influence is None
