"""The rules on numbers of which only the program that made them knows what they are.

Counts, and the degrees of freedom of a model, are those that the program gives beside its numbers. So a
green number is one that the program says is safe: it helps a steward to read, and is worth no more than
the program's text.
"""

from collections.abc import Sequence

import numpy as np

from gencard.core.output_checks import rounding
from gencard.core.output_checks.rules import USUAL_RULES, Rule, Rules, Verdict, breaking
from gencard.core.program_outputs import FIT, Number, Output, OutputKind

_UNKNOWN = Verdict((Rule.UNKNOWN,))

Verdicts = tuple[tuple[Verdict, ...], ...]
"""Of one output, row by row."""


def judged(outputs: Sequence[Output], rules: Rules = USUAL_RULES) -> tuple[Verdicts, ...]:
    """What the rules say of each number.

    Args:
        rules: Their threshold of records, also for what stands in a row with a count, and the least
            residual degrees of freedom of a model.
    """
    degrees = {one.name.removesuffix(FIT): _degrees(one) for one in outputs if one.name.endswith(FIT)}
    return tuple(
        tuple(_row(output, row, degrees.get(output.name), rules) for row in output.values)
        for output in outputs
    )


def rounded_count(value: Number, base: int) -> Number:
    """A number of records as the nearest multiple of a base, as checked runs round it.

    >>> rounded_count(12.0, 5), rounded_count(None, 5), rounded_count(12.34, 1)
    (10.0, None, 12.34)
    """
    if value is None or base <= 1:
        return value
    return float(rounding.counts(np.array([value]), base)[0])


def _row(output: Output, row: Sequence[Number], degrees: Number, rules: Rules) -> tuple[Verdict, ...]:
    cells = dict(zip(output.column_names, row, strict=True))
    counts = [cells[name] for name in output.counts]
    few = any(count is None or count < rules.checks.threshold for count in counts)
    about = Rule.SURVIVAL if output.kind is OutputKind.CURVE else Rule.THRESHOLD
    others = breaking([(about, True)]) if few else _by_model(output, degrees, rules)
    return tuple(
        _count(value, rules) if name in output.counts else others for name, value in cells.items()
    )


def _count(value: Number, rules: Rules) -> Verdict:
    if value is None:
        return _UNKNOWN
    few = 0 < value < rules.checks.threshold
    return breaking([(Rule.THRESHOLD, few), (Rule.ZERO, rules.checks.zeros and value == 0)])


def _by_model(output: Output, degrees: Number, rules: Rules) -> Verdict:
    """Numbers that no count stands beside."""
    if output.kind is not OutputKind.COEFFICIENTS or degrees is None:
        return _UNKNOWN
    return breaking([(Rule.FREEDOM, degrees < rules.checks.freedom)])


def _degrees(fit: Output) -> Number:
    """Residual degrees of freedom; None where the model does not say."""
    if "df_resid" not in fit.row_names:
        return None
    return fit.values[fit.row_names.index("df_resid")][0]
