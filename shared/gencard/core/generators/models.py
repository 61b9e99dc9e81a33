"""Distributions given by the probability of every cell, or by marginals on a junction tree.

Cells are drawn by inversion of cumulative shares, given the cell of some attributes drawn before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset, code_dtype
from gencard.core.domain import Clique, Domain
from gencard.core.errors import DomainMismatchError, InvalidInputError, InvalidNumberError, TooLargeError
from gencard.core.generators.junction_tree import JunctionTree
from gencard.core.statistics.marginals import cell_numbers, others, project, sum_out, total
from gencard.core.types import Table

Words = NDArray[np.uint64]
"""Raw 64-bit words of a bit generator, or numbers on their scale."""

_RUNGS_PER_SHARE = 2

_STEPS = 4
"""Shares that are tried one after another before the search takes over."""

ROUNDING = 1e-9
"""A sum that is this near to 1 is left alone, so that a saved model comes back bit for bit."""


def scale_to_one(probabilities: NDArray[np.float64], field_name: str) -> None:
    """Scale probabilities, in place, to sum to 1."""
    whole = total(probabilities) if probabilities.size else 0.0
    if not (np.isfinite(whole) and whole > 0 and probabilities.min() >= 0):
        raise InvalidNumberError(field=field_name, expected="zero or more, with a finite sum")
    if abs(whole - 1) > ROUNDING:
        probabilities /= whole


def bits(rows: int) -> int:
    """Bits of a word that are left to a share in one of ``rows`` rows: all ends stay below 2**64."""
    return 64 - rows.bit_length()


@dataclass(frozen=True, slots=True, eq=False)
class Ladder:
    """Shares of the 64-bit words, in ascending order, with a guide to where each part of them begins.

    A word's leading bits say which share to try first; it is the right one, or one of the next, nearly
    always (Chen, Asau 1974). That is 4 to 50 times as fast as a binary search.

    Args:
        ends: End of each share, ascending; an empty share has the same end as the share before it.
    """

    ends: Words
    _guide: NDArray[np.int32] = field(init=False, repr=False)
    _shift: np.uint64 = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rungs = (_RUNGS_PER_SHARE * len(self.ends)).bit_length()
        shift = np.uint64(64 - rungs)
        first = np.where(self.ends > 0, ((self.ends - np.uint64(1)) >> shift) + np.uint64(1), 0)
        first_counts = np.bincount(first.view(np.int64), minlength=2**rungs)
        del first  # tables of millions of cells: memory counts
        object.__setattr__(self, "_guide", np.cumsum(first_counts, dtype=np.int32))
        object.__setattr__(self, "_shift", shift)

    @classmethod
    def of(cls, table: NDArray[np.float64]) -> "Ladder":
        """The shares of each row of a table in the words below ``rows << bits(rows)``, row after row.

        Args:
            table: Shape ``(rows, cells)``, zero or more. A row of zeros gives all to its first cell.
        """
        parts = np.cumsum(table, axis=1)
        whole = parts[:, -1:].copy()
        np.divide(parts, whole, out=parts, where=whole > 0)
        parts[whole[:, 0] <= 0] = 1.0
        parts *= 2.0 ** bits(len(table))
        ends = parts.astype(np.uint64)
        del parts  # tables of millions of cells: memory counts
        ends += np.arange(len(table), dtype=np.uint64)[:, None] << np.uint64(bits(len(table)))
        return cls(ends.ravel())

    def shares(self, words: Words) -> NDArray[np.int32]:
        """Return the number of ends at or below each word: the number of its share."""
        positions: NDArray[np.int32] = self._guide.take((words >> self._shift).view(np.int64))
        late = np.flatnonzero(self.ends.take(positions) <= words)
        for _ in range(_STEPS):
            positions[late] += 1
            late = late[self.ends[positions[late]] <= words[late]]
        if len(late):
            positions[late] = np.searchsorted(self.ends, words[late], side="right")
        return positions


_BLOCK_WORDS = 2**14
"""Rows drawn together: their words and codes stay in the cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Inversion:
    """Draws some attributes given others, one 64-bit word a record.

    The shares of all conditional distributions stand in one ascending array: a record's key is the
    number of its given cell, followed by the leading bits of its word, and it draws the cell in whose
    share the key falls. A cell of probability zero has an empty share.

    Args:
        given: Positions of the attributes drawn before, with their ``given_sizes``.
        drawn: Positions of the attributes to draw, with their ``drawn_sizes``.
        shares: Each cell's share of the keys, the given attributes running slowest.
        bits: Number of leading bits of the word that take part.
    """

    given: tuple[int, ...]
    given_sizes: tuple[int, ...]
    drawn: tuple[int, ...]
    drawn_sizes: tuple[int, ...]
    shares: Ladder
    bits: int

    @classmethod
    def of(cls, table: NDArray[np.float64], given: Sequence[int], drawn: Sequence[int]) -> "Inversion":
        """From joint probabilities, the axes of the given attributes first.

        A given cell of probability zero must never be met: it has nothing to draw.
        """
        given_sizes, drawn_sizes = table.shape[: len(given)], table.shape[len(given) :]
        rows = prod(given_sizes)
        shares = Ladder.of(table.reshape(rows, -1))
        return cls(tuple(given), given_sizes, tuple(drawn), drawn_sizes, shares, bits(rows))

    def draw(self, words: Words, codes: NDArray[Any]) -> None:
        """Write the codes of the drawn attributes into ``codes``, shape ``(rows, attributes)``."""
        keys = words >> np.uint64(64 - self.bits)
        cells_given = None
        if self.given:
            cells_given = cell_numbers([codes[:, axis] for axis in self.given], self.given_sizes)
            keys |= cells_given.astype(np.uint64) << np.uint64(self.bits)
        cells = self.shares.shares(keys)
        if cells_given is not None:
            cells -= cells_given * np.int32(prod(self.drawn_sizes))
        write_codes(cells, self.drawn, self.drawn_sizes, codes)


