"""Smallest leak that is detected, by planting leaks of known size."""

from itertools import combinations

import numpy as np
import pytest

from benchmarks.power import PowerCurve, power
from gencard.boxes.reference import Honest
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.uniques import made_up
from gencard.core.card.terms import AuditTerms
from gencard.core.domain import Domain
from gencard.core.errors import InvalidNumberError, OperationCancelledError
from gencard.core.generators.family import ipf

CLIQUES = tuple(combinations("abc", 2))
DATASET = made_up(Domain.of({"a": 3, "b": 3, "c": 3}), 600, rng=np.random.default_rng(0))
PLAN = AuditPlan(CLIQUES, 600, 0, AuditTerms(runs=6))


def honest():
    return Honest(ipf(), CLIQUES)


def test_large_leaks_are_found_and_tiny_ones_missed():
    curve = power(honest(), DATASET, PLAN, shares=(0.001, 1.0), repeats=5)
    assert curve.detections[0] < 4
    assert curve.detections[1] == 5
    assert curve.smallest == 1.0


def test_the_smallest_leak_is_the_one_found_in_80_percent():
    assert PowerCurve((0.01, 0.03, 0.1), (3, 8, 10), 10).smallest == 0.03
    assert PowerCurve((0.01,), (7,), 10).smallest is None


def test_repeats_differ_and_can_be_repeated():
    curves = [power(honest(), DATASET, PLAN, shares=(0.06,), repeats=6) for _ in range(2)]
    assert curves[0] == curves[1]


def test_progress_may_cancel():
    def cancel(stage, share):
        assert stage == "power"
        if share:
            raise OperationCancelledError

    with pytest.raises(OperationCancelledError):
        power(honest(), DATASET, PLAN, shares=(0.5,), repeats=2, progress=cancel)


@pytest.mark.parametrize("wrong", [{"repeats": 0}, {"shares": ()}])
def test_nothing_to_do_is_refused(wrong):
    with pytest.raises(InvalidNumberError):
        power(honest(), DATASET, PLAN, **wrong)
