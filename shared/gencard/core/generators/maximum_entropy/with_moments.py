"""Maximum entropy with any linear statistics: means, moments, sums by group, and marginals."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.coding import StructuralZeros
from gencard.core.domain import Clique, Domain
from gencard.core.errors import NotConvergedError
from gencard.core.generators.admitted import check_belongs, check_settings, zeros_inside
from gencard.core.generators.functions import (
    Goals,
    check_functions,
    every_cell,
    number_of_functions,
    told,
    values_on,
)
from gencard.core.generators.maximum_entropy.block_table import clear
from gencard.core.generators.maximum_entropy.dual import Dual, largest_entropy
from gencard.core.generators.maximum_entropy.junction_tree import check_cells
from gencard.core.generators.maximum_entropy.table_model import TableModel
from gencard.core.statistics.psi import Psi
from gencard.core.statistics.table import others


@dataclass(frozen=True, slots=True)
class MaximumEntropy:
    r"""The table of largest entropy whose means of all functions of psi are psi's.

    It has the form :math:`p(x) \propto e^{\sum_j \theta_j f_j(x)}` (E. T. Jaynes, "Information Theory
    and Statistical Mechanics", 1957), and is found by Newton's method on the dual, with one dimension
    for each function: a cell of a marginal is one too, so for marginals alone other methods are
    faster. Noisy psi is met as nearly as its noise allows: see ``Dual``.

    The means are met to far below the noise of sampling; unlike sums and products alone, the last bits
    are those of the machine's linear algebra.

    Args:
        structural_zeros: Cells that stay zero; those of attributes outside the domain say nothing.
        tolerance: Largest distance of a function's mean from psi, in units of its largest value.
        max_cells: Bound on the domain's cells, and on cells times functions; a fit takes up to 24
            bytes for each.
        max_functions: Bound on the dimension.
        most_steps: Give up after so many.

    Raises:
        InvalidNumberError: The tolerance is not positive, or a bound is below 1.
    """

    structural_zeros: tuple[StructuralZeros, ...] = ()
    tolerance: float = 1e-9
    max_cells: int = 20_000_000
    max_functions: int = 2_000
    most_steps: int = 200

    def __post_init__(self) -> None:
        check_settings(
            self.tolerance,
            max_cells=self.max_cells,
            max_functions=self.max_functions,
            most_steps=self.most_steps,
        )

    def check(self, cliques: Sequence[Clique], domain: Domain) -> None:
        """See ``Generator.check``.

        Raises:
            ModelTooLargeError: The domain has more than ``max_cells`` cells.
            TooLargeError: There are too many functions, or too many for so many cells.
        """
        check_cells(domain, [domain.attributes], self.max_cells)
        self.check_functions(sum(domain.project(clique).cells for clique in cliques), domain)

    def fit(self, psi: Psi, domain: Domain) -> TableModel:
        """Fit psi; see ``Generator.fit``.

        Raises:
            TooLargeError: See ``check``.
            InvalidPsiError: psi does not belong to the domain or contradicts itself.
            NotConvergedError: No table has these statistics, or it takes too many steps.
        """
        self.check(psi.cliques, domain)
        self.check_functions(number_of_functions(psi), domain)
        check_belongs(psi, domain)
        cells = np.flatnonzero(self._allowed(psi, domain))
        if not len(cells):
            raise NotConvergedError(problem="structural zeros contradict psi")
        dual = Dual(values_on(psi, every_cell(domain).take(cells)), Goals.of(psi))
        table = np.zeros(domain.cells)
        table[cells] = largest_entropy(dual, self.tolerance, self.most_steps)
        return TableModel(domain, table.reshape(domain.sizes))

    def check_functions(self, functions: int, domain: Domain) -> None:
        """See ``LinearGenerator.check_functions``."""
        check_functions(functions, domain.cells, self.max_functions, self.max_cells)

    def _allowed(self, psi: Psi, domain: Domain) -> NDArray[np.float64]:
        """1 for each cell that may hold records, 0 where structure or an exact count says none."""
        allowed = np.ones(domain.sizes)
        clear(allowed, domain.attributes, zeros_inside(self.structural_zeros, domain))
        for marginal in told(psi) if psi.exact else ():
            ascending = np.argsort(domain.axes(marginal.clique))
            some = np.transpose(marginal.values > 0, ascending)
            allowed *= np.expand_dims(some, others(domain.attributes, marginal.clique))
        return allowed