def drawn_rows(
    domain: Domain, draws: Sequence[Inversion], rows: int, *, rng: np.random.Generator
) -> Dataset:
    """Records drawn by one inversion after another, which together draw every attribute.

    Row ``i`` depends on its own words alone, one 64-bit word for each inversion: ``a`` rows and then
    ``b`` rows are ``a + b`` rows, and the bytes depend on no sampling algorithm of numpy's.

    Raises:
        InvalidNumberError: ``rows`` is negative.
        InvalidInputError: The bit generator's words have fewer than 64 bits.
    """
    if rows < 0:
        raise InvalidNumberError(field="rows", expected="zero or more")
    narrow = code_dtype(max(domain.sizes))
    codes = np.empty((rows, len(domain)), dtype=narrow, order="F")
    for begin in range(0, rows, _BLOCK_WORDS):
        block = codes[begin : begin + _BLOCK_WORDS]
        words = raw_words(rng, len(block), len(draws))
        for place, draw in enumerate(draws):
            draw.draw(words[:, place], block)
    return Dataset(domain, codes)


def write_codes(
    cells: NDArray[Any], axes: Sequence[int], sizes: Sequence[int], codes: NDArray[Any]
) -> None:
    """Write the codes of the cells into the columns ``axes``, the last one running fastest."""
    # 32-bit integers are divided faster, and most tables have fewer than 2**32 cells.
    rest = cells.astype(np.uint32) if prod(sizes) < 2**32 else cells
    for axis, size in zip(axes[:0:-1], sizes[:0:-1], strict=True):
        whole = rest // rest.dtype.type(size)
        codes[:, axis] = rest - whole * rest.dtype.type(size)
        rest = whole
    codes[:, axes[0]] = rest


def raw_words(rng: np.random.Generator, rows: int, each: int) -> Words:
    """``each`` words for every row, shape ``(rows, each)``: row by row, as the stream gives them."""
    if isinstance(rng.bit_generator, np.random.MT19937):
        raise InvalidInputError(field="rng", problem="must produce 64-bit words, as PCG64 does")
    return rng.bit_generator.random_raw(rows * each).reshape(rows, each)


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """An attribute given its parents.

    Args:
        parents: Attributes drawn before it.
        table: The parents' axes first, in their order, and the attribute's last; zero or more. What
            counts are the shares along the last axis; where all are zero, every level is as likely.
            Read-only.
    """

    attribute: str
    parents: Clique
    table: Table

    def __post_init__(self) -> None:
        table = np.array(self.table, dtype=np.float64)
        table.flags.writeable = False
        object.__setattr__(self, "table", table)


