"""Unique records reproduced by a black box: planted ones, and the dataset's own.

An output is looked up for chosen records, and two groups of runs are compared: those on a dataset that
holds the records with those on a dataset that does not.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy
from numpy.typing import NDArray

from gencard.core.audit.exploration import Comparison, welch
from gencard.core.audit.extremal_pair import ExtremalPair, candidate_cubes, check_equal_psi
from gencard.core.audit.moves import minimal, outside
from gencard.core.audit.plan import AuditPlan, AuditStep, Runner, Side
from gencard.core.audit.report import (
    LEVEL_SHARES,
    Check,
    CheckResult,
    PlantedEvidence,
    PlantedRuns,
    UniquesEvidence,
)
from gencard.core.coding import StructuralZeros, impossible_records
from gencard.core.dataset import Dataset, key_of
from gencard.core.domain import Clique, Domain
from gencard.core.errors import ComputationError, InvalidNumberError, NoExtremalPairError
from gencard.core.statistics.linear import LinearStatistic
from gencard.core.types import FloatArray

# Planted cubes: two datasets with equal psi that differ in unique records, and in nothing else.
#
# The base holds no unique record: a random part of the dataset, each record twice. A cube has two levels
# of each attribute of a set that no statistic of Phi holds together, and one context for all other
# attributes; its cells are empty in the base. One dataset gets a record at each even corner of every
# cube, the other one at each odd corner. Every statistic of Phi leaves out some attribute of the set, so
# it counts the same on both.

RECORDS_PER_CELL = 8
"""Cells hold about so many records, so that moves find their corners occupied."""
_MOST_DRAWS = 100
"""Most draws of levels; if all fail, structural zeros leave too few cells."""


def made_up(
    domain: Domain, records: int, *, zeros: Sequence[StructuralZeros] = (), rng: np.random.Generator
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
    # The largest cap on the number of levels, the same for all, that leaves few enough cells.
    most_cells = max(1, records // RECORDS_PER_CELL)
    low, high = 2, max(domain.sizes, default=2)
    while low < high:
        cap = (low + high + 1) // 2
        cells = np.prod([float(min(size, cap)) for size in domain.sizes])
        low, high = (cap, high) if cells <= most_cells else (low, cap - 1)
    for _ in range(_MOST_DRAWS):
        columns = []
        for size in domain.sizes:
            levels = rng.choice(size, size=min(size, low), replace=False)
            columns.append(levels[rng.integers(min(size, low), size=records)])
        dataset = _possible(Dataset.of_columns(domain, columns), zeros, rng=rng)
        if len(dataset):
            return dataset
    raise NoExtremalPairError(problem="structural zeros leave too few cells for made-up records")


def uniform(
    domain: Domain, records: int, *, zeros: Sequence[StructuralZeros] = (), rng: np.random.Generator
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
    """Replace the records that cannot occur by random ones of the possible records."""
    impossible = impossible_records(dataset.domain, dataset.codes, zeros)
    if not impossible.any():
        return dataset
    possible = np.flatnonzero(~impossible)
    if not len(possible):
        return dataset.take(possible)
    rows = np.arange(len(dataset))
    rows[impossible] = rng.choice(possible, size=len(dataset) - len(possible))
    return dataset.take(rows)


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
        linear: Linear statistics of Phi. Cubes do not change the marginal on all of their attributes.
        zeros: Cells that cannot occur, in which nothing is planted.

    Returns:
        None where no cube of empty cells was found, or the dataset is empty.
    """
    kept = (*cliques, *(statistic.clique for statistic in linear))
    smallest = minimal(outside(dataset.domain, [dataset.domain.canonical(one) for one in kept], 1))
    sets = [names for names in smallest if len(names) == len(smallest[0])]
    if not len(dataset):
        return None
    wanted = max(1, min(MOST_PLANTED, int(PLANTED_SHARE * len(dataset))) >> (len(sets[0]) - 1))
    planted = wanted << (len(sets[0]) - 1)
    # A random part of the records, each of them twice: with the planted ones, about as many.
    positions = rng.permutation(len(dataset))[: max(1, (len(dataset) - planted) // 2)]
    base = dataset.take(np.repeat(positions, 2))
    candidates = candidate_cubes(dataset, sets, wanted, rare=RARE / rows, rng=rng)
    cubes = candidates.apart_from(base, wanted, zeros)
    if not len(cubes):
        return None
    corners = cubes.of_parity(0), cubes.of_parity(1)
    sides = []
    for codes in corners:
        records = np.vstack([base.codes, codes.astype(base.codes.dtype)])
        sides.append(Dataset(base.domain, records[rng.permutation(len(records))]))
    even, odd = sides
    expected_even, expected_odd = (rows * np.exp(cubes.log_shares(codes)) for codes in corners)
    return PlantedPair(
        tuple(cliques), tuple(linear), even, odd, *corners, expected_even, expected_odd, len(cubes)
    )


def unique_records(dataset: Dataset) -> NDArray[np.intp]:
    """Positions of the records that no other one equals."""
    keys = key_of(dataset.codes.T, dataset.domain.sizes)
    _, first, number = np.unique(keys, return_index=True, return_counts=True)
    return np.asarray(first[number == 1])


BoolArray = NDArray[np.bool_]

_LARGEST_TABLE = 5_000_000
"""Cells up to which rows are looked up in a table of all cells."""

_TIE = 1 + 1e-9
"""Probabilities that differ by less are equal."""


@dataclass(frozen=True, slots=True)
class Presence:
    """Looks for chosen records in outputs.

    Args:
        records: Codes of distinct records, shape ``(n, attributes)``.
        runs: For each output so far which of them it holds, shape ``(n,)`` each.
    """

    records: NDArray[np.integer]
    runs: list[BoolArray] = field(default_factory=list)

    def watched(self, outputs: Iterable[Dataset]) -> Iterator[Dataset]:
        """The same outputs, looked at on their way."""
        for output in outputs:
            self.runs.append(present(self.records, output))
            yield output

    @property
    def table(self) -> BoolArray:
        """Shape ``(runs, n)``."""
        return np.array(self.runs).reshape(len(self.runs), len(self.records))


def present(records: NDArray[np.integer], output: Dataset) -> BoolArray:
    """Mark the records that an output holds: shape ``(n,)``."""
    keys = key_of(np.concatenate([records, output.codes]).T, output.domain.sizes)
    record_keys, rows = keys[: len(records)], keys[len(records) :]
    if output.domain.cells > _LARGEST_TABLE:
        return np.isin(record_keys, rows)
    is_held = np.zeros(output.domain.cells, dtype=np.bool_)
    is_held[rows] = True
    return is_held[record_keys]


def best_single(own: BoolArray, other: BoolArray) -> float:
    """p-value of the record whose frequency differs most between its own runs and the others.

    For each record Fisher's exact test, one-sided; for the smallest of their p-values the sum over all
    records of the probability that theirs could be as small. A record that came out too seldom, or too
    often, to reach so small a value adds nothing (Tarone), so many records that never come out cost
    nothing.

    R. Tarone, "A modified Bonferroni method for discrete data", Biometrics 46 (1990).

    Args:
        own: Whether each record came out in each run on a dataset that holds it, shape ``(runs, n)``.
        other: The same of runs on a dataset that does not.
    """
    if not own.shape[1]:
        return 1.0
    with_it, without = own.sum(axis=0), other.sum(axis=0)
    totals, place, number = np.unique(with_it + without, return_inverse=True, return_counts=True)
    tails = _fisher_tails(len(own), len(other), totals)
    smallest = float(tails[place, with_it].min())
    attained = np.where(tails <= smallest * _TIE, tails, 0.0).max(axis=1)
    return min(1.0, float(attained @ number))


def findable_alone(own: BoolArray, other: BoolArray, level: float) -> int:
    """Number of records that ``best_single`` would detect if each of their own runs reproduced them."""
    if not own.shape[1]:
        return 0
    seen, without = own.sum(axis=0) + other.sum(axis=0), other.sum(axis=0)
    always = len(own) + without
    totals = np.unique(np.concatenate([seen, always]))
    tails = _fisher_tails(len(own), len(other), totals)
    smallest = tails[np.searchsorted(totals, always), len(own)]
    others = np.bincount(np.searchsorted(totals, seen), minlength=len(totals))
    findable = 0
    for p_value, own_total in zip(smallest, np.searchsorted(totals, seen), strict=True):
        attained = np.where(tails <= p_value * _TIE, tails, 0.0).max(axis=1)
        # The p-value of ``best_single`` with this record's total replaced; ``+`` binds before ``<=``.
        findable += attained @ others - attained[own_total] + p_value <= level
    return int(findable)


def one_in(compared: Comparison, runs: int, room: float, sides: int, level: float) -> int:
    """The largest N such that a box which copies one unique record in N is found in 8 of 10 audits.

    Each record is copied with probability ``1 / N`` in each run, independently, which adds its own
    variance to that of an honest box.

    Args:
        compared: Comparison of the numbers of reproduced records, with these in the input and without.
        room: Records on a side that were not reproduced anyway.
        sides: Number of sides, 1 or 2, that have records to copy.
        level: Level of the two-sided test.

    Returns:
        N; 0 if not even a box that copies all of the records would be found.
    """
    freedom = compared.freedom if compared.error else float(runs - 1)
    reach = float(scipy.stats.t.ppf(1 - level / 2, freedom) + scipy.stats.t.ppf(0.8, freedom))
    share = 1 / np.arange(1, max(2, int(room) + 1))
    gap = sides * room * share
    error = np.sqrt(compared.error**2 + sides * room * share * (1 - share) / runs)
    enough = gap >= reach * error
    return int(np.flatnonzero(enough)[-1] + 1) if enough.any() and room >= 1 else 0


def _fisher_tails(own: int, other: int, totals: NDArray[np.integer]) -> NDArray[np.float64]:
    """P(at least k of the runs that hold a record are own ones), shape ``(totals, own + 1)``."""
    k = np.arange(own + 1)
    return np.asarray(scipy.stats.hypergeom.sf(k - 1, own + other, totals[:, None], own))


NONE_LEFT = "the dataset has no unique record that both sides of the pair lack"


def own_uniques(dataset: Dataset, pair: ExtremalPair) -> NDArray[np.integer]:
    """Codes of the dataset's unique records that neither side of a pair holds, shape ``(n, d)``."""
    uniques = dataset.codes[unique_records(dataset)]
    all_codes = np.concatenate([uniques, pair.low.codes, pair.high.codes])
    keys = key_of(all_codes.T, dataset.domain.sizes)
    codes: NDArray[np.integer] = uniques[~np.isin(keys[: len(uniques)], keys[len(uniques) :])]
    return codes


def uniques_check(
    presence: dict[Side, Presence], level: float
) -> tuple[CheckResult, UniquesEvidence | None]:
    """Compare the dataset with its twins, which have the same psi: all records, and the best single one.

    Args:
        presence: Presence of the records of ``own_uniques`` in the runs on each side and on the dataset.
        level: Level of the whole audit.
    """
    check, share = Check.UNIQUES, LEVEL_SHARES[Check.UNIQUES]
    original = presence[Side.ORIGINAL].table
    twins = np.vstack([presence[Side.LOW].table, presence[Side.HIGH].table])
    if not original.shape[1]:
        return CheckResult(check, share, 1.0, not_run=NONE_LEFT), None
    on_it, on_twins = (table.sum(axis=1).astype(np.float64) for table in (original, twins))
    compared = welch(on_twins, on_it)
    p_value = min(1.0, 2 * min(compared.p_value, best_single(original, twins)))
    room = original.shape[1] - float(on_twins.mean())
    smallest = one_in(compared, len(original), room, 1, share * level / 2)
    seen, seen_on_twins = (tuple(table.sum(axis=1).tolist()) for table in (original, twins))
    evidence = UniquesEvidence(original.shape[1], seen, seen_on_twins, smallest)
    return CheckResult(check, share, p_value), evidence


_STREAM = 3
"""Number of the random stream, derived from the plan's seed, that planting draws from."""

ALL_TOGETHER = "a statistic of Phi holds all attributes together"
NO_CUBE = "the records leave no empty cells to plant unique records in"


@dataclass(frozen=True, slots=True)
class PlantedArm:
    """Two datasets to run a box on; or why there are none."""

    pair: PlantedPair | None
    not_run: str = ""

    @classmethod
    def of(cls, dataset: Dataset, plan: AuditPlan) -> "PlantedArm":
        """Plant around a dataset, or where it leaves no empty cells around a uniform one of its length.

        The base need not have the dataset's psi: the two sides are compared with each other alone.

        Raises:
            TooLargeError: More sets of attributes than an audit goes through.
        """
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([plan.seed, _STREAM])))
        zeros = plan.structural_zeros
        for base in (dataset, uniform(dataset.domain, len(dataset), zeros=zeros, rng=rng)):
            try:
                phi = plan.cliques, plan.linear
                pair = planted_pair(base, *phi, rows=plan.rows, zeros=zeros, rng=rng)
            except NoExtremalPairError:
                return cls(None, ALL_TOGETHER)
            if pair is not None:
                return cls(pair)
        return cls(None, NO_CUBE)

    def checks(
        self, runner: Runner, plan: AuditPlan
    ) -> tuple[tuple[CheckResult, ...], PlantedEvidence | None]:
        """Run the box on both datasets, and test the reproduced records.

        If nothing can be planted, the same progress is reported, so that it discloses nothing.

        Raises:
            BlackBoxError: An output is not what the contract of the box says.
        """
        if self.pair is None:
            for side in (Side.LOW, Side.HIGH):
                runner.skip(AuditStep.PLANTED, side)
            checks = (Check.PLANTED, Check.CANARY)
            level, why = LEVEL_SHARES, self.not_run
            return tuple(CheckResult(check, level[check], 1.0, not_run=why) for check in checks), None
        on_even = _presence(self.pair, runner, Side.LOW, self.pair.even)
        on_odd = _presence(self.pair, runner, Side.HIGH, self.pair.odd)
        return planted_checks(self.pair, on_even, on_odd, plan.level)


