"""The generators that the sizes of marginals suit, the most suitable first."""

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from gencard.core.domain import Domain
from gencard.core.generators.registry import fits, generator_named, suited

MOST = 50_000_000
MANY = Domain.of({f"a{index}": 5 for index in range(40)})
CHAIN, PAIRS = [*pairwise(MANY.attributes)], [*combinations(MANY.attributes, 2)]


def names(cliques, domain=MANY, *, max_cells=MOST, **options):
    return suited(cliques, domain.covered_by(cliques), zeros=(), max_cells=max_cells, **options)


def test_a_small_table_is_fitted_whole():
    assert names(CHAIN[:7])[0] == "ipf"
    assert names(CHAIN[:9]) == ("graphical", "ipf", "support-raking"), "5 ** 10 cells"


def test_a_tree_that_fits_comes_before_draws():
    assert names(CHAIN) == ("graphical", "support-raking")


def test_all_pairs_of_many_columns_are_raked():
    assert names(PAIRS) == ("support-raking",)


def test_moments_need_a_method_that_takes_them():
    assert names(CHAIN[:3], moments=True) == ("maximum-entropy", "reduced-space")
    assert names(CHAIN, moments=True) == ("reduced-space",)
    assert (
        suited((), Domain.of({"a": 5}), zeros=(), max_cells=MOST, moments=True)[0] == "maximum-entropy"
    )


@given(st.lists(st.integers(2, 40), min_size=2, max_size=8), st.integers(1, 8), st.integers(10, 10**8))
def test_what_is_named_fits_and_what_is_not_does_not(sizes, step, max_cells):
    domain = Domain.of({f"a{index}": size for index, size in enumerate(sizes)})
    cliques = [*combinations(domain.attributes, 2)][::step]
    covered = domain.covered_by(cliques)
    named = names(cliques, domain, max_cells=max_cells)
    for name in ("ipf", "graphical", "support-raking"):
        generator = generator_named(name, structural_zeros=(), max_cells=max_cells)
        assert (name in named) == fits(generator, cliques, covered)


def test_a_large_tree_comes_after_drawn_records():
    """All pairs of eleven attributes of a panel: 42 million cells, for which a job lacks memory."""
    sizes = (9, 6, 6, 12, 2, 2, 2, 2, 8, 12, 7)
    domain = Domain.of({f"a{place}": size for place, size in enumerate(sizes)})
    pairs = [*combinations(domain.attributes, 2)]
    assert names(pairs, domain) == ("support-raking", "graphical", "ipf")
