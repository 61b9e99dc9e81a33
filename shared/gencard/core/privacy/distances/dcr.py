"""Distance to the closest record (DCR): synthetic records to train and to holdout, beside real ones.

DCR is no proof of privacy. Records can be reconstructed from generators that pass such tests, since
the tests themselves tell about the records (Ganev, De Cristofaro, "The Inadequacy of Similarity-based
Privacy Metrics", arXiv 2312.05114); what an attack by distances finds is a weak lower bound on what
leaks (Annamalai et al., arXiv 2405.10994). A large share of near copies shows a leak; a small one shows
nothing.
"""

from dataclasses import dataclass

from gencard.core.errors import InvalidDatasetError
from gencard.core.privacy.distances.closer_share import CloserShare, closer_share
from gencard.core.privacy.distances.gower import Gower
from gencard.core.privacy.distances.nearest import Nearest, nearest
from gencard.core.privacy.records import Records


@dataclass(frozen=True, slots=True, eq=False)
class Dcr:
    """Nearest records of three tables, all by one distance.

    Args:
        to_train: Of each synthetic record in train.
        to_holdout: Of each synthetic record in holdout.
        baseline: Of each train record in holdout: how near real records are that nobody copied.
        share: How many synthetic records are closer to train.
    """

    to_train: Nearest
    to_holdout: Nearest
    baseline: Nearest
    share: CloserShare


def dcr(synthetic: Records, train: Records, holdout: Records, gower: Gower) -> Dcr:
    """Distances to the closest records; ``gower_of(train, holdout)`` fixes the ranges.

    Raises:
        DomainMismatchError: The attributes are not those of the distance.
        InvalidDatasetError: A table is empty.
    """
    for table in (synthetic, train, holdout):
        gower.check(table)
        if not len(table):
            raise InvalidDatasetError(problem="a table to compare has no records")
    to_train, to_holdout = (nearest(synthetic, table, gower) for table in (train, holdout))
    return Dcr(
        to_train,
        to_holdout,
        nearest(train, holdout, gower),
        closer_share(to_train.distance, to_holdout.distance, (len(train), len(holdout))),
    )
