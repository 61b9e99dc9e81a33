"""Datasets that hold no record of anybody: for audits by whoever has the box but not the records."""

import numpy as np

from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import InvalidNumberError

RECORDS_PER_CELL = 8
"""Cells hold about so many records, so that moves find their corners occupied."""


def made_up(domain: Domain, records: int, *, rng: np.random.Generator) -> Dataset:
    """Records that are uniform over a random grid of the domain, dense enough for moves.

    Where the domain has too many cells for the number of records, only some levels of each attribute
    are used, at least two of each that has two: other seeds use other ones.

    Raises:
        InvalidNumberError: There is no record.
    """
    if records < 1:
        raise InvalidNumberError(field="records", expected="one or more")
    sizes = _grid(domain.sizes, max(1, records // RECORDS_PER_CELL))
    columns = [
        rng.choice(whole, size=kept, replace=False)[rng.integers(kept, size=records)]
        for whole, kept in zip(domain.sizes, sizes, strict=True)
    ]
    return Dataset.of_columns(domain, columns)


def uniform(domain: Domain, records: int, *, rng: np.random.Generator) -> Dataset:
    """Records that are uniform over the whole domain: hardly two are equal where it has many cells."""
    return Dataset.of_columns(domain, [rng.integers(size, size=records) for size in domain.sizes])


def _grid(sizes: tuple[int, ...], most_cells: int) -> tuple[int, ...]:
    """The largest cap on the number of levels, the same for all, that leaves few enough cells."""
    low, high = 2, max(sizes, default=2)
    while low < high:
        cap = (low + high + 1) // 2
        cells = np.prod([float(min(size, cap)) for size in sizes])
        low, high = (cap, high) if cells <= most_cells else (low, cap - 1)
    return tuple(min(size, low) for size in sizes)
