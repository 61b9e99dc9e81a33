"""Made-up people for tests of attacks: records, and tables that copy some share of them."""

import numpy as np

from gencard.measures.privacy.attacks import Tables
from gencard.measures.privacy.distances import Records


def records(*columns):
    return Records(tuple(f"a{axis}" for axis in range(len(columns))), tuple(map(np.array, columns)))


def population(rng, rows):
    """Records of two numbers and two levels, of which the last follows from the others half the time."""
    numbers, level = rng.normal(size=(2, rows)), rng.integers(0, 4, rows)
    follows = np.where(rng.random(rows) < 0.5, level, rng.integers(0, 4, rows))
    return records(*numbers, level, follows)


def copied(rng, share, rows=400):
    """Tables whose synthetic records are copies of train to some share, and honest otherwise."""
    train, holdout, honest = (population(rng, rows) for _ in range(3))
    copy = rng.random(rows) < share
    columns = (np.where(copy, *both) for both in zip(train.columns, honest.columns, strict=True))
    return Tables(records(*columns), train, holdout)
