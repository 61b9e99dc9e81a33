"""Tables of one, two and three attributes, and the marginals of Phi, beside the records'."""

from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import TooLargeError
from gencard.core.evaluation.axes import ALARM, BESIDE, MARK, RELEASE, Axes
from gencard.core.evaluation.finding import Line
from gencard.core.evaluation.material import Material
from gencard.core.evaluation.shown import Shown
from gencard.core.evaluation.words import percent
from gencard.core.statistics.marginal import count
from gencard.core.utility.table_utility import (
    TableUtility,
    marginal_error,
    table_utilities,
    table_utility,
)

WORST = 10
"""Tables of each width that are told with all measures."""

MEASURES_OF_A_TABLE = 17
MOST_BARS, _MOST_DRAWN = 20, 24


@dataclass(frozen=True, slots=True)
class OneTable:
    """One table; ``measures`` as ``TableUtility.named``."""

    clique: Clique
    measures: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class TablesOfWidth:
    """All tables of so many attributes.

    Args:
        tables: How many.
        means: The mean of each measure over them.
        worst: Those of the largest S_pMSE, the worst first.
    """

    width: int
    tables: int
    means: tuple[tuple[str, float], ...]
    worst: tuple[OneTable, ...]


@dataclass(frozen=True, slots=True)
class TablesFinding(Shown):
    """Utility of all tables.

    Args:
        attributes: Of the release.
        widths: One, two and three attributes, as far as there are so many, but not too many tables.
        pairs: S_pMSE of each pair, in the order of ``itertools.combinations``; empty where these are
            too many, None for a pair that may not be looked at together. ``variations`` are their total
            variations.
    """

    attributes: Clique
    widths: tuple[TablesOfWidth, ...]
    pairs: tuple[float | None, ...]
    variations: tuple[float | None, ...]

    @property
    def sentence(self) -> str:
        told = [
            f"{dict(found.means)['S_pMSE']:.3g} over the {found.tables:,} tables of "
            f"{('one attribute', 'two', 'three')[found.width - 1]}"
            for found in self.widths
        ]
        found = f"Mean S_pMSE is {', '.join(told)}; 1 is as good as resampling the records."
        if not self._valued():
            return found
        worst, value = max(self._valued(), key=lambda pair: pair[1])
        return f"{found} The worst pair is {' × '.join(worst)}, {value:.3g}."

    @property
    def stands_out(self) -> bool:
        return False

    @property
    def lines(self) -> tuple[Line, ...]:
        return tuple(
            (f"{name}, mean over tables of {found.width}", value)
            for found in self.widths
            for name, value in found.means
            if name in ("S_pMSE", "SPECKS", "JSD", "PO50")
        )

    @property
    def drawn_lines(self) -> int:
        return len(self._drawn())

    def plot(self, axes: Axes) -> None:
        """Heat map of the pairs, S_pMSE by depth of colour; only the attributes of the worst ones."""
        shown = self._drawn()
        places = {name: place for place, name in enumerate(shown)}
        values = [value for _, value in self._valued()]
        largest = max(values, default=0.0)
        for (one, other), value in self._valued():
            if one in places and other in places:
                depth = _depth(value, largest)
                axes.barh(
                    places[other], 0.94, left=places[one] - 0.47, height=0.94, color=(ALARM, depth)
                )
        names = [_short(name) for name in shown]
        axes.set_xticks(range(len(shown)), names, rotation=90)
        axes.set_yticks(range(len(shown)), names)
        axes.invert_yaxis()
        axes.tick_params(length=0)
        if values:
            axes.set_xlabel(f"S_pMSE, by depth of colour: {min(values):.3g} to {largest:.3g}")

    def _valued(self) -> list[tuple[tuple[str, str], float]]:
        """Each pair with its S_pMSE, where they were compared."""
        pairs = zip(_pairs(self.attributes), self.pairs, strict=True) if self.pairs else ()
        return [(pair, value) for pair, value in pairs if value is not None]

    def _drawn(self) -> tuple[str, ...]:
        """The attributes to draw, in their order: all, or those in the worst pairs."""
        worst = dict.fromkeys(self.attributes, 0.0)
        for pair, value in self._valued():
            for name in pair:
                worst[name] = max(worst[name], value)
        chosen = sorted(worst, key=lambda name: -worst[name])[:_MOST_DRAWN]
        return tuple(name for name in self.attributes if name in chosen)


