"""Drawing cells by inversion of cumulative shares, given the cell of some attributes drawn before."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset, code_dtype
from gencard.core.domain import Clique, Domain
from gencard.core.errors import DomainMismatchError, InvalidInputError, InvalidNumberError
from gencard.core.statistics.marginals import cell_numbers, total
from gencard.core.types import Table

Words = NDArray[np.uint64]
"""Raw 64-bit words of a bit generator, or numbers on their scale."""

_RUNGS_PER_SHARE = 2

_STEPS = 4
"""Shares that are tried one after another before the search takes over."""

ROUNDING = 1e-9
"""A sum that is this near to 1 is left alone, so that a saved model comes back bit for bit."""


def scale_to_one(probabilities: NDArray[np.float64], field_name: str) -> None:
    """Scale probabilities, in place, to sum to 1.

    Raises:
        InvalidNumberError: One is negative or not finite, or all are zero.
    """
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


_BLOCK_ROWS = 2**14
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
        rows = prod(table.shape[: len(given)])
        return cls(
            tuple(given),
            table.shape[: len(given)],
            tuple(drawn),
            table.shape[len(given) :],
            Ladder.of(table.reshape(rows, -1)),
            bits(rows),
        )

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
    for begin in range(0, rows, _BLOCK_ROWS):
        block = codes[begin : begin + _BLOCK_ROWS]
        words = raw_words(rng, len(block), len(draws))
        for place, draw in enumerate(draws):
            draw.draw(words[:, place], block)
    return Dataset(domain, codes)


def write_codes(
    cells: NDArray[Any], axes: Sequence[int], sizes: Sequence[int], codes: NDArray[Any]
) -> None:
    """Write the codes of the cells into the columns ``axes``, the last one running fastest."""
    rest = cells.astype(np.uint32) if prod(sizes) < 2**32 else cells
    for axis, size in zip(axes[:0:-1], sizes[:0:-1], strict=True):
        whole = rest // rest.dtype.type(size)
        codes[:, axis] = rest - whole * rest.dtype.type(size)
        rest = whole
    codes[:, axes[0]] = rest


def raw_words(rng: np.random.Generator, rows: int, each: int) -> Words:
    """``each`` words for every row, shape ``(rows, each)``: row by row, as the stream gives them.

    Raises:
        InvalidInputError: The bit generator's words have fewer than 64 bits.
    """
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

    @property
    def possible(self) -> Table:
        """The table, with ones where parents have nothing to give."""
        return np.where(self.table.sum(axis=-1, keepdims=True) > 0, self.table, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class NetworkModel:
    r"""Independent records with :math:`P(x) = \prod_i P(x_i \mid x_{\Pi_i})`.

    Args:
        nodes: Every attribute of the domain once, after its parents.
        draws: One inversion per node.

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
        axes = self.domain.axes
        draws = tuple(
            Inversion.of(n.possible, axes(n.parents), axes((n.attribute,))) for n in self.nodes
        )
        object.__setattr__(self, "draws", draws)

    def sample(self, rows: int, *, rng: np.random.Generator) -> Dataset:
        """Draw records node by node, by inversion, one 64-bit word for each; see ``TreeModel.sample``.

        Raises:
            InvalidNumberError: ``rows`` is negative.
            InvalidInputError: The bit generator's words have fewer than 64 bits.
        """
        return drawn_rows(self.domain, self.draws, rows, rng=rng)
