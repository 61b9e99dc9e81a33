"""Two datasets with equal psi, as far apart as integer moves take them."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gencard.core.audit.blocks import minimal
from gencard.core.audit.cells import Cells, key_of
from gencard.core.audit.direction import Direction
from gencard.core.audit.integer_program import farthest
from gencard.core.audit.moves import climb, leads
from gencard.core.dataset import Dataset, check_same_domain
from gencard.core.domain import Clique
from gencard.core.errors import ComputationError, NoExtremalPairError
from gencard.core.statistics.marginal import count_all

PASSES = 2
"""How often every set of moves is gone through."""


@dataclass(frozen=True, slots=True)
class Moves:
    """The kinds of cube move that keep Phi, each a set of attributes led by the one it flips."""

    cliques: tuple[Clique, ...]
    kinds: tuple[Clique, ...]

    @classmethod
    def of(cls, cliques: Sequence[Clique], blocks: Sequence[Clique]) -> "Moves":
        """Moves that reach every one of ``blocks``, which are those of ``outside``.

        On the smallest of them only: a cube move on a larger one is a sum of such moves.
        """
        kinds = (led for axes in minimal(blocks) for led in leads(axes, cliques))
        return cls(tuple(cliques), tuple(kinds))


@dataclass(frozen=True, slots=True, eq=False)
class ExtremalPair:
    """Two datasets that agree on every released marginal, as integers, and differ outside Phi.

    Args:
        low: The side with the smaller ``<beta, table>``, in random order.
        high: The side with the larger one, in random order.

    Raises:
        ComputationError: A released marginal differs.
    """

    cliques: tuple[Clique, ...]
    low: Dataset
    high: Dataset

    def __post_init__(self) -> None:
        check_equal_psi(self.low, self.high, self.cliques)

    @property
    def moved(self) -> int:
        """Records of one side that the other side does not hold."""
        return moved(self.low, self.high)


def extremal_pair(
    dataset: Dataset,
    moves: Moves,
    beta: Direction,
    *,
    rng: np.random.Generator,
    start: ExtremalPair | None = None,
    progress: Callable[[float], None] = lambda _share: None,
) -> ExtremalPair:
    """Move a dataset as far along ``beta``, and as far against it, as moves that keep psi allow.

    Args:
        dataset: ``D*``; both sides have its psi.
        moves: What may be done to it.
        beta: The direction, in blocks outside Phi.
        rng: Decides which moves are tried where there are too many, and the order of the records.
        start: Go on from this pair of the same psi.
        progress: Called with the share done.

    Raises:
        NoExtremalPairError: No move was found.
    """
    sides = (start.low, start.high) if start else (dataset, dataset)
    low, high = (
        _climbed(side, moves, uphill, rng=rng, progress=_half(progress, half))
        for half, (side, uphill) in enumerate(zip(sides, (-beta, beta), strict=True))
    )
    if beta.value(high) <= beta.value(low):
        low, high = (farthest(dataset, moves.cliques, uphill) for uphill in (-beta, beta))
    if beta.value(high) <= beta.value(low):
        raise NoExtremalPairError(
            problem="the records leave no room for a move; try a made-up, denser dataset"
        )
    check_equal_psi(dataset, high, moves.cliques)
    return ExtremalPair(moves.cliques, low, high)


def marginals_digest(dataset: Dataset, cliques: Sequence[Clique]) -> str:
    """SHA-256, in hex, of the released marginals: names, sizes and counts, clique by clique."""
    hasher = hashlib.sha256(b"gencard.marginals.v1")
    for clique, counts in zip(cliques, count_all(dataset, cliques), strict=True):
        header = "".join(f"\x00{name}\x00{dataset.domain.size(name)}" for name in clique)
        hasher.update(f"{header}\x00\x00".encode())
        hasher.update(np.ascontiguousarray(counts, dtype="<i8").tobytes())
    return hasher.hexdigest()


def moved(one: Dataset, other: Dataset) -> int:
    """Records of ``one`` that ``other`` does not hold; both of the same length and domain."""
    codes = np.concatenate([one.codes, other.codes])
    signs = np.repeat([1, -1], [len(one), len(other)])
    _, cell = np.unique(key_of(codes.T, one.domain.sizes), return_inverse=True)
    return int(np.abs(np.bincount(cell, weights=signs)).sum()) // 2


def check_equal_psi(one: Dataset, other: Dataset, cliques: Sequence[Clique]) -> None:
    """Raises ComputationError where a released marginal differs by as little as one record."""
    check_same_domain(one.domain, other.domain)
    tables = zip(count_all(one, cliques), count_all(other, cliques), strict=True)
    if not all(np.array_equal(left, right) for left, right in tables):
        raise ComputationError(problem="the sides of an extremal pair differ in psi")


def _climbed(
    side: Dataset,
    moves: Moves,
    beta: Direction,
    *,
    rng: np.random.Generator,
    progress: Callable[[float], None],
) -> Dataset:
    cells = Cells.of(side)
    steps = PASSES * moves.kinds
    for done, axes in enumerate(steps):
        progress(done / len(steps))
        cells = climb(cells, moves.cliques, axes, beta, rng=rng)
    return cells.shuffled(rng=rng)


def _half(progress: Callable[[float], None], half: int) -> Callable[[float], None]:
    return lambda share: progress((half + share) / 2)
