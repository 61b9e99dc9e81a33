"""Influence of single records: the figures are those of a refit without the record, by brute force."""

from decimal import Decimal
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.analysis.output_checks.influence import (
    Correlated,
    of_contrasts,
    of_correlation,
    of_means,
    of_model,
    of_spreads,
    waits,
)
from gencard.core.coding import Attribute, Coding, Edges
from gencard.core.policy import Colour, Rules
from gencard.core.scale import Scale
from gencard.measures.privacy.psi_risk import least_group, long_tails

RECORDS = st.integers(12, 40)
SEEDS = st.integers(0, 2**32 - 1)


def drawn(seed, records, cells, heavy=1.0):
    """Groups that each hold three records or more, and log-normal values."""
    rng = np.random.default_rng(seed)
    place = np.concatenate([np.repeat(np.arange(cells), 3), rng.integers(cells, size=records)])
    return place, rng.lognormal(3, heavy, size=len(place)) - 10


def put_everywhere(place, values, cells, numbers_of, others=()):
    """The largest change of any number, in the errors that ``numbers_of`` gives beside it."""
    largest = 0.0
    candidates = [(one, value) for one, value in enumerate(values)] + [(None, v) for v in others]
    for one, value in candidates:
        rest, groups = (
            (values, place) if one is None else (np.delete(values, one), np.delete(place, one))
        )
        before, errors = numbers_of(groups, rest)
        for cell in range(cells):
            after, _ = numbers_of(np.append(groups, cell), np.append(rest, value))
            largest = max(largest, np.max(np.abs(after - before) / errors))
    return largest


def means_of(cells):
    def numbers_of(place, values):
        groups = [values[place == cell] for cell in range(cells)]
        means = np.array([one.mean() for one in groups])
        return means, np.array([one.std(ddof=1) / np.sqrt(len(one)) for one in groups])

    return numbers_of


def spreads_of(cells):
    def numbers_of(place, values):
        groups = [values[place == cell] for cell in range(cells)]
        spreads = np.array([one.std(ddof=1) for one in groups])
        return spreads, spreads / np.sqrt([2 * (len(one) - 1) for one in groups])

    return numbers_of


def contrasts_of(rows, contrasts):
    def numbers_of(place, values):
        matrix = rows[place]
        inverse = np.linalg.inv(matrix.T @ matrix)
        coefficients = inverse @ matrix.T @ values
        residuals = values - matrix @ coefficients
        variance = residuals @ residuals / (len(values) - matrix.shape[1])
        errors = np.sqrt(variance * np.einsum("ij,jk,ik->i", contrasts, inverse, contrasts))
        return contrasts @ coefficients, errors

    return numbers_of


@settings(max_examples=25, deadline=None)
@given(SEEDS, RECORDS, st.integers(1, 4), st.integers(0, 3))
def test_means_and_spreads_are_those_of_a_refit_without_the_record(seed, records, cells, outside):
    place, values = drawn(seed, records, cells)
    others = np.random.default_rng(seed).normal(0, 60, size=outside)
    for ours, numbers_of in ((of_means, means_of), (of_spreads, spreads_of)):
        expected = put_everywhere(place, values, cells, numbers_of(cells), others)
        assert ours(place, values, cells=cells, outside=others) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=20, deadline=None)
