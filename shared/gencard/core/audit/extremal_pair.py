"""Two datasets with equal psi, as far apart as integer moves take them."""

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

import numpy as np
import scipy

from gencard.core.audit.direction import MOST_TABLE_CELLS, Direction, along_circuits
from gencard.core.audit.moves import climb, leads, minimal
from gencard.core.coding import StructuralZeros, impossible_cells, impossible_records
from gencard.core.dataset import Cells, Dataset, check_same_domain, key_of
from gencard.core.domain import Clique, Domain
from gencard.core.errors import ComputationError, NoExtremalPairError
from gencard.core.statistics.linear import LinearStatistic
from gencard.core.statistics.marginals import count, count_all
from gencard.core.types import FloatArray, IntArray

# Cubes of cells that could hold planted records: drawn in three kinds, the best ones first.

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
    def corners(self) -> list[IntArray]:
        """Codes of each corner; the bits of its position say on which axes it takes the other level."""
        corners, rows = [], np.arange(len(self))
        for mask in range(2 ** self.axes.shape[1]):
            codes = self.codes.copy()
            for axis in range(self.axes.shape[1]):
                if mask >> axis & 1:
                    codes[rows, self.axes[:, axis]] = self.others[:, axis]
            corners.append(codes)
        return corners

    def of_parity(self, parity: int) -> IntArray:
        """Codes of all even corners, or of all odd ones, shape ``(n 2^(k - 1), attributes)``."""
        corners = enumerate(self.corners)
        return np.concatenate([codes for mask, codes in corners if mask.bit_count() % 2 == parity])

    def log_shares(self, codes: IntArray) -> FloatArray:
        """Logarithm of the expected share of each record by the product of one-way margins."""
        columns = zip(self.log_margins, codes.T, strict=True)
        return sum((margin[column] for margin, column in columns), start=np.zeros(len(codes)))

    def apart_from(
        self, base: Dataset, wanted: int, zeros: Sequence[StructuralZeros] = ()
    ) -> "CandidateCubes":
        """The first cubes whose cells can occur, and no record of ``base`` and no other cube is in."""
        corners = np.concatenate(self.corners)
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
    # Rarest corners are looked for among records that are uniform on the levels that occur.
    rare_ones = draw.cubes(draw.records(draw.flat), draw.flat)
    kinds = rare_ones, draw.beside_records(), draw.cubes(draw.records(draw.margins), draw.margins)
    # The largest expected share of each cube's corners, as a logarithm.
    corners = (np.array([kind.log_shares(codes) for codes in kind.corners]) for kind in kinds)
    rarest, *others = (shares.max(axis=0) for shares in corners)
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
        columns = zip(dataset.codes.T, domain.sizes, strict=True)
        counts = [np.bincount(column, minlength=size) for column, size in columns]
        self.margins = [count / len(dataset) for count in counts]
        self.flat = [(count > 0) / np.count_nonzero(count) for count in counts]
        varied = {axis for axis, count in enumerate(counts) if np.count_nonzero(count) > 1}
        axes = [domain.axes(names) for names in sets]
        self.sets = np.array([own for own in axes if varied.issuperset(own)], dtype=np.int64)

    def beside_records(self) -> CandidateCubes:
        """A record of the dataset with one attribute changed; a corner of the cube is that far away."""
        rng = self.rng
        codes = self.dataset.codes[rng.integers(len(self.dataset), size=self.number)].astype(np.int64)
        columns = rng.integers(codes.shape[1], size=self.number)
        anew = self.records(self.margins)
        rows = np.arange(self.number)
        codes[rows, columns] = anew[rows, columns]
        return self.cubes(codes, self.margins)

    def records(self, shares: Sequence[FloatArray]) -> IntArray:
        columns = [self.rng.choice(len(share), size=self.number, p=share) for share in shares]
        return np.column_stack(columns)

    def cubes(self, codes: IntArray, shares: Sequence[FloatArray]) -> CandidateCubes:
        """Cubes with these low corners, those left out whose other level came out the same."""
        with np.errstate(divide="ignore"):
            logs = tuple(np.log(margin) for margin in self.margins)
        if not len(self.sets):
            nothing = np.zeros((0, 1), dtype=np.int64)
            return CandidateCubes(self.dataset.domain, logs, nothing, codes[:0], nothing)
        axes = self.sets[self.rng.integers(len(self.sets), size=self.number)]
        others = np.take_along_axis(self.records(shares), axes, axis=1)
        cubes = CandidateCubes(self.dataset.domain, logs, axes, codes, others)
        return cubes[np.flatnonzero((np.take_along_axis(codes, axes, axis=1) != others).all(axis=1))]


