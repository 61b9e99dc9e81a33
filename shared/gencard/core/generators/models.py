"""Distributions given by the probability of every cell, or by marginals on a junction tree."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset, code_dtype
from gencard.core.domain import Clique, Domain
from gencard.core.errors import DomainMismatchError, InvalidInputError, InvalidNumberError, TooLargeError
from gencard.core.generators.junction_tree import JunctionTree
from gencard.core.generators.sampling import ROUNDING, Inversion, drawn_rows, scale_to_one
from gencard.core.statistics.marginals import others, project, sum_out, total
from gencard.core.types import Table

_BLOCK_ROWS = 2**16
"""Rows drawn together, so that what lies between the draw and the codes stays in the cache."""

_WORDS = 2.0**64


@dataclass(frozen=True, slots=True, eq=False)
class TableModel:
    """Independent records, each in cell ``i`` with probability ``probabilities[i]``.

    Args:
        domain: The attributes, in the order of the axes.
        probabilities: Shape ``domain.sizes``, zero or more; scaled to sum to 1. Read-only.
        thresholds: Upper end of each cell's share of the 64-bit words.

    Raises:
        DomainMismatchError: The shape is not the domain's.
        InvalidNumberError: A probability is negative or not finite, or all are zero.
    """

    domain: Domain
    probabilities: NDArray[np.float64]
    thresholds: NDArray[np.uint64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.probabilities.shape != self.domain.sizes:
            raise DomainMismatchError(problem="the table of probabilities has the wrong shape")
        whole = total(self.probabilities)
        if not (np.isfinite(whole) and whole > 0 and self.probabilities.min() >= 0):
            raise InvalidNumberError(field="probabilities", expected="zero or more, with a finite sum")
        frozen = self.probabilities / whole
        frozen.flags.writeable = False
        object.__setattr__(self, "probabilities", frozen)
        object.__setattr__(self, "thresholds", _thresholds(frozen))

    @classmethod
    def of_scaled(cls, domain: Domain, probabilities: NDArray[np.float64]) -> "TableModel":
        """Return the model with the probabilities of another one, bit for bit.

        To scale them once more could change their last digits. Raises as the constructor.
        """
        model = cls(domain, probabilities)
        if abs(total(probabilities) - 1) <= ROUNDING:
            frozen = probabilities.copy(order="K")
            frozen.flags.writeable = False
            object.__setattr__(model, "probabilities", frozen)
            object.__setattr__(model, "thresholds", _thresholds(frozen))
        return model

    def marginal(self, clique: Clique) -> NDArray[np.float64]:
        """Probabilities on a clique, axes in its order; they sum to 1."""
        return project(self.probabilities, self.domain.attributes, clique)

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Draw records by inversion: a cell is drawn where a raw 64-bit word falls below its threshold.

        Row ``i`` depends on word ``i`` of the bit generator alone, so the bytes depend on no
        sampling algorithm of numpy's, and ``sample(a)`` then ``sample(b)`` is ``sample(a + b)``.

        Raises:
            InvalidNumberError: ``rows`` is negative.
            InvalidInputError: The bit generator's words have fewer than 64 bits.
        """
        if rows < 0:
            raise InvalidNumberError(field="rows", expected="zero or more")
        if isinstance(rng.bit_generator, np.random.MT19937):
            raise InvalidInputError(field="rng", problem="must produce 64-bit words, as PCG64 does")
        codes = np.empty(
            (rows, len(self.domain)), dtype=code_dtype(max(self.domain.sizes, default=1)), order="F"
        )
        for begin in range(0, rows, _BLOCK_ROWS):
            block = codes[begin : begin + _BLOCK_ROWS]
            words = rng.bit_generator.random_raw(len(block))
            cells = np.searchsorted(self.thresholds, words, side="right")
            # The codes of the cells, the last attribute running fastest.
            sizes = self.domain.sizes
            # 32-bit integers are divided faster, and most tables have fewer than 2**32 cells.
            rest = cells.astype(np.uint32) if np.prod(sizes, dtype=float) < 2.0**32 else cells
            for axis in reversed(range(len(sizes))):
                whole = rest // sizes[axis]
                block[:, axis] = rest - whole * sizes[axis]
                rest = whole
        return Dataset(self.domain, codes)


