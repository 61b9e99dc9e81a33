"""Cube moves: integer steps that change a table and leave every released marginal as it is.

A cube move on a set ``S`` of attributes that lies in no clique takes records from the corners of one
parity of a cube (two levels on each axis of ``S``) and flips their first attribute of ``S`` to the
other level: they then stand on the corners of the other parity. Every clique leaves out some
attribute of ``S``, so what it loses at one corner it gains at the next. The records need to agree only
on the attributes that share a clique with the one that is flipped.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.audit.direction import MOST_TABLE_CELLS, Basis, Direction
from gencard.core.audit.plan import AuditPlan
from gencard.core.coding import StructuralZeros, impossible_records
from gencard.core.dataset import Cells, key_of
from gencard.core.domain import Clique, Domain
from gencard.core.errors import NoExtremalPairError, TooLargeError
from gencard.core.statistics.linear import LinearStatistic
from gencard.core.statistics.marginals import coefficients, project
from gencard.core.types import FloatArray, IntArray

# Interactions that lie outside Phi: the blocks that an audit tests.

_LOWER_ORDER = "Audit with a lower order, or under a card with fewer attributes."

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
        lengths = [len(varying), *map(len, cliques)]
        sets = sum(comb(length, size) for length in lengths for size in range(1, most + 1))
        if sets > MOST_SETS:
            what = "The number of attribute sets of the audit"
            raise TooLargeError(what=what, limit=MOST_SETS, advice=_LOWER_ORDER)
        released = set[Clique]().union(*(_sets(domain.canonical(clique), most) for clique in cliques))
        blocks = _sets(varying, most) - released
        if not blocks:
            continue
        if sum(domain.project(clique).cells for clique in blocks) > MOST_CELLS:
            what = "The number of cells of the audit's blocks"
            raise TooLargeError(what=what, limit=MOST_CELLS, advice=_LOWER_ORDER)
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


_RANK = 1e-9
"""Directions whose length is below this part of the longest are rounding."""


def outside_linear(domain: Domain, blocks: Sequence[Clique], linear: Sequence[LinearStatistic]) -> Basis:
    """Coordinates in what marginals leave of the blocks, and linear statistics too.

    Each function has a part in every block inside its clique. In a block only the complement of these
    parts is looked at: it is orthogonal to all that was released. Blocks with none of it are left out.

    Args:
        blocks: Blocks outside all released marginals.
    """
    for statistic in linear:
        statistic.check_belongs(domain)
    if linear and domain.cells > MOST_TABLE_CELLS:
        what = "The table for an audit of linear statistics"
        raise TooLargeError(what=what, limit=MOST_TABLE_CELLS, advice=_LOWER_ORDER)
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


MOST_CUBES = 500_000
"""Cubes held at once; where more could be built, a random part of them is."""
_SLOTS = 2**18
"""Slots of the hash table that marks keys with faces of both parities; a power of two."""


@dataclass(frozen=True, slots=True, eq=False)
class Cubes:
    """Corners of one parity, ready occupied, of ``n`` cubes on the same attributes.

    Args:
        corners: Positions in ``Cells``, shape ``(n, 2 ** (axes - 1))``.
        odd: Whether the corner that is high on the first axis and low on all others is among them.
        low: The lower level on each axis, shape ``(n, axes)``.
        high: The higher level on each axis, shape ``(n, axes)``.
    """

    corners: NDArray[np.intp]
    odd: NDArray[np.bool_]
    low: NDArray[np.int64]
    high: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.odd)


def cubes(cells: Cells, axes: Clique, context: Clique, *, rng: np.random.Generator) -> Cubes:
    """All cubes on ``axes`` with corners of one parity occupied and equal on ``context``.

    Built axis by axis: the odd corners of a cube are the odd corners of its lower face with the even
    corners of its upper face. Where that makes more than ``MOST_CUBES``, a random part of them.
    """
    # One-dimensional cubes first: a cell, and another level to which it could go.
    levels = cells.column(axes[0]).astype(np.int64)
    size = cells.domain.size(axes[0])
    pairs = _some(len(levels) * (size - 1), rng=rng)
    cell, step = pairs // (size - 1), pairs % (size - 1) + 1
    here, there = levels[cell], (levels[cell] + step) % size
    low, high = np.minimum(here, there), np.maximum(here, there)
    faces = Cubes(cell[:, None], here > there, low[:, None], high[:, None])
    for known in range(1, len(axes)):
        if not len(faces):
            break
        faces = _doubled(faces, cells, axes[known], (*axes[known + 1 :], *context), rng=rng)
    return faces


def _doubled(
    faces: Cubes, cells: Cells, axis: str, shared: Clique, *, rng: np.random.Generator
) -> Cubes:
    """Cubes with one more axis: pairs of opposite faces that agree on all that is ``shared``."""
    representative = faces.corners[:, 0]
    level = cells.column(axis).astype(np.int64)[representative]
    # The key is equal where two faces span the same levels and have the same context.
    columns = [cells.column(name)[representative] for name in shared]
    sizes = [cells.domain.size(name) for name in shared]
    spans = [*faces.low.T, *faces.high.T]
    key = key_of([*spans, *columns], [*(int(span.max()) + 1 for span in spans), *sizes])
    left, right = _partners(key, faces.odd, rng=rng)
    apart = level[left] != level[right]
    left, right = left[apart], right[apart]
    low, high = np.minimum(level[left], level[right]), np.maximum(level[left], level[right])
    return Cubes(
        np.hstack([faces.corners[left], faces.corners[right]]),
        level[right] < level[left],  # the right face is the odd one
        np.column_stack([faces.low[left], low]),
        np.column_stack([faces.high[left], high]),
    )


def _partners(
    key: IntArray, odd: NDArray[np.bool_], *, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pairs of an even and an odd face with equal key: by key, then in the order of the faces."""
    # Leaving out most faces whose key no face of the other parity has keeps the sort small. Keys that
    # share a slot keep some faces without a partner, but no face with a partner is lost.
    slot = key & (_SLOTS - 1)
    occupied = np.zeros((2, _SLOTS), dtype=np.bool_)
    occupied[0, slot[odd]] = True
    occupied[1, slot[~odd]] = True
    faces = np.flatnonzero((occupied[0] & occupied[1])[slot])
    faces = faces[_stable_order(key[faces])]
    is_odd, ordered = odd[faces], key[faces]
    even, odds = faces[~is_odd], faces[is_odd]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))  # keys are not negative: 0 begins a group, too
    odds_before: IntArray = np.cumsum(is_odd)[begins] - is_odd[begins]
    of_key: IntArray = np.diff(odds_before, append=len(odds))
    evens = np.diff(begins, append=len(faces)) - of_key
    begin, number = np.repeat(odds_before, evens), np.repeat(of_key, evens)
    ends = np.cumsum(number)
    total = int(number.sum())
    pairs = _some(total, rng=rng)
    if len(pairs) == total:
        row = np.repeat(np.arange(len(even)), number)
    else:  # a list of the rows of all pairs may be too large
        row = np.searchsorted(ends, pairs, side="right")
    return even[row], odds[begin[row] + pairs - (ends[row] - number[row])]


