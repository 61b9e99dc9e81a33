"""The paper's three applications of the audit, with the boxes and bounds of the benchmark.

Bounds on medians of p-values are those of a prototype, or of Houssiau et al. (2022), Table 4. The
prototype's "about 1e-5" for copies of 1 % is read as its nearest power of ten: up to 10 ** -4.5.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from benchmarks.census import APPLICATION_1, APPLICATION_2, APPLICATION_3, census
from gencard.boxes.reference import AddsMarginal, CopiesRows, Honest
from gencard.core.audit.direction import Basis
from gencard.core.audit.extremal_pair import Moves, extremal_pair
from gencard.core.audit.moves import outside
from gencard.core.audit.plan import AuditPlan
from gencard.core.blackbox import BlackBox
from gencard.core.card.terms import AuditTerms
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.generators.family import ipf
from gencard.core.statistics.marginals import count_all

ROWS = 50_000
"""Rows of each run."""


@dataclass(frozen=True, slots=True)
class Application:
    """One of the paper's three.

    Args:
        smuggled: The marginal that the dishonest box adds.
        dimension: Of Phi-perp up to ``order``, where the paper gives it.
        bounds: Largest median p-value of each leaky box.
    """

    name: str
    dataset: Dataset
    cliques: tuple[Clique, ...]
    smuggled: Clique
    order: int
    dimension: int | None
    bounds: dict[str, float]

    def plan(self, seed: int, alpha: str = "0.05", runs: int = 10) -> AuditPlan:
        return AuditPlan(self.cliques, ROWS, seed, AuditTerms(runs, self.order, alpha))

    @property
    def basis(self) -> Basis:
        """The blocks that are audited."""
        domain = self.dataset.domain
        return Basis(domain, outside(domain, self.cliques, self.order))

    def honest(self) -> Honest:
        return Honest(ipf(), self.cliques)

    def boxes(self) -> dict[str, BlackBox]:
        honest = self.honest()
        shares = {"copies 100 %": 1.0, "copies 10 %": 0.1, "copies 3 %": 0.03, "copies 1 %": 0.01}
        return {"honest": honest, "dishonest": AddsMarginal(ipf(), self.cliques, self.smuggled)} | {
            name: CopiesRows(honest, share) for name, share in shares.items()
        }


def applications() -> tuple[Application, ...]:
    return (
        Application(
            "1",
            census(APPLICATION_1),
            tuple(combinations(APPLICATION_1, 2)),
            APPLICATION_1,
            3,
            81,
            {
                "dishonest": 8.9e-34,
                "copies 100 %": 1e-38,
                "copies 10 %": 1e-20,
                "copies 3 %": 1e-9,
                "copies 1 %": 10**-4.5,
            },
        ),
        Application(
            "2",
            census(APPLICATION_2),
            (APPLICATION_2[:3], *((name, APPLICATION_2[3]) for name in APPLICATION_2[:3])),
            APPLICATION_2,
            4,
            448,
            {},
        ),
        Application(
            "3",
            census(APPLICATION_3),
            tuple(combinations(APPLICATION_3, 2)),
            ("Hours worked per week", "Marital Status", "Occupation"),
            3,
            None,
            {"dishonest": 2e-18, "copies 100 %": 1e-38, "copies 10 %": 3e-19, "copies 3 %": 4e-8},
        ),
    )


def largest_psi_difference(application: Application) -> int:
    """Records by which any released count differs between the sides, or from the dataset."""
    basis, rng = application.basis, np.random.default_rng(0)
    moves = Moves.of(application.cliques, basis.cliques)
    pair = extremal_pair(application.dataset, moves, basis.random_direction(rng=rng), rng=rng)
    sides = [count_all(side, application.cliques) for side in (application.dataset, pair.low, pair.high)]
    return max(int(np.ptp(np.array(tables), axis=0).max()) for tables in zip(*sides, strict=True))
