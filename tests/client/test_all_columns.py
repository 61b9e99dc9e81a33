"""Plans for all columns: what they ask for, by the policy, and rows of all columns in one call."""

import tomllib
from dataclasses import fields, replace
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from gencard.client.catalogue import CatalogueEntry, ShownPolicy
from gencard.client.shell.main import app
from gencard.client.terms import all_columns, proposed
from gencard.controller.drafting.folder import dataset_text
from gencard.controller.drafting.schema_draft import SchemaDraft
from gencard.controller.policy.judgement import judge
from gencard.controller.records.file_format import USUAL
from gencard.controller.records.schema_file import schema_of_text
from gencard.controller.settings import DatasetTable, Limits
from gencard.core.card.budget import Price
from gencard.core.card.card import CounterOffer
from gencard.core.card.privacy import gaussian
from gencard.core.card.sums import Histogram, Sum
from gencard.core.card.terms import USUAL_AUDIT
from gencard.core.catalogue import DeclaredAttribute
from gencard.core.coding import Attribute, Labels
from gencard.core.policy import NumbersOffer, Policy
from tests.controller.test_policy import LIMITS
from tests.controller.test_sums_on_cards import SCHEMA
from tests.system.house import SPENDING, build, spending

NOISE = {"rho": "0.5", "neighbouring": "add-remove"}
POLICY = Policy(
    largest_order=2,
    largest_marginal_cells=10_000,
    most_marginals=100,
    most_rows=1_000,
    generators=("ipf",),
    most_per_card=Price(statistics=100_000, rho=Decimal(5)),
    mechanisms=("exact", "gaussian"),
    noise=gaussian("0.1", neighbouring="add-remove"),
)


def entry_of(attributes, policy):
    shown = ShownPolicy(**{each.name: getattr(policy, each.name) for each in fields(Policy)})
    declared = tuple(map(DeclaredAttribute, attributes))
    return CatalogueEntry("datasets/x", "X", "", "sam", "ab", declared, policy=shown)


def labelled(sizes):
    levels = (tuple(map(str, range(size))) for size in sizes)
    return [Attribute(f"a{index}", Labels(names)) for index, names in enumerate(levels)]


def answered(entry, policy, measured, *, generator="ipf", **limits):
    words = {"purpose": "x", "generator": generator, "rows": 10, "audit": USUAL_AUDIT}
    proposal = proposed(entry, all_columns(entry, measured), measured, **words)
    bounds = replace(LIMITS, **{"model_cells": 10**12, "memory_mib": 10**9} | limits)
    return judge(proposal, policy, entry.coding.domain, bounds, {}, coding=entry.coding)


@given(
    st.lists(st.integers(2, 30), min_size=2, max_size=8),
    st.builds(
        replace,
        st.just(POLICY),
        largest_order=st.integers(1, 3),
        largest_marginal_cells=st.integers(10, 400),
        most_marginals=st.integers(1, 30),
        most_per_card=st.integers(30, 2_000).map(lambda most: Price(statistics=most, rho=Decimal(5))),
        forbidden=st.sampled_from([(), (("a0", "a1"),), (("a1",),)]),
    ),
    st.sampled_from([{}, NOISE]),
)
def test_the_policy_offers_all_of_it_without_a_change(sizes, policy, measured):
    entry = entry_of(labelled(sizes), policy)
    names = [
        name
        for name in entry.coding.domain.attributes
        if policy.kept_apart((name,)) is None
        and entry.coding.domain.size(name) <= policy.largest_marginal_cells
    ]
    marginals = all_columns(entry, measured)
    assert {name for clique in marginals for name in clique} == {*names}
    least = 1 + sum(entry.coding.domain.size(name) - 1 for name in names)
    has_room = policy.most_marginals >= len(names) and (
        measured or least <= policy.most_per_card.statistics
    )
    if names and has_room:
        answer = answered(entry, policy, measured)
        assert isinstance(answer, CounterOffer), answer
        assert answer.changes == ()


def test_all_pairs_where_they_fit_and_those_of_neighbours_where_not():
    entry = entry_of(labelled([2] * 5), POLICY)
    assert len(all_columns(entry, {})) == 10
    few = entry_of(labelled([2] * 5), replace(POLICY, most_marginals=5))
    pairs = [("a0", "a1"), ("a0", "a2"), ("a1", "a2"), ("a2", "a3"), ("a3", "a4")]
    assert sorted(all_columns(few, {})) == pairs
    fewest = entry_of(labelled([2] * 5), replace(POLICY, most_marginals=3))
    assert sorted(all_columns(fewest, {})) == [("a0", "a1"), ("a2", "a3"), ("a3", "a4")]
    two = entry_of(labelled([2] * 5), replace(POLICY, most_marginals=2))
    assert sorted(all_columns(two, {})) == [("a0", "a1"), ("a2", "a3"), ("a4",)]


