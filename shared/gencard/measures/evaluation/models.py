"""Utility by models: the declared gap, predictions of the target, and propensity scores.

The definitions are in ``utility.gap``, ``utility.analyses`` and ``utility.propensity``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from gencard.core.card.sums import level_values
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError, TooLargeError
from gencard.core.types import FloatArray
from gencard.measures.evaluation.evaluation import Finding, Line, Material
from gencard.measures.evaluation.precision import (
    FEWEST,
    rounded_between,
    rounded_freely,
    rounded_gaps,
    rounded_share,
)
from gencard.measures.utility.analyses import analyses
from gencard.measures.utility.gap import gap_error, gap_of, gaps, records_within
from gencard.measures.utility.prediction import TEST_SHARE, Split, Task
from gencard.measures.utility.propensity import Propensity, regression_propensity, tree_propensity

_NAMED_LEVELS = 10
GAP_NUMBERS = 1 + 2 * _NAMED_LEVELS
"""Most that a finding holds."""


@dataclass(frozen=True, slots=True)
class GapFinding(Finding):
    """Gaps from -1 to 1, in the levels with the largest errors, largest first.

    Args:
        gap: What is meant, in words.
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
    def lines(self) -> tuple[Line, ...]:
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
            error=None if self.error is None else rounded_between(self.error, fewest, 2.0),
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
    def lines(self) -> tuple[Line, ...]:
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


def prediction_numbers(attributes: int) -> int:
    """Number of numbers in a ``PredictionsFinding``."""
    return 7 + 2 * (attributes - 1)


PROPENSITY_NUMBERS = 6


@dataclass(frozen=True, slots=True)
class PropensityFinding(Finding):
    """pMSE and S_pMSE by two models.

    Args:
        order: Of the regression's interactions, in attributes.
        parameters: Of the regression.
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
    def lines(self) -> tuple[Line, ...]:
        return (
            (f"S_pMSE, regression with interactions of {self.order}", self.regression),
            ("S_pMSE, tree", self.tree),
            ("pMSE, regression", self.regression_pmse),
            ("pMSE, tree", self.tree_pmse),
        )

    def rounded(self, material: Material) -> "PropensityFinding":
        size = len(material.records)
        pmse, regression, tree = (
            None if value is None else rounded_freely(value, size)
            for value in (self.regression_pmse, self.regression, self.tree)
        )
        return replace(
            self,
            regression_pmse=pmse,
            regression=regression,
            tree_pmse=rounded_freely(self.tree_pmse, size),
            tree=tree,
        )


def propensity_finding(material: Material) -> PropensityFinding:
    """Evaluate by the largest regression that fits, with or without pair interactions, and by a tree."""
    values = level_values(material.coding)
    order, regression = _regression(material, values)
    tree = tree_propensity(material.records, material.synthetic, values, rng=material.rng("propensity"))
    return PropensityFinding(
        order=order,
        parameters=(regression.parameters or 0) if regression else 0,
        regression_pmse=regression.pmse if regression else None,
        regression=regression.standardised if regression else None,
        tree_pmse=tree.pmse,
        tree=tree.standardised,
    )


def _regression(
    material: Material, values: Mapping[str, tuple[float, ...]]
) -> tuple[int, Propensity | None]:
    for order in (2, 1):
        try:
            return order, regression_propensity(
                material.records, material.synthetic, values, order=order
            )
        except TooLargeError:
            continue
    return 0, None
