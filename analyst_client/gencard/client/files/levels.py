"""The declared levels of an attribute, by name and by value."""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.coding import Attribute, Edges, Labels, numbers_of_codes

UNDECLARED = -1


def names_of(attribute: Attribute) -> tuple[str, ...]:
    """What the levels are called in a file, without "missing"."""
    coding = attribute.coding
    return coding.level_names[: coding.size - coding.missing]


def is_ordered(attribute: Attribute) -> bool:
    return not isinstance(attribute.coding, Labels) or attribute.coding.ordered


def is_integer(attribute: Attribute) -> bool:
    return isinstance(attribute.coding, Labels) and attribute.coding.integer


def code_of(attribute: Attribute) -> dict[Any, int]:
    """Code of each level by its name, and by its number where it is one.

    None is "missing", and so is empty text where it is no label; UNDECLARED where that is not declared.
    """
    names = names_of(attribute)
    absent = len(names) if attribute.coding.missing else UNDECLARED
    codes = {name: code for code, name in enumerate(names)}
    numbers = {int(name): code for name, code in codes.items()} if is_integer(attribute) else {}
    return {"": absent, None: absent, **codes, **numbers}


class Numbers:
    """Draws a number inside each interval, uniformly; the same seed gives the same numbers.

    Row ``i`` of an attribute depends on the seed, the attribute's name and ``i`` alone, as long as the
    rows come in their order, in whatever batches.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._streams: dict[str, np.random.PCG64] = {}

    def of(self, name: str, coding: Edges, codes: NDArray[Any]) -> NDArray[np.float64]:
        """The next rows of an attribute; NaN is "missing"."""
        if name not in self._streams:
            self._streams[name] = self._stream(name)
        return numbers_of_codes(coding, codes, self._streams[name].random_raw(len(codes)))

    def _stream(self, name: str) -> np.random.PCG64:
        digest = hashlib.sha256(f"gencard.numbers.v1\x00{self._seed}\x00{name}".encode())
        return np.random.PCG64(int.from_bytes(digest.digest(), "big"))
