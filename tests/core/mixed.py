"""Records of numbers and levels for tests: from files, from JSON, at random; and distances by hand."""

from functools import cache

import numpy as np
from hypothesis import strategies as st

from gencard.core.dataset import Dataset
from gencard.measures.privacy.attacks import Membership, Tables
from gencard.measures.privacy.dcr import CloserShare, closer_share
from gencard.measures.privacy.distances import Gower, Missing, Records, pairs_of
from gencard.measures.privacy.nearest import nearest
from gencard.measures.utility.table_utility import mean_measure, table_utilities
from tests.core.oracles import read

NUMERIC = ("age", "capital_gain", "capital_loss", "hours_per_week")
"""The attributes of Adult that hold numbers."""


def tables(attributes, numeric, *tables):
    """Records of rows of values, all on the same levels; None and empty text are missing."""
    levels = {}
    return [
        Records(
            tuple(attributes),
            tuple(
                np.array([np.nan if value in (None, "") else float(value) for value in column])
                if name in numeric
                else np.array(
                    [
                        -1 if value in (None, "") else levels.setdefault((name, value), len(levels))
                        for value in column
                    ],
                    dtype=int,
                )
                for name, column in zip(attributes, zip(*rows, strict=True), strict=True)
            ),
        )
        for rows in tables
    ]


def adult(*files):
    """Files of Adult's records among the oracles."""
    rows = [read(f"metrics/{file}") for file in files]
    return tables(rows[0][0], NUMERIC, *([list(row.values()) for row in file] for file in rows))


def pair_by_hand(one, other, gower):
    """Gower's formula for two records, a tuple of values each."""
    above = below = 0.0
    for x, y, span, weight in zip(one, other, gower.ranges, gower.weights, strict=True):
        absent = [value == -1 if span is None else np.isnan(value) for value in (x, y)]
        if gower.missing is Missing.PAIRWISE and any(absent):
            continue
        if any(absent):
            apart = float(not all(absent))
        elif not span:
            apart = float(x != y)
        else:
            apart = min(abs(x - y) / span, 1.0)
        above, below = above + weight * apart, below + weight
    return above / below if below else np.nan


def by_hand(left, right, gower):
    """All distances, pair by pair."""
    return np.array(
        [
            [pair_by_hand(one, other, gower) for other in zip(*right.columns, strict=True)]
            for one in zip(*left.columns, strict=True)
        ]
    ).reshape(len(left), len(right))


@st.composite
def compared(draw, count=2, fewest=0):
    """Some small tables of the same attributes, and a distance; ties and missing values abound."""
    kinds = draw(st.lists(st.booleans(), min_size=1, max_size=5))
    names = tuple(f"a{axis}" for axis in range(len(kinds)))
    found = []
    for _ in range(count):
        rows = draw(st.integers(fewest, 12))
        columns = [draw(numbers_of(rows) if kind else levels_of(rows)) for kind in kinds]
        found.append(
            Records(
                names,
                tuple(
                    np.array(column, dtype=float if kind else int)
                    for kind, column in zip(kinds, columns, strict=True)
                ),
            )
        )
    ranges = tuple(draw(st.sampled_from((0.0, 3.0, 11.5))) if kind else None for kind in kinds)
    weights = tuple(draw(weights_of(len(kinds))))
    return *found, Gower(names, ranges, weights, draw(st.sampled_from(Missing)))


# Kept by their lengths, because making a strategy takes longer than drawing from it.
@cache
def numbers_of(rows):
    return st.lists(st.sampled_from((np.nan, -2.5, 0, 1, 1.5, 9)), min_size=rows, max_size=rows)


@cache
def levels_of(rows):
    return st.lists(st.integers(-1, 2), min_size=rows, max_size=rows)


@cache
def weights_of(attributes):
    weights = st.sampled_from((1.0, 1.0, 0.3, 2.5, 0.0))
    return st.lists(weights, min_size=attributes, max_size=attributes).filter(any)


def distances(left: Records, right: Records, gower: Gower) -> np.ndarray:
    """All distances, shape ``(len(left), len(right))``."""
    every = slice(None)
    return pairs_of(left, right, gower).distances((every, None), every, (len(left), len(right)))


def closer(synthetic: Records, train: Records, holdout: Records, gower: Gower) -> CloserShare:
    """Compare the synthetic records with two tables, as the evaluation ``dcr`` does."""
    distances = (nearest(synthetic, table, gower, second=False).distance for table in (train, holdout))
    return closer_share(*distances, (len(train), len(holdout)))


def half_ties(share: CloserShare) -> float:
    """Strictly closer records and half of the ties, in shares."""
    return share.strict + share.ties / 2


def membership(tables: Tables, gower: Gower) -> Membership:
    """Measure records of train and of holdout to the closest synthetic ones."""
    both = (tables.train, tables.holdout)
    return Membership(*(nearest(table, tables.synthetic, gower).distance for table in both))


def mean_table_utility(original: Dataset, synthetic: Dataset, width: int) -> float | None:
    """Mean S_pMSE over the tables of every ``width`` attributes."""
    return mean_measure(table_utilities(original, synthetic, width).values(), "S_pMSE")
