"""Interactions that lie outside Phi: the blocks that an audit tests."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import comb

import numpy as np

from gencard.core.audit.pairs.circuits import MOST_TABLE_CELLS
from gencard.core.audit.pairs.direction import Basis
from gencard.core.audit.plan import AuditPlan
from gencard.core.domain import Clique, Domain
from gencard.core.errors import NoExtremalPairError, TooLargeError
from gencard.core.statistics.linear import LinearStatistic
from gencard.core.statistics.marginals import coefficients, project
from gencard.core.types import FloatArray

MOST_SETS = 200_000
"""Attribute sets that an audit goes through."""
MOST_CELLS = 5_000_000
"""Cells of all blocks of one audit together."""


def outside(domain: Domain, cliques: Sequence[Clique], order: int) -> tuple[Clique, ...]:
    """Attribute sets of at most ``order`` attributes that lie in no clique, smallest first.

    Where the cliques hold every set of that order, the smallest larger ones are taken instead.
    Their blocks are orthogonal to Phi; without a bound on the order they span all that is.

    Raises:
        NoExtremalPairError: Every set lies in a clique.
        TooLargeError: The sets, or their cells, are too many.
    """
    varying = tuple(name for name, size in zip(domain.attributes, domain.sizes, strict=True) if size > 1)
    for most in range(min(order, len(varying)), len(varying) + 1):
        _check_sets([len(varying), *map(len, cliques)], most)
        blocks = _sets(varying, most) - _released(domain, cliques, most)
        if blocks:
            _check_cells(domain, blocks)
            return tuple(sorted(blocks, key=lambda clique: (len(clique), domain.axes(clique))))
    raise NoExtremalPairError(problem="Phi determines every interaction of its attributes")


def minimal(cliques: Sequence[Clique]) -> tuple[Clique, ...]:
    """Select the cliques of ``outside(...)`` that contain no smaller one.

    >>> minimal([("a", "b"), ("a", "b", "c"), ("b", "c", "d")])
    (('a', 'b'), ('b', 'c', 'd'))
    """
    known = set(cliques)
    return tuple(clique for clique in cliques if known.isdisjoint(combinations(clique, len(clique) - 1)))


def neighbours(attribute: str, cliques: Iterable[Clique]) -> frozenset[str]:
    """The other attributes that share a clique with ``attribute``."""
    names = {name for clique in cliques if attribute in clique for name in clique}
    return frozenset(names - {attribute})


def _sets(attributes: Clique, most: int) -> set[Clique]:
    return {clique for length in range(1, most + 1) for clique in combinations(attributes, length)}


def _released(domain: Domain, cliques: Iterable[Clique], most: int) -> set[Clique]:
    return set().union(*(_sets(domain.canonical(clique), most) for clique in cliques))


def _check_sets(lengths: Iterable[int], most: int) -> None:
    sets = sum(comb(length, order) for length in lengths for order in range(1, most + 1))
    if sets > MOST_SETS:
        raise TooLargeError(
            what="The number of attribute sets of the audit",
            limit=MOST_SETS,
            advice="Audit with a lower order, or under a card with fewer attributes.",
        )


def _check_cells(domain: Domain, cliques: Iterable[Clique]) -> None:
    if sum(domain.project(clique).cells for clique in cliques) > MOST_CELLS:
        raise TooLargeError(
            what="The number of cells of the audit's blocks",
            limit=MOST_CELLS,
            advice="Audit with a lower order, or under a card with fewer attributes.",
        )


_RANK = 1e-9
"""Directions whose length is below this part of the longest are rounding."""


def outside_linear(domain: Domain, blocks: Sequence[Clique], linear: Sequence[LinearStatistic]) -> Basis:
    """Coordinates in what marginals leave of the blocks, and linear statistics too.

    Each function has a part in every block inside its clique. In a block only the complement of these
    parts is looked at: it is orthogonal to all that was released. Blocks with none of it are left out.

    Args:
        blocks: Blocks outside all released marginals.

    Raises:
        InvalidInputError, UnknownAttributeError: A statistic does not fit the domain.
        TooLargeError: The table is too large to look for circuits, which alone change what lies inside
            the clique of a linear statistic.
        NoExtremalPairError: No block is left.
    """
    for statistic in linear:
        statistic.check_belongs(domain)
    if linear and domain.cells > MOST_TABLE_CELLS:
        raise TooLargeError(
            what="The table for an audit of linear statistics",
            limit=MOST_TABLE_CELLS,
            advice="Audit with a lower order, or under a card with fewer attributes.",
        )
    parts_by_block = {block: _parts(domain, block, linear) for block in blocks}
    complements = {block: _complement(parts) for block, parts in parts_by_block.items() if len(parts)}
    left = tuple(block for block in blocks if block not in complements or len(complements[block]))
    if not left:
        raise NoExtremalPairError(problem="Phi determines every interaction that the audit tests")
    return Basis(domain, left, {block: complements[block] for block in left if block in complements})


def _parts(domain: Domain, block: Clique, linear: Sequence[LinearStatistic]) -> FloatArray:
    """The functions' coordinates in a block: shape ``(functions, dimension)``."""
    rows = []
    for statistic in linear:
        if set(block) <= set(statistic.clique):
            tables = statistic.scaled.reshape(-1, *domain.project(statistic.clique).sizes)
            rows += [coefficients(project(t, statistic.clique, block)).ravel() for t in tables]
    return np.array(rows)


def _complement(parts: FloatArray) -> FloatArray:
    """Orthonormal rows that span what is orthogonal to all of ``parts``."""
    _, lengths, rows = np.linalg.svd(parts)
    # The right singular vectors after the rank are an orthonormal basis of the null space of `parts`.
    return np.asarray(rows[int(np.sum(lengths > _RANK * max(1.0, lengths.max()))) :], dtype=np.float64)


def basis_of(domain: Domain, plan: AuditPlan) -> Basis:
    """Coordinates in what Phi does not determine of the interactions up to the plan's order.

    Raises:
        NoExtremalPairError: Phi determines every interaction.
        TooLargeError: More blocks than an audit may hold.
        InvalidCliqueError, UnknownAttributeError: Phi does not fit the domain.
    """
    cliques = [domain.canonical(clique) for clique in plan.cliques]
    return outside_linear(domain, outside(domain, cliques, plan.terms.order), plan.linear)