@given(SEEDS, RECORDS, st.integers(2, 4))
def test_differences_of_groups_are_those_of_a_refit_without_the_record(seed, records, cells):
    place, values = drawn(seed, records, cells)
    rows = np.eye(cells)
    contrasts = np.array([rows[one] - rows[other] for one, other in combinations(range(cells), 2)])
    expected = put_everywhere(place, values, cells, contrasts_of(rows, contrasts))
    assert of_contrasts(place, values, cells=cells) == pytest.approx(expected, rel=1e-9)
    placed = (np.tile(row, (len(values), 1)) for row in rows)
    assert of_model(rows[place], values, placed, contrasts)[0] == pytest.approx(expected, rel=1e-7)


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.booleans(), st.integers(0, 3))
def test_a_linear_model_is_that_of_a_refit_with_every_group_and_own_numbers(seed, aliased, others):
    rng = np.random.default_rng(seed)
    groups = list(product((0, 1, 2), (0, 1)))
    codes = np.array(groups * 2 + [groups[one] for one in rng.integers(6, size=40 + others)])
    numbers = rng.lognormal(0, 1, size=len(codes))

    def matrix(codes):
        first, second = codes[:, 0], codes[:, 1]
        columns = [np.ones(len(codes)), first == 1, first == 2, second, numbers, second * numbers]
        return np.stack(columns, axis=1).astype(float)

    n = len(codes) - others
    rows = matrix(codes)
    values = rng.lognormal(1, 1, size=len(codes)) + rows @ rng.normal(size=6)
    contrasts = np.vstack([np.eye(6)[1:], np.eye(6)[1] - np.eye(6)[2]])
    placed = [matrix(np.tile(group, (len(codes), 1))) for group in groups]

    expected = 0.0
    for one in range(len(codes)):
        left = np.delete(np.arange(n), one) if one < n else np.arange(n)
        before, errors = fitted(rows[left], values[left], contrasts)
        for matrix_of_group in placed:
            more = np.vstack([rows[left], matrix_of_group[one]])
            after, _ = fitted(more, np.append(values[left], values[one]), contrasts)
            expected = max(expected, np.max(np.abs(after - before) / errors))

    def figure(limit=0.0):
        twice = [np.column_stack([one, one[:, 0]]) if aliased else one for one in (rows, *placed)]
        padded = np.column_stack([contrasts, np.zeros(len(contrasts))]) if aliased else contrasts
        own, *each = twice  # a second constant changes nothing that is told
        return of_model(own[:n], values[:n], each, padded, values[n:], limit=limit)[0]

    assert figure() == pytest.approx(expected, rel=1e-6)
    bound, leverage = of_model(rows[:n], values[:n], placed, None, values[n:])
    assert bound >= expected * (1 - 1e-9)
    assert leverage == pytest.approx(largest_leverage(rows, n, placed), rel=1e-6)
    both, _ = of_model(rows[:n], values[:n], placed, contrasts, values[n:], spreads=True)
    assert both == pytest.approx(max(expected, largest_spread(rows, values, n, placed)), rel=1e-6)
    assert figure(limit=expected / 2) > expected / 2
    assert figure(limit=100 * expected) <= 100 * expected


def largest_spread(rows, values, n, placed):
    """Change of the residual standard deviation by a record that is put into each group."""
    largest = 0.0
    for one in range(len(rows)):
        left = np.delete(np.arange(n), one) if one < n else np.arange(n)
        before, freedom = residual_spread(rows[left], values[left])
        for matrix in placed:
            more = np.vstack([rows[left], matrix[one]]), np.append(values[left], values[one])
            after, _ = residual_spread(*more)
            largest = max(largest, abs(after - before) / (before / np.sqrt(2 * freedom)))
    return largest


def residual_spread(rows, values):
    _, (squares,), *_ = np.linalg.lstsq(rows, values, rcond=None)
    freedom = len(rows) - rows.shape[1]
    return np.sqrt(squares / freedom), freedom


def largest_leverage(rows, n, placed):
    """Compute the largest leverage of a record that is left out and put into each group."""
    largest = 0.0
    for one in range(len(rows)):
        left = np.delete(np.arange(n), one) if one < n else np.arange(n)
        for matrix in placed:
            more = np.vstack([rows[left], matrix[one]])
            hat = more @ np.linalg.inv(more.T @ more) @ more.T
            largest = max(largest, hat[-1, -1])
    return largest


def fitted(rows, values, contrasts):
    return contrasts_of(rows, contrasts)(np.arange(len(rows)), values)


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_kinds_of_records_with_counts_are_as_the_records_one_by_one(seed):
    rng = np.random.default_rng(seed)
    place, values = np.repeat(np.arange(3), 5), np.tile(np.arange(5.0), 3) + rng.normal(size=15)
    counts = rng.integers(2, 6, size=15)
    records = (np.repeat(place, counts), np.repeat(values, counts))
    for ours in (of_means, of_spreads, of_contrasts):
        one_by_one = ours(*records, cells=3)
        assert ours(place, values, counts, cells=3) == pytest.approx(one_by_one, rel=1e-9)


