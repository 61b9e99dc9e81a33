from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.core.domain import Domain
from gencard.core.errors import TooLargeError, UnknownAttributeError
from gencard.core.statistics.marginals import closure, dimension, maximal
from tests.core.strategies import NAMES, domains, workloads

APPLICATION_1 = Domain.of({"activity": 10, "occupation": 10, "sex": 2})
APPLICATION_2 = Domain.of({"ethnic": 6, "birth": 3, "family": 7, "grade": 5})


def workload_of(domain, data):
    return data.draw(workloads(domain))


@given(st.data())
def test_the_closure_holds_a_set_exactly_if_a_clique_contains_it(data):
    domain = data.draw(domains(most=5))
    cliques = workload_of(domain, data)
    closed = closure(cliques)
    for order in range(len(domain) + 1):
        for inside in map(frozenset, combinations(domain.attributes, order)):
            assert (inside in closed) == any(inside <= set(clique) for clique in cliques)


@given(st.data())
def test_the_maximal_cliques_have_the_same_closure_and_none_contains_another(data):
    domain = data.draw(domains(most=5))
    cliques = workload_of(domain, data)
    kept = maximal(cliques)
    assert closure(kept) == closure(cliques)
    assert set(kept) <= set(cliques)
    alone = [one for one in cliques if not any(set(one) < set(other) for other in cliques)]
    assert kept == tuple(alone)


def test_maximal_keeps_the_order_and_one_of_equal_sets():
    assert maximal([("a",), ("b", "c"), ("d",), ("c", "b"), ("a", "d")]) == (("b", "c"), ("a", "d"))
    assert maximal([("c",), ("a", "b")]) == (("c",), ("a", "b"))


@given(st.data())
def test_the_dimension_is_the_rank_of_the_marginal_operator(data):
    """Brute force: the matrix that sends a table to all of its marginals."""
    domain = data.draw(domains(most=4, largest=3))
    cliques = workload_of(domain, data)
    cells = np.indices(domain.sizes).reshape(len(domain), -1)
    rows = []
    for clique in cliques:
        codes = cells[list(domain.axes(clique))]
        rows += [(codes == cell[:, None]).all(axis=0) for cell in np.unique(codes, axis=1).T]
    assert dimension(domain, cliques) == np.linalg.matrix_rank(np.array(rows, dtype=float))


def test_the_dimensions_of_the_papers_applications():
    pairs = list(combinations(APPLICATION_1.attributes, 2))
    assert APPLICATION_1.cells - dimension(APPLICATION_1, pairs) == 81
    first = APPLICATION_2.attributes[:3]
    cliques = [first, *((name, "grade") for name in first)]
    assert APPLICATION_2.cells - dimension(APPLICATION_2, cliques) == 448


def test_a_clique_of_every_attribute_costs_every_cell():
    domain = Domain(NAMES, (2, 3, 4, 5, 6))
    assert dimension(domain, [NAMES]) == domain.cells


def test_wide_cliques_are_refused_before_their_subsets_are_listed():
    with pytest.raises(TooLargeError):
        closure([tuple(f"a{i}" for i in range(60))])


def test_an_unknown_attribute_has_no_price():
    with pytest.raises(UnknownAttributeError):
        dimension(APPLICATION_1, [("income",)])
