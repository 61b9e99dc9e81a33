"""Figures of answers, and their part of a card's page."""

import io
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from gencard.client.answers.answer import Answer
from gencard.client.answers.intervals import CoefficientPlot
from gencard.client.answers.tables import grids
from gencard.client.report.plots import HIGH, INK, STYLE, WIDTH, shortened, svg

_ON_WHITE = {INK: "#1b1b1b", HIGH: "#0b5fa5"}
"""Colours of a file, which no page gives."""


def section(answer: Answer) -> dict[str, object]:
    """An answer in a card's page: figure, tables, what it rests on."""
    plot = None if answer.estimates.coefficients is None else answer.plot()
    return {
        "title": answer.formula,
        "sentence": f"{answer.kind}, of {answer.nobs:,.6g} records; {answer.estimates.noise}",
        "plot": figure_svg(plot) if plot is not None and plot.shown else "",
        "tables": [
            {"title": title, "heads": grid.heads, "lines": list(grid.lines)}
            for title, grid in grids(answer.estimates)
        ],
        "lines": answer.lines(),
    }


def figure_svg(plot: CoefficientPlot) -> str:
    """The figure in the colours of the page."""
    with mpl.rc_context({**STYLE, "svg.hashsalt": plot.title}):
        first = plot.shown[0] if plot.shown else None
        description = "nothing to draw" if first is None else f"{first.name} {first.estimate:.3g}"
        return svg(_figure(plot, INK, HIGH), f"Coefficients of {plot.title}", description)


def figure_bytes(plot: CoefficientPlot, kind: str) -> bytes:
    """The figure as a file of its own.

    Args:
        kind: "svg", "png" or "pdf".
    """
    file = io.BytesIO()
    ink, mark = _ON_WHITE[INK], _ON_WHITE[HIGH]
    colours = {name: ink for name, colour in STYLE.items() if colour == INK}
    with mpl.rc_context({**STYLE, **colours, "svg.hashsalt": plot.title}):
        # without the time of the day, the same answer gives the same bytes
        metadata: dict[str, Any] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
        figure = _figure(plot, ink, mark)
        figure.savefig(file, format=kind, dpi=200, facecolor="white", metadata=metadata[kind])
    return file.getvalue()


def _figure(plot: CoefficientPlot, ink: str, mark: str) -> Figure:
    """One line for each interval, the first on top, and a line at zero."""
    shown = plot.shown[::-1]
    figure = Figure(figsize=(WIDTH, 1.0 + 0.26 * len(shown)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color=ink, linewidth=0.8, linestyle=(0, (2, 2)))
    for place, one in enumerate(shown):
        axes.plot([one.low, one.high], [place, place], color=mark, linewidth=1.6)
    axes.plot([one.estimate for one in shown], range(len(shown)), "o", color=mark, markersize=4.5)
    axes.set_yticks(range(len(shown)), [shortened(one.name) for one in shown])
    axes.set_ylim(-0.6, len(shown) - 0.4)
    axes.tick_params(axis="y", length=0)
    label = f"coefficient, with its {100 * plot.level:.3g} % interval"
    axes.set_xlabel(label if not plot.note else f"{label}\n{plot.note}")
    return figure
