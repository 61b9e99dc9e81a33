"""Canaries planted by coins: what copies of them show, and what chance does not."""

from math import inf

import numpy as np
import pytest
from scipy.stats import binom

from gencard.core.card.budget import Neighbouring
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import DomainMismatchError, InvalidNumberError
from gencard.measures.privacy.canaries import cells_of, draw_cells, plant, points_of
from gencard.measures.privacy.canary_findings import STATISTICS, CanaryPlan, canary_findings

DOMAIN = Domain.of({"a": 20, "b": 30, "c": 10, "d": 12})
RELATIONS = pytest.mark.parametrize("neighbouring", Neighbouring)


def plan(**given):
    return CanaryPlan(
        **{"beta": 0.05, "delta": 0.0, "radius": 0, "guesses": 20, "numbers": ("a", "b")} | given
    )


def planted(neighbouring=Neighbouring.REPLACE_ONE, seed=0, canaries=200):
    rng = np.random.default_rng(seed)
    others = draw_cells(DOMAIN, 100, rng=rng)
    return plant(others, canaries, neighbouring=neighbouring, rng=rng)


def found(some, rows, **given):
    return canary_findings(some, rows, plan(**given), rng=np.random.default_rng(9))


def bounds(findings):
    return {each.statistic: each.bound and each.bound.epsilon for each in findings.findings}


@RELATIONS
def test_the_dataset_holds_those_that_were_put_in(neighbouring):
    some = planted(neighbouring)
    records = {tuple(record) for record in some.dataset.codes.tolist()}
    inside = [tuple(cell) in records for cell in some.cells.codes.tolist()]
    assert np.array_equal(inside, some.put_in)  # 72,000 cells: none meets another by chance
    replaced = neighbouring is Neighbouring.REPLACE_ONE
    assert len(some.dataset) == 100 + (200 if replaced else some.put_in.sum())
    assert 60 < some.put_in.sum() < 140


@RELATIONS
def test_a_copier_is_bounded_from_below_by_all_that_apply(neighbouring):
    some = planted(neighbouring)
    findings = found(some, some.dataset)
    assert findings.put_in == some.put_in.sum()
    assert findings.rows == len(some.dataset)
    epsilon = bounds(findings)
    assert epsilon["count"] > (5 if neighbouring is Neighbouring.REPLACE_ONE else 2.5)
    assert epsilon["refined sum"] == pytest.approx(epsilon["count"], rel=0.3)
    assert epsilon["guesses"] > 1
    assert epsilon["published sum"] < 1  # one cell of 600 is no small ball
    assert findings.membership.area > 0.99
    against = {each.statistic for each in findings.against(1.0, 0.0, neighbouring)}
    assert against == {"count", "refined sum", "guesses"}
    assert not findings.against(inf, 0.0, neighbouring)


def test_a_bound_is_no_word_about_other_claims():
    some = planted()
    findings = found(some, some.dataset, delta=1e-5)
    against = findings.against(0.5, 1e-6, Neighbouring.REPLACE_ONE)
    assert [each.statistic for each in against] == ["guesses"]
    assert not findings.against(0.5, 1e-4, Neighbouring.REPLACE_ONE)
    assert not findings.against(0.5, 0.0, Neighbouring.ADD_REMOVE)


def test_numbers_copied_finely_are_found_by_the_published_sum():
    domain = Domain.of({"x": 60_000, "y": 60_000})
    rng = np.random.default_rng(1)
    none = Dataset(domain, np.zeros((0, 2), int))
    some = plant(none, 30, neighbouring=Neighbouring.ADD_REMOVE, rng=rng)
    findings = found(some, some.dataset, guesses=5, numbers=("x", "y"))
    assert bounds(findings)["published sum"] > 5


@RELATIONS
def test_blind_rows_are_refuted_at_most_at_the_level(neighbouring):
    runs, refuted = 150, dict.fromkeys(("published sum", "refined sum", "count", "guesses"), 0)
    for seed in range(runs):
        some = planted(neighbouring, seed, canaries=40)
        blind = draw_cells(DOMAIN, 60, rng=np.random.default_rng([seed, 1]))
        for name, epsilon in bounds(found(some, blind, beta=0.5)).items():
            refuted[name] += epsilon > 0
    assert max(refuted.values()) <= binom.isf(1e-4, runs, 0.5 / STATISTICS)


def test_what_does_not_apply_is_refused_in_words():
    some = planted()
    many = Dataset(DOMAIN, np.zeros((DOMAIN.cells, 4), int))
    findings = {each.statistic: each for each in found(some, many, numbers=()).findings}
    assert findings["guesses"].bound is not None
    assert "random rows" in findings["count"].refusal
    assert "random rows" in findings["refined sum"].refusal
    assert "numbers only" in findings["published sum"].refusal
    assert not any(findings[name].bound for name in ("count", "refined sum", "published sum"))


def test_points_and_cells():
    rng = np.random.default_rng(2)
    cells = draw_cells(DOMAIN, 500, rng=rng)
    points = points_of(cells, rng=rng)
    assert ((points >= 0) & (points < 1)).all()
    np.testing.assert_array_equal(cells_of(points, DOMAIN).codes, cells.codes)


@pytest.mark.parametrize(
    "given", [{"beta": 0}, {"beta": 0.6}, {"delta": 1}, {"delta": -1}, {"radius": -1}, {"guesses": 0}]
)
def test_plans_out_of_range_are_refused(given):
    with pytest.raises(InvalidNumberError):
        plan(**given)


def test_bad_input_is_refused():
    some = planted()
    with pytest.raises(InvalidNumberError):
        planted(canaries=19)
    with pytest.raises(InvalidNumberError):
        found(some, some.dataset, guesses=201)
    with pytest.raises(DomainMismatchError):
        found(some, some.dataset.project(("a", "b")))
