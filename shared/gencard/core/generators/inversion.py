"""Drawing cells by inversion, given the cell of some attributes drawn before."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset, code_dtype
from gencard.core.domain import Domain
from gencard.core.errors import InvalidInputError, InvalidNumberError
from gencard.core.generators.ladder import Ladder, Words, bits
from gencard.core.statistics.counting import cell_numbers

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
        given = None
        if self.given:
            given = cell_numbers([codes[:, axis] for axis in self.given], self.given_sizes)
            keys |= given.astype(np.uint64) << np.uint64(self.bits)
        cells = self.shares.shares(keys)
        if given is not None:
            cells -= given * np.int32(prod(self.drawn_sizes))
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
