from collections import Counter
from itertools import combinations
from math import prod

from hypothesis import given
from hypothesis import strategies as st

from gencard.core.domain import Domain
from gencard.core.statistics.marginals import cover
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


def greedy(domain, cliques, most_cells):
    """The rule of ``cover`` by sets of names."""

    def cells(names):
        return prod(map(domain.size, names))

    wanted = [set(c) for c in cliques if not any(set(c) < set(other) for other in cliques)]
    while wanted:
        inside = set(wanted[0])
        while fits := [c - inside for c in wanted if c - inside and cells(c | inside) <= most_cells]:
            shortest = min(map(len, fits))
            completed = Counter(name for one in fits if len(one) == 1 for name in one)
            axis = min(
                completed, key=lambda name: (-completed[name], domain.size(name), name), default=0
            )
            inside |= {axis} if shortest == 1 else min(fits, key=cells)
        yield domain.canonical(inside)
        wanted = [c for c in wanted if not c <= inside]


@given(st.data(), st.integers(1, 200))
def test_the_rule_by_sets_of_names_says_the_same(data, most_cells):
    domain = data.draw(domains(most=5))
    cliques = data.draw(workloads(domain))
    assert cover(domain, cliques, most_cells) == tuple(greedy(domain, cliques, most_cells))


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


def test_all_pairs_and_triples_of_many_attributes():
    domain = Domain(tuple(f"a{i:02d}" for i in range(12)), (2, 3, 5, 2, 7, 3) * 2)
    cliques = [c for order in (2, 3) for c in combinations(domain.attributes, order)]
    assert cover(domain, cliques, 500) == tuple(greedy(domain, cliques, 500))


def test_no_clique_needs_no_set():
    assert cover(Domain(NAMES, (2,) * 5), [], 10) == ()
