import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.domain import Domain
from gencard.core.errors import InvalidPsiError, TooLargeError
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.psi import Measurement, Psi, check_consistent
from tests.core.strategies import measured

DOMAIN = Domain.of({"a": 2, "b": 2, "c": 2})


def psi_of(*measurements):
    return Psi(DOMAIN, tuple(Measurement(clique, np.array(values)) for clique, values in measurements))


@given(measured())
def test_what_is_measured_is_consistent(drawn):
    check_consistent(measure_dataset(*drawn))


@pytest.mark.parametrize(
    ("psi", "problem"),
    [
        (psi_of((("a",), [1, -1]), (("b",), [0, 0])), "negative"),
        (psi_of((("a",), [0.5, 0.5])), "not an integer"),
        (psi_of((("a",), [0, 0])), "no record"),
        (psi_of((("a",), [1, 2]), (("b",), [1, 1])), "number of records"),
        (psi_of((("a",), [1, 2]), (("a", "b"), [[2, 0], [0, 1]])), r"disagree on \(a\)"),
        (psi_of((("a", "b"), [[1, 0], [0, 1]]), (("c", "b"), [[2, 0], [0, 0]])), r"disagree on \(b\)"),
    ],
    ids=["negative", "fraction", "empty", "totals", "one inside the other", "overlap"],
)
def test_a_contradiction_is_named(psi, problem):
    with pytest.raises(InvalidPsiError, match=problem):
        check_consistent(psi)


@given(measured(), st.data())
def test_one_record_more_in_one_of_several_marginals_is_found(drawn, data):
    dataset, cliques = drawn
    psi = measure_dataset(dataset, cliques)
    which = data.draw(st.integers(0, len(cliques) - 1))
    values = psi.measurements[which].values.copy()
    values.flat[data.draw(st.integers(0, values.size - 1))] += 1
    changed = list(psi.measurements)
    changed[which] = Measurement(psi.cliques[which], values)
    if len(cliques) == 1:
        check_consistent(Psi(psi.domain, tuple(changed)))
    else:
        with pytest.raises(InvalidPsiError, match="disagree"):
            check_consistent(Psi(psi.domain, tuple(changed)))


def test_reconciled_noise_may_differ_by_rounding_and_no_more():
    def noisy(gap):
        one = Measurement(("a",), np.array([10.25, 5.25]), 2.0)
        other = Measurement(("a", "b"), np.array([[10.0, 0.25 + gap], [5.25, 0.0]]), 2.0)
        return Psi(DOMAIN, (one, other))

    check_consistent(noisy(1e-10))
    with pytest.raises(InvalidPsiError, match="disagree"):
        check_consistent(noisy(1e-6))


def test_cliques_too_wide_to_compare_are_refused():
    domain = Domain(tuple(f"a{i}" for i in range(30)), (1,) * 30)
    with pytest.raises(TooLargeError):
        check_consistent(Psi(domain, (Measurement(domain.attributes, np.ones(domain.sizes)),)))
