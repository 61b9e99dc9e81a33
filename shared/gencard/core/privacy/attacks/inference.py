"""Inference: whether synthetic records tell an attribute of a person whose other attributes are known.

The attack finds the synthetic record nearest to what is known of a target, and guesses that the target
has its secret; of several equally near it takes one at random, for each target anew. By luck one guesses
the secret of any synthetic record. (Giomi et al.; see ``attack``.)
"""

import numpy as np

from gencard.core.domain import Clique
from gencard.core.errors import InvalidCliqueError, InvalidNumberError
from gencard.core.privacy.attacks.attack import Attack
from gencard.core.privacy.attacks.predicate import present
from gencard.core.privacy.attacks.targets import Tables, check_known, drawn
from gencard.core.privacy.distances.gower import Gower
from gencard.core.privacy.distances.neighbours import neighbours
from gencard.core.privacy.proportion import Proportion
from gencard.core.privacy.records import Column, Records


def inference(
    tables: Tables,
    gower: Gower,
    secret: str,
    *,
    known: Clique | None = None,
    tolerance: float = 0.05,
    attacks: int,
    rng: np.random.Generator,
) -> Attack:
    """Guess the secret of records of train, and of as many of holdout, among those that have one.

    Args:
        known: The attributes that are known of a target; None is all but the secret.
        tolerance: How far a guess may be off, as a share, 0 to 1, of the true number's size; levels
            must be equal.
        attacks: Records of train, and records of holdout.

    Raises:
        DomainMismatchError: The attributes are not those of the distance.
        InvalidCliqueError: What is known is empty, repeats or holds the secret.
        InvalidNumberError: More attacks than records with a secret, or fewer than 1; a tolerance
            outside 0 to 1; or all that is known weighs 0.
        UnknownAttributeError: The secret or something known is not there.
    """
    gower.check(tables.synthetic)
    check_known((secret,), gower.attributes)
    others = tuple(name for name in gower.attributes if name != secret)
    known = others if known is None else known
    if secret in known:
        raise InvalidCliqueError(clique=", ".join(known), problem="it contains the sensitive attribute")
    check_known(known, others)
    if not 0 <= tolerance <= 1:
        raise InvalidNumberError(field="The tolerance", expected="from 0 to 1")
    distance = gower.project(known)
    targets = [drawn(_with(table, secret), attacks, rng) for table in (tables.train, tables.holdout)]
    secrets = [_column(table, secret) for table in targets]
    guesses = [_guesses(tables.synthetic, table, distance, secret, rng) for table in targets]
    lucky = rng.choice(_column(tables.synthetic, secret), attacks)
    found = zip((*guesses, lucky), (*secrets, secrets[0]), strict=True)
    return Attack(*(_right(guess, truth, tolerance) for guess, truth in found))


def _guesses(
    synthetic: Records, targets: Records, distance: Gower, secret: str, rng: np.random.Generator
) -> Column:
    """The secret of the synthetic record nearest to each target, or of any if none compares."""
    found = (
        near[0] if len(near) else rng.integers(len(synthetic))
        for near in neighbours(targets, synthetic, distance, 1, rng)
    )
    guesses: Column = _column(synthetic, secret)[np.fromiter(found, np.intp)]
    return guesses


def _right(guesses: Column, truths: Column, tolerance: float) -> Proportion:
    """Count the guesses that are right; a missing one never is."""
    numeric = truths.dtype.kind == "f"
    right = np.abs(guesses - truths) <= (tolerance * np.abs(truths) if numeric else 0)
    return Proportion(int(right.sum()), len(truths))


def _with(records: Records, secret: str) -> Records:
    """The records whose secret is not missing."""
    return records.take(np.flatnonzero(present(_column(records, secret))))


def _column(records: Records, attribute: str) -> Column:
    return records.columns[records.attributes.index(attribute)]
