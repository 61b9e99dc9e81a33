"""Rows without replicated uniques: other rows in the place of those that are one record's alone.

Whoever knew psi and the seed could draw the rows again, and would see which are missing: exactly the
records that were to be hidden. So the seed of such rows must stay unknown, and nothing is to be told of
how many were exchanged. That a row is there still tells that no record is alone with it.
"""

import numpy as np

from gencard.core.dataset import Dataset
from gencard.core.errors import ComputationError, InvalidNumberError
from gencard.core.privacy.tables.replicated_uniques import replicated_rows


def unique_free(original: Dataset, drawn: Dataset, rows: int) -> Dataset:
    """So many of the rows that were drawn, none of which is unique and a unique record's twin.

    Args:
        drawn: The first ``rows`` of them are kept as far as possible, the others take vacant places.

    Raises:
        ComputationError: The other rows did not suffice.
        DomainMismatchError: The domains differ.
        InvalidNumberError: Fewer were drawn than are wanted.
    """
    if not 0 <= rows <= len(drawn):
        raise InvalidNumberError(field="The number of rows", expected="at most those drawn")
    chosen, ahead = np.arange(rows), rows
    while len(vacant := replicated_rows(original, drawn.take(chosen))):
        if ahead + len(vacant) > len(drawn):
            raise ComputationError(problem="too many rows replicate a unique record")
        chosen[vacant] = np.arange(ahead, ahead + len(vacant))
        ahead += len(vacant)
    return drawn.take(chosen)
