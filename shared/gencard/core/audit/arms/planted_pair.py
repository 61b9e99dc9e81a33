"""Planted cubes: two datasets with equal psi that differ in unique records, and in nothing else.

The base holds no unique record: a random part of the dataset, each record twice. A cube has two levels
of each attribute of a set that no statistic of Phi holds together, and one context for all other
attributes; its cells are empty in the base. One dataset gets a record at each even corner of every
cube, the other one at each odd corner. Every statistic of Phi leaves out some attribute of the set, so
it counts the same on both.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.audit.pairs.blocks import minimal, outside
from gencard.core.audit.pairs.candidate_cubes import CandidateCubes, candidate_cubes
from gencard.core.audit.pairs.extremal_pair import check_equal_psi
from gencard.core.coding import StructuralZeros, impossible_records
from gencard.core.dataset import Dataset, key_of
from gencard.core.domain import Clique, Domain
from gencard.core.errors import ComputationError, InvalidNumberError, NoExtremalPairError
from gencard.core.statistics.linear import LinearStatistic
from gencard.core.types import FloatArray

RECORDS_PER_CELL = 8
"""Cells hold about so many records, so that moves find their corners occupied."""
_MOST_DRAWS = 100
"""Most draws of levels; if all fail, structural zeros leave too few cells."""


def made_up(
    domain: Domain,
    records: int,
    *,
    zeros: Sequence[StructuralZeros] = (),
    rng: np.random.Generator,
) -> Dataset:
    """Records that are uniform over a random grid of the domain, dense enough for moves.

    Where the domain has too many cells for the number of records, only some levels of each attribute
    are used, at least two of each that has two: other seeds use other ones.

    Args:
        zeros: Cells that cannot occur, in which there is no record.

    Raises:
        InvalidNumberError: There is no record.
        NoExtremalPairError: Structural zeros leave hardly any cell that could be used.
    """
    if records < 1:
        raise InvalidNumberError(field="records", expected="one or more")
    sizes = _grid(domain.sizes, max(1, records // RECORDS_PER_CELL))
    for _ in range(_MOST_DRAWS):
        columns = [
            rng.choice(whole, size=kept, replace=False)[rng.integers(kept, size=records)]
            for whole, kept in zip(domain.sizes, sizes, strict=True)
        ]
        dataset = _possible(Dataset.of_columns(domain, columns), zeros, rng=rng)
        if len(dataset):
            return dataset
    raise NoExtremalPairError(problem="structural zeros leave too few cells for made-up records")


def uniform(
    domain: Domain,
    records: int,
    *,
    zeros: Sequence[StructuralZeros] = (),
    rng: np.random.Generator,
) -> Dataset:
    """Records that are uniform over the whole domain: hardly two are equal where it has many cells.

    Args:
        zeros: Cells that cannot occur. Records there are replaced by others; if all are, none is left.
    """
    columns = [rng.integers(size, size=records) for size in domain.sizes]
    return _possible(Dataset.of_columns(domain, columns), zeros, rng=rng)


def _possible(
    dataset: Dataset, zeros: Sequence[StructuralZeros], *, rng: np.random.Generator
) -> Dataset:
    """With random ones of its possible records in place of those that cannot occur."""
    impossible = impossible_records(dataset.domain, dataset.codes, zeros)
    if not impossible.any():
        return dataset
    possible = np.flatnonzero(~impossible)
    if not len(possible):
        return dataset.take(possible)
    rows = np.arange(len(dataset))
    rows[impossible] = rng.choice(possible, size=len(dataset) - len(possible))
    return dataset.take(rows)


def _grid(sizes: tuple[int, ...], most_cells: int) -> tuple[int, ...]:
    """The largest cap on the number of levels, the same for all, that leaves few enough cells."""
    low, high = 2, max(sizes, default=2)
    while low < high:
        cap = (low + high + 1) // 2
        cells = np.prod([float(min(size, cap)) for size in sizes])
        low, high = (cap, high) if cells <= most_cells else (low, cap - 1)
    return tuple(min(size, low) for size in sizes)


PLANTED_SHARE = 0.07
"""Planted records of one side, as a share of all its records; more would change what the box sees."""
MOST_PLANTED = 400
"""Planted records of one side."""
RARE = 0.05
"""A cell is rare where fewer rows than this are expected in it in one run."""


@dataclass(frozen=True, slots=True, eq=False)
class PlantedPair:
    """Two datasets with equal psi whose unique records are the planted ones.

    Args:
        even, odd: The base and the records at the even, or the odd, corners; rows mixed.
        even_corners, odd_corners: Codes of the planted records, shape ``(planted, attributes)`` each.
        even_expected, odd_expected: Rows expected in each of these cells in one run, by the product
            of the dataset's one-way margins.
        cubes: Number of cubes.

    Raises:
        ComputationError: The sides differ in psi, or in other unique records.
    """

    cliques: tuple[Clique, ...]
    linear: tuple[LinearStatistic, ...]
    even: Dataset
    odd: Dataset
    even_corners: NDArray[np.int64]
    odd_corners: NDArray[np.int64]
    even_expected: FloatArray
    odd_expected: FloatArray
    cubes: int

    def __post_init__(self) -> None:
        check_equal_psi(self.even, self.odd, self.cliques, self.linear)
        for side, corners in ((self.even, self.even_corners), (self.odd, self.odd_corners)):
            if len(unique_records(side)) != len(corners):
                raise ComputationError(problem="a planted dataset contains further unique records")

    @property
    def rare(self) -> int:
        """Planted records of both sides that stand in rare cells."""
        return int((self.even_expected < RARE).sum() + (self.odd_expected < RARE).sum())


def planted_pair(
    dataset: Dataset,
    cliques: Sequence[Clique],
    linear: Sequence[LinearStatistic],
    *,
    rows: int,
    zeros: Sequence[StructuralZeros] = (),
    rng: np.random.Generator,
) -> PlantedPair | None:
    """Plant cubes into a base that is drawn from a dataset.

    Args:
        dataset: ``D*``, whose records the base repeats.
        cliques: The marginals of Phi.
        linear: Linear statistics of Phi. Cubes do not change the marginal on all of their attributes.
        rows: Rows of each run.
        zeros: Cells that cannot occur, in which nothing is planted.
        rng: Draws base, cubes and the order of the records.

    Returns:
        None where no cube of empty cells was found, or the dataset is empty.

    Raises:
        NoExtremalPairError: Phi holds all its attributes together.
        TooLargeError: More sets of attributes than an audit goes through.
    """
    sets = _sets(dataset.domain, (*cliques, *(statistic.clique for statistic in linear)))
    if not len(dataset):
        return None
    wanted = max(1, min(MOST_PLANTED, int(PLANTED_SHARE * len(dataset))) >> (len(sets[0]) - 1))
    base = _base(dataset, wanted << (len(sets[0]) - 1), rng=rng)
    candidates = candidate_cubes(dataset, sets, wanted, rare=RARE / rows, rng=rng)
    cubes = candidates.apart_from(base, wanted, zeros)
    return _planted(base, cubes, cliques, linear, rows, rng=rng) if len(cubes) else None


def unique_records(dataset: Dataset) -> NDArray[np.intp]:
    """Positions of the records that no other one equals."""
    keys = key_of(dataset.codes.T, dataset.domain.sizes)
    _, first, number = np.unique(keys, return_index=True, return_counts=True)
    return np.asarray(first[number == 1])


def _sets(domain: Domain, kept: Sequence[Clique]) -> list[Clique]:
    """The smallest sets of attributes that lie in none of the ``kept`` cliques, of equal length."""
    sets = minimal(outside(domain, [domain.canonical(clique) for clique in kept], 1))
    return [names for names in sets if len(names) == len(sets[0])]


def _base(dataset: Dataset, planted: int, *, rng: np.random.Generator) -> Dataset:
    """A random part of the records, each of them twice: with the planted ones, about as many."""
    positions = rng.permutation(len(dataset))[: max(1, (len(dataset) - planted) // 2)]
    return dataset.take(np.repeat(positions, 2))


def _planted(
    base: Dataset,
    cubes: CandidateCubes,
    cliques: Sequence[Clique],
    linear: Sequence[LinearStatistic],
    rows: int,
    *,
    rng: np.random.Generator,
) -> PlantedPair:
    corners = cubes.even, cubes.odd
    even, odd = (_with(base, codes, rng=rng) for codes in corners)
    expected_even, expected_odd = (rows * np.exp(cubes.log_shares(codes)) for codes in corners)
    return PlantedPair(
        tuple(cliques), tuple(linear), even, odd, *corners, expected_even, expected_odd, len(cubes)
    )


def _with(base: Dataset, codes: NDArray[np.int64], *, rng: np.random.Generator) -> Dataset:
    both = np.vstack([base.codes, codes.astype(base.codes.dtype)])
    return Dataset(base.domain, both[rng.permutation(len(both))])