def _stable_order(key: IntArray) -> NDArray[np.intp]:
    """Return a stable ``argsort``, by 16 bits at a time: numpy sorts 16 bits in linear time."""
    order = np.argsort(key.astype(np.uint16), kind="stable")
    rest = key >> 16
    while rest.any():
        order = order[np.argsort(rest[order].astype(np.uint16), kind="stable")]
        rest >>= 16
    return order


def _some(number: int, *, rng: np.random.Generator) -> IntArray:
    """All of ``0 .. number - 1``, or a random part where that is too many."""
    if number <= MOST_CUBES:
        return np.arange(number)
    # Drawn with replacement: a permutation of all numbers might not fit into memory.
    return np.unique(rng.integers(number, size=MOST_CUBES))


_LEAST_GAIN = 1e-9
"""Gains below this part of beta's largest entry are rounding."""


def leads(axes: Clique, cliques: Sequence[Clique]) -> tuple[Clique, ...]:
    """``axes`` led by each attribute that, as the flipped one, opens different moves.

    >>> leads(("a", "d"), [("a", "b"), ("b", "c"), ("c", "d")])
    (('a', 'd'), ('d', 'a'))
    >>> leads(("a", "b", "c"), [("a", "b"), ("b", "c"), ("a", "c")])
    (('a', 'b', 'c'),)
    """
    contexts = {neighbours(first, cliques) - set(axes): first for first in reversed(axes)}
    firsts = reversed(contexts.values())
    return tuple((first, *(name for name in axes if name != first)) for first in firsts)


