"""Risk of psi: seconds and memory of all pairs, whether each claim is true, and a referee.

``python -m benchmarks.psi_risk``; needs ``../shared/data``. Bounds: five minutes, 1 GiB. The referee is
the check of *Generate-then-verify* (arXiv 2504.21199): a claim is verified if an integer program finds
no table with the same marginals in which it fails. It is asked about cells of tables of three and four
attributes, drawn at random: those that hold somebody in the records (does one hold somebody in every
table?), and empty ones (is one empty in every table?). Claims of ours that it refutes would be wrong;
claims that it alone verifies are what bounds miss.
"""

import resource
import time
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import scipy.optimize

from benchmarks.adult import adult
from benchmarks.count import records
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.statistics.marginals import count
from gencard.measures.privacy.psi_risk import PsiRisk, psi_risk
from gencard.measures.privacy.released_tables import CellBounds, ReleasedTables
from gencard.measures.privacy.wide_tables import bounds_of_four, equations

CENSUS_RECORDS = 570_000
REFEREE_RECORDS = 10_000
MOST_CELLS = 500
"""Most records, and most cells of a table, that the referee gets."""

SECONDS = 15.0
"""Seconds of the referee on one data set and order."""


def main() -> None:
    """Print one line for each data set, then the referee's."""
    whole = adult()
    thirteen = whole.project(whole.domain.attributes[:13])
    sets = {
        "Adult, 13 attributes": thirteen,
        "census sample repeated, 15 attributes": records(CENSUS_RECORDS),
    }
    print(f"{'all pairs of':38} {'records':>8} {'s':>6} {'MiB':>6} {'small':>7} {'1 key':>10}", end="")
    print(f" {'2 keys':>9} {'3 keys':>9} {'held of 4':>9} {'programs':>8} {'proved':>7} {'wrong':>6}")
    for name, dataset in sets.items():
        report, seconds = _timed(dataset)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        facts, wide = [one.facts for one in report.facts], report.wide
        print(
            f"{name:38} {report.records:8,} {seconds:6.1f} {memory:6,} {report.small.small:7,}", end=""
        )
        print(f" {facts[0]:10,} {facts[1]:9,} {facts[2]:9,} {wide.held:9,} {wide.programs:8,}", end="")
        print(f" {wide.facts + wide.cells:7,} {report.wrong:6}", flush=True)
    print("\nreferee: cells drawn; certain for both; for us alone (wrong); for it alone; undecided")
    for name, dataset in {"Adult": thirteen, "census": records(REFEREE_RECORDS)}.items():
        for order in (3, 4):
            print(f"{name:8} order {order}: {_refereed(dataset, order)}", flush=True)


def _timed(dataset: Dataset) -> tuple[PsiRisk, float]:
    begin = time.perf_counter()
    report = psi_risk(dataset, list(combinations(dataset.domain.attributes, 2)))
    assert np.isfinite(report.certain).all()
    return report, time.perf_counter() - begin


def _refereed(dataset: Dataset, order: int) -> str:
    """Agreement of our claims with the referee's, over random cells of small tables."""
    names = dataset.domain.attributes
    released = ReleasedTables.of(dataset, list(combinations(names, 2)))
    sets = [
        chosen for chosen in combinations(names, order) if 50 < _cells(dataset, chosen) <= MOST_CELLS
    ]
    rng, end = np.random.default_rng(1), time.perf_counter() + SECONDS
    both = ours = its = undecided = drawn = 0
    while time.perf_counter() < end:
        chosen = sets[rng.integers(len(sets))]
        for mine, verified in _claims(dataset, released, chosen, rng):
            drawn += 1
            undecided += verified is None
            both += bool(mine and verified)
            ours += bool(mine and verified is False)
            its += bool(verified and not mine)
    return f"{drawn:6,} {both:6,} {ours:4} {its:4} {undecided:4}"


def _cells(dataset: Dataset, names: Clique) -> int:
    return dataset.domain.project(names).cells


def _claims(
    dataset: Dataset, released: ReleasedTables, names: Clique, rng: np.random.Generator
) -> Iterator[tuple[bool, bool | None]]:
    """For a few held and a few empty cells: whether we call it certain, and the referee."""
    bounds = released.bounds(names) if len(names) == 3 else bounds_of_four(released, names)
    counts = count(dataset, names)
    for held in (True, False):
        cells = np.argwhere((counts > 0) == held)
        for cell in cells[rng.choice(len(cells), min(5, len(cells)), replace=False)]:
            place = tuple(map(int, cell))
            mine = bool(bounds.lower[place] > 0 if held else bounds.upper[place] == 0)
            yield mine, _verified(released, names, bounds, place, held=held)


def _verified(
    released: ReleasedTables, names: Clique, bounds: CellBounds, cell: tuple[int, ...], *, held: bool
) -> bool | None:
    """Whether a cell holds somebody, or nobody, in every table, by an integer program over all cells.

    It knows the marginals alone, none of our bounds.
    """
    shape, free = bounds.upper.shape, np.arange(bounds.upper.size)
    margins = released.within(names)
    fits, sums = equations(shape, margins, free)
    ceiling = np.full(shape, np.inf)
    for axes, margin in margins.items():
        away = tuple(axis for axis in range(len(shape)) if axis not in axes)
        ceiling = np.minimum(ceiling, np.expand_dims(margin, away))
    cost = np.zeros(free.size)
    cost[np.ravel_multi_index(cell, shape)] = 1 if held else -1
    solution = scipy.optimize.milp(
        cost,
        constraints=scipy.optimize.LinearConstraint(fits, sums, sums),
        bounds=scipy.optimize.Bounds(0, ceiling.ravel()),
        integrality=np.ones(free.size, dtype=np.int64),
        options={"time_limit": 5.0},
    )
    if solution.status != 0:
        return None
    return bool(round(solution.fun) > 0 if held else round(solution.fun) == 0)


if __name__ == "__main__":
    main()
