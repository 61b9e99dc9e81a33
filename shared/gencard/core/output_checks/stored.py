"""Rules for means and quantiles of numbers as they are stored, and their rounding.

A stored number may be large, or known of one person. So means and spreads are judged by what each record
contributes in magnitude. Quantiles are told at few shares: all that a group of its size may have are
multiples of one step that holds the threshold, so those of several runs enclose enough records too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gencard.core.answers.answer import Answer, Table
from gencard.core.answers.design import Question
from gencard.core.answers.families.comparisons import quantile_shares
from gencard.core.answers.stored import ERRORS, StoredGroups, step_of
from gencard.core.output_checks import models, rounding, tables
from gencard.core.output_checks.judgement import Judgement, clique_name
from gencard.core.output_checks.released import released
from gencard.core.output_checks.rules import Rule, Rules, Verdict, together
from gencard.core.statistics.formula import Analysis


def judged_stored(question: Question, groups: Sequence[StoredGroups], rules: Rules) -> Judgement:
    """The judgement of what ``stored_answer`` gives of these groups."""
    records = float(groups[0].sizes.sum())
    parts = [("test", models.of_test(records, 1, rules))]
    for one in groups:
        if question.kind is Analysis.QUANTILES:
            parts += _of_quantiles(one, quantile_shares(question), rules)
        else:
            parts.append((clique_name(one.term), _of_means(one, rules)))
    return Judgement(tuple(parts))


def _of_means(groups: StoredGroups, rules: Rules) -> Verdict:
    """Dominance in magnitudes, so that it is defined also where some numbers are negative."""
    magnitudes = _contributions(replace(groups, values=np.abs(groups.values)), rules)
    spreads = tables.of_spreads(_contributions(groups, rules), rules)
    return together([*tables.verdicts(tables.of_sums(magnitudes, rules)), *tables.verdicts(spreads)])


def _contributions(groups: StoredGroups, rules: Rules) -> tables.Contributions:
    most = max(rules.checks.dominance_count, 1)
    return tables.contributions(groups.place, groups.values, cells=len(groups.names), most=most)


def _of_quantiles(
    groups: StoredGroups, shares: Sequence[float], rules: Rules
) -> Iterator[tuple[str, Verdict]]:
    """Also the order statistics of a standard error have enough records on either side."""
    one = _contributions(groups, rules)
    threshold = rules.checks.threshold
    for share in shares:
        side = min(share, 1 - share)
        nearest = one.counts * side - np.sqrt(one.counts * share * (1 - share))
        apart = one.counts * (step_of(share) or 0.0) + 1e-9
        broken = {
            Rule.THRESHOLD: one.counts < threshold,
            Rule.RANK: (nearest < threshold) | (apart < threshold),
            Rule.SAME: one.constant,
            Rule.MISSING: one.missing & rules.missing,
        }
        yield f"quantile {share:g}", together(tables.verdicts(broken))


def released_stored(answer: Answer, rules: Rules) -> Answer:
    """The answer with rounded numbers: means and quantiles to two digits of their standard errors."""
    rounded = released(answer, rules)
    if answer.kind != Analysis.QUANTILES:
        return rounded
    quantiles, errors = answer.table("quantiles"), answer.table(ERRORS)
    numbers = tuple(
        tuple(rounding.to_error(value or 0.0, error or 0.0) for value, error in zip(*rows, strict=True))
        for rows in zip(quantiles.values, errors.values, strict=True)
    )
    return replace(rounded, tables=(replace(quantiles, values=numbers), _of_two_digits(errors)))


def _of_two_digits(table: Table) -> Table:
    rows = (tuple(rounding.to_digits(value or 0.0, 2) for value in row) for row in table.values)
    return replace(table, values=tuple(rows))
