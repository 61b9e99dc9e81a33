"""Iterative proportional fitting: the maximum entropy table with the marginals of psi."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.coding import StructuralZeros
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidPsiError, NotConvergedError, TooLargeError
from gencard.core.generators.table_model import TableModel
from gencard.core.statistics.consistency import check_consistent
from gencard.core.statistics.cover import cover
from gencard.core.statistics.psi import Psi

Table = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ipf:
    """Fit every marginal of psi in turn, starting from the uniform table."""

    structural_zeros: tuple[StructuralZeros, ...] = ()
    tolerance: float = 1e-6
    max_cells: int = 50_000_000
    most_sweeps: int = 1_000

    def fit(self, psi: Psi, domain: Domain) -> TableModel:
        _check_belongs(psi, domain)
        if domain.cells > self.max_cells:
            raise TooLargeError(what="The number of cells of the domain", limit=self.max_cells)
        check_consistent(psi)
        targets = [_target(domain, m.clique, m.values) for m in psi.measurements]
        table = self._start(domain)
        axes_of = [set(domain.axes(c)) for c in cover(domain, psi.cliques, 20_000)]
        blocks = [(axes, [t for t in targets if _kept(t) <= axes]) for axes in axes_of]
        for _ in range(self.most_sweeps):
            scaled = [_scale_block(table, axes, inside, self.tolerance) for axes, inside in blocks]
            if not any(scaled):
                return TableModel(domain, table)
        raise NotConvergedError(problem=f"not within {self.most_sweeps} sweeps")

    def _start(self, domain: Domain) -> Table:
        table = np.full(domain.sizes, 1.0 / domain.cells)
        for zeros in self.structural_zeros:
            axes = domain.axes(zeros.clique)
            for cell in zeros.cells:
                where: list[Any] = [slice(None)] * len(domain)
                for axis, code in zip(axes, cell, strict=True):
                    where[axis] = code
                table[tuple(where)] = 0.0
        return table


def _kept(target: Table) -> set[int]:
    return {axis for axis, size in enumerate(target.shape) if size > 1}


def _check_belongs(psi: Psi, domain: Domain) -> None:
    for name, size in zip(psi.domain.attributes, psi.domain.sizes, strict=True):
        if name not in domain or domain.size(name) != size:
            raise InvalidPsiError(problem=f"'{name}' is not that attribute of the domain")


def _target(domain: Domain, clique: Clique, values: NDArray[Any]) -> Table:
    """Shares, with one axis per attribute of the domain, of size 1 where the clique does not name it."""
    ordered = np.transpose(values, np.argsort(domain.axes(clique)))
    axes = set(domain.axes(clique))
    shape = [size if axis in axes else 1 for axis, size in enumerate(domain.sizes)]
    shares: Table = (ordered / ordered.sum()).reshape(shape)
    return shares


def _scale_block(table: Table, axes: set[int], targets: Sequence[Table], tolerance: float) -> bool:
    others = tuple(axis for axis in range(table.ndim) if axis not in axes)
    block = table.sum(axis=others, keepdims=True)
    fitted = block.copy()
    if max((_scale(fitted, target) for target in targets), default=0.0) <= tolerance:
        return False
    for _ in range(3):
        for target in targets:
            _scale(fitted, target)
    table *= np.divide(fitted, block, out=np.zeros_like(block), where=block > 0)
    return True


def _scale(table: Table, target: Table) -> float:
    others = tuple(axis for axis, size in enumerate(target.shape) if size == 1)
    margin = table.sum(axis=others, keepdims=True)
    table *= np.divide(target, margin, out=np.zeros_like(margin), where=margin > 0)
    return float(np.abs(margin - target).sum())
