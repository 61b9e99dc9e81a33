"""The marginals among which AIM chooses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from gencard.core.blackbox.noisy_model import NoisyModel
from gencard.core.domain import Clique, Domain
from gencard.core.generators.junction_tree import JunctionTree
from gencard.core.statistics.closure import closure


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Every marginal inside one of the workload, in the domain's order.

    Args:
        weights: For each clique the number of its attributes in the workload's cliques, added up.
    """

    domain: Domain
    weights: Mapping[Clique, int]
    _cells: dict[frozenset[Clique], int] = field(default_factory=dict)

    @classmethod
    def of(cls, domain: Domain, workload: Sequence[Clique]) -> "Candidates":
        """Those of a workload, or of all pairs where there is none.

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
            {clique: sum(len(names.intersection(clique)) for names in sets) for clique in ordered},
        )

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return tuple(self.weights)

    def within(self, model: NoisyModel, max_cells: int) -> list[Clique]:
        """Those that the model holds already, or with which it stays within the bound."""
        return [
            clique
            for clique in self.weights
            if model.holds(clique) or self._with(model.cliques, clique) <= max_cells
        ]

    def _with(self, measured: frozenset[Clique], clique: Clique) -> int:
        """Cells of the model with one more clique; each set is looked at once."""
        wanted = measured | {clique}
        if wanted not in self._cells:
            tree = JunctionTree.of(self.domain, sorted(wanted))
            self._cells[wanted] = sum(self.domain.project(names).cells for names in tree.cliques)
        return self._cells[wanted]
