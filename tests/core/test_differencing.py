"""S26 in the core: what two grants tell together, against linear algebra and exhaustive search."""

from itertools import product
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.linalg import matrix_rank

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.statistics.marginals import Grant, closure, shows_a_difference, subsets
from gencard.core.statistics.psi import rounded
from tests.core.strategies import NAMES, brute_count, measured, queries, workloads


@st.composite
def two_workloads(draw):
    sizes = draw(st.lists(st.integers(2, 3), min_size=1, max_size=3))
    domain = Domain(NAMES[: len(sizes)], tuple(sizes))
    return domain, draw(workloads(domain)), draw(workloads(domain))


def in_span(rows, others):
    return matrix_rank(np.vstack([rows, others])) == matrix_rank(rows)


@given(two_workloads())
def test_on_two_versions_every_two_workloads_share_something(drawn):
    """The shared span is the sum of the blocks in both closures; it is never empty."""
    domain, first, second = drawn
    one, other = queries(domain, first), queries(domain, second)
    shared = matrix_rank(one) + matrix_rank(other) - matrix_rank(np.vstack([one, other]))
    blocks = closure(first) & closure(second)
    assert shared == sum(prod(domain.size(name) - 1 for name in block) for block in blocks) >= 1


@given(two_workloads())
def test_on_one_version_two_workloads_determine_only_what_one_of_them_does(drawn):
    domain, first, second = drawn
    together = queries(domain, [*first, *second])
    for clique in map(tuple, map(sorted, subsets(domain.attributes))):
        either = frozenset(clique) in closure(first) | closure(second)
        assert in_span(together, queries(domain, [clique])) == either


@given(measured(), st.data())
def test_with_and_without_a_person_every_clique_names_the_person(drawn, data):
    """Why another version is refused: subtraction alone reads the record that came or went."""
    dataset, cliques = drawn
    person = data.draw(st.integers(0, len(dataset) - 1))
    after = Dataset(dataset.domain, np.delete(dataset.codes, person, axis=0))
    for clique in cliques:
        (cell,) = np.argwhere(brute_count(dataset, clique) - brute_count(after, clique)).tolist()
        assert cell == dataset.codes[person, list(dataset.domain.axes(clique))].tolist()
    assert shows_a_difference(Grant("after", "s"), [Grant("before", "s")])


def partition(counts, *roundings):
    """Return the counts that cannot be told apart, rounded to each of these."""
    seen = zip(*(rounded(counts, base).tolist() for base in roundings), strict=True)
    groups = {}
    for count, values in zip(counts.tolist(), seen, strict=True):
        groups.setdefault(values, set()).add(count)
    return {frozenset(group) for group in groups.values()}


def test_roundings_that_tell_more_together_are_never_granted_together():
    """Exhaustive: every count up to 200, every two multiples up to 12."""
    counts, caught = np.arange(200), 0
    for one, other in product(range(1, 13), repeat=2):
        both = partition(counts, one, other)
        more = both not in (partition(counts, one), partition(counts, other))
        if more:
            caught += 1
            assert shows_a_difference(Grant("v", "s", one), [Grant("v", "s", other)])
    assert caught > 60


def test_the_same_counts_again_and_rounded_ones_after_unrounded_ones_show_nothing_more():
    same = Grant("v", "s", 5)
    assert not shows_a_difference(same, [same, Grant("v", "s")])
    assert not shows_a_difference(same, [])


def test_unrounded_counts_after_rounded_ones_undo_the_rounding():
    assert shows_a_difference(Grant("v", "s"), [Grant("v", "s", 5)])
    assert shows_a_difference(Grant("v", "s"), [Grant("v", "s"), Grant("v", "s", 5)])


def test_one_other_grant_among_many_is_enough():
    grants = [Grant("v", "s")] * 3
    assert shows_a_difference(Grant("v", "s"), [*grants, Grant("v", "other edges")])
    assert shows_a_difference(Grant("v", "s"), [Grant("w", "s"), *grants])
