"""Support raking: maximum entropy on a drawn support, for marginals whose junction tree is too big."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import pi, prod

import numpy as np
from numpy.typing import NDArray

from gencard.core.coding import StructuralZeros, impossible_cells, zeros_inside
from gencard.core.dataset import Dataset, code_dtype
from gencard.core.domain import Clique, Domain
from gencard.core.errors import DomainMismatchError, InvalidNumberError, NotConvergedError, TooLargeError
from gencard.core.generators.contract import (
    TargetMarginal,
    admitted,
    check_settings,
    every_cell,
    implied,
    pairs_inside,
    restricted,
    rng_of,
    worst_error,
)
from gencard.core.generators.family import LogLinear, graphical
from gencard.core.generators.fitting import NOISY, Targets, check_room, fit, relax
from gencard.core.generators.junction_tree import cells_needed, check_cells, edges
from gencard.core.generators.models import Ladder, TreeModel, raw_words, scale_to_one
from gencard.core.statistics.marginals import cell_numbers, maximal, total
from gencard.core.statistics.psi import Measurement, Psi
from gencard.core.types import Counts, Table


class SupportTable:
    """Weights on records as the blocks of a fit: a marginal is a count of weights, scaling a look-up.

    Cell numbers are computed where they are needed and kept for one block only, so memory grows with
    records times attributes and not with records times marginals.

    Args:
        weights: One for each, zero or more, with sum 1; scaled in place.
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
        return self.support.domain

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """Probabilities on a clique, axes in its order; they sum to 1."""
        return SupportTable(self.support, self.weights, [clique]).marginal(0)

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Draw records by inversion, one 64-bit word each; ``sample(a + b)`` is one after the other."""
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
        all_pairs = pairs_inside(psi.cliques, psi.domain)
        left = {
            pair: marginal.values / total(marginal.values)
            for pair, marginal in zip(all_pairs, implied(psi, all_pairs), strict=True)
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
        # L1 distance of each pair's marginal in drawn records, less the one that the draw alone makes:
        # the expected absolute error of shares p of m drawn records is sqrt(2 p (1 - p) / (pi m)).
        rows = model.sample(_DRAWN, rng=rng_of(_SEED))
        table = SupportTable(rows, np.full(_DRAWN, 1 / _DRAWN), list(left))
        errors = dict[Clique, float]()
        for block, (pair, shares) in enumerate(left.items()):
            expected = np.sqrt(shares * (1 - shares) * (2 / (pi * _DRAWN)))
            errors[pair] = total(np.abs(table.marginal(block) - shares) - expected)
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


_SEED = 0
"""Every support is drawn with the same words, so that psi alone decides what it is."""

_ENOUGH = 1e-4
"""L1 distance of every marginal at which raking ends before it stops gaining."""

_NEAR = 5e-3
"""Mean total variation at which raking with hard zeros is kept, and its shares of single attributes are
near enough; beyond it soft zeros are tried too, and the shares are raked."""

_FEWEST = 2**14
"""Records of a support, at least, where the bound on look-ups leaves fewer than wanted."""

_SINGLE_SWEEPS = 100
"""Bound on the sweeps over single attributes."""

_TINY = 1e-300
"""Divisor where no weight is left."""

_START = 1e-2
"""Largest L1 distance of the start's marginals: the weights do the rest."""


