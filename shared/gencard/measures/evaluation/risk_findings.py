"""Risk of rows as findings: distances to the nearest records, attacks, uniques and disclosure.

The definitions are in ``measures.privacy``.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil

import numpy as np
from numpy.typing import NDArray

from gencard.core.domain import Clique
from gencard.core.json_codecs import written
from gencard.measures.evaluation.evaluation import (
    Finding,
    Material,
    Named,
    rounded_between,
    rounded_count,
    rounded_named_shares,
    rounded_outward,
    rounded_proportion,
    rounded_share,
    rounded_shares,
)
from gencard.measures.privacy.attacks import (
    Attack,
    Membership,
    Proportion,
    Risk,
    drawn,
    inference,
    linkability,
    singling_out,
)
from gencard.measures.privacy.dcr import clone_test, closer_share, equal_share, nearness_test
from gencard.measures.privacy.disclosure import disclosure_risk, replicated_uniques
from gencard.measures.privacy.distances import combination_numbers, present
from gencard.measures.privacy.nearest import Nearest, chance_of_clone, clone_share, nearest, nndr

# Attacks on the release and disclosure from it, each with its reference; uniques and small counts.


WIDTH, NEIGHBOURS = 3, 10
"""Attributes in a singling-out predicate; nearest rows that each side of a link considers."""

LARGEST_OPEN_RISK, LARGEST_OPEN_AREA = 0.2, 0.6
"""Highest interval ends of a failed attack: above them, it had too few targets to decide."""

ATTACK_NUMBERS = 7
"""Numbers that an attack releases: right guesses and attempts of three kinds, and its verdict."""

AREA_NUMBERS = 4


@dataclass(frozen=True, slots=True)
class AttackFinding(Finding):
    """One attack: correct guesses about train, about holdout (control) and at random (naive).

    Args:
        above: Whether the attack succeeded, by the numbers before they were rounded; None in findings
            that are not rounded, or of earlier versions.
    """

    attack: Proportion
    control: Proportion
    naive: Proportion
    above: bool | None = field(default=None, metadata=written(omit=True))

    @property
    def whole(self) -> Attack:
        return Attack(self.attack, self.control, self.naive)

    @property
    def risk(self) -> Risk:
        """Risk: success above the control, as a share of the largest possible."""
        return self.whole.risk()

    @property
    def stands_out(self) -> bool:
        if self.above is not None:
            return self.above
        return self.risk.low > 0 and self.whole.beats_random_guessing()

    @property
    def undecided(self) -> bool:
        return self.above is False and self.risk.high > LARGEST_OPEN_RISK

    @property
    def lines(self) -> Named:
        return (
            ("Attack", self.attack.share),
            ("Control", self.control.share),
            ("Random guessing", self.naive.share),
            ("Risk", self.risk.estimate),
        )

    def rounded(self, _material: Material) -> "AttackFinding":
        attack, control, naive = map(rounded_proportion, (self.attack, self.control, self.naive))
        return AttackFinding(attack, control, naive, self.stands_out)


def singling_out_finding(material: Material) -> AttackFinding:
    width = min(WIDTH, len(material.synthetic.domain))
    result = singling_out(
        material.tables, width=width, attacks=material.declared.attacks, rng=material.rng("singling-out")
    )
    return _finding(result)


def linkability_finding(material: Material) -> AttackFinding:
    """Each party knows every second attribute, in the schema's order."""
    attributes = material.synthetic.domain.attributes
    result = linkability(
        material.tables,
        material.gower,
        (attributes[::2], attributes[1::2]),
        attacks=material.targets(material.tables.train),
        controls=material.targets(material.tables.holdout),
        count=min(NEIGHBOURS, len(material.synthetic)),
        rng=material.rng("linkability"),
    )
    return _finding(result)


def inference_finding(material: Material) -> AttackFinding:
    """All attributes but the declared target are known."""
    tables, target = material.tables, material.declared.target
    attacks, controls = (
        min(material.targets(table), int(np.sum(present(table.column(target)))))
        for table in (tables.train, tables.holdout)
    )
    ask = partial(inference, tables, material.gower, target, rng=material.rng("inference"))
    return _finding(ask(attacks=attacks, controls=controls))


