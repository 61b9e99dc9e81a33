"""Distance to the closest record, beside records that the generator never saw; see ``privacy.dcr``."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.evaluation.axes import ALARM, BESIDE, RELEASE, Axes
from gencard.core.evaluation.finding import Line
from gencard.core.evaluation.material import Material
from gencard.core.evaluation.shown import Shown
from gencard.core.evaluation.words import interval, percent
from gencard.core.privacy.distances.copies import distance_histogram
from gencard.core.privacy.distances.dcr import CloserShare, Dcr, EqualShare, closer_share, equal_share
from gencard.core.privacy.distances.nearest import Nearest, nearest

BINS, STEP = 40, 0.01
"""Bins of a curve, and how wide each is; what lies farther is told in one number."""

DRAWS = 5
NUMBERS = 3 * (BINS + 5) + 8
"""Most numbers that the finding holds."""


@dataclass(frozen=True, slots=True)
class Curve:
    """How far records of one table lie from the closest of another, in shares of the former.

    Args:
        zeros: At distance 0, in no bin.
        bins: In each of ``BINS`` bins of width ``STEP``.
        farther: Beyond the last bin.
        undefined: With nothing to compare.
        median: Median distance; ``second`` to the second closest; None where it is not defined.
    """

    zeros: float
    bins: tuple[float, ...]
    farther: float
    undefined: float
    median: float | None
    second: float | None

    @classmethod
    def of(cls, found: Nearest) -> "Curve":
        counted = distance_histogram(found.distance, round(1 / STEP))
        shares = counted.counts / len(found)
        return cls(
            zeros=counted.zeros / len(found),
            bins=tuple(map(float, shares[:BINS])),
            farther=float(shares[BINS:].sum()),
            undefined=counted.undefined / len(found),
            median=_median(found.distance),
            second=_median(found.second),
        )


@dataclass(frozen=True, slots=True)
class DistanceFinding(Shown):
    """DCR of a release.

    Args:
        to_train: Of the release's rows, to the records it was made from; ``to_holdout`` to others.
        baseline: Of these records, to the others: how near real people are to each other.
        closer: Share of the rows that are strictly closer to train; ``ties`` equally near.
        by_size: What the sizes of train and holdout alone make of it.
        share: Closer to train, ties half, with both equally large.
        low, high: Its 95 % interval.
        size: Records of each then; ``draws`` how often they were drawn.
    """

    to_train: Curve
    to_holdout: Curve
    baseline: Curve
    closer: float
    ties: float
    by_size: float
    share: float
    low: float
    high: float
    size: int
    draws: int

    @property
    def sentence(self) -> str:
        return (
            f"{percent(self.share)} of the rows are closer to a record that the release was made from "
            f"than to one that it was not made from ({interval(self.low, self.high)}, equally many of "
            "both). Without copying it is half."
        )

    @property
    def stands_out(self) -> bool:
        return self.low > 0.5

    @property
    def lines(self) -> tuple[Line, ...]:
        return (
            ("Closer to train, equal sizes", self.share),
            ("Closer to train, strictly, as they are", self.closer),
            ("Equally near", self.ties),
            ("Closer to train, ties half, as they are", self.closer + self.ties / 2),
            ("By the sizes alone", self.by_size),
            ("Distance 0 to train", self.to_train.zeros),
            ("Distance 0 to holdout", self.to_holdout.zeros),
            ("Records of train at distance 0 to holdout", self.baseline.zeros),
        )

    @property
    def drawn_lines(self) -> int:
        return 0

    def plot(self, axes: Axes) -> None:
        """Histograms of the three distances; exact copies are the bars left of 0."""
        edges = np.arange(BINS + 1) * STEP
        curves = (
            (self.baseline, BESIDE, "real records to others (baseline)"),
            (self.to_holdout, RELEASE, "rows to holdout"),
            (self.to_train, ALARM, "rows to train"),
        )
        for place, (curve, colour, label) in enumerate(curves):
            axes.stairs(100 * np.array(curve.bins), edges, color=colour, linewidth=1.6, label=label)
            left = -STEP * (5.6 - 1.2 * place)
            axes.bar(left, 100 * curve.zeros, width=STEP, color=colour, align="edge")
        axes.set_xticks([-STEP * 3.9, *np.arange(5) / 10], ["copies", "0", "0.1", "0.2", "0.3", "0.4"])
        axes.set_xlabel("distance to the closest record")
        axes.set_ylabel("% of the rows")
        axes.legend(frameon=False)


def distance_finding(material: Material) -> DistanceFinding:
    """Measure it; raises what ``equal_share`` and ``nearest`` refuse."""
    tables = material.tables
    sizes = len(tables.train), len(tables.holdout)
    to_train, to_holdout = material.to_train, material.to_holdout
    share = closer_share(to_train.distance, to_holdout.distance, sizes)
    found = Dcr(to_train, to_holdout, nearest(tables.train, tables.holdout, material.gower), share)
    rng = material.rng("dcr")
    equal = equal_share(
        tables.synthetic, tables.train, tables.holdout, material.gower, draws=DRAWS, rng=rng
    )
    return _finding(found, found.share, equal)


def _finding(found: Dcr, share: CloserShare, equal: EqualShare) -> DistanceFinding:
    low, high = equal.interval()
    return DistanceFinding(
        to_train=Curve.of(found.to_train),
        to_holdout=Curve.of(found.to_holdout),
        baseline=Curve.of(found.baseline),
        closer=share.strict,
        ties=share.ties,
        by_size=share.by_size,
        share=equal.share,
        low=low,
        high=high,
        size=equal.size,
        draws=equal.draws,
    )


def _median(distances: NDArray[np.float64]) -> float | None:
    known = distances[~np.isnan(distances)]
    return float(np.median(known)) if len(known) else None
