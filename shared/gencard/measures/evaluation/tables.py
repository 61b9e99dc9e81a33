"""Tables of one to three attributes, the marginals of Phi, fidelity to psi, and associations in psi.

The definitions are in ``utility.table_utility`` and ``utility.fidelity``.
"""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import comb

import numpy as np

from gencard.core.domain import Clique
from gencard.core.errors import InvalidPsiError, TooLargeError
from gencard.core.json_codecs import written
from gencard.core.statistics.marginals import count, count_all
from gencard.measures.evaluation.evaluation import Finding, Line, Material
from gencard.measures.evaluation.precision import (
    Named,
    rounded_between,
    rounded_freely,
    rounded_if_known,
    rounded_measures,
)
from gencard.measures.utility.fidelity import Fidelity, MarginalFidelity, fidelity
from gencard.measures.utility.numbers import numbers_in
from gencard.measures.utility.table_utility import (
    TableUtility,
    cramers_v,
    marginal_error,
    mean_measure,
    pair_tables,
    table_utilities,
    table_utility,
)

WORST = 10
"""Number of tables of each width that are listed in full."""

MEASURES_OF_A_TABLE = 17
MOST_LINES = 20
"""Marginals among the lines of a finding, the worst ones."""


@dataclass(frozen=True, slots=True)
class OneTable:
    """One table; ``measures`` as ``TableUtility.named``."""

    clique: Clique
    measures: Named


@dataclass(frozen=True, slots=True)
class TablesOfWidth:
    """All tables of so many attributes.

    Args:
        tables: Number of tables.
        means: The mean of each measure over them; see ``mean_measure`` for tables without one.
        worst: Tables of the largest S_pMSE, the worst first.
        constant: Tables whose records are all in one cell, which have no standardised measure.
    """

    width: int
    tables: int
    means: Named
    worst: tuple[OneTable, ...]
    constant: int = field(default=0, metadata=written(omit=True))

    def rounded(self, size: int) -> "TablesOfWidth":
        """Round the measures so that they may be released, given the number of records."""
        worst = (replace(one, measures=rounded_measures(one.measures, size)) for one in self.worst)
        return replace(self, means=rounded_measures(self.means, size), worst=tuple(worst))


@dataclass(frozen=True, slots=True)
class TablesFinding(Finding):
    """Utility of all tables.

    Args:
        attributes: Attributes of the release.
        widths: One, two and three attributes, as far as there are so many, but not too many tables.
        pairs: S_pMSE of each pair, in the order of ``itertools.combinations``; empty where these are
            too many, None for a pair that may not be looked at together or has none. ``variations`` are
            their total variations.
    """

    attributes: Clique
    widths: tuple[TablesOfWidth, ...]
    pairs: tuple[float | None, ...]
    variations: tuple[float | None, ...]

    @property
    def lines(self) -> tuple[Line, ...]:
        return tuple(
            (f"{name}, mean over tables of {tables.width}", value)
            for tables in self.widths
            for name, value in tables.means
            if name in ("S_pMSE", "SPECKS", "JSD", "PO50")
        )

    def valued_pairs(self) -> list[tuple[tuple[str, str], float]]:
        """The compared pairs, each with its S_pMSE."""
        pairs = zip(combinations(self.attributes, 2), self.pairs, strict=True) if self.pairs else ()
        return [(pair, value) for pair, value in pairs if value is not None]

    def rounded(self, material: Material) -> "TablesFinding":
        records = len(material.records)
        return replace(
            self,
            widths=tuple(tables.rounded(records) for tables in self.widths),
            pairs=tuple(None if one is None else rounded_freely(one, records) for one in self.pairs),
            variations=tuple(rounded_if_known(one, records) for one in self.variations),
        )


def tables_finding(material: Material) -> TablesFinding:
    """Compare all tables of one, two and three attributes that may be combined."""
    attributes = material.synthetic.domain.attributes
    original, synthetic = material.records, material.synthetic
    result: dict[int, dict[Clique, TableUtility]] = {}
    for width in range(1, min(3, len(synthetic.domain)) + 1):
        with suppress(TooLargeError):
            tables = table_utilities(original, synthetic, width, material.together.allows_table)
            result |= {width: tables} if tables else {}
    pairs = [result[2].get(pair) for pair in combinations(attributes, 2)] if 2 in result else []
    return TablesFinding(
        attributes=attributes,
        widths=tuple(_summed(width, tables) for width, tables in result.items()),
        pairs=tuple(None if one is None else one.standardised for one in pairs),
        variations=tuple(None if one is None else one.total_variation for one in pairs),
    )


def table_numbers(attributes: int) -> int:
    """Most numbers that ``TablesFinding`` holds for so many attributes."""
    return 3 * (MEASURES_OF_A_TABLE * (WORST + 1) + 1) + attributes * (attributes - 1)


def _summed(width: int, tables: dict[Clique, TableUtility]) -> TablesOfWidth:
    measures = {clique: table.named for clique, table in tables.items()}
    names = next(iter(measures.values()))
    means = {name: mean_measure(tables.values(), name) for name in names}
    worst = sorted(tables, key=lambda clique: -(tables[clique].standardised or 0.0))[:WORST]
    return TablesOfWidth(
        width=width,
        tables=len(tables),
        means=tuple(means.items()),
        worst=tuple(OneTable(clique, tuple(measures[clique].items())) for clique in worst),
        constant=sum(not table.freedom for table in tables.values()),
    )


