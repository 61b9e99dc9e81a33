"""Names of types that several rooms use."""

from collections.abc import Callable
from enum import StrEnum
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


class VersionKind(StrEnum):
    """Content of which the version of a dataset's records is an HMAC.

    ``BYTES``: those of their files. ``SNAPSHOT``: a table's counts, in the snapshot in which statistics
    are counted, too. ``FINGERPRINT``: a table's counts before and after; its engine has no snapshots.
    """

    BYTES = "bytes"
    SNAPSHOT = "snapshot"
    FINGERPRINT = "fingerprint"

    @property
    def wording(self) -> str:
        return {
            VersionKind.BYTES: "HMAC of the files' bytes",
            VersionKind.SNAPSHOT: "fingerprint of a table's counts, in one snapshot",
            VersionKind.FINGERPRINT: "fingerprint of a table's counts, without a snapshot",
        }[self]


Progress = Callable[[str, float], None]
"""Called with the stage and the share done of the whole, 0 to 1, neither depending on any record.

It may raise: that cancels the computation.
"""


def ignore_progress(_stage: str, _fraction: float) -> None:
    """Report to nobody."""


UNDEFINED = "undefined"
"""Text in place of a number that is not defined, such as a ratio of two zeros; in data it is None."""
