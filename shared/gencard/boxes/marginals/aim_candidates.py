"""The marginals among which AIM chooses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from gencard.boxes.marginals.noisy_model import NoisyModel
from gencard.core.domain import Clique, Domain
from gencard.core.generators.maximum_entropy.junction_tree import cells_needed
from gencard.core.statistics.closure import closure


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Every marginal inside one of the workload that the model has room for, in the domain's order.

    Args:
        weights: For each clique the number of its attributes in the workload's cliques, added up.
    """

    domain: Domain
    weights: Mapping[Clique, int]
    _cells: dict[frozenset[Clique], dict[Clique, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, domain: Domain, workload: Sequence[Clique], max_cells: int) -> "Candidates":
        """Those of a workload, or of all pairs where there is none, with at most so many cells.

        Raises:
            InvalidCliqueError, UnknownAttributeError: The workload is not one of the domain.
            TooLargeError: It has too many subsets.
        """
        whole = [domain.canonical(clique) for clique in workload]
        if not whole:
            whole = list(combinations(domain.attributes, min(2, len(domain))))
        cliques = [domain.canonical(inside) for inside in closure(whole) if inside]
        ordered = sorted(cliques, key=lambda clique: (len(clique), domain.axes(clique)))
        sets = [frozenset(clique) for clique in whole]
        return cls(
            domain,
            {
                clique: sum(len(names.intersection(clique)) for names in sets)
                for clique in ordered
                if domain.project(clique).cells <= max_cells
            },
        )

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return tuple(self.weights)

    def within(self, model: NoisyModel, max_cells: int) -> list[Clique]:
        """Those that the model holds already, or with which it stays within the bound."""
        measured = model.cliques
        return [
            clique
            for clique in self.weights
            if model.holds(clique) or self._with(measured, clique) <= max_cells
        ]

    def _with(self, measured: frozenset[Clique], clique: Clique) -> int:
        """Cells of the model with one more clique; remembered as long as nothing more is measured."""
        if measured not in self._cells:
            self._cells.clear()
            self._cells[measured] = {}
        known = self._cells[measured]
        if clique not in known:
            known[clique] = cells_needed(self.domain, sorted(measured | {clique}))
        return known[clique]
