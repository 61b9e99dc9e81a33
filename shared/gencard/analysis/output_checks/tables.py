"""Rules for the cells of tables: counts, sums, means, spreads, quantiles; numbers that programs give."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gencard.core.policy import USUAL_RULES, Rule, Rules, RuleVerdict, breaking
from gencard.core.program_outputs import FIT, Number, Output, OutputKind
from gencard.core.types import FloatArray, IntArray

Broken = dict[Rule, NDArray[np.bool_]]
"""For each rule, which cells break it; all of one shape."""


@dataclass(frozen=True, slots=True, eq=False)
class Contributions:
    """Contributions of records to the sum of each group; arrays of one shape, an entry for each group.

    Args:
        counts: Records with a value.
        totals: Sum of the values.
        largest: The largest value; 0 in an empty group.
        two_largest: Sum of the two largest values.
        several_largest: Sum of as many as the (n, k) rule says.
        negative: Whether a value is below 0.
        constant: Whether all values are the same.
        missing: Whether some record has no value.
    """

    counts: IntArray
    totals: FloatArray
    largest: FloatArray
    two_largest: FloatArray
    several_largest: FloatArray
    negative: NDArray[np.bool_]
    constant: NDArray[np.bool_]
    missing: NDArray[np.bool_]


def contributions(groups: IntArray, values: FloatArray, *, cells: int, most: int) -> Contributions:
    """Contributions of records to the groups that they are in.

    Args:
        groups: The group of each record, 0 to ``cells - 1``.
        values: One for each record; NaN where it is missing.
        most: The n of the (n, k) rule.
    """
    missing = np.isnan(values)
    absent = np.bincount(groups[missing], minlength=cells) > 0
    inside, numbers = groups[~missing], values[~missing]
    # Largest values first inside each group, so that one pass gives the largest, the two largest and the
    # n largest for the rules.
    order = np.lexsort((-numbers, inside))
    inside, numbers = inside[order], numbers[order]
    counts = np.bincount(inside, minlength=cells)
    place = np.arange(len(inside)) - (np.cumsum(counts) - counts)[inside]

    def largest(number: int) -> FloatArray:
        few = place < number
        return np.bincount(inside[few], numbers[few], minlength=cells).astype(np.float64)

    smallest = np.full(cells, np.inf)
    np.minimum.at(smallest, inside, numbers)
    return Contributions(
        counts=counts,
        totals=largest(len(inside)),
        largest=largest(1),
        two_largest=largest(2),
        several_largest=largest(most),
        negative=np.bincount(inside, numbers < 0, minlength=cells) > 0,
        constant=(counts > 0) & (smallest == largest(1)),
        missing=absent,
    )


def of_counts(
    counts: NDArray[np.number], rules: Rules, possible: NDArray[np.bool_] | None = None
) -> Broken:
    """Rules for a table of counts.

    Args:
        possible: Cells that can hold a record; others are structural zeros and always pass.
    """
    few = (counts < rules.checks.threshold) & (counts > 0)
    empty = (counts == 0) & rules.checks.zeros
    if possible is not None:
        few, empty = few & possible, empty & possible
    return {Rule.THRESHOLD: few, Rule.ZERO: empty}


def of_sums(groups: Contributions, rules: Rules) -> Broken:
    """Rules for sums and means of groups: threshold, (n, k), p per cent; in ACRO linear aggregations."""
    checks = rules.checks
    # Shares of a total mean nothing with negative values. They are not passed: rule NEGATIVE marks them.
    defined = (groups.counts > 0) & ~groups.negative
    with np.errstate(divide="ignore", invalid="ignore"):
        share = groups.several_largest / groups.totals
        rest = (groups.totals - groups.two_largest) / np.where(
            groups.largest == 0, np.inf, groups.largest
        )
    dominated = share >= checks.dominance_percent / 100
    close = rest < checks.remainder_percent / 100
    return {
        Rule.THRESHOLD: groups.counts < checks.threshold,
        Rule.DOMINANCE: defined & dominated & bool(checks.dominance_count),
        Rule.REMAINDER: defined & close & bool(checks.remainder_percent),
        Rule.NEGATIVE: groups.negative,
        Rule.MISSING: groups.missing & rules.missing,
    }


def of_magnitudes(groups: Contributions, rules: Rules) -> Broken:
    """Rules for sums of magnitudes: those of sums, and no contribution is more than half of a group."""
    broken = of_sums(groups, rules)
    return broken | {Rule.DOMINANCE: broken[Rule.DOMINANCE] | (2 * groups.largest > groups.totals)}


def of_spreads(groups: Contributions, rules: Rules) -> Broken:
    """Rules for variances and standard deviations, with one degree of freedom less than records."""
    return {
        Rule.FREEDOM: groups.counts - 1 < rules.checks.freedom,
        Rule.SAME: groups.constant,
        Rule.MISSING: groups.missing & rules.missing,
    }


def of_quantiles(counts: NDArray[np.number], level: float, rules: Rules) -> Broken:
    """Rules for a quantile: as many records as the threshold says on either side of it.

    ACRO asks for the threshold in the group alone, and passes a smallest or largest value.
    """
    # A quantile is the value of a record: with few records on one side of it, it discloses an extreme
    # value.
    side = counts * min(level, 1 - level)
    return {
        **of_counts(counts, rules),
        Rule.RANK: side < rules.checks.threshold,
        Rule.EXTREME: np.full(counts.shape, level in (0.0, 1.0)),
    }


def verdicts(broken: Broken) -> list[RuleVerdict]:
    """One verdict for each cell, in the order of the cells."""
    names, masks = list(broken), [np.ravel(mask) for mask in broken.values()]
    return [breaking(zip(names, row, strict=True)) for row in zip(*masks, strict=True)]


_UNKNOWN = RuleVerdict((Rule.UNKNOWN,))

Verdicts = tuple[tuple[RuleVerdict, ...], ...]
"""Verdicts on the numbers of one output, one tuple for each row."""


def judged_outputs(outputs: Sequence[Output], rules: Rules = USUAL_RULES) -> tuple[Verdicts, ...]:
    """Judge each number of a program's outputs.

    Counts and degrees of freedom are those that the program states beside its numbers. So a green number
    is one that the program says is safe: it helps a steward to read, and is worth no more than the text
    of the program.

    Args:
        rules: Their threshold of records, also for what stands in a row with a count, and the least
            residual degrees of freedom of a model.
    """
    degrees = {one.name.removesuffix(FIT): _degrees(one) for one in outputs if one.name.endswith(FIT)}
    return tuple(
        tuple(_of_output_row(output, row, degrees.get(output.name), rules) for row in output.values)
        for output in outputs
    )


def _of_output_row(
    output: Output, row: Sequence[Number], degrees: Number, rules: Rules
) -> tuple[RuleVerdict, ...]:
    cells = dict(zip(output.column_names, row, strict=True))
    counts = [cells[name] for name in output.counts]
    few = any(count is None or count < rules.checks.threshold for count in counts)
    about = Rule.SURVIVAL if output.kind is OutputKind.CURVE else Rule.THRESHOLD
    if few:
        others = breaking([(about, True)])
    elif output.kind is not OutputKind.COEFFICIENTS or degrees is None:
        others = _UNKNOWN
    else:
        others = breaking([(Rule.FREEDOM, degrees < rules.checks.freedom)])
    return tuple(
        _of_stated_count(value, rules) if name in output.counts else others
        for name, value in cells.items()
    )


def _of_stated_count(value: Number, rules: Rules) -> RuleVerdict:
    if value is None:
        return _UNKNOWN
    few = 0 < value < rules.checks.threshold
    return breaking([(Rule.THRESHOLD, few), (Rule.ZERO, rules.checks.zeros and value == 0)])


def _degrees(fit: Output) -> Number:
    """Residual degrees of freedom; None where the model does not say."""
    if "df_resid" not in fit.row_names:
        return None
    return fit.values[fit.row_names.index("df_resid")][0]
