"""What an evaluation returns: frozen numbers under their names, and their JSON objects."""

from abc import ABC, abstractmethod
from html import escape
from typing import TYPE_CHECKING, Any, Self

from gencard.core.typed_json import PLAIN

if TYPE_CHECKING:
    from gencard.core.evaluation.material import Material

Line = tuple[str, float | None]
"""A number under its name in the literature; None where it is not defined."""


class Finding(ABC):
    """The result of one evaluation; a frozen dataclass of numbers. All shares are from 0 to 1.

    Sentences and figures are made by ``client.report``.
    """

    __slots__ = ()

    @property
    def stands_out(self) -> bool:
        """Whether it exceeds its own baseline; False for evaluations that have none."""
        return False

    @property
    @abstractmethod
    def lines(self) -> tuple[Line, ...]:
        """The main numbers, for a table."""

    @abstractmethod
    def rounded(self, material: "Material") -> Self:
        """The finding as it may be released: each number rounded to its sampling error.

        Args:
            material: What the finding was computed from.
        """

    def __str__(self) -> str:
        return "\n".join(f"{name}: {_plain(value)}" for name, value in self.lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td>{_plain(value)}</td></tr>"
            for name, value in self.lines
        )
        return f"<table>{rows}</table>"


def finding_to_json_object(finding: Finding) -> dict[str, Any]:
    """The numbers of a finding by name; arrays are lists."""
    document: dict[str, Any] = PLAIN.write(finding)
    return document


def _plain(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.4g}"
