"""Cubes of cells that could hold planted records: drawn in three kinds, the best ones first."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

import numpy as np

from gencard.core.coding import StructuralZeros, impossible_records
from gencard.core.dataset import Dataset, key_of
from gencard.core.domain import Clique, Domain
from gencard.core.types import FloatArray, IntArray

DRAWN = 30
"""Cubes drawn for each one that is wanted."""


@dataclass(frozen=True, slots=True, eq=False)
class CandidateCubes:
    """Cubes on equally many attributes each.

    Args:
        log_margins: For each attribute the logarithm of its levels' shares; -inf where none stands.
        axes: Positions of the attributes that move, shape ``(n, k)``.
        codes: The corner that is low on every axis, shape ``(n, attributes)``.
        others: The other level on each axis, shape ``(n, k)``.
    """

    domain: Domain
    log_margins: tuple[FloatArray, ...]
    axes: IntArray
    codes: IntArray
    others: IntArray

    def __len__(self) -> int:
        return len(self.axes)

    def __getitem__(self, chosen: IntArray) -> "CandidateCubes":
        return replace(
            self, axes=self.axes[chosen], codes=self.codes[chosen], others=self.others[chosen]
        )

    @property
    def even(self) -> IntArray:
        """Codes of all even corners, shape ``(n 2^(k - 1), attributes)``."""
        return np.concatenate([self._corner(mask) for mask in self._masks if mask.bit_count() % 2 == 0])

    @property
    def odd(self) -> IntArray:
        """Codes of all odd corners."""
        return np.concatenate([self._corner(mask) for mask in self._masks if mask.bit_count() % 2])

    def log_shares(self, codes: IntArray) -> FloatArray:
        """Logarithm of the expected share of each record by the product of one-way margins."""
        columns = zip(self.log_margins, codes.T, strict=True)
        return sum((margin[column] for margin, column in columns), start=np.zeros(len(codes)))

    @property
    def most_expected(self) -> FloatArray:
        """The largest ``log_shares`` of each cube's corners."""
        shares = np.array([self.log_shares(self._corner(mask)) for mask in self._masks])
        return np.asarray(shares.max(axis=0), dtype=np.float64)

    def apart_from(
        self, base: Dataset, wanted: int, zeros: Sequence[StructuralZeros] = ()
    ) -> "CandidateCubes":
        """The first cubes whose cells can occur, and no record of ``base`` and no other cube is in."""
        corners = np.concatenate([self._corner(mask) for mask in self._masks])
        keys = key_of(np.concatenate([base.codes, corners]).T, self.domain.sizes)
        cells = keys[len(base) :].reshape(-1, len(self))
        impossible = impossible_records(self.domain, corners, zeros).reshape(cells.shape)
        # All corners must be empty in the dataset, so that only planted records can be in their cells.
        empty = np.flatnonzero(~(np.isin(cells, keys[: len(base)]) | impossible).any(axis=0))
        cells_taken: set[int] = set()
        positions: list[int] = []
        for cube in empty.tolist():
            own = cells[:, cube].tolist()
            if len(positions) < wanted and cells_taken.isdisjoint(own):
                cells_taken.update(own)
                positions.append(cube)
        return self[np.array(positions, dtype=np.int64)]

    @property
    def _masks(self) -> range:
        """One number for each corner; its bits say on which axes it takes the other level."""
        return range(2 ** self.axes.shape[1])

    def _corner(self, mask: int) -> IntArray:
        codes = self.codes.copy()
        rows = np.arange(len(self))
        for axis in range(self.axes.shape[1]):
            if mask >> axis & 1:
                codes[rows, self.axes[:, axis]] = self.others[:, axis]
        return codes


def candidate_cubes(
    dataset: Dataset, sets: Sequence[Clique], wanted: int, *, rare: float, rng: np.random.Generator
) -> CandidateCubes:
    """Cubes of three kinds in turns: rarest corners, next to real records, random.

    Within the last two, cubes whose corners are all expected with a share below ``rare`` come first.

    Args:
        dataset: Levels that it does not hold are not used.
        sets: Sets of attributes that cubes are made of; all of the same length.
        wanted: How many are wanted; more are returned, for some will not do.
    """
    draw = _Draw(dataset, sets, DRAWN * wanted, rng)
    kinds = draw.uniform(), draw.beside_records(), draw.by_margins()
    rarest, *others = (kind.most_expected for kind in kinds)
    orders = [np.argsort(rarest), *(np.argsort(most >= np.log(rare), kind="stable") for most in others)]
    begins = np.cumsum([0, *map(len, kinds)])
    turns = zip_longest(*(order + begin for order, begin in zip(orders, begins, strict=False)))
    together = replace(
        kinds[0],
        axes=np.concatenate([kind.axes for kind in kinds]),
        codes=np.concatenate([kind.codes for kind in kinds]),
        others=np.concatenate([kind.others for kind in kinds]),
    )
    return together[np.array([cube for cube in chain.from_iterable(turns) if cube is not None])]


class _Draw:
    """Draws cubes; levels that no record has are left out."""

    def __init__(
        self, dataset: Dataset, sets: Sequence[Clique], number: int, rng: np.random.Generator
    ) -> None:
        self.dataset, self.number, self.rng = dataset, number, rng
        domain = dataset.domain
        counts = [
            np.bincount(column, minlength=size)
            for column, size in zip(dataset.codes.T, domain.sizes, strict=True)
        ]
        self.margins = [count / len(dataset) for count in counts]
        self.flat = [(count > 0) / np.count_nonzero(count) for count in counts]
        varied = [
            names
            for names in sets
            if all(np.count_nonzero(counts[axis]) > 1 for axis in domain.axes(names))
        ]
        self.sets = np.array([domain.axes(names) for names in varied], dtype=np.int64)

    def uniform(self) -> CandidateCubes:
        return self._cubes(self._records(self.flat), self.flat)

    def by_margins(self) -> CandidateCubes:
        return self._cubes(self._records(self.margins), self.margins)

    def beside_records(self) -> CandidateCubes:
        """A record of the dataset with one attribute changed; a corner of the cube is that far away."""
        rng = self.rng
        codes = self.dataset.codes[rng.integers(len(self.dataset), size=self.number)].astype(np.int64)
        columns = rng.integers(codes.shape[1], size=self.number)
        anew = self._records(self.margins)
        rows = np.arange(self.number)
        codes[rows, columns] = anew[rows, columns]
        return self._cubes(codes, self.margins)

    def _records(self, shares: Sequence[FloatArray]) -> IntArray:
        columns = [self.rng.choice(len(share), size=self.number, p=share) for share in shares]
        return np.column_stack(columns)

    def _cubes(self, codes: IntArray, shares: Sequence[FloatArray]) -> CandidateCubes:
        """Cubes with these low corners, those left out whose other level came out the same."""
        with np.errstate(divide="ignore"):
            logs = tuple(np.log(margin) for margin in self.margins)
        if not len(self.sets):
            nothing = np.zeros((0, 1), dtype=np.int64)
            return CandidateCubes(self.dataset.domain, logs, nothing, codes[:0], nothing)
        axes = self.sets[self.rng.integers(len(self.sets), size=self.number)]
        others = np.take_along_axis(self._records(shares), axes, axis=1)
        cubes = CandidateCubes(self.dataset.domain, logs, axes, codes, others)
        return cubes[np.flatnonzero((np.take_along_axis(codes, axes, axis=1) != others).all(axis=1))]
