"""Membership by distance: the area, and its interval."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.errors import DomainMismatchError, InvalidDatasetError, InvalidNumberError
from gencard.measures.privacy.attacks import Membership, Tables
from gencard.measures.privacy.distances import gower_of
from tests.core.mixed import membership
from tests.core.populations import copied, records


@given(*[st.lists(st.sampled_from([0, 0.1, 0.25, 0.3, 1]), min_size=1, max_size=9)] * 2)
def test_area_pair_by_pair(members, others):
    found = Membership(np.array(members), np.array(others))
    pairs = [(one < other) + (one == other) / 2 for one, other in product(members, others)]
    assert found.area == pytest.approx(np.mean(pairs), abs=1e-12)
    swapped = Membership(np.array(others), np.array(members))
    assert swapped.area == pytest.approx(1 - found.area, abs=1e-12)
    low, high = found.interval()
    assert 0 <= low <= found.area + 1e-12
    assert found.area - 1e-12 <= high <= 1
    assert high - low > 0.1


def test_the_area_s_interval_covers():
    """Normal scores, members nearer by a shift, in unequal numbers."""
    rng, held = np.random.default_rng(13), 0
    truth = 0.7602499389  # P(N(0, 2) <= 1)
    for _ in range(300):
        scores = (1 / (1 + np.exp(-rng.normal(shift, 1, rows))) for shift, rows in ((0, 40), (1, 120)))
        low, high = Membership(*scores).interval()
        held += low <= truth <= high
    assert 0.91 <= held / 300 <= 0.99


def test_copies_are_members():
    rng = np.random.default_rng(14)
    full, half, none = (copied(rng, share) for share in (1, 0.5, 0))
    areas = [membership(each, gower_of(each.train, each.holdout)) for each in (full, half, none)]
    assert areas[0].area > 0.999
    assert areas[0].interval()[0] < 1
    assert 0.65 < areas[1].area < 0.8
    low, high = areas[2].interval(0.99)
    assert low < 0.5 < high


def test_sums_in_another_order_tie():
    found = Membership(np.array([0.1 + 0.2, np.nan]), np.array([0.3]))
    assert found.area == 0.5


def test_what_has_no_distance_is_refused():
    member = Membership(np.zeros(1), np.ones(1))
    for confidence in (0, 1, np.nan):
        with pytest.raises(InvalidNumberError):
            member.interval(confidence)
    with pytest.raises(InvalidDatasetError):
        Membership(np.array([np.nan]), np.ones(1))
    one, other = records([0, 1]), records([0], [0])
    with pytest.raises(DomainMismatchError):
        membership(Tables(one, one, one), gower_of(other))
