"""What the release teaches about the declared target. See ``utility.analyses``."""

from dataclasses import dataclass

from gencard.core.coding import level_values
from gencard.core.domain import Clique
from gencard.core.evaluation.axes import Axes, draw_beside
from gencard.core.evaluation.finding import Line
from gencard.core.evaluation.material import Material
from gencard.core.evaluation.shown import Shown
from gencard.core.evaluation.words import percent
from gencard.core.utility.analyses import analyses
from gencard.core.utility.prediction import Split, Task


@dataclass(frozen=True, slots=True)
class Taught:
    """Shares of the records that are predicted right.

    Args:
        by_records: Of the holdout, by what the records teach.
        on_real: Of the holdout, by what the release teaches.
        on_synthetic: Of a quarter of the release, by what the rest of it teaches.
    """

    by_records: float
    on_real: float
    on_synthetic: float


@dataclass(frozen=True, slots=True)
class PredictionsFinding(Shown):
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
    def sentence(self) -> str:
        return (
            f"A forest taught by the release predicts {percent(self.forest.on_real)} of the holdout "
            f"right, one taught by the records {percent(self.forest.by_records)}; a regression "
            f"{percent(self.regression.on_real)} and {percent(self.regression.by_records)}."
        )

    @property
    def stands_out(self) -> bool:
        return False

    @property
    def lines(self) -> tuple[Line, ...]:
        models = (("regression", self.regression), ("forest", self.forest))
        accuracies = (
            (f"Right, {name}, {what}", value)
            for name, model in models
            for what, value in (
                ("taught by records", model.by_records),
                ("taught by the release", model.on_real),
                ("on the release itself", model.on_synthetic),
            )
        )
        return (*accuracies, ("Similarity of the orders of importance", self.similarity))

    @property
    def drawn_lines(self) -> int:
        return len(self.predictors)

    def plot(self, axes: Axes) -> None:
        """Importances, the release's beside those of the records."""
        draw_beside(axes, self.predictors, self.synthetic, self.real)
        axes.set_xlabel("bar: accuracy lost in the release, %; mark: among the records")


def predictions_finding(material: Material) -> PredictionsFinding:
    """Predict the declared target from all other attributes."""
    target = material.declared.target
    predictors = tuple(name for name in material.synthetic.domain.attributes if name != target)
    values = {name: each for name, each in level_values(material.coding).items() if name in predictors}
    found = analyses(
        Task(target, predictors, values),
        Split(material.records, material.unseen),
        material.synthetic,
        rng=material.rng("predictions"),
    )
    forest = found.forest.accuracies
    return PredictionsFinding(
        regression=Taught(
            found.real_regression, found.regression.on_real, found.regression.on_synthetic
        ),
        forest=Taught(found.real_forest.accuracy, forest.on_real, forest.on_synthetic),
        predictors=predictors,
        real=found.real_forest.importances,
        synthetic=found.forest.importances,
        similarity=found.forest.similarity,
    )


def prediction_numbers(attributes: int) -> int:
    """How many numbers ``PredictionsFinding`` holds."""
    return 7 + 2 * (attributes - 1)
