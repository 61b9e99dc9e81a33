r"""Disclosure by a new output together with all earlier ones about the same records.

Two outputs whose populations differ by a few records describe these few by subtraction. So a new output
is refused where

* **pairs**: the population of one output is, but for 1 to ``threshold - 1`` records, a union of cells of
  the other (all records, or the 40-year-olds that a table of ages shows), in all or within a cell of the
  attributes that both rest on;
* **natural groups**: the same beside groups that anybody may be told of later, all cells of fewer of the
  attributes that the population is chosen by: everybody but a few is refused at once, and so is
  everybody but nobody, lest the refusal say that there is somebody;
* **chains**: a sum of populations, each taken once, several times or subtracted, leaves fewer than
  ``threshold`` records. With the populations as rows and their common refinement as columns, such a sum
  is a vector of the row space that is zero on all large columns: searched exactly where few
  combinations have to be tried, and refused unsearched where many would;
* **sums**: means of a number with the sizes of their groups determine its sum in every cell of every
  table. A combination of such sums weighs each record; with the largest weight 1, the weights of all
  records must add up to the threshold, and what one record contributes to the combination may not be
  most of it. The least of either is a linear program for each class of records. Leverage, a lower bound
  of it, spares most of the programs.

What this does not catch: that a refusal itself says "fewer than the threshold"; chains of counts through
cells *inside* tables (``inference`` looks there); what an attacker knows besides, or another system
published.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from math import comb, prod

import numpy as np
import scipy
from numpy.typing import NDArray

from gencard.core.card.privacy import Transform
from gencard.core.coding import StructuralZeros, impossible_cells
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.errors import DomainMismatchError
from gencard.core.policy import PASSED, Rule, Rules, RuleVerdict
from gencard.core.types import FloatArray, IntArray

# Populations: which records an output is about, by a test of declared levels that anybody can read.
#
# A population is public: it says which cells of a few attributes are in it, and never which records.


Kept = NDArray[np.bool_]
"""Membership of records in a population, one entry for each."""

_MOST_CELLS = 2**20
"""Cells of a marginal that are numbered by their place in it."""


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """Membership of cells of some attributes.

    Args:
        attributes: In the order of the axes.
        cells: True where a record of this cell is in.
    """

    attributes: Clique
    cells: NDArray[np.bool_]

    def kept(self, dataset: Dataset) -> Kept:
        """Return the records that pass.

        Raises:
            UnknownAttributeError: The dataset lacks an attribute.
            DomainMismatchError: An attribute has another number of levels.
        """
        if dataset.domain.project(self.attributes).sizes != self.cells.shape:
            raise DomainMismatchError(problem="a test of a population has other levels")
        if not self.attributes:
            return np.full(len(dataset), bool(self.cells))
        codes = tuple(dataset.column(name) for name in self.attributes)
        return np.asarray(self.cells[codes])


EVERYBODY = Condition((), np.array(True))  # a table without axes


@dataclass(frozen=True, slots=True, eq=False)
class ToldOutput:
    """Output that was released of some records: tables of counts, or numbers that depend on these alone.

    Args:
        tests: A record is in the population where it passes all of them: what the analyst asked for,
            and that no used value is missing.
        cliques: The marginals of the population that the output rests on, so that it tells no more.
    """

    tests: tuple[Condition, ...]
    cliques: tuple[Clique, ...]

    @property
    def attributes(self) -> frozenset[str]:
        """All that says who is in."""
        return frozenset(name for test in self.tests for name in test.attributes)

    def kept(self, dataset: Dataset) -> Kept:
        """Return the records that the output is about."""
        everybody = np.ones(len(dataset), dtype=bool)
        return reduce(np.logical_and, (test.kept(dataset) for test in self.tests), everybody)


@dataclass(frozen=True, slots=True)
class Rounded:
    """A marginal of everybody, released rounded; ``checks``: threshold and base of the rounding."""

    clique: Clique
    checks: Transform


def not_missing(attributes: Iterable[str], levels: Domain) -> tuple[Condition, ...]:
    """That no value of these attributes is missing, whose last level is "missing"."""
    return tuple(
        Condition((name,), np.arange(levels.size(name)) < levels.size(name) - 1) for name in attributes
    )


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """Levels that conditions treat alike, as one: by attribute, the new code of each level."""

    classes: Mapping[str, IntArray]

    @classmethod
    def by(cls, conditions: Sequence[Condition], attributes: Iterable[str], levels: Domain) -> "Merged":
        """Merge the levels of attributes that stand in conditions and nowhere else."""
        classes = {}
        for name in attributes:
            size = levels.size(name)
            slices = [
                np.moveaxis(one.cells, one.attributes.index(name), 0).reshape(size, -1)
                for one in conditions
                if name in one.attributes
            ]
            # Levels that all conditions treat alike have the same slices, and get the same number.
            every = np.concatenate([np.zeros((size, 0), dtype=bool), *slices], axis=1)
            _, numbers = np.unique(every, axis=0, return_inverse=True)
            if numbers.max() + 1 < size:
                classes[name] = numbers.reshape(-1).astype(np.int64)
        return cls(classes)

    def domain(self, domain: Domain) -> Domain:
        """With fewer levels."""
        sizes = zip(domain.attributes, domain.sizes, strict=True)
        levels = {name: int(numbers.max()) + 1 for name, numbers in self.classes.items()}
        return Domain.of({name: levels.get(name, size) for name, size in sizes})

    def dataset(self, dataset: Dataset) -> Dataset:
        """The records with the new codes."""
        columns = [
            self.classes[name][dataset.column(name)]
            if name in self.classes
            else dataset.column(name).astype(np.int64)
            for name in dataset.domain.attributes
        ]
        return Dataset(self.domain(dataset.domain), np.stack(columns, axis=1))

    def condition(self, condition: Condition) -> Condition:
        """The same one, of the new codes."""
        cells = condition.cells
        for axis, name in enumerate(condition.attributes):
            if name in self.classes:
                _, first = np.unique(self.classes[name], return_index=True)
                cells = cells.take(first, axis=axis)
        return Condition(condition.attributes, cells)

    def zeros(self, zeros: StructuralZeros, levels: Domain) -> StructuralZeros:
        """Cells of the new codes all of which cannot occur."""
        table = impossible_cells(levels.project(zeros.clique), [zeros])
        for axis, name in enumerate(zeros.clique):
            if name in self.classes:
                numbers = self.classes[name]
                parts = [
                    table.compress(numbers == one, axis).all(axis) for one in range(numbers.max() + 1)
                ]
                table = np.stack(parts, axis=axis)
        return StructuralZeros(zeros.clique, tuple(map(tuple, np.argwhere(table).tolist())))


def cell_numbers(dataset: Dataset, attributes: Sequence[str]) -> tuple[IntArray, int]:
    """The cell of each record in the marginal on some attributes, and how many cells there are.

    Cells are numbered as they occur where the whole table would be large.
    """
    sizes = [dataset.domain.size(name) for name in attributes]
    if prod(sizes) > _MOST_CELLS:
        rows = dataset.codes[:, list(dataset.domain.axes(tuple(attributes)))]
        _, numbers = np.unique(rows, axis=0, return_inverse=True)
        return numbers.astype(np.int64), int(numbers.max(initial=-1)) + 1
    numbers = np.zeros(len(dataset), dtype=np.int64)
    for name, size in zip(attributes, sizes, strict=True):
        numbers = numbers * size + dataset.column(name)
    return numbers, prod(sizes)


MOST_COMBINATIONS = 2_000
"""Sparse combinations that are tried before a chain is refused without a search."""

_MOST_ATTRIBUTES = 12
"""Most attributes on which a condition may depend, as 4,096 cells allow. All their subsets are tried."""

_ZERO = 1e-7

_MOST_SUMS = 1_000
"""Sums that are judged together; beyond this number the answer waits for a steward."""

_MOST_WEIGHTS = 10**8
"""Classes of records times sums; the same."""

_MOST_PROGRAMS = 60
"""Linear programs of one answer; the same."""

_MOST_SHARES = 10**7
"""Classes of records times classes that are looked at; the same."""

_TURNS, _BEYOND = 60, 1.02
"""Turns of a search that spares most programs, and how far beyond the least mass it aims."""

_MOST_CLASSES = 2_000
"""Classes of records in one program, those of the smallest groups: the minimum over them is a bound."""


def differences(
    new: ToldOutput, earlier: Sequence[ToldOutput], dataset: Dataset, threshold: int
) -> bool:
    """Whether a new output must be refused because of earlier ones on the same records.

    Args:
        dataset: The records, over all attributes that the outputs name.
        threshold: Fewest records that two outputs may differ by, unless they do not differ.
    """
    if threshold <= 1 or not earlier:
        return False
    population = new, new.kept(dataset)
    # Without repetitions: psi of many cards rests on the same cliques.
    distinct = {
        (
            tuple((test.attributes, test.cells.tobytes()) for test in output.tests),
            frozenset(map(frozenset, output.cliques)),
        ): output
        for output in earlier
    }
    before = [(output, output.kept(dataset)) for output in distinct.values()]
    # In both directions: either population may be nearly a union of cells of the other.
    if any(
        _nearly_equal(one, other, dataset, threshold) or _nearly_equal(other, one, dataset, threshold)
        for one, other in ((population, output) for output in before)
    ):
        return True
    return _in_a_chain([kept for _, kept in (population, *before)], threshold)


def nearly_natural(condition: Condition, dataset: Dataset, threshold: int) -> bool:
    """Whether a population is a union of cells of fewer attributes, but for less than a few records.

    None at all are too few as well, unless the union is the population by its very definition.
    """
    names = [  # attributes without which the others do not decide who is in
        name
        for axis, name in enumerate(condition.attributes)
        if np.any(condition.cells.all(axis=axis) != condition.cells.any(axis=axis))
    ]
    if len(names) > _MOST_ATTRIBUTES:
        return True  # fail closed: trying all subsets would take too long
    cells, number = cell_numbers(dataset, names)
    mask, sizes = condition.kept(dataset), [dataset.domain.size(name) for name in names]
    if number != prod(sizes):  # too many to be numbered by their place
        return True
    within, without = (np.bincount(cells[one], minlength=number).reshape(sizes) for one in (mask, ~mask))
    for size in range(len(names)):
        for away in combinations(range(len(names)), len(names) - size):
            inside, outside = within.sum(axis=away), without.sum(axis=away)
            is_near = bool(np.any(inside > outside))
            if is_near and np.minimum(inside, outside).sum() < threshold:
                return True
    return False


_Population = tuple[ToldOutput, Kept]
"""An output beside which records it is about."""


def _nearly_equal(narrow: _Population, wide: _Population, dataset: Dataset, threshold: int) -> bool:
    """Whether unions of the wide output's cells come near to the narrow output, but not quite."""
    (output, kept), (other_output, wide_kept) = narrow, wide
    about = output.attributes
    for clique in [(), *other_output.cliques]:
        names = [name for name in clique if name in about]
        shared = {frozenset(clique) & frozenset(other) for other in [(), *output.cliques]}
        for common in shared:
            within = [name for name in clique if name in common]
            gaps = _gaps(kept, wide_kept, dataset, within, names)
            if np.any((gaps > 0) & (gaps < threshold)):
                return True
    return False


