r"""Survival curves told only at times that no single event moves.

Each time of an event is the time of a person. So a curve is told at declared times by which enough
events have come since the last one, and ends where too few are at risk. ACRO 1.0 calls every survival
table a failure (its degrees of freedom are those of a table of single times), and mitigates by steps of
at least ten records that leave, by event or censoring. Here it is ten events, and ten at risk.
"""

from dataclasses import replace

from gencard.core.answers.answer import Answer, Table
from gencard.core.answers.survival import COLUMNS
from gencard.core.output_checks.rules import Rule, Rules, Verdict, breaking

_AT_RISK, _EVENTS = COLUMNS.index("at_risk"), COLUMNS.index("events")


def coarse(answer: Answer, rules: Rules) -> Answer:
    """The answer with each curve at few of its times; the estimate at these is that of all times."""
    return replace(answer, tables=tuple(coarse_table(table, rules) for table in answer.tables))


def coarse_table(table: Table, rules: Rules) -> Table:
    """A curve at the times by which enough events have come; ``events`` are those since the row before.

    >>> rows = ((1.0, 40.0, 6.0, 0.85, 0.06), (2.0, 30.0, 6.0, 0.68, 0.07), (3.0, 9.0, 9.0, 0.0, 0.0))
    >>> coarse_table(Table("survival", ("1", "2", "3"), COLUMNS, rows), Rules()).values
    ((2.0, 30.0, 12.0, 0.68, 0.07),)
    """
    names, rows, waiting = [], [], 0.0
    for name, row in zip(table.row_names, table.values, strict=True):
        waiting += row[_EVENTS] or 0.0
        if waiting >= rules.survival and (row[_AT_RISK] or 0.0) >= rules.survival:
            names.append(name)
            rows.append((*row[:_EVENTS], waiting, *row[_EVENTS + 1 :]))
            waiting = 0.0
    return replace(table, row_names=tuple(names), values=tuple(rows))


def of_curves(answer: Answer, rules: Rules) -> Verdict:
    """Rules for the curves: each group is large enough for a step."""
    steps = [len(coarse_table(table, rules).values) for table in answer.tables]
    return breaking([(Rule.SURVIVAL, not all(steps) or not steps)])