def tables_finding(material: Material) -> TablesFinding:
    """Compare all tables of one, two and three attributes that may be looked at together."""
    attributes = material.synthetic.domain.attributes
    found = _by_width(material)
    pairs = [found[2].get(pair) for pair in combinations(attributes, 2)] if 2 in found else []
    return TablesFinding(
        attributes=attributes,
        widths=tuple(_summed(width, tables) for width, tables in found.items()),
        pairs=tuple(None if one is None else one.standardised for one in pairs),
        variations=tuple(None if one is None else one.total_variation for one in pairs),
    )


def _by_width(material: Material) -> dict[int, dict[Clique, TableUtility]]:
    """All tables of one, two and three attributes, as far as they may be counted."""
    original, synthetic = material.records, material.synthetic
    found: dict[int, dict[Clique, TableUtility]] = {}
    for width in range(1, min(3, len(synthetic.domain)) + 1):
        with suppress(TooLargeError):
            tables = table_utilities(original, synthetic, width, material.together.allows_table)
            found |= {width: tables} if tables else {}
    return found


def table_numbers(attributes: int) -> int:
    """Most numbers that ``TablesFinding`` holds for so many attributes."""
    return 3 * MEASURES_OF_A_TABLE * (WORST + 1) + attributes * (attributes - 1)


def _summed(width: int, tables: dict[Clique, TableUtility]) -> TablesOfWidth:
    named = {clique: found.named for clique, found in tables.items()}
    names = next(iter(named.values()))
    means = {name: float(np.mean([one[name] for one in named.values()])) for name in names}
    worst = sorted(tables, key=lambda clique: -tables[clique].standardised)[:WORST]
    return TablesOfWidth(
        width=width,
        tables=len(tables),
        means=tuple(means.items()),
        worst=tuple(OneTable(clique, tuple(named[clique].items())) for clique in worst),
    )


@dataclass(frozen=True, slots=True)
class OneMarginal:
    """One marginal of Phi: root mean squared error and total variation, in shares of 1."""

    clique: Clique
    error: float
    total_variation: float


@dataclass(frozen=True, slots=True)
class MarginalsFinding(Shown):
    """The marginals that the card asked for, in the release and among the records; Phi's order."""

    marginals: tuple[OneMarginal, ...]

    @property
    def ordered(self) -> tuple[OneMarginal, ...]:
        """The worst first."""
        return tuple(sorted(self.marginals, key=lambda one: -one.total_variation))

    @property
    def sentence(self) -> str:
        worst = self.ordered[0]
        mean = float(np.mean([one.error for one in self.marginals]))
        return (
            f"The marginals of Phi are off by {percent(mean)} of the records in each cell (root mean "
            f"square, on average); furthest off is {' × '.join(worst.clique)}, where "
            f"{percent(worst.total_variation)} of the rows would have to move."
        )

    @property
    def stands_out(self) -> bool:
        return False

    @property
    def lines(self) -> tuple[Line, ...]:
        return tuple(
            (f"Total variation, {' × '.join(one.clique)}", one.total_variation)
            for one in self.ordered[:MOST_BARS]
        )

    @property
    def drawn_lines(self) -> int:
        return min(MOST_BARS, len(self.marginals))

    def plot(self, axes: Axes) -> None:
        """Total variation and error of the worst ones."""
        shown = self.ordered[:MOST_BARS]
        places = np.arange(len(shown))
        axes.barh(places, [100 * one.total_variation for one in shown], color=RELEASE, height=0.6)
        errors = [100 * one.error for one in shown]
        axes.scatter(errors, places, color=BESIDE, label="RMSE of a cell", **MARK)
        axes.set_yticks(places, [_short(" × ".join(one.clique), 44) for one in shown])
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("bar: total variation, % of the rows; mark: RMSE of a cell, %")


def marginals_finding(material: Material) -> MarginalsFinding:
    """Compare each marginal of Phi; a Phi of moments alone is compared attribute by attribute."""
    original, synthetic = material.records, material.synthetic
    cliques = material.cliques or tuple((name,) for name in synthetic.domain.attributes)
    return MarginalsFinding(tuple(_one(original, synthetic, clique) for clique in cliques))


def _one(original: Dataset, synthetic: Dataset, clique: Clique) -> OneMarginal:
    utility = table_utility(count(original, clique), count(synthetic, clique))
    return OneMarginal(clique, marginal_error(original, synthetic, clique), utility.total_variation)


def _pairs(attributes: Clique) -> list[tuple[str, str]]:
    return [(one, other) for place, one in enumerate(attributes) for other in attributes[place + 1 :]]


def _depth(value: float, largest: float) -> float:
    """From nearly white to full, by the logarithm: one bad pair must not hide the next."""
    return 0.04 + 0.96 * float(np.log1p(value) / np.log1p(largest)) if largest > 0 else 0.04


def _short(name: str, most: int = 18) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
