"""Junction trees: beside min-fill as the textbook says it, and quick where there are many attributes."""

import time
from itertools import combinations, pairwise
from math import prod

import pytest
from hypothesis import given

from gencard.core.domain import Domain
from gencard.core.errors import ModelTooLargeError
from gencard.core.generators.junction_tree import JunctionTree
from gencard.core.statistics.marginals import maximal
from tests.core.strategies import domains, workloads


def textbook(domain, cliques):
    """Eliminate the attribute that adds fewest edges; ties to the smallest table, then to the order."""
    edges = {frozenset(pair) for clique in cliques for pair in combinations(clique, 2)}
    left, eliminated = list(domain.attributes), []
    while left:
        choices = []
        for name in left:
            near = [other for other in left if {name, other} in edges]
            fill = [pair for pair in combinations(near, 2) if frozenset(pair) not in edges]
            cells = prod(domain.size(one) for one in [name, *near])
            choices.append((len(fill), cells, domain.axis(name), name, near, fill))
        *_, name, near, fill = min(choices)
        eliminated.append(domain.canonical([name, *near]))
        edges |= set(map(frozenset, fill))
        left.remove(name)
    return maximal(eliminated)


@given(domains(most=5, largest=3).flatmap(lambda domain: workloads(domain).map(lambda c: (domain, c))))
def test_the_cliques_are_those_of_min_fill(drawn):
    domain, cliques = drawn
    tree = JunctionTree.of(domain, cliques)
    assert set(tree.cliques) == set(textbook(domain, cliques))
    assert all(any(set(clique) <= set(held) for held in tree.cliques) for clique in cliques)


def test_a_refusal_names_what_is_too_large_without_looking_further():
    domain = Domain.of({f"x{number}": 10 for number in range(60)})
    begin = time.thread_time()
    with pytest.raises(ModelTooLargeError, match="x0, x1, x2"):
        JunctionTree.of(domain, list(combinations(domain.attributes, 2)), most_cells=10**6)
    assert time.thread_time() - begin < 2


def test_a_chain_of_six_hundred_attributes_takes_no_time():
    domain = Domain.of({f"x{number}": 3 for number in range(600)})
    chain = list(pairwise(domain.attributes))
    begin = time.thread_time()
    tree = JunctionTree.of(domain, chain, most_cells=10**6)
    assert time.thread_time() - begin < 5
    assert set(tree.cliques) == set(chain)