def _finding(result: Attack) -> AttackFinding:
    return AttackFinding(result.attack, result.control, result.naive)


@dataclass(frozen=True, slots=True)
class MembershipFinding(Finding):
    """Membership inference by distance.

    Args:
        area: Chance, 0 to 1, that a random record of train is nearer to the rows than one of holdout.
        low, high: Ends of the 95 % interval of ``area``.
        above: As in ``AttackFinding``.
    """

    area: float
    low: float
    high: float
    above: bool | None = field(default=None, metadata=written(omit=True))

    @property
    def stands_out(self) -> bool:
        return self.low > 0.5 if self.above is None else self.above

    @property
    def undecided(self) -> bool:
        return self.above is False and self.high >= LARGEST_OPEN_AREA

    @property
    def lines(self) -> Named:
        return (("Area under the curve", self.area), ("Lowest", self.low), ("Highest", self.high))

    def rounded(self, material: Material) -> "MembershipFinding":
        size = min(len(material.records), len(material.unseen))
        low, high = rounded_outward(self.low, self.high, size)
        return MembershipFinding(rounded_between(self.area, size), low, high, self.stands_out)


def membership_finding(material: Material) -> MembershipFinding:
    result = Membership(*material.to_rows)
    return MembershipFinding(result.area, *result.interval())


UNIQUE_NUMBERS, DISCLOSURE_NUMBERS = 4, 16


@dataclass(frozen=True, slots=True)
class UniquesFinding(Finding):
    """Combinations of all attributes that exactly one record or row has.

    Args:
        shares: UiO, UiS, UiOiS, repU; of the records, UiS of the rows.
    """

    shares: Named

    @property
    def lines(self) -> Named:
        return self.shares

    def rounded(self, material: Material) -> "UniquesFinding":
        return UniquesFinding(rounded_named_shares(self.shares, len(material.records)))


def uniques_finding(material: Material) -> UniquesFinding:
    result = replicated_uniques(material.records, material.synthetic)
    return UniquesFinding(tuple(result.named.items()))


@dataclass(frozen=True, slots=True)
class RowUniquesFinding(Finding):
    """Risk that rows and psi reveal by themselves; no record is read.

    Args:
        unique: Share of the rows whose combination of all attributes no other row has.
        single: Share of psi's exact non-empty cells that count one record; None where psi has no exact
            count or is not known.
    """

    unique: float | None
    single: float | None

    @property
    def lines(self) -> Named:
        return (("Unique rows", self.unique), ("Cells of psi with one record", self.single))

    def rounded(self, _material: Material) -> "RowUniquesFinding":
        """Unrounded: it depends on nothing but rows and psi."""
        return self


def row_uniques_finding(material: Material) -> RowUniquesFinding:
    rows = material.synthetic
    columns = zip(rows.codes.T, rows.domain.sizes, strict=True)
    _, counts = np.unique(combination_numbers(len(rows), columns), return_counts=True)
    exact = [] if material.psi is None else [one for one in material.psi.measurements if not one.stddev]
    cells = np.concatenate([np.zeros(0), *(one.values.ravel() for one in exact)])
    single = float(np.mean(cells[cells > 0] == 1)) if np.any(cells > 0) else None
    unique = float(np.sum(counts == 1)) / len(rows) if len(rows) else None
    return RowUniquesFinding(unique, single)


@dataclass(frozen=True, slots=True)
class DisclosureFinding(Finding):
    """Disclosure by the release of the target of a person whose keys are known.

    Args:
        keys: The declared keys that the release has.
        shares: The measures under their names in the literature; TCAP is None where no record has keys
            that are among the rows.
    """

    keys: Clique
    target: str
    shares: Named

    @property
    def lines(self) -> Named:
        return self.shares

    def rounded(self, material: Material) -> "DisclosureFinding":
        return replace(self, shares=rounded_named_shares(self.shares, len(material.records)))