def _gaps(
    narrow: Kept, wide: Kept, dataset: Dataset, within: Sequence[str], chosen: Sequence[str]
) -> IntArray:
    """By how many records the nearest union of another's cells differs from a population.

    A cell of ``chosen`` that is for the greater part in belongs to the nearest union; what it holds of
    the others is the difference, and so is what lies outside the wide population. Where no cell belongs
    to it, there is nothing to subtract: the difference is the output, which has rules of its own.

    Returns:
        An entry for each cell of ``within``, 0 where no cell belongs to the union; then the sum over all
        cells, also those where none belongs, 0 if no cell belongs at all.
    """
    rows, many = cell_numbers(dataset, within)
    split, each = cell_numbers(dataset, [name for name in chosen if name not in within])
    cells = rows * each + split
    inside = np.bincount(cells[narrow & wide], minlength=many * each).reshape(many, each)
    outside = np.bincount(cells[~narrow & wide], minlength=many * each).reshape(many, each)
    beyond = np.bincount(rows[narrow & ~wide], minlength=many)
    gaps = np.minimum(inside, outside).sum(axis=1) + beyond
    nearest = (inside > outside).any(axis=1)
    return np.append(np.where(nearest, gaps, 0), gaps.sum() * nearest.any())


def _in_a_chain(populations: Sequence[Kept], threshold: int) -> bool:
    """Whether a combination of populations that needs the first one leaves too few records."""
    rows = np.array(populations, dtype=np.uint8)
    # Records in the same populations add the same to every combination: one column stands for all of
    # them. A combination that does not vanish on a large column leaves enough records, so only the
    # others are searched.
    columns, sizes = np.unique(rows, axis=1, return_counts=True)
    columns, sizes = columns[:, columns.any(axis=0)], sizes[columns.any(axis=0)]
    small = sizes < threshold
    combination = _null_space(columns[:, ~small].T.astype(np.float64))
    vectors = combination.T @ columns[:, small]
    if not vectors.size:
        return False
    # A basis of the space that the rows span.
    _, lengths, right = np.linalg.svd(vectors, full_matrices=False)
    basis = np.asarray(right[lengths > _ZERO])
    return bool(len(basis)) and _has_small_support(basis, sizes[small], threshold)