@dataclass(frozen=True, slots=True)
class OneMarginal:
    """One marginal of Phi: root mean squared error and total variation, in shares of 1."""

    clique: Clique
    error: float
    total_variation: float


@dataclass(frozen=True, slots=True)
class MarginalsFinding(Finding):
    """The marginals of Phi, compared between release and records, in Phi's order."""

    marginals: tuple[OneMarginal, ...]

    @property
    def ordered(self) -> tuple[OneMarginal, ...]:
        """The worst first."""
        return tuple(sorted(self.marginals, key=lambda one: -one.total_variation))

    @property
    def lines(self) -> tuple[Line, ...]:
        return tuple(
            (f"Total variation, {' × '.join(one.clique)}", one.total_variation)
            for one in self.ordered[:MOST_LINES]
        )

    def rounded(self, material: Material) -> "MarginalsFinding":
        size = len(material.records)
        return MarginalsFinding(
            tuple(
                replace(
                    one,
                    error=rounded_between(one.error, size),
                    total_variation=rounded_between(one.total_variation, size),
                )
                for one in self.marginals
            )
        )


def marginals_finding(material: Material) -> MarginalsFinding:
    """Compare each marginal of Phi; a Phi of moments alone is compared attribute by attribute."""
    original, synthetic = material.records, material.synthetic
    cliques = material.cliques or tuple((name,) for name in synthetic.domain.attributes)
    compared = []
    for clique in cliques:
        utility = table_utility(count(original, clique), count(synthetic, clique))
        error = marginal_error(original, synthetic, clique)
        compared.append(OneMarginal(clique, error, utility.total_variation))
    return MarginalsFinding(tuple(compared))


@dataclass(frozen=True, slots=True)
class FidelityFinding(Finding):
    """Fidelity of the release's rows to psi."""

    facts: Fidelity

    @property
    def ordered(self) -> list[MarginalFidelity]:
        """The marginals, largest excess over the bound first."""
        return sorted(
            self.facts.marginals, key=lambda marginal: marginal.bound - marginal.total_variation
        )

    @property
    def stands_out(self) -> bool:
        return bool(self.facts.unexplained)

    @property
    def lines(self) -> tuple[Line, ...]:
        return tuple(
            (f"Total variation, {' × '.join(one.clique)}", one.total_variation)
            for one in self.ordered[:MOST_LINES]
        )

    def rounded(self, _material: Material) -> "FidelityFinding":
        """Unrounded: it compares rows with psi and depends on no record."""
        return self


def fidelity_finding(material: Material) -> FidelityFinding:
    """Compare the release with psi, and its numbers if they are known and have steps."""
    coding = material.schema or material.coding
    attributes = material.synthetic.domain.attributes
    if material.numbers is None or not numbers_in(coding, attributes):
        return FidelityFinding(fidelity(material.measured, material.synthetic))
    facts = fidelity(material.measured, material.synthetic, coding=coding, numbers=material.numbers)
    return FidelityFinding(facts)


@dataclass(frozen=True, slots=True)
class Association:
    """Cramér's V of a pair of attributes, from 0 to 1, in psi and in the rows; None where undefined."""

    clique: Clique
    psi: float | None
    rows: float | None

    @property
    def difference(self) -> float | None:
        """Absolute difference; None unless both are defined."""
        return None if self.psi is None or self.rows is None else abs(self.rows - self.psi)


@dataclass(frozen=True, slots=True)
class AssociationsFinding(Finding):
    """Associations of the pairs that psi holds; no record is read.

    Args:
        pairs: Those in a marginal of psi: first those defined in psi and not in the rows or the other
            way round, then by difference, the largest first; last those defined in neither.
        unmeasured: Number of pairs in no marginal of psi.
    """

    pairs: tuple[Association, ...]
    unmeasured: int

    @property
    def lines(self) -> tuple[Line, ...]:
        return tuple(
            (f"Cramér's V in {where}, {' × '.join(one.clique)}", getattr(one, where))
            for one in self.pairs[:MOST_LINES]
            for where in ("psi", "rows")
        )

    def rounded(self, _material: Material) -> "AssociationsFinding":
        """Unrounded: it depends on nothing but rows and psi."""
        return self


def _by_difference(one: Association) -> tuple[int, float]:
    if one.difference is None:
        return (2 if one.psi is one.rows else 0), 0.0
    return 1, -one.difference


def associations_finding(material: Material) -> AssociationsFinding:
    """Compare each pair that psi holds, by its most precise marginal, the narrowest of these.

    Raises:
        InvalidPsiError: There is no psi, or no pair of attributes.
    """
    in_psi = pair_tables(material.measured)
    if len(material.synthetic.domain) < 2:
        raise InvalidPsiError(problem="it has no pair of attributes")
    counts = count_all(material.synthetic, list(in_psi))
    pairs = (
        Association(pair, cramers_v(table), cramers_v(rows.astype(np.float64)))
        for (pair, table), rows in zip(in_psi.items(), counts, strict=True)
    )
    ordered = sorted(pairs, key=_by_difference)
    return AssociationsFinding(tuple(ordered), comb(len(material.synthetic.domain), 2) - len(in_psi))
