"""A black box in Python: each attribute is drawn given the one before it.

What it uses of the records are the pairs of neighbouring attributes, so it keeps to a card that names
these marginals, and an audit under a card that does not will say so.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.wire.black_box import Table, black_box


@black_box
def chain(table: Table, rows: int, *, rng: np.random.Generator) -> Mapping[str, NDArray[Any]]:
    """Codes of each attribute, shape ``(rows,)``; the parameter ``more`` is added to every count."""
    more = float(table.parameters.get("more", "0.5"))
    made: dict[str, NDArray[Any]] = {}
    before, given = np.zeros(len(table), dtype=np.intp), np.zeros(rows, dtype=np.intp)
    for name, size in zip(table.domain.attributes, table.domain.sizes, strict=True):
        counts = np.full((int(before.max(initial=0)) + 1, size), more)
        np.add.at(counts, (before, table.column(name)), 1)
        cumulated = np.cumsum(counts / counts.sum(axis=1, keepdims=True), axis=1)
        made[name] = np.minimum((cumulated[given] < rng.random((rows, 1))).sum(axis=1), size - 1)
        before, given = table.column(name).astype(np.intp), made[name]
    return made


if __name__ == "__main__":
    chain.main()
