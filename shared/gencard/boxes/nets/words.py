"""Numbers among the words of a card."""

from math import isfinite

from gencard.boxes.entry import Parameters
from gencard.boxes.promise import whole
from gencard.core.errors import InvalidNumberError

__all__ = ["layers", "rate", "whole"]

_MOST_LAYERS = 8
_MOST_UNITS = 10_000


def rate(parameters: Parameters, name: str) -> float:
    """A learning rate; raises InvalidNumberError where it is none."""
    try:
        number = float(parameters[name])
    except ValueError:
        number = 0.0
    if isfinite(number) and 0 < number <= 1:
        return number
    raise InvalidNumberError(field=name, expected="above 0 and at most 1")


def layers(parameters: Parameters, name: str) -> tuple[int, ...]:
    """Units of each layer; raises InvalidNumberError where a number is none or out of range."""
    parts = parameters[name].split(",")
    if len(parts) > _MOST_LAYERS:
        raise InvalidNumberError(field=name, expected=f"a list of at most {_MOST_LAYERS} layer sizes")
    return tuple(whole({name: part.strip()}, name, 1, _MOST_UNITS) for part in parts)
