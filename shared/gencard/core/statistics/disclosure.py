"""The checks of statistical disclosure control, and rounding: exact counts before they are psi.

Each check follows from one count c alone, for every record adds 1 to its cell. The n largest
contributions are min(n, c) of c records; without the two largest, c - 2 are left.
"""

from collections.abc import Sequence
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from gencard.core.coding import StructuralZeros
from gencard.core.domain import Clique
from gencard.core.errors import MeasurementRefusedError
from gencard.core.statistics.psi import Measurement, Psi
from gencard.core.transform import Transform
from gencard.core.types import Counts

Mask = NDArray[np.bool_]


def transformed(psi: Psi, transform: Transform, zeros: Sequence[StructuralZeros] = ()) -> Psi:
    """Exact psi as the card agrees that it leaves.

    Rounded counts carry the stddev of a rounding error that is uniform, so that what is fitted to
    them reconciles them first.

    Args:
        zeros: Cells that the schema declares impossible; they may be empty.

    Raises:
        MeasurementRefusedError: A cell fails a check. It says neither which cell nor which check.
    """
    if any(
        failing(m.values, transform, impossible(psi, m.clique, zeros)).any() for m in psi.measurements
    ):
        raise MeasurementRefusedError
    if transform.rounding == 1:
        return psi
    stddev = rounding_stddev(transform.rounding)
    return Psi(
        psi.domain,
        tuple(
            Measurement(m.clique, rounded(m.values, transform.rounding), stddev)
            for m in psi.measurements
        ),
    )


def failing(counts: Counts, transform: Transform, allowed_empty: Mask | bool = False) -> Mask:
    """The cells that fail a check, as a mask of the marginal's shape."""
    some = counts > 0
    fails = some & (counts < transform.threshold)
    if transform.dominance_count:
        largest = np.minimum(counts, transform.dominance_count)
        fails |= some & (100 * largest > transform.dominance_percent * counts)
    fails |= some & (100 * np.maximum(counts - 2, 0) < transform.remainder_percent)
    if transform.zeros:
        fails |= ~some & ~np.asarray(allowed_empty)
    if int(counts.sum()) - counts.size < transform.freedom and transform.freedom:
        fails |= True
    return np.asarray(fails)


def rounded(counts: Counts, base: int) -> Counts:
    """The nearest multiples of ``base``, halves up.

    >>> rounded(np.array([0, 2, 3, 7, 8]), 5).tolist()
    [0, 0, 5, 5, 10]
    """
    return (2 * counts + base) // (2 * base) * base


def rounding_stddev(base: int) -> float:
    r"""Root mean square of the error over all remainders, in records: :math:`\sqrt{(b^2 - 1) / 12}`.

    For an even base, whose halves all go up, :math:`\sqrt{(b^2 + 2) / 12}`.
    """
    return sqrt((base**2 + (2 if base % 2 == 0 else -1)) / 12)


def impossible(psi: Psi, clique: Clique, zeros: Sequence[StructuralZeros]) -> Mask:
    """The cells of a marginal that a declared structural zero makes impossible."""
    mask = np.zeros(psi.domain.project(clique).sizes, dtype=bool)
    for entry in zeros:
        if set(entry.clique) <= set(clique):
            places = [clique.index(name) for name in entry.clique]
            for cell in entry.cells:
                index: list[slice | int] = [slice(None)] * len(clique)
                for place, code in zip(places, cell, strict=True):
                    index[place] = code
                mask[tuple(index)] = True
    return mask
