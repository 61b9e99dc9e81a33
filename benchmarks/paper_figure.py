"""Figure 1 of Houssiau et al. (2022): g of each run on both sides, for honest and leaky generators."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.paper_audits import Finding

_SHOWN = (("IPF", "honest"), ("IPF", "dishonest"), ("SynthPop", "box"))
_LOW, _HIGH = "#8a5a00", "#0b6e99"
_BINS = 14


def draw(findings: Sequence[Finding], path: Path) -> None:
    """A row for each application, a column for each kind of generator; SVG by its ending."""
    names = sorted({one.application for one in findings})
    with mpl.rc_context({"svg.hashsalt": "paper", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(9, 2.1 * len(names)), layout="constrained")
        grid = figure.subplots(len(names), len(_SHOWN), squeeze=False)
        for line, name in zip(grid, names, strict=True):
            for axes, (method, kind) in zip(line, _SHOWN, strict=True):
                first = [
                    one
                    for one in findings
                    if (one.application, one.method, one.kind) == (name, method, kind)
                ][:1]
                _panel(axes, f"{method}{'' if kind == 'box' else f', {kind}'}", name, first)
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", ncols=2, frameon=False)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _panel(axes: Axes, title: str, application: str, first: Sequence[Finding]) -> None:
    axes.set_yticks([])
    axes.set_title(f"Application {application}: {title}", fontsize=9)
    for one in first:
        edges = np.histogram_bin_edges([*one.low, *one.high], bins=_BINS).tolist()
        axes.hist(one.low, edges, color=_LOW, alpha=0.6, label="one side")
        axes.hist(one.high, edges, color=_HIGH, alpha=0.6, label="the other")
        axes.set_xlabel(f"g; p = {one.mean:.2g}")
        axes.ticklabel_format(axis="x", style="sci", scilimits=(-2, 3), useMathText=True)
        axes.locator_params(axis="x", nbins=5)