@dataclass(frozen=True, slots=True)
class SupportRaking:
    r"""Weights on records that a smaller model drew, raked to every marginal of psi.

    The marginals of all pairs of 15 attributes have a junction tree of one clique, with more cells than
    any memory holds. Instead ``support`` records are drawn from a model q that fits, on a junction tree
    of at most ``tree_cells`` cells chosen from psi; then IPF on their weights finds the distribution on
    the support that is nearest to q and has psi's marginals. As q has the form :math:`\prod f_{ij}`, so
    does the limit of many records: it is the maximum-entropy model, estimated by importance sampling.
    Domains of no more cells than ``support`` are their own support, and the fit is plain IPF.

    Cells of psi that no record of the support falls into are missed. Where psi counts few records in
    large tables, most cells are empty and hardly any drawn record is in none of them: weights then
    leave empty cells by bounded steps (``relax``) and not at once, and the marginals are met as nearly
    as they come. The model states the mean total variation that is left (``SupportModel.residual``).
    What is left is spread over all pairs, and a share of a level may then be off by some hundredths.
    Exact shares of single attributes are met last (``meets_singles``), because weights that have all of
    them exist wherever the support has every level, however few records psi counts.

    Args:
        structural_zeros: Cells that stay zero; those of attributes outside the domain say nothing.
        tolerance: Largest mean total variation of the fitted marginals from exact psi. Where as many
            records as psi counts, drawn from psi itself, would miss it by more, that is the bound
            (``resampling_error``). Beyond it there is no model. Noisy psi is met as nearly as it comes.
        support: Number of records of the support; fewer where there are so many marginals that
            ``most_look_ups`` binds.
        tree_cells: Bound on the cells of the model that draws them.
        max_cells: Bound on the cells of psi's marginals, and on records times attributes.
        most_look_ups: Bound on records times marginals: the work of one sweep.
        meets_singles: Whether weights end with the exact shares of single attributes; version 1 of the
            algorithm did not.
    """

    structural_zeros: tuple[StructuralZeros, ...] = ()
    tolerance: float = 0.1
    support: int = 2**18
    tree_cells: int = 100_000
    max_cells: int = 50_000_000
    most_look_ups: int = 2**26
    most_sweeps: int = 100
    meets_singles: bool = True

    def __post_init__(self) -> None:
        check_settings(
            self.tolerance,
            support=self.support,
            tree_cells=self.tree_cells,
            max_cells=self.max_cells,
            most_look_ups=self.most_look_ups,
            most_sweeps=self.most_sweeps,
        )

    def check(self, cliques: Sequence[Clique], domain: Domain) -> None:
        """See ``Generator.check``.

        Raises:
            ModelTooLargeError: The marginals have more than ``max_cells`` cells; names the largest.
            TooLargeError: So has the table of records by attributes; or there are too many marginals.
        """
        check_cells(domain, cliques, self.max_cells)
        records = min(self._records(cliques), domain.cells)
        if records * len(domain) > self.max_cells:
            what = "The number of support records times attributes"
            raise TooLargeError(what=what, limit=self.max_cells)
        if records < min(_FEWEST, self.support, domain.cells):
            most = self.most_look_ups // min(_FEWEST, self.support)
            raise TooLargeError(what="The number of marginals for support raking", limit=most)

    def reduced(self) -> "SupportRaking":
        """See ``ApproximateGenerator.reduced``: an eighth of the records, fewer sweeps."""
        return replace(
            self,
            support=max(1, self.support // 8),
            tree_cells=max(1, self.tree_cells // 5),
            most_sweeps=min(self.most_sweeps, 30),
        )

    def fit(self, psi: Psi, domain: Domain) -> SupportModel:
        """Fit psi; see ``Generator.fit``.

        Raises:
            TooLargeError: See ``check``.
            InvalidPsiError: psi does not belong to the domain or contradicts itself.
            NotConvergedError: Exact psi is missed by more than the tolerance and by more than records
                drawn from it would, or structural zeros leave no room for it.
        """
        self.check(psi.cliques, domain)
        psi = admitted(psi, domain)
        support, start = self._drawn(psi, domain)
        widest = set(maximal(psi.cliques))
        marginals = [m for m in psi.measurements if m.clique in widest]
        targets = [[TargetMarginal.of(m.clique, m.values, m.clique)] for m in marginals]
        table = SupportTable(support, start, [m.clique for m in marginals])
        if psi.exact and len(support) == domain.cells and zeros_inside(self.structural_zeros, domain):
            check_room(table, targets)
        weights, residual = self._raked(table, targets, exact=psi.exact)
        if psi.exact:
            most = max(self.tolerance, resampling_error(marginals))
            if self.meets_singles and _NEAR < residual <= most:
                table.factors[0] = _with_singles(support, weights, psi)
                # no card is paid for and then not fitted because of this last step
                if (left := _mean_variation(table, targets)) <= most:
                    weights, residual = table.factors[0], left
            if not residual <= most:
                problem = f"the mean total variation of the marginals is {residual:.2g}, over the bound"
                raise NotConvergedError(problem=problem)
        # Records without weight are never drawn: they need no place in the saved model.
        rows = np.flatnonzero(weights)
        return SupportModel(support.take(rows), weights[rows], residual)

    def _raked(self, table: SupportTable, targets: Targets, *, exact: bool) -> tuple[Table, float]:
        """The weights that come nearest to the targets, and the mean total variation that is left."""
        start, best, least = table.factors[0].copy(), table.factors[0], np.inf
        # An exact zero empties its records at once; other marginals may then have no support left.
        # Bounded steps leave every record a little weight; the nearer of the two results is kept.
        for steepest in (np.inf, NOISY) if exact else (NOISY,):
            table.factors[0] = start.copy()
            relax(table, targets, _ENOUGH, self.most_sweeps, steepest=steepest)
            table.factors[0] /= max(total(table.factors[0]), _TINY)
            left = _mean_variation(table, targets)
            if left < least:
                best, least = table.factors[0], left
            if least <= _NEAR:
                break
        return best, least

    def _drawn(self, psi: Psi, domain: Domain) -> tuple[Dataset, Table]:
        records = self._records(psi.cliques)
        if domain.cells > records:
            start = graphical(self.structural_zeros, _START, self.max_cells)
            model = BoundedTree(start, self.tree_cells).fit(psi, domain)
            return model.sample(records, rng=rng_of(_SEED)), np.full(records, 1 / records)
        impossible = impossible_cells(domain, self.structural_zeros).ravel()
        return every_cell(domain), np.where(impossible, 0.0, 1 / domain.cells)

    def _records(self, cliques: Sequence[Clique]) -> int:
        """Records of the support where the domain has more cells."""
        return min(self.support, self.most_look_ups // max(1, len(cliques)))


def _with_singles(support: Dataset, weights: Table, psi: Psi) -> Table:
    """Return the weights, raked to psi's shares of single attributes.

    Of all weights with these shares the result comes near to those that differ least from the given
    ones, in Kullback-Leibler divergence. Weights that have the shares already keep their bits.
    """
    names = [(name,) for name in psi.domain.covered_by(psi.cliques).attributes]
    targets = [[TargetMarginal.of(m.clique, m.values, m.clique)] for m in implied(psi, names)]
    table = SupportTable(support, weights.copy(), names)
    errors = [worst_error(table.marginal(block), inside) for block, inside in enumerate(targets)]
    if not max(errors, default=0.0) > _ENOUGH:
        return weights
    with suppress(NotConvergedError):
        fit(table, targets, _ENOUGH, _SINGLE_SWEEPS)
    # A fit that is not done may end with a stride too far; one plain sweep finds its error.
    if not relax(table, targets, _ENOUGH, 1, steepest=np.inf) < max(errors):
        table.factors[0] = weights.copy()
        relax(table, targets, _ENOUGH, _SINGLE_SWEEPS, steepest=np.inf)
    scaled: Table = table.factors[0] / max(total(table.factors[0]), _TINY)
    return scaled


def resampling_error(marginals: Sequence[Measurement]) -> float:
    r"""Mean total variation of exact marginals from those of as many records drawn from them.

    A count that is binomial with n records and share p has the expected absolute error
    :math:`\sqrt{2 n p (1 - p) / \pi}`, to first order, and never more than
    :math:`\min(\sqrt{n p (1 - p)}, 2 n p (1 - p))`; both bounds of the two are met, so that tables of
    ones are not said to allow more than they do. In shares of the records; half the L1 distance.
    """
    variations = []
    for marginal in marginals:
        records = total(marginal.values)
        variance = marginal.values * (1 - marginal.values / records)
        errors = np.minimum(np.sqrt(variance * (2 / np.pi)), 2 * variance)
        variations.append(0.5 * total(errors) / records)
    return float(np.mean(variations))


def _mean_variation(table: SupportTable, targets: Targets) -> float:
    """Mean total variation of the marginals from their targets: half the mean L1 distance."""
    errors = [worst_error(table.marginal(block), inside) for block, inside in enumerate(targets)]
    return 0.5 * float(np.mean(errors))
