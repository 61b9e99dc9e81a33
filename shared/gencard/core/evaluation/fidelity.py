"""How well the release follows psi; reads no record. See ``utility.fidelity``."""

from dataclasses import dataclass

import numpy as np

from gencard.core.evaluation.axes import ALARM, BESIDE, RELEASE, Axes
from gencard.core.evaluation.finding import Line
from gencard.core.evaluation.material import Material
from gencard.core.evaluation.shown import Shown
from gencard.core.evaluation.words import percent
from gencard.core.utility.fidelity import Fidelity, MarginalFidelity, fidelity

MOST_BARS = 20


@dataclass(frozen=True, slots=True)
class FidelityFinding(Shown):
    """Fidelity of the release's rows to psi."""

    facts: Fidelity

    @property
    def ordered(self) -> list[MarginalFidelity]:
        """The marginals, those that are furthest beyond their bounds first."""
        return sorted(self.facts.marginals, key=lambda found: found.bound - found.total_variation)

    @property
    def sentence(self) -> str:
        found, every = len(self.facts.unexplained), len(self.facts.marginals)
        if not found:
            return "Every marginal is as near to psi as rows drawn from psi are."
        return f"{found:,} of {every:,} marginals are further from psi than chance explains."

    @property
    def stands_out(self) -> bool:
        return bool(self.facts.unexplained)

    @property
    def lines(self) -> tuple[Line, ...]:
        return tuple(
            (f"Total variation, {' × '.join(one.clique)}", one.total_variation)
            for one in self.ordered[:MOST_BARS]
        )

    @property
    def drawn_lines(self) -> int:
        return min(MOST_BARS, len(self.facts.marginals))

    def plot(self, axes: Axes) -> None:
        """Total variation of each marginal, beside what is expected by chance and its bound."""
        shown, places = self.ordered[:MOST_BARS], np.arange(min(MOST_BARS, len(self.facts.marginals)))
        found, expected, bounds = (
            np.array([100 * getattr(one, name) for one in shown])
            for name in ("total_variation", "expected", "bound")
        )
        beyond = np.array([one.beyond_chance for one in shown])
        axes.hlines(places, 0, bounds, color=BESIDE, linewidth=1, alpha=0.4)
        axes.scatter(bounds, places, marker="|", s=90, color=BESIDE)
        axes.scatter(expected, places, s=42, facecolors="none", edgecolors=BESIDE)
        for which, marker, colour in ((~beyond, "o", RELEASE), (beyond, "D", ALARM)):
            axes.scatter(found[which], places[which], s=26, marker=marker, color=colour, zorder=3)
        axes.set_yticks(places, [" × ".join(one.clique)[:48] for one in shown])
        axes.set_ylim(len(shown) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(left=0)
        axes.set_xlabel(f"total variation, % of the rows; worst: {percent(found.max() / 100)}")


def fidelity_finding(material: Material) -> FidelityFinding:
    return FidelityFinding(fidelity(material.measured, material.synthetic))
