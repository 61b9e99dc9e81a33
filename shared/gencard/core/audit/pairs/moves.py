"""Cube moves: integer steps that change a table and leave every released marginal as it is.

A cube move on a set ``S`` of attributes that lies in no clique takes records from the corners of one
parity of a cube (two levels on each axis of ``S``) and flips their first attribute of ``S`` to the
other level: they then stand on the corners of the other parity. Every clique leaves out some
attribute of ``S``, so what it loses at one corner it gains at the next. The records need to agree only
on the attributes that share a clique with the one that is flipped.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gencard.core.audit.pairs.blocks import neighbours
from gencard.core.audit.pairs.cells import Cells
from gencard.core.audit.pairs.cubes import Cubes, cubes
from gencard.core.audit.pairs.direction import Direction
from gencard.core.domain import Clique
from gencard.core.types import FloatArray, IntArray

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
    return tuple(
        (first, *(name for name in axes if name != first)) for first in reversed(contexts.values())
    )


def climb(
    cells: Cells, cliques: Sequence[Clique], axes: Clique, beta: Direction, *, rng: np.random.Generator
) -> Cells:
    """Take the cube moves on ``axes`` that raise ``<beta, table>``, the steepest first.

    Returns:
        Cells with the same marginals on ``cliques``; the same object where no move helps.
    """
    around = neighbours(axes[0], cliques) - set(axes)
    context = tuple(name for name in cells.domain.attributes if name in around)
    relevant = beta.moved_by(axes, context)
    if not relevant.cliques:
        return cells
    found = cubes(cells, axes, context, rng=rng)
    levels = _flipped_levels(found, cells, axes[0])
    gain = _gains(cells, axes[0], relevant)[found.corners, levels].sum(axis=1)
    steep = np.flatnonzero(gain > _LEAST_GAIN * relevant.largest)
    if not len(steep):
        return cells
    steep = steep[np.argsort(-gain[steep], kind="stable")]
    return _moved(cells, axes[0], found.corners[steep], levels[steep])


def _flipped_levels(found: Cubes, cells: Cells, attribute: str) -> NDArray[np.int64]:
    """The other level of the first axis, for each corner; shape of ``found.corners``."""
    both = found.low[:, 0] + found.high[:, 0]
    levels: NDArray[np.int64] = both[:, None] - cells.column(attribute)[found.corners]
    return levels


def _gains(cells: Cells, attribute: str, beta: Direction) -> FloatArray:
    """What one record adds to ``<beta, table>`` by going to each level; shape ``(m, size)``."""
    gains = np.zeros((len(cells.counts), cells.domain.size(attribute)))
    for clique, table in zip(beta.cliques, beta.tables, strict=True):
        rest = tuple(cells.column(name) for name in clique if name != attribute)
        gains += np.moveaxis(table, clique.index(attribute), -1)[rest]
    here = cells.column(attribute)[:, None].astype(np.intp)
    return gains - np.take_along_axis(gains, here, axis=1)


def _moved(cells: Cells, attribute: str, corners: NDArray[np.intp], levels: NDArray[np.int64]) -> Cells:
    """Take each move in turn as often as the counts allow."""
    counts, amounts = _take(corners, cells.counts)
    taken = np.flatnonzero(amounts)
    arrivals = cells.codes[corners[taken].ravel()]
    arrivals[:, cells.domain.axis(attribute)] = levels[taken].ravel()
    return Cells.merged(
        cells.domain,
        np.vstack([cells.codes, arrivals]),
        np.concatenate([counts, np.repeat(amounts[taken], corners.shape[1])]),
    )


def _take(corners: NDArray[np.intp], counts: IntArray) -> tuple[IntArray, IntArray]:
    """What is left in each cell, and how often each move was taken.

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
        first[touched[::-1].ravel()] = np.repeat(order[::-1], touched.shape[1])
        mine = (first[touched] == order[:, None]).all(axis=1)
        room = left[touched[mine]].min(axis=1)
        left[touched[mine]] -= room[:, None]
        amounts[open_moves[mine]] = room
    return left, amounts
