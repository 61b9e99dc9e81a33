"""The declared gap between two groups, level by level. See ``utility.gap``."""

from dataclasses import dataclass

import numpy as np

from gencard.core.errors import InvalidInputError
from gencard.core.evaluation.axes import BESIDE, Axes, draw_beside
from gencard.core.evaluation.finding import Line
from gencard.core.evaluation.material import Material
from gencard.core.evaluation.shown import Shown
from gencard.core.evaluation.words import percent
from gencard.core.utility.gap import gap_error, gap_of, gaps

_TOLD = 10
GAP_NUMBERS = 1 + 2 * _TOLD
"""Most that a finding holds."""


@dataclass(frozen=True, slots=True)
class GapFinding(Shown):
    """Gaps from -1 to 1 in the levels where they are furthest off, those first.

    Args:
        gap: What is meant, in words.
        error: Root mean square over all levels, those that nobody is in included; 0 to 2.
    """

    gap: str
    error: float
    levels: tuple[str, ...]
    original: tuple[float, ...]
    synthetic: tuple[float, ...]

    @property
    def sentence(self) -> str:
        return (
            f"The gap {self.gap} is off by {percent(self.error)} (root mean square over the levels); "
            f"furthest off is {self.levels[0]}, {percent(self.synthetic[0])} where the records have "
            f"{percent(self.original[0])}."
        )

    @property
    def stands_out(self) -> bool:
        return False

    @property
    def lines(self) -> tuple[Line, ...]:
        return (("Root mean squared error of the gaps", self.error),)

    @property
    def drawn_lines(self) -> int:
        return len(self.levels)

    def plot(self, axes: Axes) -> None:
        """Each level's gap, the release's beside that of the records."""
        axes.axvline(0, color=BESIDE, linewidth=0.8)
        draw_beside(axes, self.levels, self.synthetic, self.original)
        axes.set_xlabel("bar: gap in the release, %; mark: among the records")


def gap_finding(material: Material) -> GapFinding:
    """Compare the declared gap in release and records."""
    words = material.declared.gap
    if words is None:
        raise InvalidInputError(field="gap", problem="is not declared")
    gap = gap_of(words, material.coding)
    real, made = (gaps(dataset, gap) for dataset in (material.records, material.synthetic))
    worst = np.argsort(-np.abs(real - made), kind="stable")[:_TOLD]
    names = material.coding.attribute(words.within).coding.level_names
    return GapFinding(
        gap=f"{words.first} less {words.second} by {words.within}",
        error=gap_error(material.records, material.synthetic, gap),
        levels=tuple(names[place] for place in worst),
        original=tuple(real[worst].tolist()),
        synthetic=tuple(made[worst].tolist()),
    )