def disclosure_finding(material: Material) -> DisclosureFinding:
    """Disclosure by the declared keys that the release contains."""
    domain, declarations = material.synthetic.domain, material.declared
    keys = domain.canonical(tuple(name for name in declarations.keys if name in domain.attributes))
    result = disclosure_risk(material.records, material.synthetic, keys, declarations.target)
    shares = result.uniques.named | result.attribute.named | result.attribution.named
    return DisclosureFinding(keys, declarations.target, tuple(shares.items()))


BINS, STEP = 40, 0.01
"""Number of bins of a curve and their width; larger distances are one further number."""

DRAWS = 5
DISTANCE_NUMBERS = 3 * (BINS + 5) + 10
"""Most numbers that the finding holds."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Distribution of the distance from records of one table to the closest of another.

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

    def rounded(self, size: int) -> "Curve":
        """The curve of ``size`` records, as it may be released."""
        return Curve(
            zeros=rounded_share(self.zeros, size),
            bins=rounded_shares(self.bins, size),
            farther=rounded_share(self.farther, size),
            undefined=rounded_share(self.undefined, size),
            median=rounded_between(self.median, size),
            second=rounded_between(self.second, size),
        )

    @classmethod
    def of(cls, result: Nearest) -> "Curve":
        distances, size = result.distance, len(result)
        counts, _ = np.histogram(distances[distances > 0], bins=round(1 / STEP), range=(0.0, 1.0))
        shares = counts / size
        return cls(
            zeros=int(np.sum(distances == 0)) / size,
            bins=tuple(map(float, shares[:BINS])),
            farther=float(shares[BINS:].sum()),
            undefined=int(np.sum(np.isnan(distances))) / size,
            median=_median(distances),
            second=_median(result.second),
        )


@dataclass(frozen=True, slots=True)
class DistanceFinding(Finding):
    """DCR of a release.

    Args:
        to_train: Of the release's rows, to the records it was made from; ``to_holdout`` to others.
        baseline: Of these records, to the others: how near real people are to each other.
        closer: Share of the rows that are strictly closer to train; ``ties`` equally near.
        by_size: Share that the sizes of train and holdout alone would give.
        share: Closer to train, ties half, with both equally large.
        low, high: Ends of the 95 % interval of ``share``, for these records of train and holdout.
        size: Records of each then; ``draws`` how often they were drawn.
        copied: Whether records of train are nearer to the rows than those of holdout, by a test on all
            of them (``nearness_test``). None in findings of earlier versions, as the next.
        detectable: Smallest share of copies among the rows that this test would have shown in 8 of 10
            such evaluations; more than 1 if it would not have shown any.
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
    copied: bool | None = field(default=None, metadata=written(omit=True))
    detectable: float | None = field(default=None, metadata=written(omit=True))

    @property
    def stands_out(self) -> bool:
        return self.low > 0.5 if self.copied is None else self.copied

    @property
    def undecided(self) -> bool:
        return not self.stands_out and _is_blind(self.detectable)

    @property
    def lines(self) -> Named:
        return (
            ("Closer to train, equal sizes", self.share),
            ("Closer to train, strictly, original sizes", self.closer),
            ("Equally near", self.ties),
            ("Closer to train, ties half, original sizes", self.closer + self.ties / 2),
            ("Expected from the sizes alone", self.by_size),
            ("Distance 0 to train", self.to_train.zeros),
            ("Distance 0 to holdout", self.to_holdout.zeros),
            ("Records of train at distance 0 to holdout", self.baseline.zeros),
            *_power_lines(self.detectable),
        )

    def rounded(self, material: Material) -> "DistanceFinding":
        rows, records = len(material.synthetic), len(material.records)
        low, high = rounded_outward(self.low, self.high, self.size)
        return replace(
            self,
            to_train=self.to_train.rounded(rows),
            to_holdout=self.to_holdout.rounded(rows),
            baseline=self.baseline.rounded(records),
            closer=rounded_share(self.closer, rows),
            ties=rounded_share(self.ties, rows),
            by_size=rounded_share(self.by_size, records),
            share=rounded_share(self.share, rows),
            low=low,
            high=high,
            size=rounded_count(self.size),
            detectable=_rounded_up(self.detectable),
        )


