"""Names of types that several rooms use."""

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

Time = Annotated[str, "RFC 3339, in UTC, to the second"]
"""A time as it stands in documents."""

Counts = NDArray[Any]
"""Counts in records: int64, or float64 once they are estimated."""

Table = FloatArray
"""Expected counts or probabilities, one axis for each attribute of a clique."""

Progress = Callable[[str, float], None]
"""Called with the stage and the share done of the whole, 0 to 1, neither depending on any record.

It may raise: that cancels the computation.
"""


def ignore_progress(_stage: str, _fraction: float) -> None:
    """Report to nobody."""
