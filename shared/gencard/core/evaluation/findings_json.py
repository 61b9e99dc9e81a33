"""Findings as objects of JSON types, and back without loss."""

from dataclasses import asdict, fields, is_dataclass
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from gencard.core.errors import InvalidInputError
from gencard.core.evaluation.finding import Finding
from gencard.core.evaluation.registry import measure_named


def finding_to_json_object(finding: Finding) -> dict[str, Any]:
    """The numbers of a finding by name; arrays are lists."""
    return asdict(finding)  # type: ignore[call-overload,no-any-return]  # every finding is a dataclass


def finding_of_json_object(measure: str, document: Any) -> Finding:
    """The finding of a measure.

    Raises:
        InvalidInputError: The measure is unknown, or this is no finding of it.
    """
    kind = measure_named(measure).kind
    try:
        found: Finding = _value(kind, document)
    except (KeyError, TypeError, ValueError):
        raise InvalidInputError(field="measures", problem=f"holds no finding of {measure}") from None
    return found


def _value(kind: Any, value: Any) -> Any:
    """A JSON value as a value of a type that findings are made of."""
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return kind(**{one.name: _value(hints[one.name], value[one.name]) for one in fields(kind)})
    if isinstance(kind, UnionType):
        return None if value is None else _value(get_args(kind)[0], value)
    if get_origin(kind) is tuple:
        return _tuple(get_args(kind), value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not kind:
        raise TypeError
    return value


def _tuple(kinds: tuple[Any, ...], values: Any) -> tuple[Any, ...]:
    """Any number of one kind, or one value of each."""
    if not isinstance(values, list | tuple):
        raise TypeError
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(_value(kinds[0], value) for value in values)
    return tuple(_value(kind, value) for kind, value in zip(kinds, values, strict=True))
