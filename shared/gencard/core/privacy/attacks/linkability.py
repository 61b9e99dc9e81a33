"""Linkability: whether synthetic records tell that two halves of a record belong to one person.

Two parties know different attributes of the same people. For a target, the attack looks for the k
synthetic records nearest by what the one knows and for the k nearest by what the other knows, and links
the halves if some record is among both. By luck, k of m synthetic records meet another k in a number
that is hypergeometric. (Giomi et al.; see ``attack``.)
"""

import numpy as np

from gencard.core.domain import Clique
from gencard.core.errors import InvalidCliqueError, InvalidNumberError
from gencard.core.privacy.attacks.attack import Attack
from gencard.core.privacy.attacks.targets import Tables, check_known, drawn
from gencard.core.privacy.distances.gower import Gower
from gencard.core.privacy.distances.neighbours import neighbours
from gencard.core.privacy.proportion import Proportion
from gencard.core.privacy.records import Records


def linkability(
    tables: Tables,
    gower: Gower,
    sides: tuple[Clique, Clique],
    *,
    attacks: int,
    count: int,
    rng: np.random.Generator,
) -> Attack:
    """Try to link the halves of records of train, and of as many of holdout.

    Args:
        sides: The attributes that each party knows; none is on both.
        attacks: Records of train, and records of holdout.
        count: k, the synthetic records that each side looks at.

    Raises:
        DomainMismatchError: The attributes are not those of the distance.
        InvalidCliqueError: A side is empty, or an attribute repeats.
        InvalidNumberError: More attacks than records of train or of holdout, a count above the number
            of synthetic records, or fewer than 1 of either; or all that a side knows weighs 0.
        UnknownAttributeError: A side names an attribute that is not there.
    """
    gower.check(tables.synthetic)
    for side in sides:
        check_known(side, gower.attributes)
    if set(sides[0]) & set(sides[1]):
        raise InvalidCliqueError(
            clique=", ".join(sides[0]), problem="both sides contain the same attribute"
        )
    if not 1 <= count <= len(tables.synthetic):
        expected = "at least 1, and at most the synthetic records"
        raise InvalidNumberError(field="The number of neighbours", expected=expected)
    synthetic, distances = tables.synthetic, (gower.project(sides[0]), gower.project(sides[1]))
    targets = [drawn(table, attacks, rng) for table in (tables.train, tables.holdout)]
    hits = [_links(table, synthetic, distances, count, rng) for table in targets]
    lucky = rng.hypergeometric(count, len(synthetic) - count, count, attacks) > 0
    return Attack(*(Proportion(hit, attacks) for hit in (*hits, int(lucky.sum()))))


def _links(
    targets: Records,
    synthetic: Records,
    distances: tuple[Gower, Gower],
    count: int,
    rng: np.random.Generator,
) -> int:
    """How many targets have a synthetic record that is near on both sides."""
    one, other = (neighbours(targets, synthetic, by, count, rng) for by in distances)
    return sum(bool(np.isin(*both).any()) for both in zip(one, other, strict=True))
