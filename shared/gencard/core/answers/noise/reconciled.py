"""Margins of noisy statistics, as all of psi together says they are, and the covariance of their noise.

Tables that overlap measure the same interactions several times. The estimate is the weighted least
squares of ``consistency``; its interactions are independent, and each has one variance in all
directions, so that the covariance of any linear functions of the counts follows in closed form.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from gencard.core.answers.design import Block, lifted
from gencard.core.answers.margins import (
    Margins,
    Occupied,
    Present,
    PsiMargins,
    Units,
    Within,
    occupied_of,
)
from gencard.core.coding import Coding
from gencard.core.domain import Clique, Domain
from gencard.core.errors import FEWER_TERMS, TooLargeError
from gencard.core.statistics.consistency import Blocks, interactions, marginal_of
from gencard.core.statistics.marginals import subsets
from gencard.core.statistics.psi import Psi
from gencard.core.types import FloatArray

_MOST_NUMBERS = 2 * 10**7
"""In one array of derivatives: cells of a table times coefficients."""


def margins_of(psi: Psi, coding: Coding | None = None) -> Margins:
    """Margins of released statistics: exact ones as they are, noisy ones reconciled.

    Args:
        coding: The schema, for sums of numbers.

    Raises:
        TooLargeError: The cliques of a noisy psi have too many subsets.
    """
    return PsiMargins.of(psi, coding) if psi.exact else NoisyMargins.of(psi, coding)


def reconciled(margins: Margins) -> Margins:
    """Margins as they are, those of noisy statistics reconciled: their noise must not be forgotten."""
    return margins_of(margins.psi, margins.coding) if isinstance(margins, PsiMargins) else margins


def measured_of(margins: Margins) -> PsiMargins | None:
    """The released statistics of which some margins are made; None for those of records."""
    whole = _whole(margins)
    whole = whole.measured if isinstance(whole, NoisyMargins) else whole
    return whole if isinstance(whole, PsiMargins) else None


def is_noisy(margins: Margins) -> bool:
    """Whether the noise of some margins is known to have a covariance."""
    return isinstance(_whole(margins), NoisyMargins)


def covariance_of(margins: Margins, gradients: Iterable[Block], functions: int) -> FloatArray:
    """What noise does to linear functions of counts and sums, perhaps of a part of the records.

    Args:
        gradients: See ``NoisyMargins.covariance``; those with ``of`` are derivatives by each sum.
        functions: How many there are.

    Returns:
        Shape ``(functions, functions)``; zero where the margins have no noise.
    """
    present: Clique = ()
    gradients = list(gradients)
    while isinstance(margins, Within | Present):
        if isinstance(margins, Within):
            gradients = [_inside(margins, part) for part in gradients]
        else:
            present = (*present, *margins.names)
        margins = margins.whole
    if not isinstance(margins, NoisyMargins):
        return np.zeros((functions, functions))
    summed = [part for part in gradients if part.of or present]
    counted = [part for part in gradients if not part.of and not present]
    covariance = margins.covariance(counted, functions)
    return covariance + _covariance_of_sums(margins.measured, summed, present, functions)


def _covariance_of_sums(
    margins: PsiMargins, gradients: Iterable[Block], present: Clique, functions: int
) -> FloatArray:
    """The same of sums: each rests on the cells of one measurement, whose noise is independent."""
    by_cells: dict[int, FloatArray] = {}
    stddevs: dict[int, float] = {}
    for part in gradients:
        others = tuple(name for name in present if name not in part.of)
        source = margins.sum_source(part.of, part.attributes, others)
        sizes = tuple(margins.domain.size(name) for name in source.by)
        values = lifted(part, source.by, sizes) * source.counting(margins.domain).reshape(-1)
        if source.place not in by_cells:
            by_cells[source.place] = np.zeros((functions, values.shape[1]))
            stddevs[source.place] = source.stddev
        np.add.at(by_cells[source.place], part.places, values)
    covariance = np.zeros((functions, functions))
    for place, values in by_cells.items():
        scaled = values * stddevs[place]
        covariance += scaled @ scaled.T
    return covariance


def noisy_whole(margins: Margins) -> "NoisyMargins | None":
    """The noisy margins of which some margins are a part; None where there are none."""
    whole = _whole(margins)
    return whole if isinstance(whole, NoisyMargins) else None


def _whole(margins: Margins) -> Margins:
    while isinstance(margins, Within | Present):
        margins = margins.whole
    return margins


def wider_clique(margins: Margins, clique: Clique) -> Clique:
    """The clique of the whole on which the counts of a clique of a part rest."""
    while isinstance(margins, Within):
        clique = (*clique, *(name for name in margins.attributes if name not in clique))
        margins = margins.whole
    return clique


def _inside(part: Within, block: Block) -> Block:
    """Functions of counts of a part, as functions of counts of the whole."""
    extra = tuple(name for name in part.attributes if name not in block.attributes)
    wider = (*block.attributes, *extra)
    sizes = tuple(part.domain.size(name) for name in wider)
    choice = Block(
        part.attributes, np.zeros(1, dtype=np.int64), part.chosen.reshape(1, -1).astype(float)
    )
    values = lifted(block, wider, sizes) * lifted(choice, wider, sizes)
    return Block(wider, block.places, values, block.of)


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMargins:
    """Margins that agree wherever they overlap; counts may be negative, and are unbiased for that.

    Args:
        measured: psi, as it was released.
        blocks: The estimate of each interaction, and its variance.
    """

    measured: PsiMargins
    blocks: Blocks

    @classmethod
    def of(cls, psi: Psi, coding: Coding | None = None) -> "NoisyMargins":
        """Raises TooLargeError where the cliques have too many subsets."""
        return cls(PsiMargins.of(psi, coding), interactions(psi.fitted))

    @property
    def domain(self) -> Domain:
        return self.measured.domain

    def counts(self, clique: Clique) -> FloatArray:
        self.source(clique)
        return marginal_of(self.domain, tuple(clique), self.blocks)

    def variances(self, clique: Clique) -> FloatArray:
        r""":math:`\sum_S v_S \prod_{i \in S} (1 - 1/n_i) / \prod_{i \notin S} n_i^2`, in every cell."""
        self.source(clique)
        sizes = {name: self.domain.size(name) for name in clique}
        variance = sum(
            self._variance(inside)
            * prod(1 - 1 / sizes[name] if name in inside else sizes[name] ** -2.0 for name in clique)
            for inside in subsets(clique)
        )
        return np.full(tuple(sizes.values()), variance, dtype=np.float64)

    def occupied(self, clique: Clique) -> Occupied:
        return occupied_of(self.counts(clique))

    def source(self, clique: Clique) -> Clique:
        return self.measured.source(clique)

    def sums(self, of: Clique, by: Clique, present: Clique = ()) -> Units:
        return self.measured.sums(of, by, present)

    def sum_variances(self, of: Clique, by: Clique, present: Clique = ()) -> FloatArray:
        return self.measured.sum_variances(of, by, present)

    def covariance(self, gradients: Iterable[Block], functions: int) -> FloatArray:
        """What noise does to linear functions of the counts.

        Args:
            gradients: Parts of the functions, each on the counts of some attributes: ``values`` is the
                derivative of the functions at ``places`` by each count.
            functions: How many there are.

        Returns:
            Shape ``(functions, functions)``.

        Raises:
            LackingMarginalsError: Counts that psi does not determine.
            TooLargeError: The derivatives would not fit into memory.
        """
        sums: dict[Clique, FloatArray] = {}
        for part in gradients:
            self.source(part.attributes)
            if part.values.size > _MOST_NUMBERS:
                raise TooLargeError(
                    what="The number of derivatives of the analysis",
                    limit=_MOST_NUMBERS,
                    advice=FEWER_TERMS,
                )
            for inside, values in self._pulled(part):
                if inside not in sums:
                    sums[inside] = np.zeros((functions, values.shape[1]))
                np.add.at(sums[inside], part.places, values)
        covariance = np.zeros((functions, functions))
        for inside, values in sums.items():
            covariance += self._variance(inside) * (values @ values.T)
        return covariance

    def _variance(self, inside: Iterable[str]) -> float:
        return self.blocks[self._ordered(inside)].variance

    def _ordered(self, inside: Iterable[str]) -> Clique:
        inside_names = set(inside)
        return tuple(name for name in self.domain.attributes if name in inside_names)

    def _pulled(self, part: Block) -> Iterator[tuple[Clique, FloatArray]]:
        """The derivatives by each interaction: what a linear function of counts sees of it."""
        ordered = self._ordered(part.attributes)
        sizes = [self.domain.size(name) for name in part.attributes]
        table = part.values.reshape(len(part.places), *sizes)
        axes = [part.attributes.index(name) for name in ordered]
        table = np.transpose(table, [0, *(1 + axis for axis in axes)])
        for inside in subsets(ordered):
            values = table
            for axis, name in enumerate(ordered, start=1):
                mean = values.mean(axis=axis, keepdims=True)
                values = values - mean if name in inside else mean
            yield self._ordered(inside), values.reshape(len(part.places), -1)
