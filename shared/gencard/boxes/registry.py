"""The built-in black boxes by name. All of them read records."""

from collections.abc import Mapping

from gencard.boxes import aim, ctgan, mst, pate_gan, privbayes, synthpop
from gencard.boxes.entry import BoxEntry, Parameters, Surroundings
from gencard.core.blackbox import BlackBox
from gencard.core.errors import InvalidInputError

BOXES: Mapping[str, BoxEntry] = {
    "mst": mst.ENTRY,
    "aim": aim.ENTRY,
    "privbayes": privbayes.ENTRY,
    "synthpop": synthpop.ENTRY,
    "ctgan": ctgan.ENTRY,
    "pate-gan": pate_gan.ENTRY,
}
"""In the order in which they are offered."""


def box_named(name: str, parameters: Parameters, surroundings: Surroundings) -> BlackBox:
    """A built-in box with these parameters; those not named have their defaults.

    Raises:
        InvalidInputError: There is none of this name, it has no such parameter, or a value is wrong.
    """
    if name not in BOXES:
        raise InvalidInputError(field="black_box", problem=f"must be one of {', '.join(sorted(BOXES))}")
    return BOXES[name].make(complete(BOXES[name], parameters), surroundings)


def complete(entry: BoxEntry, parameters: Parameters) -> Parameters:
    """The parameters with defaults for those that are not named.

    Raises:
        InvalidInputError: One has no such name.
    """
    if not parameters.keys() <= entry.parameters.keys():
        raise InvalidInputError(
            field="parameters", problem="include one that the black box does not have"
        )
    return {**entry.parameters, **parameters}
