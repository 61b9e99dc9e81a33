"""How a finding prints itself, as text and in a notebook: its sentence, then its numbers."""

from abc import ABC, abstractmethod
from html import escape

from gencard.core.evaluation.finding import Line


class Shown(ABC):
    """Of a finding; each measure's file says what its numbers mean. Shares are of 1."""

    __slots__ = ()

    @property
    @abstractmethod
    def sentence(self) -> str:
        """The finding in words."""

    @property
    @abstractmethod
    def lines(self) -> tuple[Line, ...]:
        """The numbers worth a table."""

    def __str__(self) -> str:
        return "\n".join([self.sentence, *(f"  {name}: {_plain(value)}" for name, value in self.lines)])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td>{_plain(value)}</td></tr>"
            for name, value in self.lines
        )
        return f"<p>{escape(self.sentence)}</p><table>{rows}</table>"


def _plain(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.4g}"
