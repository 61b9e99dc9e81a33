"""Houssiau et al. (2022), Table 1, on the first 50,000 of its 569,741 records.

The error of the three-way marginal of Application 1 and of its gender gap, over the paper's five draws.
Application 1 is the only one for which it prints them; of the others all three-way marginals are shown.
Rows are drawn as many as there are records, and as many as the full file has. Even a model without any
error of sampling misses what psi does not hold, and in a sample that is a little more: its interaction
of three attributes is partly chance.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from benchmarks import bench
from benchmarks.census import census
from benchmarks.ipf import APPLICATIONS
from gencard.core.dataset import Dataset
from gencard.core.generators.contract import rng_of
from gencard.core.generators.family import LogLinear, graphical, ipf
from gencard.core.generators.models import TableModel, TreeModel
from gencard.core.statistics.measure import measure_dataset
from gencard.core.statistics.psi import Psi
from gencard.measures.utility.fidelity import Gap, gap_error
from gencard.measures.utility.table_utility import marginal_error

GENDER_GAP = Gap("Sex", (0, 1), within="Occupation", among=("Economic Activity", (1, 2)))
"""Men less women of each occupation, among employees and self-employed."""

PRINTED = {"IPF": (5.39e-4, 4.77e-2), "PGM": (5.35e-4, 4.94e-2)}
"""The paper's errors of the three-way marginal and of the gender gap."""

TOLERANCE = 1e-6

FULL_FILE = 569_741

_DRAWS = 5

_GENERATORS: dict[str, LogLinear] = {
    "IPF": ipf(tolerance=TOLERANCE),
    "PGM": graphical(tolerance=TOLERANCE),
}


@dataclass(frozen=True, slots=True)
class Errors:
    """Result of one model.

    Args:
        psi: Largest L1 distance of a fitted marginal from psi, in shares.
        three: Root mean squared error of the three-way marginals, by number of rows.
        gap: Of the gender gap, by number of rows; empty where there is none.
    """

    application: str
    generator: str
    psi: float
    three: dict[int, float]
    gap: dict[int, float]


def errors(application: str) -> list[Errors]:
    """Compute the errors of both generators."""
    attributes, cliques = APPLICATIONS[application]
    dataset = census(attributes)
    psi = measure_dataset(dataset, cliques)
    return [_errors(application, name, psi, dataset) for name in _GENERATORS]


def _errors(application: str, name: str, psi: Psi, dataset: Dataset) -> Errors:
    model = _GENERATORS[name].fit(psi, dataset.domain)
    sizes = (len(dataset), FULL_FILE)
    draws = {rows: [model.sample(rows, rng=rng_of(seed)) for seed in range(_DRAWS)] for rows in sizes}
    three = {rows: float(np.mean([_three(dataset, d) for d in drawn])) for rows, drawn in draws.items()}
    gaps = {
        rows: float(np.mean([bench.defined(gap_error(dataset, d, GENDER_GAP)) for d in drawn]))
        for rows, drawn in draws.items()
        if application == "1"
    }
    return Errors(application, name, _distance(model, psi), three, gaps)


def _three(dataset: Dataset, synthetic: Dataset) -> float:
    cliques = combinations(dataset.domain.attributes, 3)
    return float(np.mean([marginal_error(dataset, synthetic, clique) for clique in cliques]))


def _distance(model: TableModel | TreeModel, psi: Psi) -> float:
    return max(
        float(np.abs(model.marginal(m.clique) - m.values / m.values.sum()).sum())
        for m in psi.measurements
    )
