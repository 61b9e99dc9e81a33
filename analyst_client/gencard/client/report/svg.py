"""Figures as SVG that takes its colours from the page."""

import io
import re
from typing import Any

from cycler import cycler
from matplotlib.figure import Figure

INK, LOW, HIGH, ORIGINAL = "#010203", "#020304", "#030405", "#040506"
COLOURS = {INK: "currentColor", LOW: "var(--low)", HIGH: "var(--high)", ORIGINAL: "var(--original)"}
"""Colours that stand for those of the page, which follow light and dark."""

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
    """An SVG element without a header, named for those who cannot see it."""
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata=_NO_METADATA)
    drawn = file.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    for stand_in, colour in COLOURS.items():
        drawn = drawn.replace(stand_in, colour)
    drawn = re.sub(r'<g id="[^"]*"(/?)>', r"<g\1>", drawn)  # would repeat from figure to figure
    label = _escaped(f"{title}: {description}")
    return re.sub(r"<svg ", f'<svg role="img" aria-label="{label}" ', drawn, count=1)


def _escaped(text: str) -> str:
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), ('"', "&quot;")):
        text = text.replace(character, entity)
    return text
