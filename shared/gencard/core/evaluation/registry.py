"""Every measure by name."""

from collections.abc import Sequence

from gencard.core.errors import GencardError, InvalidInputError
from gencard.core.evaluation.finding import Finding
from gencard.core.evaluation.material import Material
from gencard.core.evaluation.measure import Measure
from gencard.core.evaluation.risk import RISK
from gencard.core.evaluation.utility import FIDELITY, UTILITY

MEASURES = {measure.name: measure for measure in (*FIDELITY, *RISK, *UTILITY)}
"""All measures, in the order of a report."""


def measure_named(name: str) -> Measure:
    """Raises InvalidInputError where there is none of this name."""
    if name not in MEASURES:
        raise InvalidInputError(
            field="measures",
            problem=f"'{name[:40]}' is not the name of an evaluation; see docs/methods.md",
        )
    return MEASURES[name]


def take(measure: Measure, material: Material) -> Finding | None:
    """What the measure finds; None where these records do not allow it, with no word of why."""
    try:
        return measure.find(material)
    except GencardError:
        return None


def price_in_statistics(names: Sequence[str], *, attributes: int, marginals: int) -> int:
    """One for each number that leaves: a measure is as many statistics as it tells numbers."""
    return sum(measure_named(name).numbers(attributes, marginals) for name in names)
