"""Figures of reports, as SVG in the colours of the page."""

import io
import re
from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import matplotlib as mpl
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gencard.client.common.display import named, percent
from gencard.client.findings.findings import NumberReport, figure_name, sentence
from gencard.core.audit.report import AuditReport, PlantedEvidence, UniquesEvidence
from gencard.core.types import UNDEFINED
from gencard.measures.evaluation import risk_findings as risk
from gencard.measures.evaluation import utility_findings as utility
from gencard.measures.evaluation.evaluation import Finding
from gencard.measures.evaluation.risk_findings import BINS, RATIO_BINS, STEP
from gencard.measures.evaluation.utility_findings import MOST_LINES, FidelityFinding
from gencard.measures.utility.fidelity import Fidelity, MarginalFidelity
from gencard.measures.utility.numbers import NumberFigure

# Findings as figures.

RELEASE, ALARM, BESIDE = "C0", "C1", "C2"
"""First colours of the cycle: the release, what may be a leak, and the reference."""

_MARK: dict[str, Any] = {"marker": "|", "s": 320, "linewidths": 2}
"""A mark across a bar, visible on both sides of it."""

_MOST_ATTRIBUTES = 24
"""Attributes on the axes of the heat map."""

_REFERENCE = frozenset({"UiO", "Dorig", "CAPd", "baseCAPd"})
_LEAKS = frozenset({"repU", "DiSCO", "DiSDiO"})

_LINES = {
    risk.DistanceFinding: 0,
    risk.RatioFinding: 0,
    risk.MembershipFinding: 1,
    utility.PropensityFinding: 2,
    risk.AttackFinding: 3,
}
"""Lines of figures that do not have one line for each number; 0 for curves."""


@singledispatch
def draw(finding: Finding, axes: Axes) -> None:
    raise NotImplementedError(type(finding).__name__)


def lines_of(finding: Finding) -> int:
    """Number of lines of the figure, one above the other; 0 for curves."""
    if isinstance(finding, utility.GapFinding):
        return len(finding.levels)
    if isinstance(finding, utility.PredictionsFinding):
        return len(finding.predictors)
    if isinstance(finding, utility.AssociationsFinding):
        return max(1, min(MOST_LINES, len(finding.pairs)))
    if isinstance(finding, utility.TablesFinding):
        return len(_drawn_attributes(finding))
    return _LINES.get(type(finding), len(finding.lines))


