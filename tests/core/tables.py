"""Tables to fit, and the textbook's way to do it."""

from itertools import combinations

import numpy as np

from gencard.core.card.sums import Moment, MomentKind
from gencard.core.coding import Coding
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.statistics.linear import statistic_of

BIG = Domain.of({"a": 6, "b": 9, "c": 5, "d": 8, "e": 10})
"""21,600 cells: large enough for a triangle."""


def pairs(domain):
    return list(combinations(domain.attributes, 2))


STRADDLING = [*pairs(BIG), ("a", "b", "c"), ("c", "d", "e"), ("a", "d", "e"), ("b", "d", "e")]
"""Marginals for which there is no triangle."""


def moment(attribute, order):
    return statistic_of(Moment(MomentKind.MOMENT, (attribute.name,), order), Coding((attribute,)))


def dense_dataset(domain, rows, multiplier=7_919):
    """Records without a random number, every cell of every pair above zero."""
    position = np.arange(rows)
    columns = [
        (position * (multiplier + 2 * axis) // (3 + axis) % 1_009) % size
        for axis, size in enumerate(domain.sizes)
    ]
    return Dataset.of_columns(domain, columns)


def errors(model, psi):
    return [np.abs(model.marginal(m.clique) - m.values / m.values.sum()).sum() for m in psi.measurements]


def textbook(psi, domain, sweeps, zeros=None):
    """Scale the whole table to each marginal in turn."""
    table = np.ones(domain.sizes) if zeros is None else zeros.copy()
    table /= table.sum()
    for _ in range(sweeps):
        for m in psi.measurements:
            axes = domain.axes(m.clique)
            others = tuple(axis for axis in range(len(domain)) if axis not in axes)
            shares = np.transpose(m.values / m.values.sum(), np.argsort(axes))
            marginal = table.sum(axis=others)
            ratio = np.divide(shares, marginal, out=np.zeros_like(shares), where=marginal > 0)
            table *= np.expand_dims(ratio, others)
    return table