def _thresholds(probabilities: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Upper end of each cell's share of the 64-bit words; the last cell that is drawn needs none.

    A cell of probability zero has its predecessor's threshold, so no word falls to it.
    """
    cumulative = np.cumsum(probabilities, axis=None)
    # Up to here sums are below the last one, so their quotients are below 1 and fit a word of 64 bits.
    # Dividing by the last sum, and not by 1, leaves no words over that rounding would give to no cell.
    last = int(np.searchsorted(cumulative, cumulative[-1], side="left"))
    ends: NDArray[np.float64] = cumulative[:last] / cumulative[-1]
    return (ends * _WORDS).astype(np.uint64)


_MOST_CELLS = 50_000_000
"""Cells of any table that is made on the way to a marginal."""


@dataclass(frozen=True, slots=True, eq=False)
class TreeModel:
    r"""Independent records with :math:`P(x) = \prod_C P_C(x_C) / \prod_S P_S(x_S)`.

    C runs over the cliques of the tree and S over its separators: given the attributes that it shares
    with its parent, a clique is independent of everything above it.

    Args:
        domain: The attributes; each lies in some clique.
        tree: The cliques.
        tables: One marginal per clique, zero or more, axes in the clique's order; two cliques agree
            on what they share. Scaled to sum to 1 each; read-only.
        draws: One inversion per clique.

    Raises:
        DomainMismatchError: The tables or the tree do not fit the domain.
        InvalidNumberError: A probability is negative or not finite, or a table is all zero.
    """

    domain: Domain
    tree: JunctionTree
    tables: tuple[Table, ...]
    draws: tuple[Inversion, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_shapes(self.domain, self.tree, self.tables)
        tables = [np.array(table, dtype=np.float64) for table in self.tables]
        # From the leaves up: emptying cells of a parent can leave the parent's own parent without a
        # match.
        for clique in range(len(tables) - 1, 0, -1):
            # No probability in cells of the parent for which rounding left the clique none.
            parent, separator = self.tree.parents[clique], self.tree.separator(clique)
            possible = project(tables[clique], self.tree.cliques[clique], separator) > 0
            tables[parent] *= np.expand_dims(possible, others(self.tree.cliques[parent], separator))
        for table in tables:
            scale_to_one(table, "probabilities")
            table.flags.writeable = False
        object.__setattr__(self, "tables", tuple(tables))
        draws = []
        for clique, attributes in enumerate(self.tree.cliques):
            separator = self.tree.separator(clique)
            new_names = tuple(name for name in attributes if name not in separator)
            table = project(self.tables[clique], attributes, separator + new_names)
            draws.append(Inversion.of(table, self.domain.axes(separator), self.domain.axes(new_names)))
        object.__setattr__(self, "draws", tuple(draws))

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Draw records clique by clique, by inversion; row ``i`` depends on its own words alone.

        There is one 64-bit word for each clique, so ``sample(a)`` then ``sample(b)`` is
        ``sample(a + b)``, and the bytes depend on no sampling algorithm of numpy's.

        Raises:
            InvalidNumberError: ``rows`` is negative.
            InvalidInputError: The bit generator's words have fewer than 64 bits.
        """
        return drawn_rows(self.domain, self.draws, rows, rng=rng)

    def marginal(self, clique: Clique) -> Table:
        """Probabilities on any clique, axes in its order; they sum to 1.

        Raises:
            TooLargeError: A table on the way to it has too many cells.
            InvalidCliqueError: The clique names an attribute that is not in the domain.
        """
        names = self.domain.canonical(clique)
        for attributes, table in zip(self.tree.cliques, self.tables, strict=True):
            if set(names) <= set(attributes):
                return project(table, attributes, clique)
        return project(self._joint(names), names, clique)

    def _joint(self, wanted: Clique) -> Table:
        """Sum the product of all conditional tables, from the leaves up, keeping what is wanted."""
        arriving: list[list[tuple[Clique, Table]]] = [[] for _ in self.tables]
        for clique in range(len(self.tables) - 1, -1, -1):
            attributes, table = self._product(clique, arriving[clique])
            separator = self.tree.separator(clique)
            names = tuple(name for name in attributes if name in wanted or name in separator)
            if clique == 0:
                return project(table, attributes, wanted)
            if set(names) - set(separator):
                arriving[self.tree.parents[clique]].append((names, project(table, attributes, names)))
        raise AssertionError("a tree has a first clique")

    def _product(self, clique: int, arriving: Sequence[tuple[Clique, Table]]) -> tuple[Clique, Table]:
        """The clique's table given its separator, times what arrives from below."""
        attributes, table = self.tree.cliques[clique], self.tables[clique]
        separator_table = sum_out(table, others(attributes, self.tree.separator(clique)))
        conditional: Table = np.divide(
            table, separator_table, out=np.zeros_like(table), where=separator_table > 0
        )
        parts = [(attributes, conditional), *arriving]
        union = self.domain.covered_by([attributes for attributes, _ in parts])
        if union.cells > _MOST_CELLS:
            raise TooLargeError(what="The number of cells of an intermediate table", limit=_MOST_CELLS)
        product = np.ones(union.sizes)
        for attributes, table in parts:
            product *= np.expand_dims(table, others(union.attributes, attributes))
        return union.attributes, product


def _check_shapes(domain: Domain, tree: JunctionTree, tables: Sequence[Table]) -> None:
    names = {name for clique in tree.cliques for name in clique}
    if names != set(domain.attributes) or len(tables) != len(tree.cliques):
        raise DomainMismatchError(problem="the tree does not have the domain's attributes")
    for clique, table in zip(tree.cliques, tables, strict=True):
        if clique != domain.canonical(clique) or table.shape != domain.project(clique).sizes:
            raise DomainMismatchError(problem=f"the table on ({', '.join(clique)}) has the wrong shape")
