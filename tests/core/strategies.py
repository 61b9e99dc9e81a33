"""Small domains, datasets and workloads for property tests."""

from collections.abc import Iterable
from functools import cache
from itertools import combinations, product

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gencard.core.coding import StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.statistics.linear import Function, LinearStatistic
from gencard.core.types import IntArray

NAMES = ("a", "b", "c", "d", "e")


@st.composite
def domains(draw: st.DrawFn, fewest: int = 1, most: int = 4, largest: int = 4) -> Domain:
    sizes = draw(sizes_of(fewest, most, largest))
    return Domain(NAMES[: len(sizes)], tuple(sizes))


@cache
def sizes_of(fewest: int, most: int, largest: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(1, largest), min_size=fewest, max_size=most)


@st.composite
def datasets(draw: st.DrawFn, domain: Domain | None = None, fewest: int = 0, most: int = 40) -> Dataset:
    domain = domain or draw(domains())
    rows = draw(st.integers(fewest, most))
    columns = [draw(columns_of(rows, size)) for size in domain.sizes]
    return Dataset.of_columns(domain, columns)


@cache
def columns_of(rows: int, size: int) -> st.SearchStrategy[IntArray]:
    """Columns of codes; kept, because making a strategy takes longer than drawing from it."""
    return hnp.arrays(np.int64, rows, elements=st.integers(0, size - 1))


@st.composite
def workloads(draw: st.DrawFn, domain: Domain, widest: int = 3) -> tuple[Clique, ...]:
    """One or more different cliques, in any order, their axes in any order."""
    return tuple(
        tuple(draw(permutations_of(clique))) for clique in draw(sets_of(domain.attributes, widest))
    )


@cache
def sets_of(attributes: Clique, widest: int) -> st.SearchStrategy[list[Clique]]:
    sets = [
        clique
        for order in range(1, min(widest, len(attributes)) + 1)
        for clique in combinations(attributes, order)
    ]
    return st.lists(st.sampled_from(sets), min_size=1, max_size=6, unique=True)


@cache
def permutations_of(clique: Clique) -> st.SearchStrategy[list[str]]:
    return st.permutations(clique)


@st.composite
def structural_zeros(draw: st.DrawFn, domain: Domain) -> tuple[StructuralZeros, ...]:
    """Up to three declarations, the axes of each in any order."""
    return tuple(
        StructuralZeros(
            clique,
            tuple(
                draw(
                    st.lists(
                        st.tuples(*(st.integers(0, domain.size(name) - 1) for name in clique)),
                        min_size=1,
                        max_size=3,
                    )
                )
            ),
        )
        for clique in draw(workloads(domain))[:3]
    )


@st.composite
def measured(draw: st.DrawFn, fewest: int = 1) -> tuple[Dataset, tuple[Clique, ...]]:
    """A dataset and cliques to measure on it."""
    dataset = draw(datasets(fewest=fewest))
    return dataset, draw(workloads(dataset.domain))


@st.composite
def linear_statistics(draw: st.DrawFn, domain: Domain) -> LinearStatistic:
    """Random functions on one clique, the constant first."""
    clique = tuple(draw(st.permutations(domain.attributes)))[: draw(st.integers(1, len(domain)))]
    cells = domain.project(clique).cells
    rows = draw(values_of(cells))
    functions = [Function(f"f{row}", tuple(numbers), 2) for row, numbers in enumerate(rows)]
    return LinearStatistic(clique, (Function("1", (1,) * cells), *functions))


@cache
def values_of(cells: int) -> st.SearchStrategy[list[list[int]]]:
    values = st.lists(st.integers(-50, 50), min_size=cells, max_size=cells).filter(any)
    return st.lists(values, min_size=1, max_size=4)


@st.composite
def summed(draw: st.DrawFn) -> tuple[Dataset, LinearStatistic]:
    """A dataset and a linear statistic to measure on it."""
    domain = draw(domains(most=3))
    return draw(datasets(domain, fewest=1)), draw(linear_statistics(domain))


def brute_count(dataset: Dataset, clique: Clique) -> np.ndarray:
    """The definition: one record after another."""
    table = np.zeros([dataset.domain.size(name) for name in clique], dtype=np.int64)
    for record in dataset.codes.tolist():
        table[tuple(record[dataset.domain.attributes.index(name)] for name in clique)] += 1
    return table


def queries(domain: Domain, cliques: Iterable[Clique]) -> np.ndarray:
    """One row for each count that the marginals on ``cliques`` release, one column for each cell."""
    cells = list(product(*map(range, domain.sizes)))
    return np.array(
        [
            [tuple(cell[axis] for axis in axes) == wanted for cell in cells]
            for axes in map(domain.axes, cliques)
            for wanted in product(*(range(domain.sizes[axis]) for axis in axes))
        ],
        dtype=float,
    )