_MOST_SECONDS = 10.0
"""Time limit in seconds of the integer program; at the limit, the pair depends on the machine."""

PASSES = 2
"""Number of passes through every set of moves."""


@dataclass(frozen=True, slots=True)
class Moves:
    """The kinds of cube move that keep Phi, each a set of attributes led by the one it flips.

    Args:
        linear: Linear statistics of Phi. Cube moves keep the whole marginal on their cliques; what
            else leaves them as they are is for circuits to find.
        zeros: Cells that cannot occur, into which nothing is moved.
    """

    cliques: tuple[Clique, ...]
    kinds: tuple[Clique, ...]
    linear: tuple[LinearStatistic, ...] = ()
    zeros: tuple[StructuralZeros, ...] = ()

    @classmethod
    def of(
        cls,
        cliques: Sequence[Clique],
        blocks: Sequence[Clique],
        linear: Sequence[LinearStatistic] = (),
        zeros: Sequence[StructuralZeros] = (),
    ) -> "Moves":
        """Moves that reach every one of ``blocks``, which are those of ``outside``.

        On the smallest of them only: a cube move on a larger one is a sum of such moves.
        """
        linear_cliques = tuple(set(statistic.clique) for statistic in linear)
        reachable = [one for one in blocks if not any(set(one) <= clique for clique in linear_cliques)]
        moves = cls(tuple(cliques), (), tuple(linear), tuple(zeros))
        kinds = (led for axes in minimal(reachable) for led in leads(axes, moves.kept))
        return replace(moves, kinds=tuple(kinds))

    @property
    def kept(self) -> tuple[Clique, ...]:
        """The cliques whose marginals no move changes."""
        return (*self.cliques, *(statistic.clique for statistic in self.linear))


@dataclass(frozen=True, slots=True, eq=False)
class ExtremalPair:
    """Two datasets that agree on every released statistic, as integers, and differ outside Phi.

    Args:
        low: The side with the smaller ``<beta, table>``, in random order.
        high: The side with the larger one, in random order.

    Raises:
        ComputationError: A released statistic differs.
    """

    cliques: tuple[Clique, ...]
    low: Dataset
    high: Dataset
    linear: tuple[LinearStatistic, ...] = ()

    def __post_init__(self) -> None:
        check_equal_psi(self.low, self.high, self.cliques, self.linear)

    @property
    def moved(self) -> int:
        """Records of one side that the other side does not hold."""
        return moved(self.low, self.high)


def extremal_pair(
    dataset: Dataset,
    moves: Moves,
    beta: Direction,
    *,
    rng: np.random.Generator,
    start: ExtremalPair | None = None,
    progress: Callable[[float], None] = lambda _share: None,
) -> ExtremalPair:
    """Move a dataset as far along ``beta``, and as far against it, as moves that keep psi allow.

    Args:
        dataset: ``D*``; both sides have its psi.
        beta: The direction, in blocks outside Phi.
        rng: Decides which moves are tried where there are too many, and the order of the records.
        start: Go on from this pair of the same psi.
    """
    sides = (start.low, start.high) if start else (dataset, dataset)
    climbed = []
    for half, (side, uphill) in enumerate(zip(sides, (-beta, beta), strict=True)):
        cells = Cells.of(side)
        steps = PASSES * moves.kinds
        for step, axes in enumerate(steps):
            progress((half + step / len(steps)) / 2)
            cells = climb(cells, moves.kept, axes, uphill, zeros=moves.zeros, rng=rng)
        climbed.append(cells.shuffled(rng=rng))
    low, high = climbed
    # Cube moves keep every count on the cliques of linear statistics; circuits keep only the sums, so
    # they can go on where cubes stop. Without linear statistics, the integer program finds what the
    # greedy climb missed on small tables.
    if moves.linear:
        moved_sides = [
            along_circuits(side, moves.cliques, moves.linear, uphill, zeros=moves.zeros)
            for side, uphill in ((low, -beta), (high, beta))
        ]
        # Circuits return the records sorted by cell. In random order, as after the climb, the order
        # says nothing about the side.
        low, high = (side.take(rng.permutation(len(side))) for side in moved_sides)
    elif beta.value(high) <= beta.value(low):
        low, high = (farthest(dataset, moves.cliques, up, zeros=moves.zeros) for up in (-beta, beta))
    if beta.value(high) <= beta.value(low):
        problem = "the records allow no move that keeps psi; try a denser, made-up dataset"
        raise NoExtremalPairError(problem=problem)
    # The pair compares its two sides with each other; both could still have drifted from the dataset's
    # psi.
    check_equal_psi(dataset, high, moves.cliques, moves.linear)
    return ExtremalPair(moves.cliques, low, high, moves.linear)