@pytest.mark.parametrize(
    ("columns", "numbers", "most"),
    [(10, 2, 45), (70, 9, 1_982), (100, 0, 2_000), (300, 300, 1_400), (900, 900, 666)],
)
def test_all_columns_of_a_wide_file_are_offered_under_the_drafted_policy(columns, numbers, most):
    """A policy of more marginals than ``limits.marginals`` would be refused for its own plan."""
    kinds = [f'name = "a{index}"\nlabels = ["x", "y"]' for index in range(columns - numbers)]
    kinds += [f'name = "n{index}"\nedges = [0, 9]\nstep = 1' for index in range(numbers)]
    head = ['title = "Wide"', 'declared_by = "the tests"']
    schema = schema_of_text("\n".join([*head, *(f"[[attributes]]\n{kind}" for kind in kinds)]), "x")
    drafted = SchemaDraft(schema, USUAL, (), 1_000)
    limit = Limits().marginals
    text = dataset_text("wide", Path("x.parquet"), "x.toml", drafted, most_statistics=limit)
    policy = DatasetTable.model_validate(tomllib.loads(text)["datasets"][0]).policy
    assert policy.most_marginals == most
    entry, noise = entry_of(schema.coding.attributes, policy), NOISE | {"rho": "0.05"}
    statistics = all_columns(entry, noise)
    assert {*entry.coding.domain.attributes} == {
        name for one in statistics if isinstance(one, tuple) for name in one
    }
    answer = answered(entry, policy, noise, generator="support-raking", marginals=limit)
    assert isinstance(answer, CounterOffer), answer
    assert answer.changes == ()


def test_under_a_condition_all_statistics_have_its_attributes():
    entry = entry_of(labelled([2] * 4), replace(POLICY, largest_order=3))
    answer = answered(entry, entry.policy, {"where": "a0 == '1'"})
    assert answer.changes == ()
    assert answer.terms.marginals == (("a0", "a1", "a2"), ("a0", "a1", "a3"), ("a0", "a2", "a3"))


NUMBERS = [Histogram("spent"), Histogram("hours")], [Sum(("spent",)), Sum(("hours",))]


@pytest.mark.parametrize(
    ("offers", "measured", "numbers"),
    [
        (("exact", "exact"), {}, NUMBERS[0]),
        (("noise", "exact"), {}, []),
        (("noise", "exact"), NOISE, [*NUMBERS[0], *NUMBERS[1]]),
        (("exact", "noise"), {}, NUMBERS[0]),
        (("noise", "noise"), NOISE, [*NUMBERS[0], *NUMBERS[1]]),
        (("never", "never"), NOISE, []),
    ],
)
def test_numbers_with_a_step_where_the_policy_offers_them(offers, measured, numbers):
    histograms, sums = map(NumbersOffer, offers)
    policy = replace(POLICY, histograms=histograms, sums=sums)
    entry = entry_of(schema_of_text(SCHEMA, "schema.toml").coding.attributes, policy)
    statistics = all_columns(entry, measured)
    assert [one for one in statistics if isinstance(one, Histogram | Sum)] == numbers
    assert answered(entry, policy, measured).changes == ()


@pytest.mark.parametrize("most", [12, 16, 20, 43, 44])
def test_histograms_are_within_the_price_of_a_card(most):
    price = Price(statistics=most, rho=Decimal(5))
    policy = replace(POLICY, histograms=NumbersOffer.EXACT, most_per_card=price)
    entry = entry_of(schema_of_text(SCHEMA, "schema.toml").coding.attributes, policy)
    histograms = [one for one in all_columns(entry, {}) if isinstance(one, Histogram)]
    assert histograms == (NUMBERS[0] if most >= 44 else [Histogram("hours")])
    assert answered(entry, policy, {}).changes == ()


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    built = build(tmp_path_factory.mktemp("all"), spending(), SPENDING)
    built.raise_caps()
    most = '{ statistics = 100_000 }\nhistograms = "exact"\nsums = "exact"'
    built.edit({"most_per_card": most})
    built.start()
    yield built
    built.stop()


@pytest.fixture(scope="module")
def ana(house):
    with house.analyst("ana") as analyst:
        yield analyst


def test_rows_of_all_columns_in_one_call(ana):
    plan = ana.plan("survey")
    assert (plan.formula, plan.kind, plan.left_out, plan.changes) == (None, None, (), ())
    assert len(plan.marginals) == 10
    assert plan.numbers == (Histogram("spent"),)
    assert "All columns" in repr(plan)
    options = {"rows": 4_000, "accept": True, "progress": False}
    first = ana.synthesize("survey", **options)
    cards, spent = len(ana.cards("survey")), ana.budget("survey").spent
    assert spent == plan.price
    again = ana.synthesize("survey", seed=1, **options | {"accept": False})
    assert (len(ana.cards("survey")), ana.budget("survey").spent) == (cards, spent)
    assert again.receipt.psi_digest == first.receipt.psi_digest
    frame, records = first.to_frame(), spending()
    assert [*frame] == [*records]
    for name in ("sex", "health", "work", "region"):
        drawn, real = (each[name].value_counts(normalize=True).to_dict() for each in (frame, records))
        assert drawn == pytest.approx(real, abs=0.03)


def test_the_shell_does_the_same_and_says_what_is_left_out(house, tmp_path, monkeypatch):
    monkeypatch.setenv("GENCARD_CONNECTION", str(house.person("ana")))
    monkeypatch.setenv("COLUMNS", "200")
    (house.person("ana") / "connection.toml").write_text(f'address = "{house.address}"\n')
    rows = tmp_path / "rows.csv"
    shown = CliRunner().invoke(app, ["synthesize", "survey", "--rows", "50", "-o", str(rows), "--yes"])
    assert shown.exit_code == 0, shown.stderr
    assert [*pd.read_csv(rows)] == [*spending()]
    shown = CliRunner().invoke(app, ["plan", "survey"])
    assert shown.exit_code == 0, shown.stderr
    assert "none: all columns" in shown.stdout
    assert "Left out" not in shown.stdout
    assert "gencard propose survey --marginal sex,health" in shown.stdout
