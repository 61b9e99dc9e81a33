"""What an evaluation returns: frozen numbers under their names, and their JSON objects."""

from abc import ABC, abstractmethod
from dataclasses import asdict, fields, is_dataclass
from html import escape
from types import UnionType
from typing import TYPE_CHECKING, Any, Self, get_args, get_origin, get_type_hints

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
    return asdict(finding)  # type: ignore[call-overload,no-any-return]  # every finding is a dataclass


def value_of_json(kind: Any, value: Any) -> Any:
    """A JSON value as a value of one of the types that findings consist of.

    Raises:
        KeyError, TypeError, ValueError: The value does not have this type.
    """
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return kind(
            **{one.name: value_of_json(hints[one.name], value[one.name]) for one in fields(kind)}
        )
    if isinstance(kind, UnionType):
        return None if value is None else value_of_json(get_args(kind)[0], value)
    if get_origin(kind) is tuple:
        return _tuple(get_args(kind), value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)  # JSON does not tell 1.0 from 1
    if type(value) is not kind:
        raise TypeError
    return value


def _tuple(kinds: tuple[Any, ...], values: Any) -> tuple[Any, ...]:
    """Any number of one kind, or one value of each."""
    if not isinstance(values, list | tuple):
        raise TypeError
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(value_of_json(kinds[0], value) for value in values)
    return tuple(value_of_json(kind, value) for kind, value in zip(kinds, values, strict=True))


def _plain(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.4g}"
