"""The page of fidelity: the finding first, then the figure, then every marginal."""

from collections.abc import Callable, Sequence

from gencard.client.report import plots
from gencard.client.report.template import rendered
from gencard.client.report.words import named, percent
from gencard.core.domain import Clique
from gencard.core.utility.fidelity import FALSE_ALARMS, CellFidelity, MarginalFidelity

MOST_MARGINALS = 40
"""Rows of the table; the JSON holds all."""

Levels = Callable[[Clique, CellFidelity], tuple[str, ...]]


def render(
    ordered: Sequence[MarginalFidelity], *, about: str, lines: list[tuple[str, str]], levels: Levels
) -> str:
    """The page as HTML, with the words of ``FidelityReport``."""
    (_, wording), *others = lines
    return rendered(
        "fidelity.html.j2",
        about=about,
        wording=wording,
        beyond=any(found.beyond_chance for found in ordered),
        lines=others,
        false_alarms=percent(FALSE_ALARMS),
        marginals=[_marginal(found, levels) for found in ordered[:MOST_MARGINALS]],
        more=max(0, len(ordered) - MOST_MARGINALS),
        plot=plots.fidelity(ordered),
        most_bars=plots.MOST_BARS,
    )


def _marginal(found: MarginalFidelity, levels: Levels) -> dict[str, object]:
    return {
        "name": named(found.clique),
        "cells": f"{found.cells:,}",
        "distance": percent(found.total_variation),
        "beyond": found.beyond_chance,
        "expected": percent(found.expected),
        "bound": percent(found.bound),
        "worst": [_cell(found.clique, cell, levels) for cell in found.worst],
    }


def _cell(clique: Clique, cell: CellFidelity, levels: Levels) -> dict[str, str]:
    return {
        "levels": named(levels(clique, cell)),
        "asked": percent(cell.asked),
        "released": percent(cell.released),
        "stderr": percent(cell.stderr),
    }