@draw.register
def _(finding: risk.AttackFinding, axes: Axes) -> None:
    bars = (
        ("attack", finding.attack, ALARM),
        ("control", finding.control, RELEASE),
        ("random", finding.naive, BESIDE),
    )
    for place, (_, share, colour) in enumerate(bars):
        low, high = share.interval()
        axes.hlines([place], [100 * low], [100 * high], color=colour, linewidth=2.5)
        axes.scatter([100 * share.share], [place], color=colour, s=45, zorder=3)
    axes.set_yticks(range(3), [name for name, *_ in bars])
    axes.set_ylim(2.6, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(left=0)
    axes.set_xlabel("% of the guesses that were right, with 95 % intervals")


@draw.register
def _(finding: risk.MembershipFinding, axes: Axes) -> None:
    """The area under the ROC curve and its interval; dotted: random guessing."""
    axes.axvline(50, color=BESIDE, linestyle=":")
    axes.hlines([0], [100 * finding.low], [100 * finding.high], color=ALARM, linewidth=2.5)
    axes.scatter([100 * finding.area], [0], color=ALARM, s=45, zorder=3)
    axes.set_yticks([0], ["members nearer"])
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of the pairs; dotted: random guessing")


@draw.register
def _(finding: risk.CloneFinding, axes: Axes) -> None:
    shares = [_in_percent(share) for _, share in finding.lines]
    colours = [
        ALARM
        if name.startswith("Clones of train") or name == "Records of train that equal a row"
        else (RELEASE if "of holdout" in name and "share" not in name else BESIDE)
        for name, _ in finding.lines
    ]
    _barh(axes, shares, colours, height=0.6)
    _name_lines(axes, [name for name, _ in finding.lines])
    axes.set_xlabel("% of the rows, or of the records that are named")


@draw.register
def _(finding: risk.RatioFinding, axes: Axes) -> None:
    edges = np.linspace(0, 1, RATIO_BINS + 1)
    for shares, colour, label in (
        (finding.holdout, RELEASE, "by records of holdout"),
        (finding.train, ALARM, "by records of train"),
    ):
        axes.stairs(100 * np.array(shares), edges, color=colour, linewidth=1.6, label=label)
    axes.set_xlabel("distance to the closest record, divided by that to the second closest")
    axes.set_ylabel("% of the rows")
    axes.legend(frameon=False)


@draw.register
def _(finding: utility.AssociationsFinding, axes: Axes) -> None:
    """The largest differences, the rows beside psi; nothing but the axis where Phi holds no pair."""
    shown = finding.pairs[:MOST_LINES]
    _barh(axes, [one.rows for one in shown], [RELEASE] * len(shown), height=0.5)
    _marks(axes, [one.psi for one in shown])
    _name_lines(axes, [short(" × ".join(one.clique), 44) for one in shown])
    axes.set_xlim(0, 1)
    axes.set_xlabel("Cramér's V; bar: rows, mark: psi")


@draw.register(risk.UniquesFinding)
@draw.register(risk.RowUniquesFinding)
@draw.register(risk.DisclosureFinding)
def _(finding: Finding, axes: Axes) -> None:
    names = [name for name, _ in finding.lines]
    colours = [BESIDE if name in _REFERENCE else ALARM if name in _LEAKS else RELEASE for name in names]
    _barh(axes, [_in_percent(value) for _, value in finding.lines], colours, height=0.62)
    _name_lines(axes, names)
    axes.set_xlabel("%")


@draw.register
def _(finding: risk.DistanceFinding, axes: Axes) -> None:
    """Histograms of the three distances; exact copies are the bars left of 0."""
    edges = np.arange(BINS + 1) * STEP
    curves = (
        (finding.baseline, BESIDE, "real records to others (baseline)"),
        (finding.to_holdout, RELEASE, "rows to holdout"),
        (finding.to_train, ALARM, "rows to train"),
    )
    for place, (curve, colour, label) in enumerate(curves):
        axes.stairs(100 * np.array(curve.bins), edges, color=colour, linewidth=1.6, label=label)
        axes.bar(-STEP * (5.6 - 1.2 * place), 100 * curve.zeros, width=STEP, color=colour, align="edge")
    axes.set_xticks([-STEP * 3.9, *np.arange(5) / 10], ["copies", "0", "0.1", "0.2", "0.3", "0.4"])
    axes.set_xlabel("distance to the closest record")
    axes.set_ylabel("% of the rows")
    axes.legend(frameon=False)


@draw.register
def _(finding: utility.FidelityFinding, axes: Axes) -> None:
    """Total variation of each marginal, with expected sampling error and bound."""
    shown = finding.ordered[:MOST_LINES]
    places = np.arange(len(shown))
    distances, expected, bounds = (
        np.array([100 * getattr(one, name) for one in shown])
        for name in ("total_variation", "expected", "bound")
    )
    beyond = np.array([one.beyond_chance for one in shown])
    axes.hlines(places, 0, bounds, color=BESIDE, linewidth=1, alpha=0.4)
    axes.scatter(bounds, places, marker="|", s=90, color=BESIDE)
    axes.scatter(expected, places, s=42, facecolors="none", edgecolors=BESIDE)
    for which, marker, colour in ((~beyond, "o", RELEASE), (beyond, "D", ALARM)):
        axes.scatter(distances[which], places[which], s=26, marker=marker, color=colour, zorder=3)
    axes.set_yticks(places, [" × ".join(one.clique)[:48] for one in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"total variation, % of the rows; worst: {percent(distances.max() / 100)}")


def draw_differences(shown: Sequence[NumberFigure], names: Sequence[str], axes: Axes) -> None:
    """Each figure of the rows less what is known of it: a bar for bounds, a line for 95 % of its errors.

    In standard deviations of the number, named on the axis; shares and correlations as they are.
    """
    axes.axvline(0, color=BESIDE, linewidth=0.8)
    for place, one in enumerate(shown):
        if one.rows is None:
            axes.text(0.01, place, UNDEFINED, va="center", transform=axes.get_yaxis_transform())
            continue
        unit, colour = one.spread or 1.0, ALARM if one.beyond_chance else RELEASE
        low, high = (one.rows - one.high) / unit, (one.rows - one.low) / unit
        reach = 1.96 * float(np.hypot(one.stderr, one.noise)) / unit
        axes.hlines([place], [low - reach], [high + reach], color=colour, linewidth=1.2)
        axes.barh(place, high - low, left=low, height=0.5, color=colour, alpha=0.3)
        value = [(one.difference or 0.0) / unit]
        axes.scatter(
            value, [place], s=22, marker="D" if one.beyond_chance else "o", color=colour, zorder=3
        )
    axes.set_yticks(range(len(shown)), names)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("difference, in standard deviations of the number")


@draw.register
def _(finding: utility.GapFinding | utility.PredictionsFinding, axes: Axes) -> None:
    """Each level's gap, or each predictor's importance: bars of the release, marks of the records."""
    records: Sequence[float | None]
    if isinstance(finding, utility.GapFinding):
        names, records, value = finding.levels, finding.original, "gap"
        axes.axvline(0, color=BESIDE, linewidth=0.8)
    else:
        names, records, value = finding.predictors, finding.real, "accuracy lost"
    _barh(axes, [_in_percent(one) for one in finding.synthetic], [RELEASE] * len(names), height=0.5)
    _marks(axes, [_in_percent(one) for one in records])
    _name_lines(axes, [name[:24] for name in names])
    axes.set_xlabel(f"bar: {value} in the release, %; mark: among the records")


@draw.register
def _(finding: utility.PropensityFinding, axes: Axes) -> None:
    """Both values; dotted: 1, a resample of the records."""
    _barh(axes, [finding.regression, finding.tree], [RELEASE] * 2, height=0.5)
    axes.axvline(1.0, color=BESIDE, linestyle=":", linewidth=1)
    _name_lines(axes, ["regression", "tree"])
    axes.set_xlim(left=0)
    axes.set_xlabel("S_pMSE; dotted: as good as resampling the records")


@draw.register
def _(finding: utility.TablesFinding, axes: Axes) -> None:
    """Heat map of the pairs, S_pMSE by depth of colour; only the attributes of the worst ones."""
    shown = _drawn_attributes(finding)
    places = {name: place for place, name in enumerate(shown)}
    values = [value for _, value in finding.valued_pairs()]
    largest = max(values, default=0.0)
    for (one, other), value in finding.valued_pairs():
        if one in places and other in places:
            # From nearly white to full colour, by the logarithm: one bad pair must not hide the next.
            depth = 0.04 + 0.96 * float(np.log1p(value) / np.log1p(largest)) if largest > 0 else 0.04
            axes.barh(places[other], 0.94, left=places[one] - 0.47, height=0.94, color=(ALARM, depth))
    names = [short(name) for name in shown]
    axes.set_xticks(range(len(shown)), names, rotation=90)
    axes.set_yticks(range(len(shown)), names)
    axes.invert_yaxis()
    axes.tick_params(length=0)
    if values:
        axes.set_xlabel(f"S_pMSE, by depth of colour: {min(values):.3g} to {largest:.3g}")


@draw.register
def _(finding: utility.MarginalsFinding, axes: Axes) -> None:
    """Total variation and error of the worst ones."""
    shown = finding.ordered[:MOST_LINES]
    places = np.arange(len(shown))
    axes.barh(places, [100 * one.total_variation for one in shown], color=RELEASE, height=0.6)
    errors = [100 * one.error for one in shown]
    axes.scatter(errors, places, color=BESIDE, label="RMSE of a cell", **_MARK)
    _name_lines(axes, [short(" × ".join(one.clique), 44) for one in shown])
    axes.set_xlabel("bar: total variation, % of the rows; mark: RMSE of a cell, %")


def _in_percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _barh(axes: Axes, values: Sequence[float | None], colours: Sequence[str], *, height: float) -> None:
    """A bar for each value, from place 0; a word for a value that is not defined."""
    for place, (value, colour) in enumerate(zip(values, colours, strict=True)):
        if value is None:
            axes.text(0.01, place, UNDEFINED, va="center", transform=axes.get_yaxis_transform())
        # A bar of length 0 keeps the place of the line on the axis.
        axes.barh(place, value or 0.0, color=colour, height=height)


def _marks(axes: Axes, values: Sequence[float | None]) -> None:
    known = [(value, place) for place, value in enumerate(values) if value is not None]
    axes.scatter([value for value, _ in known], [place for _, place in known], color=BESIDE, **_MARK)


def _name_lines(axes: Axes, names: Sequence[str]) -> None:
    """Name the lines of a figure, the first one on top."""
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)


def _drawn_attributes(finding: utility.TablesFinding) -> tuple[str, ...]:
    worst = dict.fromkeys(finding.attributes, 0.0)
    for pair, value in finding.valued_pairs():
        for name in pair:
            worst[name] = max(worst[name], value)
    names = sorted(worst, key=lambda name: -worst[name])[:_MOST_ATTRIBUTES]
    return tuple(name for name in finding.attributes if name in names)


def short(name: str, most: int = 18) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


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
    """One lane for each group of runs: a density, and a dot for each run; ``label`` names the values."""
    means = ", ".join(f"{name} mean {values.mean():.4g}" for name, values, _ in groups)
    with mpl.rc_context({**STYLE, "svg.hashsalt": title}):
        figure = Figure(figsize=(WIDTH, 0.5 + 0.9 * len(groups)), layout="constrained")
        axes = figure.subplots()
        every = np.concatenate([values for _, values, _ in groups])
        room = 0.15 * float(np.ptp(every)) or 0.05 * abs(float(every[0])) or 1.0
        grid = np.linspace(every.min() - room, every.max() + room, 400)
        for position, (name, values, colour) in enumerate(groups):
            base = len(groups) - 1 - position
            # Gaussian kernels with Silverman's width, their sum scaled to a peak of 1; values without
            # spread are drawn as a peak two steps of the grid wide.
            width = 1.06 * float(values.std()) * len(values) ** -0.2
            width = max(width, 2 * float(grid[1] - grid[0]))
            density = np.exp(-(((grid[:, None] - values) / width) ** 2) / 2).sum(axis=1)
            top, dots = base + 0.8 * (density / density.max()), np.full(len(values), base - 0.08)
            axes.fill_between(grid, base, top, color=colour, alpha=0.25, linewidth=0)
            axes.plot(grid, top, color=colour, linewidth=1.2)
            axes.plot(values, dots, "o", color=colour, markersize=4, alpha=0.8)
            axes.text(0, base + 0.62, name, transform=axes.get_yaxis_transform())
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(label)
        return svg(figure, title, means)


def blocks(report: AuditReport) -> str:
    """Test statistics of the strongest blocks; filled where significant at the level."""
    shown = report.blocks[:MOST_BARS][::-1]
    names = [short(named(block.clique), 48) for block in shown]
    heights = np.array([block.strength for block in shown])
    strong = [block.p_value <= report.plan.level for block in shown]
    with mpl.rc_context({**STYLE, "svg.hashsalt": "blocks"}):
        figure = Figure(figsize=(WIDTH, 1.0 + 0.24 * len(shown)), layout="constrained")
        axes = figure.subplots()
        fill = [HIGH if filled else "none" for filled in strong]
        axes.barh(range(len(shown)), heights, color=fill, edgecolor=HIGH, height=0.62)
        axes.set_yticks(range(len(shown)), names)
        axes.tick_params(axis="y", length=0)
        if heights.max(initial=0.0) > 50:
            axes.set_xscale("symlog", linthresh=10)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlabel("standard errors")
        description = (
            f"strongest: {named(shown[-1].clique)} with z {shown[-1].z:.1f}" if shown else "no block"
        )
        return svg(figure, "Dependence of the output on the input, by block", description)


def fidelity(ordered: Sequence[MarginalFidelity]) -> str:
    """Total variation of each marginal, with expected sampling error and bound."""
    worst = ordered[0]
    description = (
        f"largest excess: {named(worst.clique)}, {percent(worst.total_variation)}, "
        f"expected {percent(worst.expected)}"
    )
    finding = FidelityFinding(Fidelity(0, tuple(ordered)))
    return drawn(finding, "Total variation of each marginal", description)


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


def svg(figure: Figure, title: str, description: str) -> str:
    """An SVG element without a header, labelled for screen readers."""
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata=_NO_METADATA)
    text = file.getvalue()
    text = text[text.index("<svg") :]
    for stand_in, colour in COLOURS.items():
        text = text.replace(stand_in, colour)
    text = re.sub(r'<g id="[^"]*"(/?)>', r"<g\1>", text)  # would repeat from figure to figure
    label = f"{title}: {description}"
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), ('"', "&quot;")):
        label = label.replace(character, entity)
    return re.sub(r"<svg ", f'<svg role="img" aria-label="{label}" ', text, count=1)


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
