"""Records as rows of a net: some numbers from -1 to 1, then one-hot blocks, one for each attribute."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.boxes.entry import numbers_of_codes
from gencard.boxes.nets.modes import Modes
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import InvalidInputError
from gencard.core.types import FloatArray, IntArray

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Where each attribute is in a row.

    A row has one number for each numeric attribute, then the entries: nominal attributes, whose
    entries are their codes, then numeric ones, whose entries are modes. Both in the domain's order.

    Args:
        domain: Of the records.
        modes: For the axis of each numeric attribute.
    """

    domain: Domain
    modes: Mapping[int, Modes]

    @property
    def axes(self) -> tuple[int, ...]:
        """The axis of each block."""
        return tuple(sorted(range(len(self.domain)), key=lambda axis: (axis in self.modes, axis)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Entries of each block."""
        return tuple(
            self.modes[axis].entries if axis in self.modes else self.domain.sizes[axis]
            for axis in self.axes
        )

    @property
    def starts(self) -> IntArray:
        """The first entry of each block, and the number of entries: shape ``(d + 1,)``."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)

    @property
    def numbers(self) -> int:
        return len(self.modes)

    @property
    def nominal(self) -> int:
        """Blocks of nominal attributes; they come first."""
        return len(self.sizes) - self.numbers

    @property
    def width(self) -> int:
        return self.numbers + int(self.starts[-1])

    def encoded(self, dataset: Dataset, rng: np.random.Generator) -> "Rows":
        """The records as rows; each number's mode is drawn."""
        entries = np.empty((len(dataset), len(self.sizes)), dtype=np.int64)
        alphas = np.empty((len(dataset), self.numbers), dtype=np.float32)
        for place, axis in enumerate(self.axes):
            codes = dataset.codes[:, axis].astype(np.int64)
            if axis in self.modes:
                codes, alphas[:, place - self.nominal] = self.modes[axis].placed(codes, rng)
            entries[:, place] = codes + self.starts[place]
        return Rows(entries, alphas)

    def decoded(self, rows: "Rows") -> Dataset:
        """Records of rows."""
        columns = [np.empty(0, dtype=np.int64)] * len(self.domain)
        for place, axis in enumerate(self.axes):
            codes = rows.entries[:, place] - self.starts[place]
            if axis in self.modes:
                codes = self.modes[axis].codes_of(codes, rows.alphas[:, place - self.nominal])
            columns[axis] = codes
        return Dataset.of_columns(self.domain, columns)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of a net, in short.

    Args:
        entries: The entry that is 1 in each block, counted from the first entry: shape ``(n, d)``.
        alphas: The numbers, shape ``(n, numbers)``.
    """

    entries: IntArray
    alphas: Floats

    def dense(self, rows: NDArray[Any], width: int) -> Floats:
        """Some of the rows in full, shape ``(len(rows), width)``."""
        full = np.zeros((len(rows), width), dtype=np.float32)
        numbers = self.alphas.shape[1]
        full[:, :numbers] = self.alphas[rows]
        full[np.arange(len(rows))[:, None], self.entries[rows] + numbers] = 1.0
        return full


def layout_of(
    domain: Domain,
    values: Mapping[str, tuple[float, ...]],
    modes_of: Callable[[int, FloatArray], Modes],
) -> Layout:
    """The layout of a domain.

    Args:
        domain: Of the records.
        values: For each numeric attribute the number of each code, NaN for missing.
        modes_of: The modes for an axis and its numbers.

    Raises:
        InvalidInputError: An attribute has another number of codes, or there is none.
        InvalidNumberError: A number is infinite, or as good as.
    """
    if not len(domain):
        raise InvalidInputError(field="domain", problem="it has no attributes")
    numbers = {
        axis: numbers_of_codes(values, name, size)
        for axis, (name, size) in enumerate(zip(domain.attributes, domain.sizes, strict=True))
    }
    return Layout(
        domain, {axis: modes_of(axis, n) for axis, n in numbers.items() if not np.isnan(n).all()}
    )
