"""Columns that may say whose a record is, and columns of weights, as their values and names suggest.

A draft asks about them and assumes nothing: a postcode repeats as a household's number does.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from gencard.controller.drafting.profiles import Profile, may_name_units
from gencard.controller.drafting.round_edges import rounded

_MOST_USUAL = 50
"""Records that persons and households have at most, for the most part."""

_MOST_ASKED = 3

_LEAST_DIFFERENT = 20
"""Values of weights that only their mean suggests."""

_NAMES = re.compile(
    r"(^|[^a-z])(p|h|hh|fam|case|subj|pers|person|child|pupil|patient|resp|respondent|household|family)?"
    r"_?(id|nr|no|num|key)([^a-z]|$)"
    r"|(^|[^a-z])(household|person|patient|subject|respondent|haushalt|hogar|foyer|menage)([^a-z]|$)"
    r"|[a-z](Id|ID)$|(hh|person|subject|patient|case|child)id$",
    re.IGNORECASE,
)
_WEIGHTS = re.compile(
    r"(^|[^a-z])(weights?|wei|wg?h?ts?|[pafi]w|[pafih]?weight|fnlwgt|pwgtp|wgtp|perwt|hhwt|pesos?|poids|"
    r"gewicht|gew|hgt|hrf|pond|ponderacion|fexp|facexp|rb05[0-9]|rb060|pb0[46]0|db090)([^a-z]|$)"
    r"|weight$|gewicht$|wgt$",
    re.IGNORECASE,
)
_BODIES = re.compile(
    r"body|birth|baby|koerper|körper|geburt|(^|[^a-z])(kg|lbs?|gram)([^a-z]|$)", re.IGNORECASE
)

NO_WEIGHT = "Weight of the record; statistics count records and do not use it."
"""Description of a weight, which everybody sees."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A column that may say whose a record is.

    Args:
        most_records: Proposal: 95 % of the values have at most so many records, rounded up to one digit.
        why: Reason for the question, as text without counts of records.
    """

    column: str
    most_records: int
    why: str


def units_of(looks: Sequence[Profile]) -> tuple[Unit, ...]:
    """Return the columns that may name persons or households, the likeliest first, at most three."""
    shared = {look.name: look.shared for look in looks}

    def of_unit(look: Profile) -> int:
        """Return the number of columns that belong to a unit, without those that name the same unit."""
        return sum(look.name not in shared[name] for name in look.shared)

    likely = [look for look in looks if _is_asked_about(look, of_unit(look))]
    likely.sort(key=lambda look: (not _NAMES.search(look.name), -of_unit(look)))
    chosen: list[Profile] = []
    for look in likely:  # number and name of a unit are asked about once
        if not any(look.name in one.shared and one.name in look.shared for one in chosen):
            chosen.append(look)
    return tuple(map(_unit, chosen[:_MOST_ASKED]))


def _is_asked_about(look: Profile, of_unit: int) -> bool:
    if look.repeats is None or not may_name_units(look) or look.repeats.usual > _MOST_USUAL:
        return False
    # two numbers may follow from each other, such as a score and its target
    return bool(_NAMES.search(look.name)) or of_unit >= (1 if look.kind == "text" else 2)


def _unit(look: Profile) -> Unit:
    most = int(rounded(look.repeats.usual if look.repeats else 1, ceil))
    reasons = ["its values repeat, and most have few records"]
    if look.shared:
        named = ", ".join(look.shared[:3])
        more = " and others" if len(look.shared) > 3 else ""
        verb = "are" if len(look.shared) > 1 else "is"
        reasons.append(f"{named}{more} {verb} the same in nearly all records of a value")
    if _NAMES.search(look.name):
        reasons.append("its name suggests it")
    return Unit(look.name, most, "; ".join(reasons))


def may_be_weight(look: Profile) -> bool:
    """Whether a column may be a weight: positive numbers, by name, or of a mean of 1."""
    if look.kind != "number" or not look.quantiles or look.quantiles[0] <= 0 or look.declared:
        return False
    if _WEIGHTS.search(look.name):
        return not _BODIES.search(look.name)
    scaled = look.mean is not None and abs(look.mean - 1) < 0.001
    return scaled and look.decimals != 0 and look.distinct > _LEAST_DIFFERENT