def distance_finding(material: Material) -> DistanceFinding:
    tables, to_train, to_holdout = material.tables, material.to_train, material.to_holdout
    sizes = (len(tables.train), len(tables.holdout))
    share = closer_share(to_train.distance, to_holdout.distance, sizes)
    baseline = nearest(tables.train, tables.holdout, material.gower)
    rng = material.rng("dcr")
    equal = equal_share(
        tables.synthetic, tables.train, tables.holdout, material.gower, draws=DRAWS, rng=rng
    )
    test = nearness_test(*material.to_rows, len(tables.synthetic), rng=rng)
    low, high = equal.interval()
    return DistanceFinding(
        to_train=Curve.of(to_train),
        to_holdout=Curve.of(to_holdout),
        baseline=Curve.of(baseline),
        closer=share.strict,
        ties=share.ties,
        by_size=share.by_size,
        share=equal.share,
        low=low,
        high=high,
        size=equal.size,
        draws=equal.draws,
        copied=test.rejects,
        detectable=_NONE_AT_ALL if test.detectable is None else test.detectable,
    )


BLIND = 0.1
"""Smallest share of copies that a holdout must be able to show, or the evaluation decides nothing."""

_NONE_AT_ALL = 2.0
"""Stands for a share of copies that no release can have: the test shows none."""


def _is_blind(detectable: float | None) -> bool:
    return detectable is not None and detectable > BLIND


def _power_lines(detectable: float | None) -> Named:
    """The line that says what the holdout could show; none in findings of earlier versions."""
    if detectable is None:
        return ()
    return (("Smallest share of copies that the holdout shows", shown_share(detectable)),)


def shown_share(detectable: float) -> float | None:
    """The smallest share of copies that is shown; None if none is."""
    return detectable if detectable <= 1 else None


def _rounded_up(detectable: float | None) -> float | None:
    """A share of copies, to the next twentieth: it follows from counts of records."""
    if detectable is None or detectable > 1:
        return detectable
    return ceil(20 * detectable - 1e-9) / 20


def _median(distances: NDArray[np.float64]) -> float | None:
    known = distances[~np.isnan(distances)]
    return float(np.median(known)) if len(known) else None


CLONE_NUMBERS = 10
RATIO_BINS = 20
RATIO_NUMBERS = 2 * (RATIO_BINS + 1)


@dataclass(frozen=True, slots=True)
class CloneFinding(Finding):
    """Rows that equal a record, in shares of the rows.

    Args:
        train: Equal to some record that the release was made from. This and the next two are None where
            no row has a distance.
        equal: The same, among as many of these as there are of holdout.
        holdout: Share equal to some record of holdout: the effect of likeness alone.
        chance: What the number of cells alone makes of ``train``; None where numbers have no cells.
        alike: Of the records of train, those that equal another one: what likeness alone makes of
            ``train`` where rows are as like the records as these are like each other. None in findings
            of earlier versions, as all that follows.
        records: Of train, those that equal some row; ``others`` of holdout.
        copied: Whether the holdout has too few, by a test on all records (``clone_test``).
        detectable: As in ``DistanceFinding``.
    """

    rows: int
    train: float | None
    equal: float | None
    holdout: float | None
    chance: float | None
    alike: float | None = field(default=None, metadata=written(omit=True))
    records: float | None = field(default=None, metadata=written(omit=True))
    others: float | None = field(default=None, metadata=written(omit=True))
    copied: bool | None = field(default=None, metadata=written(omit=True))
    detectable: float | None = field(default=None, metadata=written(omit=True))

    @property
    def stands_out(self) -> bool:
        """Whether the holdout shows copies; one too small to show any is replaced by likeness."""
        if self.copied is None:
            return self._above(self.equal, self.holdout)
        return self.copied or (_is_blind(self.detectable) and self._above(self.train, self.alike))

    @property
    def undecided(self) -> bool:
        return not self.stands_out and (self.train is None or _is_blind(self.detectable))

    def _above(self, one: float | None, other: float | None) -> bool:
        """Whether a share of the rows lies above another one, by the intervals of both."""
        if one is None or other is None or not self.rows:
            return False
        ours, theirs = (Proportion(round(share * self.rows), self.rows) for share in (one, other))
        return ours.interval()[0] > theirs.interval()[1]

    @property
    def lines(self) -> Named:
        result: Named = (
            ("Clones of train", self.train),
            ("Clones of train, subsample of the size of holdout", self.equal),
            ("Clones of holdout", self.holdout),
        )
        if self.chance is not None:
            result = (*result, ("Expected from the number of cells alone", self.chance))
        if self.copied is None:
            return result
        return (
            *result,
            ("Records of train that equal another one", self.alike),
            ("Records of train that equal a row", self.records),
            ("Records of holdout that equal a row", self.others),
            *_power_lines(self.detectable),
        )

    def rounded(self, material: Material) -> "CloneFinding":
        rows, records, others = map(len, (material.synthetic, material.records, material.unseen))
        return replace(
            self,
            rows=rounded_count(rows),
            train=rounded_share(self.train, rows),
            equal=rounded_share(self.equal, rows),
            holdout=rounded_share(self.holdout, rows),
            chance=rounded_share(self.chance, rows),
            alike=rounded_share(self.alike, records),
            records=rounded_share(self.records, records),
            others=rounded_share(self.others, others),
            detectable=_rounded_up(self.detectable),
        )


