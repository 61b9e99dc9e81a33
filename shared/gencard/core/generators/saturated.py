"""The saturated model: every cell with its own count."""

from dataclasses import dataclass

import numpy as np

from gencard.core.coding import StructuralZeros
from gencard.core.domain import Domain
from gencard.core.errors import InvalidNumberError, InvalidPsiError, NotConvergedError, TooLargeError
from gencard.core.generators.admitted import admitted, check_settings, zeros_inside
from gencard.core.generators.block_table import clear
from gencard.core.generators.table_model import TableModel
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
            raise InvalidNumberError(field="alpha", expected="a finite number from zero up")

    def fit(self, psi: Psi, domain: Domain) -> TableModel:
        """Take the marginal on all attributes; see ``Generator.fit``.

        Raises:
            TooLargeError: The domain has more than ``max_cells`` cells.
            InvalidPsiError: No marginal of psi covers the domain, or psi contradicts itself.
            NotConvergedError: Exact psi counts records in a structural zero, or none are left.
        """
        if domain.cells > self.max_cells:
            names = ", ".join(domain.attributes)
            raise TooLargeError(what=f"The number of cells on ({names})", limit=self.max_cells)
        psi = admitted(psi, domain)
        whole = [m for m in psi.measurements if set(m.clique) == set(domain.attributes)]
        if not whole:
            raise InvalidPsiError(problem="no marginal of it covers all attributes of the domain")
        counts = project(whole[0].values, whole[0].clique, domain.attributes).astype(np.float64)
        table = counts + self.alpha
        clear(table, domain.attributes, zeros_inside(self.structural_zeros, domain))
        if not table.any() or (psi.exact and np.any((table == 0) & (counts > 0))):
            raise NotConvergedError(problem="structural zeros leave no room for psi")
        return TableModel(domain, table)