def _null_space(matrix: FloatArray) -> FloatArray:
    """An orthonormal basis of what a matrix sends to 0, one vector a column."""
    if not len(matrix):
        return np.eye(matrix.shape[1])
    _, sizes, right = np.linalg.svd(matrix)
    rank = int((sizes > _ZERO * max(1.0, sizes.max(initial=0.0))).sum())
    return np.asarray(right[rank:].T)


def _has_small_support(basis: FloatArray, sizes: NDArray[np.integer], threshold: int) -> bool:
    """Whether a vector of a space is nonzero on columns of fewer than ``threshold`` records together.

    A vector of least support is, but for its length, the only one that is 0 on some ``d - 1`` columns.
    """
    dimension, columns = basis.shape
    if comb(columns, dimension - 1) > MOST_COMBINATIONS:
        return True  # fail closed: searching would take too long
    for zeros in combinations(range(columns), dimension - 1):
        weights = _null_space(basis[:, list(zeros)].T)
        for vector in (basis.T @ weights).T:
            support = np.abs(vector) > _ZERO
            if 0 < sizes[support].sum() < threshold:
                return True
    return False


def chain_of_sums(
    new: Sequence[IntArray],
    earlier: Sequence[IntArray],
    values: FloatArray | None,
    rules: Rules,
    *,
    most_records: int = 1,
) -> RuleVerdict:
    """Return whether sums that are released, too, determine the numbers of too few records.

    Args:
        new: For each table of means of the answer, the group of each record; -1 outside all groups.
        earlier: The same of all means of the number that were released before.
        values: The number of each record; None where only how many records add to a sum is judged.
        most_records: Most records of a person. What is left must be enough for persons, also where each
            of them has so many of the largest records.

    Returns:
        ``DIFFERENCING`` where they do, ``UNDECIDED`` where that is not decided within the bounds.
    """
    if rules.checks.threshold <= 1:
        return PASSED
    known = {table.tobytes() for table in earlier}
    fresh = list({table.tobytes(): table for table in new if table.tobytes() not in known}.values())
    if not fresh:
        return PASSED
    before = list({table.tobytes(): table for table in earlier}.values())
    sums = _GroupSums.of([*fresh, *before], len(fresh), values)
    if sums is None:
        # Too much to decide in bounded work: a steward decides. To pass unsearched would let an analyst
        # hide an attack behind many groups.
        return RuleVerdict((Rule.UNDECIDED,))
    parts = [sums.sizes_left(most_records * rules.checks.threshold)]
    if values is not None:
        parts.append(sums.contributions_left(most_records * (1 + _most_of(rules.checks)) - 1))
    broken = {rule for rule in parts if rule is not None}
    return RuleVerdict(tuple(rule for rule in Rule if rule in broken))


