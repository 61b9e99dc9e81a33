r"""What exact counts tell together that none of them tells alone.

Marginals are linear in the table of records, and those of a workload span the interaction blocks of
its closure, which are orthogonal. Of one version of the records, read by one schema, two workloads
therefore determine the marginals inside one of their cliques and no more: each tells what it tells.
Of two versions, every block that both span shows by subtraction which records came or went, and the
block of the empty set, the number of records, is in every workload. Under two schemas, edges that
moved by a little show the records between them.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Grant:
    """Exact counts that somebody was granted: of which records, and how they were read.

    Args:
        version: Digest of the records.
        coding: Digest of the public schema.
        rounding: Multiples that the counts were rounded to; 1 for none.
    """

    version: str
    coding: str
    rounding: int = 1


def shows_a_difference(wanted: Grant, granted: Iterable[Grant]) -> bool:
    """Whether ``wanted`` and something granted before tell together what neither tells alone.

    Rounded counts tell nothing beside the same counts unrounded; rounded to two different multiples
    they tell more than either.
    """
    return any(_differ(wanted, grant) for grant in granted)


def _differ(one: Grant, other: Grant) -> bool:
    if (one.version, one.coding) != (other.version, other.coding):
        return True
    return one.rounding != other.rounding and min(one.rounding, other.rounding) > 1
