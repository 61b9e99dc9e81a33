"""Intervals of coefficients as a figure: bars of text in a terminal, SVG in a notebook, a file."""

import math
from dataclasses import dataclass
from pathlib import Path

from gencard.client.arguments import checked
from gencard.client.display import page_module
from gencard.client.files.folder import appearing
from gencard.core.errors import InvalidInputError

MOST = 60
"""Intervals in one figure."""

FORMATS = (".svg", ".png", ".pdf")
_WIDTH = 41
_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and its interval; NaN where an analysis has none."""

    name: str
    estimate: float
    low: float
    high: float

    @property
    def finite(self) -> bool:
        """Whether it can be drawn."""
        return all(map(math.isfinite, (self.estimate, self.low, self.high)))


@dataclass(frozen=True, slots=True, repr=False)
class CoefficientPlot:
    """Estimates and intervals of an answer, one line each, beside zero.

    A shell shows lines of text, a notebook shows a figure, ``save`` writes one.

    Args:
        title: The formula.
        level: Coverage of the intervals, such as 0.95.
    """

    title: str
    intervals: tuple[Interval, ...]
    level: float

    @property
    def shown(self) -> tuple[Interval, ...]:
        """The intervals that are drawn: the first ``MOST`` that are finite."""
        return tuple(one for one in self.intervals if one.finite)[:MOST]

    @property
    def left_out(self) -> int:
        """Number of intervals that are not drawn."""
        return len(self.intervals) - len(self.shown)

    def __repr__(self) -> str:
        return "\n".join(self.bars()) or "<no finite interval>"

    def bars(self, width: int = _WIDTH) -> list[str]:
        """Lines of text: name, interval between ``├`` and ``┤``, estimate ``●``, zero ``┊``."""
        shown = self.shown
        if not shown:
            return []
        low, high = (limit([0.0, *(value for one in shown for value in (one.low, one.high))])
                     for limit in (min, max))  # fmt: skip
        step = (high - low or 1.0) / (width - 1)
        names = [_cut(one.name) for one in shown]
        longest = max(map(len, names))
        lines = [
            f"{name:<{longest}}  {_bar(one, low, step, width)}"
            for name, one in zip(names, shown, strict=True)
        ]
        scale = f"{low:.3g}".ljust(width - len(f"{high:.3g}")) + f"{high:.3g}"
        return [*lines, f"{'':<{longest}}  {scale}", *([self.note] if self.left_out else [])]

    @property
    def note(self) -> str:
        """What is not drawn; empty where all is."""
        return f"{self.left_out:,} more are not drawn; to_frame() has all." if self.left_out else ""

    @checked()
    def save(self, path: str | Path) -> Path:
        """Write the figure as .svg, .png or .pdf; the file appears when it is complete.

        Raises:
            InvalidInputError: Another ending, a place that cannot be written, or the extra ``report``
                is not installed.
        """
        path = Path(path)
        kind = path.suffix.lower()
        if kind not in FORMATS:
            problem = f"needs a name that ends in {', '.join(FORMATS)}"
            raise InvalidInputError(field="plot", problem=problem)
        drawing = page_module("answer_page").figure_bytes(self, kind.removeprefix("."))
        with appearing(path, "plot") as part:
            part.write_bytes(drawing)
        return path

    def _repr_html_(self) -> str:
        drawn: str = page_module("answer_page").figure_svg(self)
        return drawn


def _bar(one: Interval, low: float, step: float, width: int) -> str:
    """One line; what lies in one place shows the estimate before the ends, the ends before zero."""
    cells = [" "] * width
    left, middle, right = (round((value - low) / step) for value in (one.low, one.estimate, one.high))
    cells[left : right + 1] = "─" * (right + 1 - left)
    zero = round(-low / step)
    cells[zero] = "┊" if cells[zero] == " " else "┼"
    cells[left], cells[right] = "├", "┤"
    cells[middle] = "●"
    return "".join(cells)


def _cut(name: str) -> str:
    """A printable name of bounded length."""
    clean = "".join(letter if letter.isprintable() else "?" for letter in name)
    return clean if len(clean) <= _LONGEST_NAME else f"{clean[: _LONGEST_NAME - 1]}…"
