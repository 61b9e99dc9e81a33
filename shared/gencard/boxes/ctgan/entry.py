"""CTGAN in the list of built-in black boxes."""

from gencard.boxes.ctgan.box import Ctgan
from gencard.boxes.ctgan.options import DEFAULTS, options_of
from gencard.boxes.entry import BoxEntry, Parameters, Surroundings
from gencard.boxes.nets.extra import check_torch
from gencard.core.card.claim import NO_CLAIM


def _make(parameters: Parameters, surroundings: Surroundings) -> Ctgan:
    options = options_of(parameters)
    check_torch()
    return Ctgan(options, surroundings.values)


ENTRY = BoxEntry(
    description="A conditional generative adversarial net for tables (Xu et al. 2019).",
    parameters=DEFAULTS,
    claim=lambda _: NO_CLAIM,
    make=_make,
    extra="deep",
)
