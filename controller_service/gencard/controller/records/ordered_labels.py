"""Labels whose order everybody knows: answers of surveys, months, weekdays, classes of numbers."""

import math
import re
from collections.abc import Sequence

_SCALES = (
    ("never", "almost never", "rarely", "seldom", "sometimes", "occasionally", "often", "usually",
     "very often", "almost always", "always"),
    ("very low", "low", "medium", "moderate", "high", "very high"),
    ("very bad", "bad", "poor", "fair", "average", "good", "very good", "excellent"),
    ("very unsatisfied", "very dissatisfied", "unsatisfied", "dissatisfied", "neutral", "mixed",
     "satisfied", "very satisfied"),
    ("strongly disagree", "disagree", "neither agree nor disagree", "neutral", "agree",
     "strongly agree"),
    ("none", "little", "some", "much", "very much"),
    ("small", "medium", "large"),
    ("primary", "secondary", "tertiary"),
    ("nie", "fast nie", "selten", "manchmal", "gelegentlich", "oft", "häufig", "sehr oft", "sehr häufig",
     "fast immer", "immer"),
    ("sehr niedrig", "niedrig", "gering", "mittel", "hoch", "sehr hoch"),
    ("sehr schlecht", "schlecht", "mittelmäßig", "befriedigend", "gut", "sehr gut"),
    ("sehr unzufrieden", "unzufrieden", "teils/teils", "neutral", "zufrieden", "sehr zufrieden"),
    ("stimme gar nicht zu", "stimme nicht zu", "neutral", "teils/teils", "stimme zu", "stimme voll zu"),
    ("klein", "mittel", "groß"),
    ("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
    ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    ("montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag", "sonntag"),
    ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
     "november", "december"),
    ("januar", "februar", "märz", "april", "mai", "juni", "juli", "august", "september", "oktober",
     "november", "dezember"),
)  # fmt: skip
_LEADING = re.compile(
    r"\s*(under|unter|below|less than|bis|up to|<=?|>=?|over|über)?\s*(-?\d+(?:[.,]\d+)?)", re.IGNORECASE
)
_BELOW = ("under", "unter", "below", "less than", "bis", "up to", "<", "<=")


def in_order(labels: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """The labels in their order and True, where it is known; else as they are, and False.

    >>> in_order(["high", "low", "medium"])
    (('low', 'medium', 'high'), True)
    >>> in_order(["18-24", "25+", "under 18"])
    (('under 18', '18-24', '25+'), True)
    >>> in_order(["east", "north", "west"])
    (('east', 'north', 'west'), False)
    >>> in_order(["1", "10", "2", "N"])
    (('1', '2', '10', 'N'), False)
    """
    if len(labels) < 3:
        return tuple(labels), False
    plain = {label: label.strip().lower() for label in labels}
    for scale in _SCALES:
        if set(plain.values()) <= set(scale) and len(set(plain.values())) == len(labels):
            return tuple(sorted(labels, key=lambda label: scale.index(plain[label]))), True
    numbers = {label: _leading_number(label) for label in labels}
    if None not in numbers.values() and len(set(numbers.values())) == len(labels):
        return tuple(sorted(labels, key=lambda label: numbers[label] or (0.0, 0))), True
    return tuple(sorted(labels, key=lambda label: _as_number(label) or (math.inf, label))), False


def _as_number(label: str) -> tuple[float, str] | None:
    return (float(label), label) if re.fullmatch(r"\d+", label) else None


def _leading_number(label: str) -> tuple[float, int] | None:
    """The number with which a class begins; "under 18" comes before "18-24"."""
    match = _LEADING.match(label)
    if match is None:
        return None
    return float(match[2].replace(",", ".")), -1 if (match[1] or "").lower() in _BELOW else 0
