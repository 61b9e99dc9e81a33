"""Figures of reports, as SVG in the colours of the page."""

import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gencard.client.common.display import named, percent
from gencard.client.findings.finding_plots import draw, draw_differences, lines_of, short
from gencard.client.findings.findings import sentence
from gencard.client.findings.numbers import NumberReport, figure_name
from gencard.core.audit.report import AuditReport, PlantedEvidence, UniquesEvidence
from gencard.measures.evaluation.evaluation import Finding
from gencard.measures.evaluation.tables import FidelityFinding
from gencard.measures.utility.fidelity import Fidelity, MarginalFidelity

Group = tuple[str, NDArray[np.float64], str]
"""Name, one value for each run, and colour."""

MOST_BARS = 20
MOST_FIGURES = 48
WIDTH = 6.4
"""Inches: fits the width of a telephone."""


def sides(report: AuditReport) -> str:
    """Test function g of each run, on both sides of the pair and on the dataset (the paper's Fig. 1)."""
    groups = (
        ("low side", np.array(report.g_low), LOW),
        ("high side", np.array(report.g_high), HIGH),
        ("dataset", np.array(report.g_original), ORIGINAL),
    )
    label = "g, the outputs' projection on the tested direction; one dot per run"
    return lanes(groups, "g of each run on both sides", label)


def lanes(groups: Sequence[Group], title: str, label: str) -> str:
    """One lane for each group of runs: a density, and a dot for each run.

    Args:
        label: What the values are.
    """
    means = ", ".join(f"{name} mean {values.mean():.4g}" for name, values, _ in groups)
    with mpl.rc_context({**STYLE, "svg.hashsalt": title}):
        figure = Figure(figsize=(WIDTH, 0.5 + 0.9 * len(groups)), layout="constrained")
        axes = figure.subplots()
        grid = _grid([values for _, values, _ in groups])
        for position, (name, values, colour) in enumerate(groups):
            _lane(axes, len(groups) - 1 - position, values, grid, colour)
            axes.text(0, len(groups) - 1 - position + 0.62, name, transform=axes.get_yaxis_transform())
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(label)
        return svg(figure, title, means)


def blocks(report: AuditReport) -> str:
    """Test statistics of the strongest blocks; filled where significant at the level."""
    shown = report.blocks[:MOST_BARS][::-1]
    names = [named(block.clique) for block in shown]
    heights = np.array([block.strength for block in shown])
    strong = [block.p_value <= report.plan.level for block in shown]
    with mpl.rc_context({**STYLE, "svg.hashsalt": "blocks"}):
        figure = Figure(figsize=(WIDTH, 1.0 + 0.24 * len(shown)), layout="constrained")
        axes = figure.subplots()
        fill = [HIGH if filled else "none" for filled in strong]
        axes.barh(range(len(shown)), heights, color=fill, edgecolor=HIGH, height=0.62)
        axes.set_yticks(range(len(shown)), [shortened(name) for name in names])
        axes.tick_params(axis="y", length=0)
        if heights.max(initial=0.0) > 50:
            axes.set_xscale("symlog", linthresh=10)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlabel("standard errors")
        description = f"strongest: {names[-1]} with z {shown[-1].z:.1f}" if shown else "no block"
        return svg(figure, "Dependence of the output on the input, by block", description)


def fidelity(ordered: Sequence[MarginalFidelity]) -> str:
    """Total variation of each marginal, with expected sampling error and bound."""
    worst = ordered[0]
    description = (
        f"largest excess: {named(worst.clique)}, {percent(worst.total_variation)}, "
        f"expected {percent(worst.expected)}"
    )
    facts = Fidelity(0, tuple(ordered))
    return drawn(FidelityFinding(facts), "Total variation of each marginal", description)