def planted_checks(
    pair: PlantedPair, on_even: BoolArray, on_odd: BoolArray, level: float
) -> tuple[tuple[CheckResult, ...], PlantedEvidence]:
    """Test which planted records came out on which side.

    Args:
        on_even, on_odd: Whether each planted record, the even ones first, came out in each run on
            that side: shape ``(runs, 2 planted)``.
        level: Level of the whole audit.
    """
    planted = len(pair.even_corners)
    # Reversed columns: the odd records are the own ones there. Copying makes both surpluses positive.
    even, odd = _runs(on_even, planted), _runs(on_odd[:, ::-1], planted)
    # Excess of a side's own records that came out over the other side's, in each run.
    even_surplus, odd_surplus = (np.subtract(runs.own, runs.other, dtype=float) for runs in (even, odd))
    compared = welch(-odd_surplus, even_surplus)
    own = np.hstack([on_even[:, :planted], on_odd[:, planted:]])
    other = np.hstack([on_odd[:, :planted], on_even[:, planted:]])
    p_single = best_single(own, other)
    shares = LEVEL_SHARES[Check.PLANTED], LEVEL_SHARES[Check.CANARY]
    checks = (
        CheckResult(Check.PLANTED, shares[0], compared.p_value, compared.direction),
        CheckResult(Check.CANARY, shares[1], p_single),
    )
    room = planted - float(np.mean([*even.other, *odd.other]))
    smallest = one_in(compared, len(on_even), room, 2, shares[0] * level)
    alone = findable_alone(own, other, shares[1] * level)
    return checks, PlantedEvidence(pair.cubes, planted, pair.rare, even, odd, smallest, alone)


def _presence(pair: PlantedPair, runner: Runner, side: Side, dataset: Dataset) -> BoolArray:
    """Return the planted records that came out in each run on one side: shape ``(runs, 2 planted)``."""
    presence = Presence(np.vstack([pair.even_corners, pair.odd_corners]))
    for _ in presence.watched(runner.outputs(AuditStep.PLANTED, side, dataset)):
        pass
    runs = _runs(presence.table, len(pair.even_corners))
    runner.weigh(AuditStep.PLANTED, side, np.column_stack([runs.own, runs.other]).astype(np.float64))
    return presence.table


def _runs(table: BoolArray, planted: int) -> PlantedRuns:
    own, other = table[:, :planted].sum(axis=1), table[:, planted:].sum(axis=1)
    return PlantedRuns(tuple(own.tolist()), tuple(other.tolist()))
