"""Findings with each number rounded to what its sampling error earns; see ``precision``."""

from collections.abc import Iterable
from dataclasses import replace
from functools import singledispatch

from gencard.core.errors import InvalidInputError
from gencard.core.evaluation.attacks import AttackFinding, MembershipFinding
from gencard.core.evaluation.clones import CloneFinding, RatioFinding
from gencard.core.evaluation.disclosure import DisclosureFinding, UniquesFinding
from gencard.core.evaluation.distances import Curve, DistanceFinding
from gencard.core.evaluation.fidelity import FidelityFinding
from gencard.core.evaluation.finding import Finding
from gencard.core.evaluation.gaps import GapFinding
from gencard.core.evaluation.material import Material
from gencard.core.evaluation.precision import (
    rounded_between,
    rounded_count,
    rounded_freely,
    rounded_outward,
    rounded_share,
)
from gencard.core.evaluation.predictions import PredictionsFinding, Taught
from gencard.core.evaluation.propensity import PropensityFinding
from gencard.core.evaluation.tables import MarginalsFinding, TablesFinding, TablesOfWidth
from gencard.core.privacy.proportion import Proportion
from gencard.core.utility.gap import gap_of, records_within
from gencard.core.utility.prediction import TEST_SHARE

Named = tuple[tuple[str, float], ...]
_BETWEEN = {"JSD": 1.0, "SPECKS": 1.0, "dBhatt": 1.0, "MabsDD": 2.0, "PO50": 100.0}
"""Measures of tables that have bounds, and how far these are apart."""


@singledispatch
def rounded(finding: object, _material: Material) -> Finding:
    """The finding as it may be told.

    The second argument is what it was taken from.

    Raises:
        InvalidInputError: No rule says how to round such a finding.
    """
    raise InvalidInputError(field="measures", problem=f"{type(finding).__name__} has no rounding")


@rounded.register
def _(finding: FidelityFinding, _material: Material) -> Finding:
    """It compares rows with psi, and no number in it is about records."""
    return finding


@rounded.register
def _(finding: DistanceFinding, material: Material) -> Finding:
    rows, records = len(material.synthetic), len(material.records)
    low, high = rounded_outward(finding.low, finding.high, finding.size)
    return replace(
        finding,
        to_train=_curve(finding.to_train, rows),
        to_holdout=_curve(finding.to_holdout, rows),
        baseline=_curve(finding.baseline, records),
        closer=rounded_share(finding.closer, rows),
        ties=rounded_share(finding.ties, rows),
        by_size=rounded_share(finding.by_size, records),
        share=rounded_share(finding.share, rows),
        low=low,
        high=high,
        size=rounded_count(finding.size),
    )


@rounded.register
def _(finding: CloneFinding, material: Material) -> Finding:
    rows = len(material.synthetic)
    return CloneFinding(
        rows=rounded_count(rows),
        train=rounded_share(finding.train, rows),
        equal=rounded_share(finding.equal, rows),
        holdout=rounded_share(finding.holdout, rows),
        chance=None if finding.chance is None else rounded_share(finding.chance, rows),
    )


@rounded.register
def _(finding: RatioFinding, material: Material) -> Finding:
    rows = len(material.synthetic)
    return RatioFinding(
        _shares(finding.train, rows),
        _shares(finding.holdout, rows),
        _known(finding.low_train, rows),
        _known(finding.low_holdout, rows),
    )


@rounded.register
def _(finding: UniquesFinding, material: Material) -> Finding:
    return UniquesFinding(_named_shares(finding.shares, len(material.records)))


@rounded.register
def _(finding: DisclosureFinding, material: Material) -> Finding:
    return replace(finding, shares=_named_shares(finding.shares, len(material.records)))


@rounded.register
def _(finding: AttackFinding, _material: Material) -> Finding:
    return AttackFinding(*map(_proportion, (finding.attack, finding.control, finding.naive)))


@rounded.register
def _(finding: MembershipFinding, material: Material) -> Finding:
    size = min(len(material.records), len(material.unseen))
    low, high = rounded_outward(finding.low, finding.high, size)
    return MembershipFinding(rounded_between(finding.area, size), low, high)


