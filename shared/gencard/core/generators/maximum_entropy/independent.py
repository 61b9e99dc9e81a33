"""Independent attributes: each with its own marginal, and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass

from gencard.core.coding import StructuralZeros
from gencard.core.domain import Clique, Domain
from gencard.core.generators.admitted import admitted
from gencard.core.generators.maximum_entropy.graphical import Graphical
from gencard.core.generators.maximum_entropy.parts import restricted
from gencard.core.generators.maximum_entropy.tree_model import TreeModel
from gencard.core.statistics.psi import Psi


@dataclass(frozen=True, slots=True)
class Independent:
    """The product of the one-way marginals that psi determines; what psi says of pairs is not used.

    With structural zeros it is the nearest to it that has them: quasi-independence (Goodman 1968), the
    distribution of maximum entropy with these one-way marginals and no mass in those cells.

    Args:
        structural_zeros: Cells that stay zero; those of attributes outside the domain say nothing.
        tolerance: Largest L1 distance of a fitted one-way marginal from psi, in shares.
        max_cells: Refuse models whose tables have more cells together.
        most_sweeps: Give up after so many.

    Raises:
        InvalidNumberError: The tolerance is not positive, or a bound is below 1.
    """

    structural_zeros: tuple[StructuralZeros, ...] = ()
    tolerance: float = 1e-4
    max_cells: int = 50_000_000
    most_sweeps: int = 10_000

    def __post_init__(self) -> None:
        self._graphical()

    def check(self, cliques: Sequence[Clique], domain: Domain) -> None:
        """Raises ModelTooLargeError where the tables are over the bound: those of zeros may be large."""
        self._graphical().check([(name,) for clique in cliques for name in clique], domain)

    def fit(self, psi: Psi, domain: Domain) -> TreeModel:
        """Fit the one-way marginals of psi; raises as ``Graphical.fit`` does."""
        return self._graphical().fit(restricted(admitted(psi, domain), []), domain)

    def _graphical(self) -> Graphical:
        return Graphical(self.structural_zeros, self.tolerance, self.max_cells, self.most_sweeps)
