"""The figures of a report, as SVG that takes its colours from the page."""

import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gencard.client.report.words import named
from gencard.core.audit.report import AuditReport, PowerCurve
from gencard.core.utility.fidelity import MarginalFidelity

_INK, _LOW, _HIGH, _ORIGINAL = "#010203", "#020304", "#030405", "#040506"
_COLOURS = {_INK: "currentColor", _LOW: "var(--low)", _HIGH: "var(--high)", _ORIGINAL: "var(--original)"}
"""Colours that stand for those of the page, which follow light and dark."""

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.parse_math": False,
}
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))
MOST_BARS = 20


def sides(report: AuditReport) -> str:
    """G of every run on the two sides of the pair and on the dataset itself (the paper's Fig. 1)."""
    groups = (
        ("low side", np.array(report.g_low), _LOW),
        ("high side", np.array(report.g_high), _HIGH),
        ("dataset", np.array(report.g_original), _ORIGINAL),
    )
    means = ", ".join(f"{name} mean {values.mean():.4g}" for name, values, _ in groups)
    with mpl.rc_context({**_STYLE, "svg.hashsalt": "sides"}):
        figure = Figure(figsize=(7.2, 3.2), layout="constrained")
        axes = figure.subplots()
        grid = _grid([values for _, values, _ in groups])
        for position, (name, values, colour) in enumerate(groups):
            _lane(axes, len(groups) - 1 - position, values, grid, colour)
            axes.text(0, len(groups) - 1 - position + 0.62, name, transform=axes.get_yaxis_transform())
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("g, the outputs' weight along the tested direction; one dot for each run")
        return _svg(figure, "g of each run on both sides", means)


def blocks(report: AuditReport) -> str:
    """How clearly each of the strongest blocks follows the input; filled where that is beyond chance."""
    shown = report.blocks[:MOST_BARS][::-1]
    names = [named(block.clique) for block in shown]
    heights = np.array([block.strength for block in shown])
    strong = [block.p_value <= report.plan.level for block in shown]
    with mpl.rc_context({**_STYLE, "svg.hashsalt": "blocks"}):
        figure = Figure(figsize=(7.2, 1.0 + 0.24 * len(shown)), layout="constrained")
        axes = figure.subplots()
        fill = [_HIGH if found else "none" for found in strong]
        axes.barh(range(len(shown)), heights, color=fill, edgecolor=_HIGH, height=0.62)
        axes.set_yticks(range(len(shown)), [_shortened(name) for name in names])
        axes.tick_params(axis="y", length=0)
        if heights.max(initial=0.0) > 50:
            axes.set_xscale("symlog", linthresh=10)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlabel("standard errors")
        told = f"strongest: {names[-1]} with z {shown[-1].z:.1f}" if shown else "no block"
        return _svg(figure, "How clearly each block follows the input", told)


def power(curve: PowerCurve) -> str:
    """Share of planted leaks that were found, by the size of the leak."""
    percents = [100 * share for share in curve.shares]
    found = np.array(curve.found) / curve.repeats
    with mpl.rc_context({**_STYLE, "svg.hashsalt": "power"}):
        figure = Figure(figsize=(7.2, 2.6), layout="constrained")
        axes = figure.subplots()
        axes.plot(percents, found, "o-", color=_HIGH)
        axes.axhline(0.8, color=_INK, linestyle=":", linewidth=1)
        axes.set_xscale("log")
        axes.set_xticks(
            [100 * share for share in curve.shares], [f"{100 * share:g} %" for share in curve.shares]
        )
        axes.set_xticks([], minor=True)
        axes.set_ylim(-0.05, 1.05)
        axes.set_xlabel("rows copied from the input")
        axes.set_ylabel("found")
        return _svg(figure, "Power", f"found {', '.join(f'{share:.0%}' for share in found)}")


def fidelity(ordered: Sequence[MarginalFidelity]) -> str:
    """Total variation of each marginal, beside what is expected by chance and its bound."""
    shown = ordered[:MOST_BARS][::-1]
    names, places = [named(one.clique) for one in shown], np.arange(len(shown))
    found, expected, bounds = (
        np.array([100 * getattr(one, name) for one in shown])
        for name in ("total_variation", "expected", "bound")
    )
    beyond = np.array([one.beyond_chance for one in shown])
    with mpl.rc_context({**_STYLE, "svg.hashsalt": "fidelity"}):
        figure = Figure(figsize=(7.2, 1.0 + 0.3 * len(shown)), layout="constrained")
        axes = figure.subplots()
        axes.hlines(places, 0, bounds, color=_ORIGINAL, linewidth=1, alpha=0.4)
        axes.scatter(bounds, places, marker="|", s=90, color=_ORIGINAL)
        axes.scatter(expected, places, s=42, facecolors="none", edgecolors=_ORIGINAL)
        for which, marker, colour in ((~beyond, "o", _HIGH), (beyond, "D", _LOW)):
            axes.scatter(found[which], places[which], s=26, marker=marker, color=colour, zorder=3)
        axes.set_yticks(places, [_shortened(name) for name in names])
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(left=0)
        axes.set_xlabel("total variation, % of the rows")
        told = f"furthest: {names[-1]}, {found[-1]:.3g} %, by chance {expected[-1]:.3g} %"
        return _svg(figure, "Total variation of each marginal", told)


def _lane(
    axes: Axes, base: int, values: NDArray[np.float64], grid: NDArray[np.float64], colour: str
) -> None:
    """One group: a density above, a dot for each run below."""
    density = _density(values, grid)
    axes.fill_between(grid, base, base + 0.8 * density, color=colour, alpha=0.25, linewidth=0)
    axes.plot(grid, base + 0.8 * density, color=colour, linewidth=1.2)
    axes.plot(values, np.full(len(values), base - 0.08), "o", color=colour, markersize=4, alpha=0.8)


def _grid(groups: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Where densities are drawn: all values, and some room."""
    values = np.concatenate(groups)
    room = 0.15 * float(np.ptp(values)) or 0.05 * abs(float(values[0])) or 1.0
    return np.linspace(values.min() - room, values.max() + room, 400)


def _density(values: NDArray[np.float64], grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """A Gaussian kernel density with Silverman's width, its peak scaled to 1.

    Values without spread are drawn as a peak two steps of the grid wide.
    """
    width = 1.06 * float(values.std()) * len(values) ** -0.2
    width = max(width, 2 * float(grid[1] - grid[0]))
    density: NDArray[np.float64] = np.exp(-(((grid[:, None] - values) / width) ** 2) / 2).sum(axis=1)
    return np.asarray(density / density.max())


def _shortened(name: str) -> str:
    return name if len(name) <= 48 else name[:47] + "…"


def _svg(figure: Figure, title: str, description: str) -> str:
    """An SVG element without a header, named for those who cannot see it."""
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata=_NO_METADATA)
    drawn = file.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    for stand_in, colour in _COLOURS.items():
        drawn = drawn.replace(stand_in, colour)
    drawn = re.sub(r'<g id="[^"]*">', "<g>", drawn)  # would repeat from figure to figure
    label = _escaped(f"{title}: {description}")
    return re.sub(r"<svg ", f'<svg role="img" aria-label="{label}" ', drawn, count=1)


def _escaped(text: str) -> str:
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), ('"', "&quot;")):
        text = text.replace(character, entity)
    return text
