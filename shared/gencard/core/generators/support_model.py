"""A distribution on a list of records, and the bounded junction tree that they are drawn from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import pi, prod

import numpy as np
from numpy.typing import NDArray

from gencard.core.coding import StructuralZeros, zeros_inside
from gencard.core.dataset import Dataset, code_dtype
from gencard.core.domain import Clique, Domain
from gencard.core.errors import DomainMismatchError, InvalidNumberError, NotConvergedError
from gencard.core.generators.contract import rng_of
from gencard.core.generators.family import LogLinear
from gencard.core.generators.junction_tree import cells_needed, edges
from gencard.core.generators.models import TreeModel
from gencard.core.generators.sampling import Ladder, raw_words, scale_to_one
from gencard.core.generators.targets import implied, pairs, restricted
from gencard.core.statistics.marginals import cell_numbers, total
from gencard.core.statistics.psi import Psi
from gencard.core.types import Counts, Table


class SupportTable:
    """Weights on records as the blocks of a fit: a marginal is a count of weights, scaling a look-up.

    Cell numbers are computed where they are needed and kept for one block only, so memory grows with
    records times attributes and not with records times marginals.

    Args:
        support: The records.
        weights: One for each, zero or more, with sum 1; scaled in place.
        blocks: The cliques whose marginals are fitted.
    """

    def __init__(self, support: Dataset, weights: Table, blocks: Sequence[Clique]) -> None:
        self.blocks = tuple(blocks)
        self.factors = [weights]
        self._sizes = [support.domain.project(block).sizes for block in self.blocks]
        self._support = support
        self._latest: tuple[int, NDArray[np.intp]] = (-1, np.zeros(0, dtype=np.intp))

    def marginal(self, block: int) -> Table:
        """The weight in each cell of a block; shape as the block's sizes, sum as the weights'."""
        sizes = self._sizes[block]
        sums = np.bincount(self._cells(block), self.factors[0], minlength=prod(sizes))
        return np.asarray(sums, dtype=np.float64).reshape(sizes)

    def scale(self, block: int, ratio: Table) -> None:
        """Multiply the weight of each record by the ratio of its cell, in place."""
        self.factors[0] *= ratio.ravel().take(self._cells(block))

    def _cells(self, block: int) -> NDArray[np.intp]:
        """The cell of each record in a block, the last attribute running fastest."""
        if self._latest[0] != block:
            columns = [self._support.column(name) for name in self.blocks[block]]
            self._latest = block, cell_numbers(columns, self._sizes[block]).astype(np.intp, copy=False)
        return self._latest[1]


_BLOCK_ROWS = 2**16


@dataclass(frozen=True, slots=True, eq=False)
class SupportModel:
    """Independent records, each the support's record ``i`` with probability ``weights[i]``.

    Args:
        support: Records that a model drew, not real ones.
        weights: Shape ``(len(support),)``, zero or more; scaled to sum to 1. Read-only.
        residual: Mean total variation of the marginals from those that were fitted; None where the
            method does not state it.
        shares: Each record's share of the 64-bit words.

    Raises:
        DomainMismatchError: There is not one weight for each record.
        InvalidNumberError: A weight is negative or not finite, or all are zero.
    """

    support: Dataset
    weights: NDArray[np.float64]
    residual: float | None = None
    shares: Ladder = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.weights.shape != (len(self.support),):
            raise DomainMismatchError(problem="the support needs one weight for each record")
        weights = np.array(self.weights, dtype=np.float64)
        scale_to_one(weights, "weights")
        weights.flags.writeable = False
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "shares", Ladder.of(weights[None, :]))

    @property
    def domain(self) -> Domain:
        """The attributes of the records."""
        return self.support.domain

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """Probabilities on a clique, axes in its order; they sum to 1."""
        return SupportTable(self.support, self.weights, [clique]).marginal(0)

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Draw records by inversion, one 64-bit word each; ``sample(a + b)`` is one after the other.

        Raises:
            InvalidNumberError: ``rows`` is negative.
            InvalidInputError: The bit generator's words have fewer than 64 bits.
        """
        if rows < 0:
            raise InvalidNumberError(field="rows", expected="zero or more")
        narrow = code_dtype(max(self.domain.sizes))
        codes = np.empty((rows, len(self.domain)), dtype=narrow, order="F")
        for begin in range(0, rows, _BLOCK_ROWS):
            block = codes[begin : begin + _BLOCK_ROWS]
            positions = self.shares.shares(raw_words(rng, len(block), 1)[:, 0] >> np.uint64(1))
            for axis in range(len(self.domain)):
                block[:, axis] = self.support.codes[:, axis].take(positions)
        return Dataset(self.domain, codes)


