"""How well models tell the release from the records. See ``utility.propensity``."""

from collections.abc import Mapping
from dataclasses import dataclass

from gencard.core.coding import level_values
from gencard.core.errors import TooLargeError
from gencard.core.evaluation.axes import BESIDE, RELEASE, Axes
from gencard.core.evaluation.finding import Line
from gencard.core.evaluation.material import Material
from gencard.core.evaluation.shown import Shown
from gencard.core.utility.propensity import Propensity, regression_propensity, tree_propensity

PROPENSITY_NUMBERS = 6


@dataclass(frozen=True, slots=True)
class PropensityFinding(Shown):
    """pMSE and S_pMSE by two models.

    Args:
        order: Of the regression's interactions, in attributes.
        parameters: Of the regression.
        regression_pmse, regression: pMSE and S_pMSE; None where it has too many parameters.
        tree_pmse, tree: Of a classification tree.
    """

    order: int
    parameters: int
    regression_pmse: float | None
    regression: float | None
    tree_pmse: float
    tree: float

    @property
    def sentence(self) -> str:
        told = "has too many parameters" if self.regression is None else f"S_pMSE {self.regression:.3g}"
        return (
            f"Telling rows from records: a regression {told}, a tree S_pMSE {self.tree:.3g}; "
            "1 is as good as resampling the records."
        )

    @property
    def stands_out(self) -> bool:
        return False

    @property
    def lines(self) -> tuple[Line, ...]:
        return (
            (f"S_pMSE, regression with interactions of {self.order}", self.regression),
            ("S_pMSE, tree", self.tree),
            ("pMSE, regression", self.regression_pmse),
            ("pMSE, tree", self.tree_pmse),
        )

    @property
    def drawn_lines(self) -> int:
        return 2

    def plot(self, axes: Axes) -> None:
        """Both, beside 1."""
        axes.barh([0, 1], [self.regression or 0.0, self.tree], color=RELEASE, height=0.5)
        axes.axvline(1.0, color=BESIDE, linestyle=":", linewidth=1)
        axes.set_yticks([0, 1], ["regression", "tree"])
        axes.set_xlim(left=0)
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("S_pMSE; dotted: as good as resampling the records")


def propensity_finding(material: Material) -> PropensityFinding:
    """By the largest regression that may be fitted, with pairs or without, and by a tree."""
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
