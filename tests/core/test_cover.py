from itertools import combinations
from math import prod

from hypothesis import given
from hypothesis import strategies as st

from gencard.core.domain import Domain
from gencard.core.statistics.cover import cover
from tests.core.strategies import NAMES, domains, workloads


@given(st.data(), st.integers(1, 200))
def test_every_clique_lies_inside_a_set_and_no_set_is_too_large(data, most_cells):
    domain = data.draw(domains(most=5))
    cliques = data.draw(workloads(domain))
    sets = cover(domain, cliques, most_cells)
    for clique in cliques:
        assert any(set(clique) <= set(inside) for inside in sets)
    for inside in sets:
        assert inside == domain.canonical(inside)
        alone = any(set(inside) == set(clique) for clique in cliques)
        assert alone or domain.project(inside).cells <= most_cells


@given(st.data())
def test_with_room_for_all_one_set_is_enough(data):
    domain = data.draw(domains(most=5))
    cliques = data.draw(workloads(domain))
    assert len(cover(domain, cliques, domain.cells)) == 1


def test_all_pairs_of_fifteen_attributes_take_few_tables():
    sizes = (7, 3, 2, 8, 5, 2, 3, 6, 6, 10, 10, 10, 13, 5, 5)
    domain = Domain(tuple(f"a{i:02d}" for i in range(15)), sizes)
    sets = cover(domain, list(combinations(domain.attributes, 2)), 2**14)
    assert len(sets) <= 15
    assert sum(prod(domain.project(inside).sizes) for inside in sets) < 150_000


def test_no_clique_needs_no_set():
    assert cover(Domain(NAMES, (2,) * 5), [], 10) == ()