def _most_of(checks: Transform) -> float:
    """Return the least sum of all other contributions, in multiples of the largest contribution.

    The (n, k) rule and the p per cent rule let some of the others be known to the attacker. With this
    many, both hold whatever these contribute; and one record contributes less than half.
    """
    most = 1.0
    if checks.dominance_count and checks.dominance_percent:
        most = max(most, checks.dominance_count * 100 / checks.dominance_percent - 1)
    if checks.remainder_percent:
        most = max(most, 1 + checks.remainder_percent / 100)
    return most


@dataclass(frozen=True, slots=True, eq=False)
class _GroupSums:
    """Sums of a number over groups of records, by classes of records that are in the same groups.

    Args:
        weights: Which classes each sum is over, shape ``(classes, sums)``.
        fresh: Sums of the new answer; those after them were released before.
        sizes: Records of each class.
        totals: Sum of the magnitudes of the number in each class, relative to the largest of all.
        largest: The largest magnitude in each class; ``squares``: the sum of the squares.
    """

    weights: "scipy.sparse.csr_array"
    fresh: int
    sizes: FloatArray
    totals: FloatArray
    largest: FloatArray
    squares: FloatArray

    @classmethod
    def of(
        cls, tables: Sequence[IntArray], fresh: int, values: FloatArray | None
    ) -> "_GroupSums | None":
        """Sum by the groups of each table; None where there are too many groups or classes."""
        number = [int(table.max(initial=-1)) + 1 for table in tables]
        classes = np.zeros(len(tables[0]), dtype=np.int64)
        for table, groups in zip(tables, number, strict=True):
            _, classes = np.unique(classes * (groups + 1) + table + 1, return_inverse=True)
        _, first, inverse = np.unique(classes, return_index=True, return_inverse=True)
        if sum(number) > _MOST_SUMS or len(first) * sum(number) > _MOST_WEIGHTS:
            return None
        starts = np.cumsum([0, *number])
        groups_of = np.stack([table[first] for table in tables], axis=1)
        rows, axes = np.nonzero(groups_of >= 0)
        columns = groups_of[rows, axes] + starts[axes]
        shape = (len(first), sum(number))
        weights = scipy.sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
        sizes = np.bincount(inverse).astype(np.float64)
        magnitudes = np.abs(np.nan_to_num(np.zeros(len(inverse)) if values is None else values))
        magnitudes = magnitudes / max(float(magnitudes.max(initial=0.0)), np.finfo(float).tiny)
        largest = np.zeros(len(first))
        np.maximum.at(largest, inverse, magnitudes)
        totals, squares = (
            np.bincount(inverse, magnitudes**power).astype(np.float64) for power in (1, 2)
        )
        return cls(weights, int(starts[fresh]), sizes, totals, largest, squares)

    def sizes_left(self, threshold: int) -> Rule | None:
        """Return the rule broken by a combination that weighs fewer records than the threshold."""
        few = self.sizes < threshold
        return self._least(self.sizes, np.ones(len(self.sizes)), self.sizes, few, float(threshold))

    def contributions_left(self, most: float) -> Rule | None:
        """The same of a combination to which one record contributes too much of what it leaves."""
        dominant = (self.totals < (1 + most) * self.largest) & (self.largest > 0)
        return self._least(self.totals, self.largest, self.squares, dominant, 1 + most)

    def _least(
        self,
        masses: FloatArray,
        units: FloatArray,
        squares: FloatArray,
        chosen: NDArray[np.bool_],
        least: float,
    ) -> Rule | None:
        """Compare the mass of the lightest combinations with the least that is permitted.

        Args:
            masses: Mass of each class at weight 1.
            units: Largest contribution of a record of each class. The mass is measured in that of the
                class that is looked at; where another record contributes more, its class finds a
                smaller mass.
            squares: Sums of squared units, of which the leverage is made.
            chosen: Classes that are small enough to be looked at.
            least: Fewest units.
        """
        left = np.flatnonzero(chosen & ~self._light(units, squares, least))
        if len(left) * len(masses) > _MOST_SHARES:
            return Rule.UNDECIDED
        apart = self._apart(left, masses, units, least)
        left = left[np.argsort(-apart, kind="stable")][: np.count_nonzero(apart > _BEYOND)]
        for place in left[:_MOST_PROGRAMS]:
            mass, whole = self._lightest(place, masses, units, self.weights)
            if mass >= least - _ZERO:
                continue
            if np.isnan(mass):
                return Rule.UNDECIDED
            # A combination of earlier sums alone is released already: refusing the new answer would not
            # take it back. Only a lighter one that needs the new sums counts.
            old = self.weights[:, self.fresh :]
            before, _ = self._lightest(place, masses, units, old)
            if np.isnan(before):
                return Rule.UNDECIDED
            if before > mass + _ZERO:
                return Rule.DIFFERENCING if whole else Rule.UNDECIDED
        return Rule.UNDECIDED if len(left) > _MOST_PROGRAMS else None

    def _light(self, units: FloatArray, squares: FloatArray, least: float) -> NDArray[np.bool_]:
        """Classes whose leverage shows that no combination is too light.

        No record contributes more than one unit, so a mass is at least the sum of squares, whose
        minimum is the inverse of the leverage.
        """
        gram = (self.weights.T @ (self.weights * squares[:, None])).toarray()
        sizes, vectors = np.linalg.eigh(gram)
        # Eigenvalues of the Gram matrix are squares of singular values, so the cut for rounding is
        # smaller.
        kept = sizes > _ZERO * sizes.max(initial=0.0) * 1e-3
        inside = self.weights @ vectors[:, kept]
        beyond = self.weights.sum(axis=1) - np.square(inside).sum(axis=1)
        leverages = (inside**2 / sizes[kept]).sum(axis=1) * units**2
        return np.asarray((leverages * least <= 1 - _ZERO) & (beyond < _ZERO))

    def _apart(
        self, places: IntArray, masses: FloatArray, units: FloatArray, least: float
    ) -> FloatArray:
        """Return how far a search stays from weights of ``_lightest`` that add up to the least mass.

        The weights are moved in turn into their bounds and onto the sums, for all classes at once. At
        ``_BEYOND`` or below they are there, and no program is needed.
        """
        ours = self.weights * masses[:, None]
        inverse = np.linalg.pinv((self.weights.T @ ours).toarray(), rcond=1e-10, hermitian=True)
        target = (self.weights[places] * (_BEYOND * least * units[places])[:, None]).T.toarray()
        shares = np.zeros((len(masses), len(places)))
        for _ in range(_TURNS):
            shares = np.clip(shares, -1, 1)
            shares += self.weights @ (inverse @ (target - ours.T @ shares))
        missed = np.abs(target - ours.T @ shares).max(axis=0, initial=0.0)
        exact = missed <= _ZERO * np.abs(target).max(axis=0, initial=0.0)
        return np.where(exact, np.abs(shares).max(axis=0, initial=0.0), np.inf)

    def _lightest(
        self, place: int, masses: FloatArray, units: FloatArray, weights: "scipy.sparse.csr_array"
    ) -> tuple[float, bool]:
        """Least mass of a combination in which a class has weight 1, in units of the class.

        Solved as the dual program, which has a row for each sum and not for each class: weights ``z`` of
        the classes, none above its mass, that add up to a multiple of the class in every sum.

        Returns:
            The mass, infinite if no combination weighs the class, and NaN if the solver failed; and
            whether all classes are in it.
        """
        if not weights.shape[1] or not weights[[place]].nnz:
            return np.inf, True
        rows = self._nearest(place, weights)
        inside, own = weights[rows], weights[[place]]
        sums = np.flatnonzero(inside.sum(axis=0))
        most = masses[rows] / units[place]
        solution = scipy.optimize.linprog(
            np.append(np.zeros(len(rows)), -1.0),
            A_eq=scipy.sparse.hstack([inside[:, sums].T, -own[:, sums].T], format="csc"),
            b_eq=np.zeros(len(sums)),
            bounds=[*zip(-most, most, strict=True), (0.0, None)],
            method="highs",
        )
        mass = -float(solution.fun or 0.0) if solution.status == 0 else np.nan
        return mass, len(rows) == len(masses)

    def _nearest(self, place: int, weights: "scipy.sparse.csr_array") -> IntArray:
        """Classes that share a sum with one, those of the smallest sums first, up to the bound."""
        if weights.shape[0] <= _MOST_CLASSES:
            return np.arange(weights.shape[0])
        records = weights.T @ self.sizes
        own = weights[[place]].indices
        nearness = (weights[:, own] * (1 / records[own])).sum(axis=1)
        nearness[place] = np.inf
        return np.sort(np.argsort(-nearness, kind="stable")[:_MOST_CLASSES])