@dataclass(frozen=True, slots=True, eq=False)
class NetworkModel:
    r"""Independent records with :math:`P(x) = \prod_i P(x_i \mid x_{\Pi_i})`.

    Args:
        nodes: Every attribute of the domain once, after its parents.

    Raises:
        DomainMismatchError: The nodes are not those of a network on the domain.
        InvalidNumberError: A number of a table is negative or not finite.
    """

    domain: Domain
    nodes: tuple[Node, ...]
    draws: tuple[Inversion, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        earlier: set[str] = set()
        for node in self.nodes:
            if not earlier.issuperset(node.parents) or node.attribute in earlier:
                raise DomainMismatchError(problem="an attribute comes before its parents, or twice")
            if node.table.shape != self.domain.project((*node.parents, node.attribute)).sizes:
                raise DomainMismatchError(problem=f"the table of '{node.attribute}' has the wrong shape")
            if not (np.isfinite(node.table).all() and node.table.min() >= 0):
                raise InvalidNumberError(field="probabilities", expected="zero or more, and finite")
            earlier.add(node.attribute)
        if earlier != set(self.domain.attributes):
            raise DomainMismatchError(problem="the network does not have the domain's attributes")
        axes, draws = self.domain.axes, []
        for node in self.nodes:
            # Ones where parents have nothing to give.
            possible = np.where(node.table.sum(axis=-1, keepdims=True) > 0, node.table, 1.0)
            draws.append(Inversion.of(possible, axes(node.parents), axes((node.attribute,))))
        object.__setattr__(self, "draws", tuple(draws))

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Draw records node by node, by inversion, one word for each; see ``TreeModel.sample``."""
        return drawn_rows(self.domain, self.draws, rows, rng=rng)


_BLOCK_ROWS = 2**16
"""Rows drawn together, so that what lies between the draw and the codes stays in the cache."""

_WORDS = 2.0**64


@dataclass(frozen=True, slots=True, eq=False)
class TableModel:
    """Independent records, each in cell ``i`` with probability ``probabilities[i]``.

    Args:
        domain: The attributes, in the order of the axes.
        probabilities: Shape ``domain.sizes``, zero or more; scaled to sum to 1. Read-only.
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
        """
        if rows < 0:
            raise InvalidNumberError(field="rows", expected="zero or more")
        if isinstance(rng.bit_generator, np.random.MT19937):
            raise InvalidInputError(field="rng", problem="must produce 64-bit words, as PCG64 does")
        narrow = code_dtype(max(self.domain.sizes, default=1))
        codes = np.empty((rows, len(self.domain)), dtype=narrow, order="F")
        for begin in range(0, rows, _BLOCK_ROWS):
            block = codes[begin : begin + _BLOCK_ROWS]
            words = rng.bit_generator.random_raw(len(block))
            cells = np.searchsorted(self.thresholds, words, side="right")
            if self.domain.sizes:
                write_codes(cells, range(len(self.domain)), self.domain.sizes, block)
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
        tables: One marginal per clique, zero or more, axes in the clique's order; two cliques agree
            on what they share. Scaled to sum to 1 each; read-only.

    Raises:
        DomainMismatchError: The tables or the tree do not fit the domain.
        InvalidNumberError: A probability is negative or not finite, or a table is all zero.
    """

    domain: Domain
    tree: JunctionTree
    tables: tuple[Table, ...]
    draws: tuple[Inversion, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names = {name for attributes in self.tree.cliques for name in attributes}
        if names != set(self.domain.attributes) or len(self.tables) != len(self.tree.cliques):
            raise DomainMismatchError(problem="the tree does not have the domain's attributes")
        for attributes, table in zip(self.tree.cliques, self.tables, strict=True):
            sizes = self.domain.project(attributes).sizes
            if attributes != self.domain.canonical(attributes) or table.shape != sizes:
                where = ", ".join(attributes)
                raise DomainMismatchError(problem=f"the table on ({where}) has the wrong shape")
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
        attributes, table = self.tree.cliques[clique], self.tables[clique]
        separator_table = sum_out(table, others(attributes, self.tree.separator(clique)))
        zero = np.zeros_like(table)
        conditional: Table = np.divide(table, separator_table, out=zero, where=separator_table > 0)
        parts = [(attributes, conditional), *arriving]
        union = self.domain.covered_by([attributes for attributes, _ in parts])
        if union.cells > _MOST_CELLS:
            raise TooLargeError(what="The number of cells of an intermediate table", limit=_MOST_CELLS)
        product = np.ones(union.sizes)
        for attributes, table in parts:
            product *= np.expand_dims(table, others(union.attributes, attributes))
        return union.attributes, product