def numbers(report: NumberReport) -> str:
    """Difference of each figure, with its bounds and its errors; those beyond chance are kept first."""
    table = report.table
    chosen = sorted(table.figures, key=lambda one: not one.beyond_chance)[:MOST_FIGURES]
    shown = [one for one in table.figures if one in chosen]
    title = "Differences of numbers"
    description = f"{len(table.unexplained):,} of {len(table.figures):,} beyond chance"
    names = [f"{short(named(one.attributes), 26)}, {figure_name(one, report.coding)}" for one in shown]
    with mpl.rc_context({**STYLE, "svg.hashsalt": title}):
        figure = Figure(figsize=(WIDTH, 1.2 + 0.24 * len(shown)), layout="constrained")
        draw_differences(shown, names, figure.subplots())
        return svg(figure, title, description)


def drawn(finding: Finding, title: str, description: str = "") -> str:
    """A finding as a figure; figures with one line per item grow with their number."""
    lines = lines_of(finding)
    height = 1.0 + 0.3 * lines if lines else 3.4
    with mpl.rc_context({**STYLE, "svg.hashsalt": title}):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        draw(finding, figure.subplots())
        return svg(figure, title, description or sentence(finding))


def _lane(
    axes: Axes, base: int, values: NDArray[np.float64], grid: NDArray[np.float64], colour: str
) -> None:
    """One group: a density above, a dot for each run below."""
    density = _density(values, grid)
    axes.fill_between(grid, base, base + 0.8 * density, color=colour, alpha=0.25, linewidth=0)
    axes.plot(grid, base + 0.8 * density, color=colour, linewidth=1.2)
    axes.plot(values, np.full(len(values), base - 0.08), "o", color=colour, markersize=4, alpha=0.8)


def _grid(groups: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Points at which densities are drawn: the range of the values and a margin."""
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


INK, LOW, HIGH, ORIGINAL = "#010203", "#020304", "#030405", "#040506"
COLOURS = {
    INK: "currentColor",
    LOW: "var(--low, #b3541e)",
    HIGH: "var(--high, #1f5fa8)",
    ORIGINAL: "var(--original, #6b7280)",
}
"""Colours that stand for those of the page, which follow light and dark; a notebook defines none."""

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.parse_math": False,
    "axes.prop_cycle": cycler(color=[HIGH, LOW, ORIGINAL]),
}
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))


def shortened(name: str) -> str:
    return name if len(name) <= 48 else name[:47] + "…"


def svg(figure: Figure, title: str, description: str) -> str:
    """An SVG element without a header, labelled for screen readers."""
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata=_NO_METADATA)
    text = file.getvalue()
    text = text[text.index("<svg") :]
    for stand_in, colour in COLOURS.items():
        text = text.replace(stand_in, colour)
    text = re.sub(r'<g id="[^"]*"(/?)>', r"<g\1>", text)  # would repeat from figure to figure
    label = _escaped(f"{title}: {description}")
    return re.sub(r"<svg ", f'<svg role="img" aria-label="{label}" ', text, count=1)


def _escaped(text: str) -> str:
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), ('"', "&quot;")):
        text = text.replace(character, entity)
    return text


def planted(evidence: PlantedEvidence) -> str:
    """Planted records reproduced in each run, of the same and of the other side."""
    groups = [
        (f"{side} side: {whose}", np.array(values, dtype=np.float64), colour)
        for side, runs in (("even", evidence.even), ("odd", evidence.odd))
        for whose, values, colour in (
            ("records planted there", runs.own, HIGH),
            ("records planted on the other side", runs.other, LOW),
        )
    ]
    return lanes(groups, "Planted records reproduced", "planted records reproduced in a run")


def uniques(evidence: UniquesEvidence) -> str:
    """Unique records of the dataset reproduced on it and on datasets with the same psi."""
    groups = [
        ("on the dataset itself", np.array(evidence.original, dtype=np.float64), ORIGINAL),
        ("on datasets with the same psi", np.array(evidence.twins, dtype=np.float64), LOW),
    ]
    label = "unique records of the dataset reproduced in a run"
    return lanes(groups, "Unique records reproduced", label)
