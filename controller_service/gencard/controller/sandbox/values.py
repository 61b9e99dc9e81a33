"""The numbers that codes stand for, as boxes are told them."""

from math import nan

import numpy as np

from gencard.core.coding import Coding, Edges, Labels
from gencard.wire.box_request import Values


def values_of(coding: Coding) -> Values:
    """Middles of intervals, ordered whole numbers themselves, and the ranks of other ordered labels.

    NaN stands for missing; attributes without order are not there.
    """
    named = {entry.name: _values(entry.coding) for entry in coding.attributes}
    return {name: values for name, values in named.items() if values}


def _values(coding: Edges | Labels) -> tuple[float, ...]:
    missing = (nan,) * coding.missing
    if isinstance(coding, Edges):
        edges = np.asarray(coding.edges, dtype=np.float64)
        return (*(edges[:-1] / 2 + edges[1:] / 2).tolist(), *missing)
    if not coding.ordered:
        return ()
    labels = map(float, coding.labels) if coding.integer else map(float, range(len(coding.labels)))
    return (*labels, *missing)
