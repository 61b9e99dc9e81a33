"""What linear statistics leave unsaid of the blocks inside their cliques."""

from collections.abc import Sequence

import numpy as np

from gencard.core.audit.pairs.circuits import MOST_CELLS
from gencard.core.audit.pairs.direction import Basis
from gencard.core.domain import Clique, Domain
from gencard.core.errors import NoExtremalPairError, TooLargeError
from gencard.core.statistics.interactions import coefficients
from gencard.core.statistics.linear import LinearStatistic
from gencard.core.statistics.table import project
from gencard.core.types import FloatArray

_RANK = 1e-9
"""Directions whose length is below this part of the longest are rounding."""


def outside_linear(domain: Domain, blocks: Sequence[Clique], linear: Sequence[LinearStatistic]) -> Basis:
    """Coordinates in what marginals leave of the blocks, and linear statistics too.

    Each function has a part in every block inside its clique. In a block only the complement of these
    parts is looked at: it is orthogonal to all that was released. Blocks with none of it are left out.

    Args:
        blocks: Those outside all released marginals.

    Raises:
        InvalidInputError, UnknownAttributeError: A statistic does not fit the domain.
        TooLargeError: The table is too large to look for circuits, which alone change what lies inside
            the clique of a linear statistic.
        NoExtremalPairError: Nothing is left.
    """
    for statistic in linear:
        statistic.check_belongs(domain)
    if linear and domain.cells > MOST_CELLS:
        raise TooLargeError(what="The table for an audit of linear statistics", limit=MOST_CELLS)
    said = {block: _parts(domain, block, linear) for block in blocks}
    kept = {block: _complement(parts) for block, parts in said.items() if len(parts)}
    left = tuple(block for block in blocks if block not in kept or len(kept[block]))
    if not left:
        raise NoExtremalPairError(problem="Phi determines every interaction that the audit tests")
    return Basis(domain, left, {block: kept[block] for block in left if block in kept})


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
    return np.asarray(rows[int(np.sum(lengths > _RANK * max(1.0, lengths.max()))) :], dtype=np.float64)