def statistics_digest(
    dataset: Dataset,
    cliques: Sequence[Clique],
    linear: Sequence[LinearStatistic] = (),
    *,
    key: bytes = b"",
) -> str:
    """HMAC-SHA-256, in hex, of the released marginals: names, sizes and counts, clique by clique.

    Then of the linear statistics: names, number of functions and sums.

    Args:
        key: Secret where the dataset is real: small counts could be guessed from a digest that anybody
            can compute. Empty for made-up datasets.
    """
    hasher = hmac.new(key, b"gencard.marginals.v1", "sha256")
    for clique, counts in zip(cliques, count_all(dataset, cliques), strict=True):
        header = "".join(f"\x00{name}\x00{dataset.domain.size(name)}" for name in clique)
        hasher.update(f"{header}\x00\x00".encode())
        hasher.update(np.ascontiguousarray(counts, dtype="<i8").tobytes())
    tables = count_all(dataset, [statistic.clique for statistic in linear])
    for statistic, table in zip(linear, tables, strict=True):
        sums = statistic.sums(table)
        header = "".join(f"\x00{name}" for name in statistic.clique)
        hasher.update(f"{header}\x00{len(sums)}\x00\x00".encode())
        hasher.update(sums.astype("<i8").tobytes())
    return hasher.hexdigest()


def moved(one: Dataset, other: Dataset) -> int:
    """Records of ``one`` that ``other`` does not hold; both of the same length and domain."""
    codes = np.concatenate([one.codes, other.codes])
    signs = np.repeat([1, -1], [len(one), len(other)])
    _, cell = np.unique(key_of(codes.T, one.domain.sizes), return_inverse=True)
    return int(np.abs(np.bincount(cell, weights=signs)).sum()) // 2


def check_equal_psi(
    one: Dataset, other: Dataset, cliques: Sequence[Clique], linear: Sequence[LinearStatistic] = ()
) -> None:
    """Raises ComputationError where a released statistic differs by as little as one record."""
    check_same_domain(one.domain, other.domain)
    if statistics_digest(one, cliques, linear) != statistics_digest(other, cliques, linear):
        raise ComputationError(problem="the two datasets of an extremal pair differ in psi")


def farthest(
    dataset: Dataset,
    cliques: Sequence[Clique],
    beta: Direction,
    *,
    zeros: Sequence[StructuralZeros] = (),
) -> Dataset:
    """A dataset with the psi of ``dataset`` and the largest ``<beta, table>``, by an integer program.

    Args:
        zeros: Cells that cannot occur, in which it has no more records than ``dataset``.

    Returns:
        ``dataset`` itself where the table is too large or the solver has no solution in time.
    """
    domain = dataset.domain
    if domain.cells > MOST_TABLE_CELLS:
        return dataset
    cells = np.indices(domain.sizes).reshape(len(domain), -1)
    counts = np.concatenate([table.ravel() for table in count_all(dataset, cliques)])
    # The 0-1 matrix from the full table to all marginals, one after the other.
    blocks = []
    for clique in cliques:
        sizes = domain.project(clique).sizes
        row = np.ravel_multi_index(tuple(cells[list(domain.axes(clique))]), sizes)
        entries = (np.ones(domain.cells), (row, np.arange(domain.cells)))
        blocks.append(scipy.sparse.csr_array(entries, shape=(int(np.prod(sizes)), domain.cells)))
    marginalising = scipy.sparse.vstack(blocks, format="csr")
    impossible = impossible_cells(domain, zeros)
    most = np.where(impossible, count(dataset, domain.attributes), np.inf).ravel()
    solution = scipy.optimize.milp(
        c=-beta.of(list(cells)),
        constraints=scipy.optimize.LinearConstraint(marginalising, counts, counts),
        bounds=scipy.optimize.Bounds(0, most),
        integrality=np.ones(domain.cells, dtype=np.int64),
        options={"time_limit": _MOST_SECONDS},
    )
    if solution.x is None:
        return dataset
    # HiGHS returns integers up to a tolerance. A wrong rounding cannot pass: psi is compared afterwards.
    records = np.repeat(cells.T, np.rint(solution.x).astype(np.int64), axis=0)
    return Dataset(domain, records)
