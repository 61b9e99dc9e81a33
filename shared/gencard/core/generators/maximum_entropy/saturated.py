"""The saturated model: every cell with its own count."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gencard.core.coding import StructuralZeros
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidInputError, InvalidNumberError, NotConvergedError
from gencard.core.generators.admitted import admitted, check_settings, zeros_inside
from gencard.core.generators.maximum_entropy.block_table import clear
from gencard.core.generators.maximum_entropy.junction_tree import check_cells
from gencard.core.generators.maximum_entropy.table_model import TableModel
from gencard.core.statistics.psi import Psi
from gencard.core.statistics.table import project


@dataclass(frozen=True, slots=True)
class Saturated:
    r"""The marginal on all attributes as it is: cell x has probability :math:`(n_x + \alpha) / n`.

    This is ``catall`` of synthpop, whose ``priorn`` is ``alpha`` times the number of cells. With
    ``alpha`` zero only the combinations that psi counts are ever drawn.

    Args:
        structural_zeros: Cells that stay zero; those of attributes outside the domain say nothing.
        alpha: Prior count added to each cell that is no structural zero, in records.
        max_cells: Refuse larger domains.

    Raises:
        InvalidNumberError: ``alpha`` is negative or not finite, or the bound is below 1.
    """

    structural_zeros: tuple[StructuralZeros, ...] = ()
    alpha: float = 0.0
    max_cells: int = 50_000_000

    def __post_init__(self) -> None:
        check_settings(max_cells=self.max_cells)
        if not (np.isfinite(self.alpha) and self.alpha >= 0):
            raise InvalidNumberError(field="alpha", expected="a finite number, zero or more")

    def check(self, cliques: Sequence[Clique], domain: Domain) -> None:
        """See ``Generator.check``.

        Raises:
            ModelTooLargeError: The domain has more than ``max_cells`` cells.
            InvalidInputError: No clique holds all attributes of the domain.
        """
        check_cells(domain, [domain.attributes], self.max_cells)
        if not any(set(clique) >= set(domain.attributes) for clique in cliques):
            problem = "the saturated model needs one marginal on all attributes"
            raise InvalidInputError(field="marginals", problem=problem)

    def fit(self, psi: Psi, domain: Domain) -> TableModel:
        """Take the marginal on all attributes; see ``Generator.fit``.

        Raises:
            ModelTooLargeError, InvalidInputError: See ``check``.
            InvalidPsiError: psi does not belong to the domain or contradicts itself.
            NotConvergedError: Exact psi counts records in a structural zero, or none are left.
        """
        self.check(psi.cliques, domain)
        psi = admitted(psi, domain)
        whole = next(m for m in psi.measurements if set(m.clique) == set(domain.attributes))
        counts = project(whole.values, whole.clique, domain.attributes).astype(np.float64)
        table = counts + self.alpha
        clear(table, domain.attributes, zeros_inside(self.structural_zeros, domain))
        if not table.any() or (psi.exact and np.any((table == 0) & (counts > 0))):
            raise NotConvergedError(problem="structural zeros contradict psi")
        return TableModel(domain, table)