@rounded.register
def _(finding: TablesFinding, material: Material) -> Finding:
    records = len(material.records)
    return replace(
        finding,
        widths=tuple(_tables(tables, records) for tables in finding.widths),
        pairs=tuple(None if one is None else rounded_freely(one, records) for one in finding.pairs),
        variations=tuple(_known(one, records) for one in finding.variations),
    )


@rounded.register
def _(finding: MarginalsFinding, material: Material) -> Finding:
    size = len(material.records)
    return MarginalsFinding(
        tuple(
            replace(
                one,
                error=rounded_between(one.error, size),
                total_variation=rounded_between(one.total_variation, size),
            )
            for one in finding.marginals
        )
    )


@rounded.register
def _(finding: GapFinding, material: Material) -> Finding:
    """Each level by the records in it: of a few people nothing is left."""
    words = material.declared.gap
    if words is None:
        raise InvalidInputError(field="gap", problem="is not declared")
    names = material.coding.attribute(words.within).coding.level_names
    held = records_within(material.records, gap_of(words, material.coding))
    sizes = [max(1, int(held[names.index(level)])) for level in finding.levels]
    return replace(
        finding,
        error=rounded_between(finding.error, min(sizes), 2.0),
        original=_gaps(finding.original, sizes),
        synthetic=_gaps(finding.synthetic, sizes),
    )


@rounded.register
def _(finding: PropensityFinding, material: Material) -> Finding:
    size = len(material.records)
    pmse, regression = (
        None if value is None else rounded_freely(value, size)
        for value in (finding.regression_pmse, finding.regression)
    )
    return replace(
        finding,
        regression_pmse=pmse,
        regression=regression,
        tree_pmse=rounded_freely(finding.tree_pmse, size),
        tree=rounded_freely(finding.tree, size),
    )


@rounded.register
def _(finding: PredictionsFinding, material: Material) -> Finding:
    others, rows = len(material.unseen), max(1, round(TEST_SHARE * len(material.synthetic)))
    return replace(
        finding,
        regression=_taught(finding.regression, others, rows),
        forest=_taught(finding.forest, others, rows),
        real=tuple(rounded_between(one, others) for one in finding.real),
        synthetic=tuple(rounded_between(one, others) for one in finding.synthetic),
        similarity=rounded_between(finding.similarity, others),
    )


def _curve(curve: Curve, size: int) -> Curve:
    return Curve(
        zeros=rounded_share(curve.zeros, size),
        bins=_shares(curve.bins, size),
        farther=rounded_share(curve.farther, size),
        undefined=rounded_share(curve.undefined, size),
        median=_known(curve.median, size),
        second=_known(curve.second, size),
    )


def _proportion(found: Proportion) -> Proportion:
    attempts = max(1, rounded_count(found.attempts))
    return Proportion(round(rounded_share(found.share, attempts) * attempts), attempts)


def _tables(tables: TablesOfWidth, size: int) -> TablesOfWidth:
    worst = (replace(one, measures=_named(one.measures, size)) for one in tables.worst)
    return replace(tables, means=_named(tables.means, size), worst=tuple(worst))


def _named(measures: Named, size: int) -> Named:
    return tuple(
        (
            name,
            rounded_between(value, size, _BETWEEN[name])
            if name in _BETWEEN
            else rounded_freely(value, size),
        )
        for name, value in measures
    )


def _named_shares(shares: Named, size: int) -> Named:
    return tuple((name, rounded_share(value, size)) for name, value in shares)


def _shares(shares: Iterable[float], size: int) -> tuple[float, ...]:
    return tuple(rounded_share(share, size) for share in shares)


def _known(value: float | None, size: int) -> float | None:
    return None if value is None else rounded_between(value, size)


def _gaps(gaps: Iterable[float], sizes: Iterable[int]) -> tuple[float, ...]:
    return tuple(rounded_between(gap, size, 2.0) for gap, size in zip(gaps, sizes, strict=True))


def _taught(taught: Taught, others: int, rows: int) -> Taught:
    return Taught(
        rounded_share(taught.by_records, others),
        rounded_share(taught.on_real, others),
        rounded_share(taught.on_synthetic, rows),
    )