@settings(max_examples=10, deadline=None)
@given(SEEDS, st.booleans(), st.integers(0, 3))
def test_a_correlation_is_that_of_a_refit_with_every_level(seed, levels, others):
    rng = np.random.default_rng(seed)
    x, n = rng.lognormal(size=30 + others), 30
    y = rng.integers(0, 3, size=len(x)).astype(float) if levels else x + rng.lognormal(size=len(x))
    expected = 0.0
    for one in range(len(x)):
        left = np.delete(np.arange(n), one) if one < n else np.arange(n)
        before = np.arctanh(np.corrcoef(x[left], y[left])[0, 1])
        for level in np.unique(y[:n]) if levels else [y[one]]:
            more = np.append(x[left], x[one]), np.append(y[left], level)
            change = np.arctanh(np.corrcoef(*more)[0, 1]) - before
            expected = max(expected, abs(change) * np.sqrt(len(left) - 3))
    second = Correlated(y[:n], y[n:], np.unique(y[:n]) if levels else np.zeros(0))
    assert of_correlation(Correlated(x[:n], x[n:]), second) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "values",
    [[5.0] * 11 + [6.0], [0.0] * 11 + [1e9], [1e9 + 0.5] * 6 + [1e9] * 5 + [4e9]],
    ids=["alike but one", "one in the millions", "far from zero"],
)
def test_a_record_beside_which_nothing_varies_always_waits(values):
    place = np.arange(len(values)) % 2
    for figure in (of_means, of_contrasts):
        assert waits(figure(place, np.array(values), cells=2), Rules()).colour is Colour.AMBER


def test_the_decision_hardly_depends_on_the_group_of_the_largest_value():
    rng, differ = np.random.default_rng(2), 0
    for _ in range(200):
        values = rng.lognormal(0, 1.2, size=200)
        place, decisions = (rng.random(200) < 0.4).astype(int), set()
        for group in (0, 1):
            place[values.argmax()] = group
            decisions.add(of_means(place, values, cells=2) > 1)
        differ += len(decisions) > 1
    assert differ <= 10  # judged by the own group alone, up to two thirds


def test_groups_that_are_too_small_for_the_largest_value_wait():
    rng = np.random.default_rng(4)
    values = np.sort(rng.lognormal(0, 1.2, size=20_000))
    least = least_group(values, np.ones(len(values)), 1.0)
    waiting = {}
    for share in (0.6, 1.6):
        waits_in = 0
        for _ in range(40):
            group = np.append(rng.choice(values, int(share * least), replace=False), values[-1])
            waits_in += of_means(np.zeros(len(group), dtype=int), group, cells=1) > 1
        waiting[share] = waits_in
    assert waiting[0.6] >= 30
    assert waiting[1.6] <= 10
    assert least_group(np.array([5.0]), np.array([9]), 1.0) == 0


@pytest.mark.parametrize(
    ("kind", "cells", "edge"),
    [
        ({"dates": True}, "10957 10958 10959 40000", "2000-01-03"),
        ({}, "0 0.5 1.5 90000", "1.5"),
        ({"times": True}, "0 1 2 1440", "00:02"),
    ],
)
def test_a_last_edge_is_written_as_values_are(kind, cells, edge):
    edges = tuple(map(Decimal, cells.split()))
    scale = Scale(Decimal("0.5") if not kind else Decimal(1), edges, times="times" in kind)
    coding = Coding((Attribute("a", Edges.of_scale(edges[:-1], scale, dates="dates" in kind)),))
    (tail,) = long_tails(coding, {"a": np.array([400, 600, 1])}, 1_001, 1.0)
    assert f"with a last edge of {edge} and above" in str(tail)
