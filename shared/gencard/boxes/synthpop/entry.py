"""SynthPop in the list of built-in black boxes."""

from gencard.boxes.entry import BoxEntry, Parameters, Surroundings
from gencard.boxes.synthpop.box import SynthPop
from gencard.boxes.synthpop.options import DEFAULTS, options_of
from gencard.core.card.claim import Claim

_CLAIM = Claim(
    "No formal privacy is promised: rows repeat the codes of records, attribute by attribute."
)


def _make(parameters: Parameters, surroundings: Surroundings) -> SynthPop:
    return SynthPop(options_of(parameters), surroundings.values)


ENTRY = BoxEntry(
    description="Each attribute drawn from the leaves of a classification or regression tree on those "
    "before it (synthpop's CART).",
    parameters=DEFAULTS,
    claim=lambda _: _CLAIM,
    make=_make,
)
