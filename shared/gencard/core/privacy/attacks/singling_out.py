"""Singling out: whether synthetic records tell conditions that exactly one real record meets.

The attack takes conditions that exactly one synthetic record meets, and guesses that they hold for
exactly one record of train. By luck one takes conditions with any values that occur in holdout.

How likely conditions single a record out depends on how many records there are, so the larger of train
and holdout is drawn from to the size of the smaller; numbers of successes are counted, never fitted, and
speak of tables of that size. (Giomi et al.; see ``attack``.)
"""

from itertools import islice

import numpy as np

from gencard.core.errors import ComputationError, InvalidNumberError
from gencard.core.privacy.attacks.attack import Attack
from gencard.core.privacy.attacks.predicate import (
    Predicate,
    by_luck,
    middles,
    outliers,
    portrait,
    singles_out,
)
from gencard.core.privacy.attacks.targets import Tables, drawn
from gencard.core.privacy.distances.differences import Positions
from gencard.core.privacy.proportion import Proportion
from gencard.core.privacy.records import Records

_TRIES = 50
"""Records that are tried for each guess."""


def singling_out(tables: Tables, *, width: int = 1, attacks: int, rng: np.random.Generator) -> Attack:
    """Guess conditions that single out a record of train, and try the same ones on holdout.

    Args:
        width: Attributes in each guess: 1 takes outliers, more describe synthetic records.
        attacks: Different guesses; fewer are made where synthetic records yield fewer.

    Raises:
        ComputationError: No synthetic record was singled out by so many attributes.
        InvalidNumberError: No attack, or a width below 1 or above the number of attributes.
    """
    synthetic, train, holdout = tables.synthetic, tables.train, tables.holdout
    if not 1 <= width <= len(synthetic.attributes):
        raise InvalidNumberError(field="The width", expected="from 1 to the number of attributes")
    if attacks < 1:
        raise InvalidNumberError(field="The number of attacks", expected="at least 1")
    guesses = _guesses(synthetic, width, attacks, rng)
    if not guesses:
        raise ComputationError(problem="no synthetic record is singled out by this number of attributes")
    values = [np.unique(column) for column in holdout.columns]
    lucky = [by_luck(values, _axes(holdout, width, rng), rng) for _ in guesses]
    size = min(len(train), len(holdout))
    ours, theirs = (drawn(table, size, rng) for table in (train, holdout))
    return Attack(*(_count(*pair) for pair in ((guesses, ours), (guesses, theirs), (lucky, ours))))


def _guesses(synthetic: Records, width: int, attacks: int, rng: np.random.Generator) -> list[Predicate]:
    if width == 1:
        return _outliers(synthetic, attacks, rng)
    return _portraits(synthetic, width, attacks, rng)


def _outliers(synthetic: Records, attacks: int, rng: np.random.Generator) -> list[Predicate]:
    """Some of the outliers, in random order."""
    candidates = list(outliers(synthetic))
    shuffled = (candidates[place] for place in rng.permutation(len(candidates)))
    return list(islice((each for each in shuffled if singles_out(each, synthetic)), attacks))


def _portraits(
    synthetic: Records, width: int, attacks: int, rng: np.random.Generator
) -> list[Predicate]:
    """Different descriptions of random records by random attributes, of no other synthetic record."""
    found: dict[Predicate, None] = {}
    medians = middles(synthetic)
    for _ in range(_TRIES * attacks):
        row = int(rng.integers(len(synthetic)))
        guess = portrait(synthetic, row, _axes(synthetic, width, rng), medians)
        if guess not in found and singles_out(guess, synthetic):
            found[guess] = None
        if len(found) == attacks:
            break
    return list(found)


def _axes(records: Records, width: int, rng: np.random.Generator) -> Positions:
    return rng.choice(len(records.attributes), width, replace=False)


def _count(guesses: list[Predicate], records: Records) -> Proportion:
    return Proportion(sum(singles_out(guess, records) for guess in guesses), len(guesses))
