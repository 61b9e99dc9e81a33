"""Clones and near clones of single records; see ``privacy.clones`` and ``privacy.nndr``."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.evaluation.axes import ALARM, BESIDE, RELEASE, Axes
from gencard.core.evaluation.finding import Line
from gencard.core.evaluation.material import Material
from gencard.core.evaluation.shown import Shown
from gencard.core.evaluation.words import percent
from gencard.core.privacy.attacks.attack import drawn
from gencard.core.privacy.distances.copies import clones, nndr
from gencard.core.privacy.distances.nearest import nearest
from gencard.core.privacy.proportion import Proportion

CLONE_NUMBERS = 5
RATIO_BINS = 20
RATIO_NUMBERS = 2 * (RATIO_BINS + 1)


@dataclass(frozen=True, slots=True)
class CloneFinding(Shown):
    """Rows that equal a record, in shares of the rows.

    Args:
        rows: Rows of the release.
        train: Equal to some record that the release was made from.
        equal: The same, among as many of these as there are of holdout.
        holdout: Equal to some record of holdout: what likeness alone makes.
        chance: What the number of cells alone makes of ``train``; None where numbers have no cells.
    """

    rows: int
    train: float
    equal: float
    holdout: float
    chance: float | None

    @property
    def sentence(self) -> str:
        return (
            f"{percent(self.train)} of the rows equal a record that the release was made from. Among "
            f"as many records as holdout has, it is {percent(self.equal)}; of holdout, that nobody "
            f"copied, {percent(self.holdout)}."
        )

    @property
    def stands_out(self) -> bool:
        ours, theirs = (
            Proportion(round(share * self.rows), self.rows) for share in (self.equal, self.holdout)
        )
        return ours.interval()[0] > theirs.interval()[1]

    @property
    def lines(self) -> tuple[Line, ...]:
        found = (
            ("Clones of train", self.train),
            ("Clones of train, as many as holdout", self.equal),
            ("Clones of holdout", self.holdout),
        )
        return found if self.chance is None else (*found, ("By the number of cells alone", self.chance))

    @property
    def drawn_lines(self) -> int:
        return len(self.lines)

    def plot(self, axes: Axes) -> None:
        """One bar each."""
        shares = [100 * (share or 0.0) for _, share in self.lines]
        places, colours = range(len(shares)), [ALARM, ALARM, RELEASE, BESIDE][: len(shares)]
        axes.barh(places, shares, color=colours, height=0.6)
        axes.set_yticks(places, [name for name, _ in self.lines])
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("% of the rows")


def clone_finding(material: Material) -> CloneFinding:
    """Count them; the domain has cells only as far as no attribute holds numbers."""
    tables, rows = material.tables, len(material.synthetic)
    numeric = any(span is not None for span in material.gower.ranges)
    cells = None if numeric else material.synthetic.domain.cells
    found = clones(material.to_train, len(tables.train), cells)
    size = min(len(tables.train), len(tables.holdout))
    ours, theirs = (
        drawn(table, size, material.rng("clones")) for table in (tables.train, tables.holdout)
    )
    equal, others = (
        nearest(tables.synthetic, some, material.gower, second=False) for some in (ours, theirs)
    )
    return CloneFinding(
        rows=rows,
        train=found.share,
        equal=float(np.mean(equal.distance == 0)),
        holdout=float(np.mean(others.distance == 0)),
        chance=found.chance,
    )


@dataclass(frozen=True, slots=True)
class RatioFinding(Shown):
    """Distance to the closest record by that to the second closest (NNDR).

    Args:
        train: Shares of the rows in each of ``RATIO_BINS`` equal bins from 0 to 1.
        holdout: The same, by records of holdout.
        low_train: The ratio that 5 % of the rows do not pass; ``low_holdout`` likewise.
    """

    train: tuple[float, ...]
    holdout: tuple[float, ...]
    low_train: float | None
    low_holdout: float | None

    @property
    def sentence(self) -> str:
        return (
            "One row of twenty lies at most "
            f"{_ratio(self.low_train)} times as far from its closest record as from the second; by "
            f"records of holdout {_ratio(self.low_holdout)} times."
        )

    @property
    def stands_out(self) -> bool:
        return False

    @property
    def lines(self) -> tuple[Line, ...]:
        return (
            ("5th percentile, by train", self.low_train),
            ("5th percentile, by holdout", self.low_holdout),
        )

    @property
    def drawn_lines(self) -> int:
        return 0

    def plot(self, axes: Axes) -> None:
        """Both histograms."""
        edges = np.linspace(0, 1, RATIO_BINS + 1)
        for shares, colour, label in (
            (self.holdout, RELEASE, "by records of holdout"),
            (self.train, ALARM, "by records of train"),
        ):
            axes.stairs(100 * np.array(shares), edges, color=colour, linewidth=1.6, label=label)
        axes.set_xlabel("distance to the closest by that to the second closest")
        axes.set_ylabel("% of the rows")
        axes.legend(frameon=False)


def ratio_finding(material: Material) -> RatioFinding:
    """The ratios by train and by holdout; records without a second closest are left out."""
    ours, theirs = nndr(material.to_train), nndr(material.to_holdout)
    return RatioFinding(_shares(ours), _shares(theirs), _twentieth(ours), _twentieth(theirs))


def _shares(ratios: NDArray[np.float64]) -> tuple[float, ...]:
    counts, _ = np.histogram(ratios[~np.isnan(ratios)], bins=RATIO_BINS, range=(0.0, 1.0))
    return tuple(map(float, counts / len(ratios)))


def _twentieth(ratios: NDArray[np.float64]) -> float | None:
    known = ratios[~np.isnan(ratios)]
    return float(np.quantile(known, 0.05)) if len(known) else None


def _ratio(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2g}"
