"""What a measure found: frozen numbers that say what they mean and draw themselves."""

from typing import Protocol, runtime_checkable

from gencard.core.evaluation.axes import Axes

Line = tuple[str, float | None]
"""A number under its name in the literature; None where it is not defined."""


@runtime_checkable
class Finding(Protocol):
    """One finding. All shares are of 1; sentences are for people."""

    @property
    def sentence(self) -> str:
        """The finding in words."""
        ...

    @property
    def stands_out(self) -> bool:
        """Whether it is beyond its own baseline; False too where there is none to be beyond of."""
        ...

    @property
    def lines(self) -> tuple[Line, ...]:
        """The numbers worth a table."""
        ...

    @property
    def drawn_lines(self) -> int:
        """How many lines the drawing has, one above the other; 0 for curves."""
        ...

    def plot(self, axes: Axes) -> None:
        """Draw it."""
        ...