_AT_ONCE = 16
"""One pair in so many is added before the next fit, four at least."""

_MOST_LOOKED_AT = 64
"""Pairs that are looked at for one addition: each needs the size of a junction tree."""

_DRAWN = 2**16
"""Records that are drawn from a model to see which pairs it misses."""

_MOST_SWEEPS = 100
"""Most sweeps of one fit with added pairs; if it needs more, the model before is kept."""

_SEED = 0


@dataclass(frozen=True, slots=True)
class BoundedTree:
    """Pairs are added to the spanning tree, the worst fitted first, while the junction tree stays small.

    The errors of the pairs are those of records drawn from the model with a fixed seed, less the error
    that the draw itself has: the exact marginal of two attributes far apart in the tree may need a
    table that is too large, and there may be hundreds of them.

    Args:
        fitting: How a choice of pairs is fitted; its ``max_cells`` bounds the spanning tree.
        most_cells: Bound on the cells of the tree's cliques together, for what is added.
    """

    fitting: LogLinear
    most_cells: int

    def fit(self, psi: Psi, domain: Domain) -> TreeModel:
        """Choose and fit; psi must agree with itself. Raises as ``LogLinear.fit`` does."""
        zeros = zeros_inside(self.fitting.structural_zeros, domain)
        tree_pairs = list(edges(psi))
        left = {
            pair: marginal.values / total(marginal.values)
            for pair, marginal in zip(pairs(psi), implied(psi, pairs(psi)), strict=True)
            if pair not in tree_pairs
        }
        model = self.fitting.fit_tree(restricted(psi, tree_pairs), domain)
        sweeps = min(_MOST_SWEEPS, self.fitting.most_sweeps)
        quick = replace(self.fitting, most_sweeps=sweeps)
        while left:
            new_pairs, looked_at = self._addition(model, tree_pairs, left, zeros)
            left = {pair: shares for pair, shares in left.items() if pair not in looked_at}
            if not new_pairs:
                break
            tree_pairs.extend(new_pairs)
            try:
                model = quick.fit_tree(restricted(psi, tree_pairs), domain)
            except NotConvergedError:
                break
        return model

    def _addition(
        self,
        model: TreeModel,
        chosen: Sequence[Clique],
        left: Mapping[Clique, Counts],
        zeros: Sequence[StructuralZeros],
    ) -> tuple[list[Clique], set[Clique]]:
        """The worst pairs that leave the tree within its bound, and all pairs that were looked at.

        A pair that does not fit is not looked at again: the tree only grows.
        """
        # L1 distance of each pair's marginal in drawn records, less the one that the draw alone makes.
        rows = model.sample(_DRAWN, rng=rng_of(_SEED))
        table = SupportTable(rows, np.full(_DRAWN, 1 / _DRAWN), list(left))
        errors = {
            pair: total(np.abs(table.marginal(block) - shares) - _draw_error(shares))
            for block, (pair, shares) in enumerate(left.items())
        }
        most = max(4, len(left) // _AT_ONCE)
        new_pairs: list[Clique] = []
        looked_at: set[Clique] = set()
        for pair in sorted(left, key=lambda pair: -errors[pair]):
            enough = len(new_pairs) == most or len(looked_at) == _MOST_LOOKED_AT
            if enough or errors[pair] <= self.fitting.tolerance:
                break
            looked_at.add(pair)
            all_cliques = [*chosen, *new_pairs, pair, *(zero.clique for zero in zeros)]
            if cells_needed(model.domain, all_cliques) <= self.most_cells:
                new_pairs.append(pair)
        return new_pairs, looked_at


def _draw_error(shares: Counts) -> Counts:
    r"""Expected absolute error of shares p of m drawn records: :math:`\sqrt{2 p (1 - p) / (\pi m)}`."""
    error: Counts = np.sqrt(shares * (1 - shares) * (2 / (pi * _DRAWN)))
    return error