def climb(
    cells: Cells,
    cliques: Sequence[Clique],
    axes: Clique,
    beta: Direction,
    *,
    zeros: Sequence[StructuralZeros] = (),
    rng: np.random.Generator,
) -> Cells:
    """Take the cube moves on ``axes`` that raise ``<beta, table>``, the steepest first.

    Args:
        zeros: Cells that cannot occur; moves into them are left out.

    Returns:
        Cells with the same marginals on ``cliques``; the same object where no move helps.
    """
    attribute = axes[0]
    around = neighbours(attribute, cliques) - set(axes)
    context = tuple(name for name in cells.domain.attributes if name in around)
    relevant = beta.moved_by(axes, context)
    if not relevant.cliques:
        return cells
    ready = cubes(cells, axes, context, rng=rng)
    # The other level of the first axis, for each corner.
    both = ready.low[:, 0] + ready.high[:, 0]
    levels: NDArray[np.int64] = both[:, None] - cells.column(attribute)[ready.corners]
    gain = _gains(cells, attribute, relevant)[ready.corners, levels].sum(axis=1)
    steep = np.flatnonzero(gain > _LEAST_GAIN * relevant.largest)
    # After the gains: cells need to be listed only for the moves that gain.
    entered = [zero for zero in zeros if attribute in zero.clique]
    if entered:
        arrivals = _arrivals(cells, attribute, ready.corners[steep], levels[steep])
        impossible = impossible_records(cells.domain, arrivals, entered)
        steep = steep[~impossible.reshape(ready.corners[steep].shape).any(axis=1)]
    if not len(steep):
        return cells
    steep = steep[np.argsort(-gain[steep], kind="stable")]
    return _moved(cells, attribute, ready.corners[steep], levels[steep])


def _gains(cells: Cells, attribute: str, beta: Direction) -> FloatArray:
    """Return the change of ``<beta, table>`` if one record goes to each level; shape ``(m, size)``."""
    gains = np.zeros((len(cells.counts), cells.domain.size(attribute)))
    for clique, table in zip(beta.cliques, beta.tables, strict=True):
        rest = tuple(cells.column(name) for name in clique if name != attribute)
        gains += np.moveaxis(table, clique.index(attribute), -1)[rest]
    here = cells.column(attribute)[:, None].astype(np.intp)
    return gains - np.take_along_axis(gains, here, axis=1)


def _arrivals(
    cells: Cells, attribute: str, corners: NDArray[np.intp], levels: NDArray[np.int64]
) -> NDArray[Any]:
    """Codes of the cells to which the corners go, corner by corner."""
    arrivals = cells.codes[corners.ravel()]
    arrivals[:, cells.domain.axis(attribute)] = levels.ravel()
    return arrivals


def _moved(cells: Cells, attribute: str, corners: NDArray[np.intp], levels: NDArray[np.int64]) -> Cells:
    """Take each move in turn as often as the counts allow."""
    counts, amounts = _take(corners, cells.counts)
    rows = np.flatnonzero(amounts)
    arrivals = _arrivals(cells, attribute, corners[rows], levels[rows])
    codes = np.vstack([cells.codes, arrivals])
    arriving = np.repeat(amounts[rows], corners.shape[1])
    return Cells.merged(cells.domain, codes, np.concatenate([counts, arriving]))


def _take(corners: NDArray[np.intp], counts: IntArray) -> tuple[IntArray, IntArray]:
    """Return the records left in each cell, and how often each move was taken.

    The same as taking the moves one after the other, done in rounds: a move whose corners no earlier
    open move touches is taken at once.
    """
    left = counts.copy()
    amounts = np.zeros(len(corners), dtype=np.int64)
    first = np.empty(len(counts), dtype=np.intp)
    open_moves = np.arange(len(corners))
    while len(open_moves):
        open_moves = open_moves[left[corners[open_moves]].min(axis=1) > 0]
        touched = corners[open_moves]
        order = np.arange(len(open_moves))
        # numpy keeps the last of several assignments to one place: in reverse order, that is the first
        # move that touches the cell.
        first[touched[::-1].ravel()] = np.repeat(order[::-1], touched.shape[1])
        mine = (first[touched] == order[:, None]).all(axis=1)
        room = left[touched[mine]].min(axis=1)
        left[touched[mine]] -= room[:, None]
        amounts[open_moves[mine]] = room
    return left, amounts
