"""The figures of unique records: how many came out, and where."""

import numpy as np

from gencard.client.report.plots import lanes
from gencard.client.report.svg import HIGH, LOW, ORIGINAL
from gencard.core.audit.report import PlantedEvidence, UniquesEvidence


def planted(evidence: PlantedEvidence) -> str:
    """Planted records that came out on their own side, and those of the other side that did."""
    groups = [
        (f"{side} side: {whose}", np.array(values, dtype=np.float64), colour)
        for side, runs in (("even", evidence.even), ("odd", evidence.odd))
        for whose, values, colour in (
            ("records planted there", runs.own, HIGH),
            ("records planted on the other side", runs.other, LOW),
        )
    ]
    return lanes(groups, "Planted records that came out", "planted records that came out in a run")


def uniques(evidence: UniquesEvidence) -> str:
    """Unique records of the dataset that came out on it, and on datasets with the same psi."""
    groups = [
        ("on the dataset itself", np.array(evidence.original, dtype=np.float64), ORIGINAL),
        ("on datasets with the same psi", np.array(evidence.twins, dtype=np.float64), LOW),
    ]
    label = "unique records of the dataset that came out in a run"
    return lanes(groups, "Unique records that came out", label)
