"""Utility of rows as findings: tables, fidelity to psi, the gap, predictions and propensity scores.

The definitions are in ``measures.utility``.
"""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import comb

import numpy as np

from gencard.core.card.sums import level_values
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError, InvalidPsiError, TooLargeError
from gencard.core.json_codecs import written
from gencard.core.statistics.marginals import count, count_all
from gencard.core.types import FloatArray
from gencard.measures.evaluation.evaluation import (
    FEWEST,
    Finding,
    Material,
    Named,
    rounded_between,
    rounded_freely,
    rounded_gaps,
    rounded_measures,
    rounded_share,
)
from gencard.measures.utility.fidelity import (
    Fidelity,
    MarginalFidelity,
    fidelity,
    gap_error,
    gap_of,
    gaps,
    records_within,
)
from gencard.measures.utility.numbers import numbers_in
from gencard.measures.utility.prediction import TEST_SHARE, Split, Task, analyses
from gencard.measures.utility.propensity import Propensity, regression_propensity, tree_propensity
from gencard.measures.utility.table_utility import (
    TableUtility,
    cramers_v,
    marginal_error,
    mean_measure,
    pair_tables,
    table_utilities,
    table_utility,
)

# Utility by models: the declared gap, predictions of the target, and propensity scores.


_NAMED_LEVELS = 10
GAP_NUMBERS = 1 + 2 * _NAMED_LEVELS
"""Most that a finding holds."""


@dataclass(frozen=True, slots=True)
class GapFinding(Finding):
    """Gaps from -1 to 1, in the levels with the largest errors, largest first.

    Args:
        error: Root mean square over the levels of at least ``FEWEST`` records that have rows, 0 to 2;
            None where there is no such level.
        levels: First those with records and no rows, then by error, those of few records last.
        original, synthetic: None in a level of few records, or without rows.
    """

    gap: str
    error: float | None
    levels: tuple[str, ...]
    original: tuple[float | None, ...]
    synthetic: tuple[float | None, ...]

    @property
    def lines(self) -> Named:
        return (("Root mean squared error of the gaps", self.error),)

    def rounded(self, material: Material) -> "GapFinding":
        """Round each level by its number of records, so that small groups reveal nothing."""
        words = material.declared.gap
        if words is None:
            raise InvalidInputError(field="gap", problem="is not declared")
        names = material.coding.attribute(words.within).coding.level_names
        records = records_within(material.records, gap_of(words, material.coding))
        sizes = [int(records[names.index(level)]) for level in self.levels]
        fewest = int(records[records >= FEWEST].min(initial=len(material.records)))
        return replace(
            self,
            error=rounded_between(self.error, fewest, 2.0),
            original=rounded_gaps(self.original, sizes),
            synthetic=rounded_gaps(self.synthetic, sizes),
        )


def gap_finding(material: Material) -> GapFinding:
    """Compare the declared gap in release and records."""
    words = material.declared.gap
    if words is None:
        raise InvalidInputError(field="gap", problem="is not declared")
    gap = gap_of(words, material.coding)
    real, synthetic = (gaps(dataset, gap) for dataset in (material.records, material.synthetic))
    few = records_within(material.records, gap) < FEWEST
    absent = records_within(material.synthetic, gap) == 0
    apart = np.where(few, -1.0, np.where(absent, np.inf, np.abs(real - synthetic)))
    worst = np.argsort(-apart, kind="stable")[:_NAMED_LEVELS]
    names = material.coding.attribute(words.within).coding.level_names
    return GapFinding(
        gap=f"{words.first} less {words.second} by {words.within}",
        error=gap_error(material.records, material.synthetic, gap, fewest=FEWEST),
        levels=tuple(names[place] for place in worst),
        original=_known(np.where(few, np.nan, real)[worst]),
        synthetic=_known(np.where(absent, np.nan, synthetic)[worst]),
    )


def _known(values: FloatArray) -> tuple[float | None, ...]:
    return tuple(None if np.isnan(value) else float(value) for value in values)


@dataclass(frozen=True, slots=True)
class Taught:
    """Accuracies of predictions.

    Args:
        by_records: Of the holdout, by what the records teach.
        on_real: Of the holdout, by what the release teaches.
        on_synthetic: Of a quarter of the release, by what the rest of it teaches.
    """

    by_records: float
    on_real: float
    on_synthetic: float

    def rounded(self, others: int, rows: int) -> "Taught":
        """Rounded for release, given the numbers of holdout records and of tested rows."""
        return Taught(
            rounded_share(self.by_records, others),
            rounded_share(self.on_real, others),
            rounded_share(self.on_synthetic, rows),
        )