def clone_finding(material: Material) -> CloneFinding:
    """Count clones, over the attributes without numbers."""
    tables, rows = material.tables, len(material.synthetic)
    numeric = any(span is not None for span in material.gower.ranges)
    cells = material.synthetic.domain.cells
    size = min(len(tables.train), len(tables.holdout))
    ours, theirs = (
        drawn(table, size, material.rng("clones")) for table in (tables.train, tables.holdout)
    )
    equal, others = (
        nearest(tables.synthetic, some, material.gower, second=False) for some in (ours, theirs)
    )
    to_rows = [Proportion(int(np.sum(each == 0)), len(each)) for each in material.to_rows]
    alike = float(np.mean(nearest(tables.train, tables.train, material.gower).second == 0))
    test = clone_test(to_rows[0], to_rows[1], rows, alike)
    return CloneFinding(
        rows=rows,
        train=clone_share(material.to_train),
        equal=clone_share(equal),
        holdout=clone_share(others),
        chance=None if numeric else chance_of_clone(len(tables.train), cells),
        alike=alike,
        records=to_rows[0].share,
        others=to_rows[1].share,
        copied=test.rejects,
        detectable=_NONE_AT_ALL if test.detectable is None else test.detectable,
    )


@dataclass(frozen=True, slots=True)
class RatioFinding(Finding):
    """Ratio of the distance to the closest record and that to the second closest (NNDR).

    Args:
        train, holdout: Shares of the rows in each of ``RATIO_BINS`` equal bins from 0 to 1.
        low_train: The ratio that 5 % of the rows do not pass; ``low_holdout`` likewise.
    """

    train: tuple[float, ...]
    holdout: tuple[float, ...]
    low_train: float | None
    low_holdout: float | None

    @property
    def lines(self) -> Named:
        return (
            ("5th percentile, by train", self.low_train),
            ("5th percentile, by holdout", self.low_holdout),
        )

    def rounded(self, material: Material) -> "RatioFinding":
        rows = len(material.synthetic)
        return RatioFinding(
            rounded_shares(self.train, rows),
            rounded_shares(self.holdout, rows),
            rounded_between(self.low_train, rows),
            rounded_between(self.low_holdout, rows),
        )


def ratio_finding(material: Material) -> RatioFinding:
    """The ratios to train and to holdout; rows without a second closest record are omitted."""
    ours, theirs = nndr(material.to_train), nndr(material.to_holdout)
    return RatioFinding(_shares(ours), _shares(theirs), _twentieth(ours), _twentieth(theirs))


def _shares(ratios: NDArray[np.float64]) -> tuple[float, ...]:
    counts, _ = np.histogram(ratios[~np.isnan(ratios)], bins=RATIO_BINS, range=(0.0, 1.0))
    return tuple(map(float, counts / len(ratios)))


def _twentieth(ratios: NDArray[np.float64]) -> float | None:
    known = ratios[~np.isnan(ratios)]
    return float(np.quantile(known, 0.05)) if len(known) else None
