r"""What a new output tells together with all earlier ones about the same records.

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
  combinations have to be tried, and refused unsearched where many would.

What this does not catch: that a refusal itself says "fewer than the threshold"; chains through cells
*inside* tables (pairs alone look there); what an attacker knows besides, or another system published.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from gencard.core.dataset import Dataset
from gencard.core.output_checks.populations import Condition, Kept, Output, cell_numbers
from gencard.core.types import FloatArray, IntArray

MOST_COMBINATIONS = 2_000
"""Sparse combinations that are tried before a chain is refused without a search."""

_MOST_ATTRIBUTES = 8
"""Of one condition of which all subsets are looked at."""

_ZERO = 1e-7


def differences(new: Output, earlier: Sequence[Output], dataset: Dataset, threshold: int) -> bool:
    """Whether a new output must be refused because of earlier ones on the same records.

    Args:
        dataset: The records, over all attributes that the outputs name.
        threshold: Fewest records that two outputs may differ by, unless they do not differ.
    """
    if threshold <= 1 or not earlier:
        return False
    population = _Population.of(new, dataset)
    before = [_Population.of(output, dataset) for output in _distinct(earlier)]
    if any(
        _nearly_equal(one, other, dataset, threshold) or _nearly_equal(other, one, dataset, threshold)
        for one, other in ((population, output) for output in before)
    ):
        return True
    return _in_a_chain([population.kept, *(output.kept for output in before)], threshold)


def nearly_natural(condition: Condition, dataset: Dataset, threshold: int) -> bool:
    """Whether a population is a union of cells of fewer attributes, but for less than a few records.

    None at all are too few as well, unless the union is the population by its very definition.
    """
    names = condition.attributes[:_MOST_ATTRIBUTES]
    mask, everybody = condition.kept(dataset), np.ones(len(dataset), dtype=bool)
    for size in range(len(names)):
        for inside in combinations(names, size):
            gap = _gap(mask, everybody, dataset, (), inside)
            if gap.near and gap.total < threshold and not _depends_on(condition, inside):
                return True
    return False


def _depends_on(condition: Condition, names: Sequence[str]) -> bool:
    """Whether some of its attributes decide alone who is in."""
    others = tuple(axis for axis, name in enumerate(condition.attributes) if name not in names)
    decided = condition.cells.all(axis=others) == condition.cells.any(axis=others)
    return bool(np.all(decided))


@dataclass(frozen=True, slots=True, eq=False)
class _Population:
    """An output beside which records it is about."""

    output: Output
    kept: Kept

    @classmethod
    def of(cls, output: Output, dataset: Dataset) -> "_Population":
        return cls(output, output.kept(dataset))


def _distinct(outputs: Sequence[Output]) -> list[Output]:
    """The outputs without repetitions: psi of many cards rests on the same cliques."""
    keys = {
        (
            tuple((test.attributes, test.cells.tobytes()) for test in output.tests),
            frozenset(map(frozenset, output.cliques)),
        ): output
        for output in outputs
    }
    return list(keys.values())


def _nearly_equal(narrow: _Population, wide: _Population, dataset: Dataset, threshold: int) -> bool:
    """Whether unions of the wide output's cells come near to the narrow output, but not quite."""
    return any(gap.is_small(threshold) for gap in _gaps(narrow, wide, dataset))


@dataclass(frozen=True, slots=True, eq=False)
class _Gap:
    """By how many records the nearest union of cells differs from a population.

    Args:
        records: One entry for each cell of the attributes that both rest on, 0 where no cell of the wide
            output belongs to the union.
        near: Whether any cell belongs to it.
        total: Of all entries together, also of those where no cell belongs to it.
    """

    records: IntArray
    near: bool
    total: int

    def is_small(self, threshold: int) -> bool:
        few = np.append(self.records, self.total * self.near)
        return bool(np.any((few > 0) & (few < threshold)))


def _gaps(narrow: _Population, wide: _Population, dataset: Dataset) -> Iterator[_Gap]:
    """For each pair of cliques, how far the nearest unions of cells are."""
    about = narrow.output.attributes
    for clique in [(), *wide.output.cliques]:
        names = [name for name in clique if name in about]
        shared = {frozenset(clique) & frozenset(other) for other in [(), *narrow.output.cliques]}
        for common in shared:
            within = [name for name in clique if name in common]
            yield _gap(narrow.kept, wide.kept, dataset, within, names)


def _gap(
    narrow: Kept, wide: Kept, dataset: Dataset, within: Sequence[str], chosen: Sequence[str]
) -> _Gap:
    """How far a population is from the nearest union of another one's cells, by cells of ``within``.

    A cell of ``chosen`` that is for the greater part in belongs to the nearest union; what it holds of
    the others is the difference, and so is what lies outside the wide population. Where no cell belongs
    to it, there is nothing to subtract: the difference is the output, which has rules of its own.
    """
    rows, many = cell_numbers(dataset, within)
    split, each = cell_numbers(dataset, [name for name in chosen if name not in within])
    cells = rows * each + split
    inside = np.bincount(cells[narrow & wide], minlength=many * each).reshape(many, each)
    outside = np.bincount(cells[~narrow & wide], minlength=many * each).reshape(many, each)
    beyond = np.bincount(rows[narrow & ~wide], minlength=many)
    gaps = np.minimum(inside, outside).sum(axis=1) + beyond
    nearest = (inside > outside).any(axis=1)
    return _Gap(np.where(nearest, gaps, 0), bool(nearest.any()), int(gaps.sum()))


def _in_a_chain(populations: Sequence[Kept], threshold: int) -> bool:
    """Whether a combination of populations that needs the first one leaves too few records."""
    rows = np.array(populations, dtype=np.uint8)
    columns, sizes = np.unique(rows, axis=1, return_counts=True)
    columns, sizes = columns[:, columns.any(axis=0)], sizes[columns.any(axis=0)]
    small = sizes < threshold
    combination = _null_space(columns[:, ~small].T.astype(np.float64))
    vectors = combination.T @ columns[:, small]
    vectors = _independent(vectors)
    return bool(len(vectors)) and _has_small_support(vectors, sizes[small], threshold)


def _null_space(matrix: FloatArray) -> FloatArray:
    """An orthonormal basis of what a matrix sends to 0, one vector a column."""
    if not len(matrix):
        return np.eye(matrix.shape[1])
    _, sizes, right = np.linalg.svd(matrix)
    rank = int((sizes > _ZERO * max(1.0, sizes.max(initial=0.0))).sum())
    return np.asarray(right[rank:].T)


def _independent(vectors: FloatArray) -> FloatArray:
    """A basis of the space that some rows span."""
    if not vectors.size:
        return vectors[:0]
    _, sizes, right = np.linalg.svd(vectors, full_matrices=False)
    return np.asarray(right[sizes > _ZERO])


def _has_small_support(basis: FloatArray, sizes: NDArray[np.integer], threshold: int) -> bool:
    """Whether a vector of a space is nonzero on columns of fewer than ``threshold`` records together.

    A vector of least support is, but for its length, the only one that is 0 on some ``d - 1`` columns.
    """
    dimension, columns = basis.shape
    if comb(columns, dimension - 1) > MOST_COMBINATIONS:
        return True  # to search would be work in itself; too careful is the safe side
    for zeros in combinations(range(columns), dimension - 1):
        weights = _null_space(basis[:, list(zeros)].T)
        for vector in (basis.T @ weights).T:
            support = np.abs(vector) > _ZERO
            if 0 < sizes[support].sum() < threshold:
                return True
    return False
