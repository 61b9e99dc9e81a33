"""How coefficients print themselves, as text and in a notebook."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from html import escape

Row = tuple[str, tuple[float, ...]]
"""Name of a parameter, and its numbers."""


class CoefficientTable(ABC):
    """A title, a line of numbers for each parameter, and what else there is to say."""

    __slots__ = ()

    @property
    @abstractmethod
    def title(self) -> str:
        """What was explained, and from what."""

    @property
    @abstractmethod
    def heads(self) -> tuple[str, ...]:
        """Names of the numbers."""

    @property
    @abstractmethod
    def rows(self) -> tuple[Row, ...]:
        """A line for each parameter."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences below the table."""
        return ()

    def __str__(self) -> str:
        grid = [("", *self.heads), *self._cells()]
        widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
        lines = (_line(cells, widths) for cells in grid)
        return "\n".join([self.title, *lines, *self.notes])

    def _repr_html_(self) -> str:
        heads = "".join(f"<th>{escape(head)}</th>" for head in ("", *self.heads))
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th>"
            f"{''.join(f'<td>{number}</td>' for number in numbers)}</tr>"
            for name, *numbers in self._cells()
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<p>{escape(self.title)}</p><table><tr>{heads}</tr>{rows}</table>{notes}"

    def _cells(self) -> list[tuple[str, ...]]:
        return [(name, *(f"{number:.4g}" for number in numbers)) for name, numbers in self.rows]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """The first cell to the left, the others to the right."""
    name, *numbers = (
        cell.ljust(width) if place == 0 else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join([name, *numbers]).rstrip()
