"""Summing a table down to fewer attributes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.core.domain import Clique
from gencard.core.errors import InvalidCliqueError


def project(table: NDArray[Any], attributes: Clique, clique: Clique) -> NDArray[Any]:
    """The marginal of a table.

    Args:
        table: One axis per attribute, in the order of ``attributes``.
        attributes: What the axes mean.
        clique: The attributes to keep.

    Returns:
        Axes in the order of ``clique``; same units as ``table``.

    Raises:
        InvalidCliqueError: The clique names an attribute that the table does not have.
    """
    if not set(clique) <= set(attributes):
        raise InvalidCliqueError(clique=", ".join(clique), problem="the table lacks an attribute of it")
    kept = [name for name in attributes if name in clique]
    dropped = tuple(axis for axis, name in enumerate(attributes) if name not in clique)
    summed = table.sum(axis=dropped) if dropped else table
    return np.transpose(summed, [kept.index(name) for name in clique])