@dataclass(frozen=True, slots=True)
class PredictionsFinding(Finding):
    """Predictions of the target from all other attributes.

    Args:
        predictors: In the order of the importances.
        real, synthetic: Accuracy that the forests of records and release lose where one is permuted.
        similarity: Jaro's, of the two orders of importance; 0 to 1.
    """

    regression: Taught
    forest: Taught
    predictors: Clique
    real: tuple[float, ...]
    synthetic: tuple[float, ...]
    similarity: float

    @property
    def lines(self) -> Named:
        models = (("regression", self.regression), ("forest", self.forest))
        accuracies = (
            (f"Accuracy, {name}, {what}", value)
            for name, model in models
            for what, value in (
                ("trained on records", model.by_records),
                ("trained on the release", model.on_real),
                ("tested on the release itself", model.on_synthetic),
            )
        )
        return (*accuracies, ("Similarity of the importance rankings", self.similarity))

    def rounded(self, material: Material) -> "PredictionsFinding":
        others, rows = len(material.unseen), max(1, round(TEST_SHARE * len(material.synthetic)))
        return replace(
            self,
            regression=self.regression.rounded(others, rows),
            forest=self.forest.rounded(others, rows),
            real=tuple(rounded_between(one, others) for one in self.real),
            synthetic=tuple(rounded_between(one, others) for one in self.synthetic),
            similarity=rounded_between(self.similarity, others),
        )


def predictions_finding(material: Material) -> PredictionsFinding:
    """Predict the declared target from all other attributes."""
    target = material.declared.target
    predictors = tuple(name for name in material.synthetic.domain.attributes if name != target)
    values = {name: each for name, each in level_values(material.coding).items() if name in predictors}
    result = analyses(
        Task(target, predictors, values),
        Split(material.records, material.unseen),
        material.synthetic,
        rng=material.rng("predictions"),
    )
    forest = result.forest.accuracies
    return PredictionsFinding(
        regression=Taught(
            result.real_regression, result.regression.on_real, result.regression.on_synthetic
        ),
        forest=Taught(result.real_forest.accuracy, forest.on_real, forest.on_synthetic),
        predictors=predictors,
        real=result.real_forest.importances,
        synthetic=result.forest.importances,
        similarity=result.forest.similarity,
    )


PROPENSITY_NUMBERS = 6


@dataclass(frozen=True, slots=True)
class PropensityFinding(Finding):
    """pMSE and S_pMSE by two models.

    Args:
        order: Of the regression's interactions, in attributes.
        regression_pmse, regression: pMSE and S_pMSE; None where it has too many parameters.
            ``regression`` alone is None where records and rows are all alike.
        tree_pmse, tree: Of a classification tree; ``tree`` is None where chance is not known.
    """

    order: int
    parameters: int
    regression_pmse: float | None
    regression: float | None
    tree_pmse: float
    tree: float | None

    @property
    def lines(self) -> Named:
        return (
            (f"S_pMSE, regression with interactions of {self.order}", self.regression),
            ("S_pMSE, tree", self.tree),
            ("pMSE, regression", self.regression_pmse),
            ("pMSE, tree", self.tree_pmse),
        )

    def rounded(self, material: Material) -> "PropensityFinding":
        size = len(material.records)
        return replace(
            self,
            regression_pmse=rounded_freely(self.regression_pmse, size),
            regression=rounded_freely(self.regression, size),
            tree_pmse=rounded_freely(self.tree_pmse, size),
            tree=rounded_freely(self.tree, size),
        )


def propensity_finding(material: Material) -> PropensityFinding:
    """Evaluate by the largest regression that fits, with or without pair interactions, and by a tree."""
    values = level_values(material.coding)
    regression: Propensity | None = None
    for order in (2, 1):
        with suppress(TooLargeError):
            regression = regression_propensity(material.records, material.synthetic, values, order=order)
            break
    else:
        order = 0
    tree = tree_propensity(material.records, material.synthetic, values, rng=material.rng("propensity"))
    return PropensityFinding(
        order=order,
        parameters=(regression.parameters or 0) if regression else 0,
        regression_pmse=regression.pmse if regression else None,
        regression=regression.standardised if regression else None,
        tree_pmse=tree.pmse,
        tree=tree.standardised,
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
    def lines(self) -> Named:
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
            pairs=tuple(rounded_freely(one, records) for one in self.pairs),
            variations=tuple(rounded_between(one, records) for one in self.variations),
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
    def lines(self) -> Named:
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
    def lines(self) -> Named:
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
    def lines(self) -> Named:
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
    """Compare each pair that psi holds, by its most precise marginal, the narrowest of these."""
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
