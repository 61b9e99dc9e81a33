"""Numbers for the intervals of a release: drawn once more by whoever knows its seed."""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.coding import Edges, numbers_of_codes


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
