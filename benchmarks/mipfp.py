"""IPF beside R's mipfp on all pairs of Raab's S3 and S5, with one record spread over each as a prior."""

import json
from pathlib import Path

import numpy as np

from benchmarks.diagnosis import survey
from benchmarks.synthpop import psi_with_prior
from gencard.core.generators.family import ipf

_ORACLE = Path(__file__).resolve().parents[2] / "shared/oracles/synthpop/ipf_fit_S3_S5.json"

_LEAST = 1e-12
"""Probabilities below are not compared: they are printed with few digits."""


def farthest(attributes: int) -> float:
    """Largest relative difference of a cell's probability.

    Raises:
        SystemExit: A file is not there.
    """
    if not _ORACLE.exists():
        raise SystemExit(f"needs {_ORACLE.name} in ../shared/oracles, beside the repository")
    case = json.loads(_ORACLE.read_text())[f"S{attributes}"]
    theirs = np.array(case["p_hat"]).reshape(case["dim"], order="F")
    psi = psi_with_prior(survey(attributes))
    ours = ipf(tolerance=1e-10).fit_table(psi, psi.domain).probabilities
    differences = np.abs(ours - theirs) / np.maximum(theirs, _LEAST)
    return float(differences[theirs > _LEAST].max())
