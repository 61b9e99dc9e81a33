"""Rules for exact sums of cards, judged at the records before psi leaves.

A sum tells the mean of a number in each of its groups. So

- each group of the population holds as many records as the threshold says, or none; where the records
  are those of persons, as many persons, and all records of a person are one contribution;
- dominance and p per cent are judged on magnitudes, as those of stored means; no contribution is more
  than half of a group;
- no record moves the mean of a group by more than the policy's limit, whichever group it is put into;
- sums of one number that are released together with earlier ones, with stored means of runs and with
  counts of single values, are one chain: no combination of them leaves too few records.

A sum that exact counts determine tells nothing that they do not, and is not judged.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from operator import and_

import numpy as np
from numpy.typing import NDArray

from gencard.analysis.output_checks import influence, rule_checks
from gencard.analysis.output_checks.differencing import Kept, cell_numbers, chain_of_sums
from gencard.analysis.output_checks.stored import origin_of
from gencard.core.card.privacy import AS_COUNTED, Transform
from gencard.core.card.sums import Sum, scale_of
from gencard.core.coding import Coding, Edges, impossible_cells, intervals_of
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.policy import PASSED, Rule, Rules, RuleVerdict, breaking, together
from gencard.core.scale import Scale
from gencard.core.statistics.linear import unit_bounds
from gencard.core.statistics.marginals import rank
from gencard.core.statistics.psi import failing
from gencard.core.types import FloatArray, IntArray

_CHECKS = {
    Rule.THRESHOLD: ("threshold",),
    Rule.FREEDOM: ("freedom",),
    Rule.DOMINANCE: ("dominance_count", "dominance_percent"),
    Rule.REMAINDER: ("remainder_percent",),
    Rule.ZERO: ("zeros",),
}
"""Fields of a transform, by the rule that each check is."""


@dataclass(frozen=True, slots=True, eq=False)
class NumberedRecords:
    """Records with codes and numbers.

    Args:
        dataset: Codes, over all attributes that sums and earlier releases name.
        numbers: Numbers as declared, rounded and clamped, one for each record; NaN is "missing".
        persons: Person of each record, as a whole number; None if no person has two records.
        most_records: Most records of a person.
    """

    coding: Coding
    dataset: Dataset
    numbers: Mapping[str, FloatArray]
    persons: IntArray | None = None
    most_records: int = 1

    def groups(self, one: Sum) -> IntArray:
        return sum_groups(one, self.dataset, self.coding)

    def magnitudes(self, of: Clique) -> FloatArray:
        """Return the magnitude of a number, or of the product of two, from 0 moved into its edges."""
        codings = ((name, self.coding.attribute(name).coding) for name in of)
        parts = [np.abs(self.numbers[name] - origin_of(coding)) for name, coding in codings]
        return np.asarray(np.prod(parts, axis=0))

    def known(self, of: Clique, clique: Clique) -> IntArray:
        """Return the group of each record in cells of a marginal that leave the numbers one value.

        Counts of such cells tell the sums over their records.
        """
        cells, _ = cell_numbers(self.dataset, clique)
        single = [self._single(name)[self.dataset.column(name)] for name in dict.fromkeys(of)]
        return _numbered(cells, reduce(and_, single))

    def known_by_histogram(self, name: str) -> IntArray:
        """Return the same of the cells of a histogram."""
        scale = scale_of(self.coding, name)
        numbers = self.numbers[name]
        cells = intervals_of(list(map(float, scale.cells)), numbers).astype(np.int64)
        single = np.append(_of_one_value(scale, scale.cells[:-1]), np.False_)
        return _numbered(cells, single[cells] & ~np.isnan(numbers))

    def _single(self, name: str) -> NDArray[np.bool_]:
        """Whether each level of an attribute is one value."""
        coding = self.coding.attribute(name).coding
        if not isinstance(coding, Edges) or coding.scale is None:
            return np.zeros(coding.size, dtype=bool)
        levels = _of_one_value(coding.scale, coding.edges[:-1])
        return np.append(levels, np.zeros(int(coding.missing), dtype=bool))


def _inside(one: Sum, dataset: Dataset, coding: Coding) -> Kept:
    present = (dataset.column(name) < dataset.domain.size(name) - 1 for name in one.population(coding))
    return reduce(and_, present, np.ones(len(dataset), dtype=bool))


def sum_groups(one: Sum, dataset: Dataset, coding: Coding) -> IntArray:
    """Return the group of each record in a sum, from 0; -1 outside the population."""
    cells, _ = cell_numbers(dataset, one.by)
    return _numbered(cells, _inside(one, dataset, coding))


def _of_one_value(scale: Scale, starts: Sequence[Decimal | float]) -> NDArray[np.bool_]:
    return np.array([first == last for first, last in unit_bounds(scale, starts)], dtype=bool)


def _numbered(cells: IntArray, kept: Kept) -> IntArray:
    """The cells that hold a record, from 0; -1 for records that are not kept."""
    groups = np.full(len(cells), -1, dtype=np.int64)
    groups[kept] = np.unique(cells[kept], return_inverse=True)[1]
    return groups


@dataclass(frozen=True, slots=True, eq=False)
class JudgedSum:
    """Verdict of the rules on a sum, for a steward: it depends on the records.

    Args:
        counts: Records of each group that are in the population, one axis for each attribute of ``by``.
        fails: Groups that break a rule; none where only all groups together do.
    """

    sum: Sum
    verdict: RuleVerdict
    counts: IntArray
    fails: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedNumbers:
    """Other released numbers of the same records, or that may be: exact statistics and means of runs.

    Args:
        sums: Sums of other cards.
        means: For a number, the group of each record in each table of means; -1 outside all groups.
    """

    cliques: tuple[Clique, ...] = ()
    histograms: Clique = ()
    sums: tuple[Sum, ...] = ()
    means: Mapping[str, Sequence[IntArray]] | None = None

    def tables(self, of: Clique, records: NumberedRecords) -> Iterator[IntArray]:
        """Yield the group of each record in all tables that tell sums of these numbers."""
        for one in self.sums:
            if one.of == of:
                yield records.groups(one)
        for clique in self.cliques:
            if set(of) <= set(clique):
                yield records.known(of, clique)
        if len(set(of)) == 1 and of[0] in self.histograms:
            yield records.known_by_histogram(of[0])
        if len(of) == 1:
            yield from (self.means or {}).get(of[0], ())


def judged_sums(
    sums: Sequence[Sum],
    records: NumberedRecords,
    rules: Rules,
    transform: Transform = AS_COUNTED,
    released: ReleasedNumbers = ReleasedNumbers(),
) -> tuple[JudgedSum, ...]:
    """Judge the exact sums of a card, beside its own counts and all that was released before.

    Args:
        transform: Checks that the card's marginals pass; counts of populations are judged as these.
        released: Exact counts of the card itself among them, but not its sums.
    """
    new = [one for one in sums if not _is_determined(one, records.coding, released)]
    judged = [_judged(one, records, rules, transform) for one in new]
    numbers = dict.fromkeys(one.sum.of for one in judged if one.sum.of and one.verdict == PASSED)
    chains = {
        of: chain_of_sums(
            [records.groups(one) for one in new if one.of == of],
            list(released.tables(of, records)),
            records.magnitudes(of),
            rules,
            most_records=records.most_records,
        )
        for of in numbers
    }
    return tuple(
        replace(one, verdict=together([one.verdict, chains.get(one.sum.of, PASSED)])) for one in judged
    )


def _is_determined(one: Sum, coding: Coding, released: ReleasedNumbers) -> bool:
    """Whether exact marginals and histograms tell a sum and its counts."""
    cliques = [clique for clique in released.cliques if set(clique) & set(one.attributes)]
    histograms = [name for name in released.histograms if name in one.of]
    return rank(coding, cliques, histograms, [one]) == rank(coding, cliques, histograms)


def _judged(one: Sum, records: NumberedRecords, rules: Rules, transform: Transform) -> JudgedSum:
    inside = _inside(one, records.dataset, records.coding)
    domain = records.dataset.domain.project(one.by)
    cells, number = cell_numbers(records.dataset, one.by)
    counts, outside = (
        np.bincount(cells[kept], minlength=number).reshape(domain.sizes) for kept in (inside, ~inside)
    )
    broken = _of_counts(one, counts, outside, records.coding, transform)
    whole = RuleVerdict()
    if one.of:
        held = np.flatnonzero(counts)
        for rule, mask in _of_contributions(one, records, rules).items():
            fails = np.zeros(counts.size, dtype=bool)
            fails[held] = mask
            broken[rule] = broken.get(rule, False) | fails.reshape(counts.shape)
        whole = _of_influence(one, records, rules)
    fails = reduce(np.logical_or, broken.values(), np.zeros(counts.shape, dtype=bool))
    by_cell = breaking((rule, bool(np.any(mask))) for rule, mask in broken.items())
    return JudgedSum(one, together([by_cell, whole]), counts, fails)


def _of_counts(
    one: Sum, counts: IntArray, outside: IntArray, coding: Coding, transform: Transform
) -> dict[Rule, NDArray[np.bool_]]:
    """Judge records inside and outside the population as a marginal with two levels more."""
    if not transform.checks:
        return {}
    population = one.population(coding)
    empty = np.array(impossible_cells(coding.domain.project(one.by), coding.structural_zeros))
    absent = empty.reshape(counts.shape).copy()
    for axis, name in enumerate(one.by):
        if name in population:
            absent[(slice(None),) * axis + (-1,)] = True
    table = np.stack([counts, outside]) if population else counts
    allowed = np.stack([absent, empty.reshape(counts.shape)]) if population else absent
    broken = {}
    for rule, parts in _CHECKS.items():
        check = replace(AS_COUNTED, **{part: getattr(transform, part) for part in parts})
        fails = failing(table, check, allowed)
        broken[rule] = np.asarray(fails.any(axis=0) if population else fails)
    return broken


def _of_contributions(one: Sum, records: NumberedRecords, rules: Rules) -> dict[Rule, NDArray[np.bool_]]:
    """Judge each group that holds a record by the magnitudes of its records, or of its persons."""
    groups, magnitudes = records.groups(one), records.magnitudes(one.of)
    kept = groups >= 0
    groups, magnitudes = groups[kept], magnitudes[kept]
    number = int(groups.max(initial=-1)) + 1
    if records.persons is not None and number:
        owners = np.unique(records.persons[kept], return_inverse=True)[1].reshape(-1)
        pairs, place = np.unique(owners * number + groups, return_inverse=True)
        groups = pairs % number
        magnitudes = np.bincount(place.reshape(-1), magnitudes).astype(np.float64)
    most = max(rules.checks.dominance_count, 1)
    added = rule_checks.contributions(groups, magnitudes, cells=number, most=most)
    return rule_checks.of_magnitudes(added, rules)


def _of_influence(one: Sum, records: NumberedRecords, rules: Rules) -> RuleVerdict:
    """Judge the means by groups that a sum determines; squares and products of all are none."""
    if rules.influence is None or (len(one.of) > 1 and not one.by):
        return PASSED
    place = records.groups(one)
    values = np.asarray(np.prod([records.numbers[name] for name in one.of], axis=0))
    cells, kept = int(place.max(initial=-1)) + 1, place >= 0
    if records.persons is not None:
        figure = influence.of_person_means(place, values, records.persons, cells=cells)
    else:
        figure = influence.of_means(place[kept], values[kept], cells=cells, outside=values[~kept])
    return influence.waits(figure, rules)
