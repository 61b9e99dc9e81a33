"""Raab (2022), Tables 2 and 3: synthpop's figures again, beside the paper's and beside runs in R."""

import json
from dataclasses import dataclass
from functools import cache
from math import inf, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import synthpop
from benchmarks.diagnosis import survey
from benchmarks.scores import Array, Scores
from gencard.core.dataset import Dataset
from gencard.core.generators.contract import rng_of
from gencard.core.generators.family import ipf

EPSILONS = (0.01, 0.1, 0.5, 1.0, 2.0, 10.0)

FIRST_SEED = 1001

_ORACLE = Path(__file__).resolve().parents[2] / "shared/oracles/synthpop/table2_table3_reference.json"

_TOLERANCE = 1e-7
"""L1 distance of exact marginals, in shares: synthpop asks for 1e-4 records of 5,000."""

_PAPER_SYNTHESES = 10

_PAPER_ROUNDING = 0.005


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A row of the paper's tables, again. Epsilon is what synthpop says, and 0 where nothing is noisy.

    Args:
        paper: What is printed; None where nothing is.
        runs: What synthpop 1.7-1 gives in R: in 50 to 100 runs, or in 10 where there are no more.
    """

    attributes: int
    method: str
    epsilon: float
    scores: Scores
    paper: dict[str, Any]
    runs: dict[str, Any]

    @property
    def deviations(self) -> list[float]:
        """Differences of our means from those of the runs and of the paper, in standard errors."""
        scores, runs = self.scores, self.runs
        return [
            deviation
            for name, ours, spread in (
                ("ru_pct", scores.uniques, runs["ru_sd"]),
                ("two", scores.two, runs["two_sd"]),
                ("three", scores.three, None),
            )
            for deviation in self._deviations(name, ours, _pooled(ours, spread, runs["m"]))
        ]

    def _deviations(self, name: str, ours: Array, spread: float) -> list[float]:
        off = abs(float(ours.mean()) - self.runs[name])
        deviations = [_in_errors(off, spread, len(ours), self.runs["m"])]
        if self.paper[name] is not None:
            off = max(0.0, abs(float(ours.mean()) - self.paper[name]) - _PAPER_ROUNDING)
            deviations.append(_in_errors(off, spread, len(ours), _PAPER_SYNTHESES))
        return deviations


def reproduced(attributes: int, method: str, epsilon: float, syntheses: int) -> Row:
    """One row: an exact one by our own generators, a noisy one by synthpop's convention and floats."""
    dataset = survey(attributes)
    scores = Scores(dataset)
    for seed in range(FIRST_SEED, FIRST_SEED + syntheses):
        rng = rng_of(seed)
        fitted = _fitted(dataset, method, epsilon, rng)
        scores.add(fitted.model.sample(len(dataset), rng=rng), converged=fitted.converged)
    row = _reference()[f"S{attributes}", method, epsilon]
    runs = row["synthpop_1_7_1_a309e70_many"] or row["synthpop_1_7_1_a309e70_m10"]
    return Row(attributes, method, epsilon, scores, row["paper"], runs)


def _fitted(dataset: Dataset, method: str, epsilon: float, rng: np.random.Generator) -> synthpop.Fitted:
    if method == "catall":
        return synthpop.catall(dataset)
    if not epsilon:
        psi = synthpop.psi_with_prior(dataset)
        return synthpop.Fitted(ipf(tolerance=_TOLERANCE).fit_table(psi, dataset.domain))
    margins = synthpop.with_laplace(synthpop.margins(dataset), epsilon, rng)
    return synthpop.ipf(synthpop.made_positive(margins, len(dataset)), dataset.domain)


@cache
def _reference() -> dict[tuple[str, str, float], dict[str, Any]]:
    if not _ORACLE.exists():
        raise SystemExit(f"needs {_ORACLE.name} in ../shared/oracles, beside the repository")
    rows = json.loads(_ORACLE.read_text())["rows"]
    return {(row["dataset"], row["method"], row["epsilon"]): row for row in rows}


def _pooled(ours: Array, theirs: float | None, syntheses: int) -> float:
    """Standard deviation between syntheses, from both; from ours alone where theirs is not known."""
    own = float(ours.var(ddof=1))
    if theirs is None:
        return sqrt(own)
    return sqrt(np.average([own, theirs**2], weights=[len(ours) - 1, syntheses - 1]))


def _in_errors(off: float, spread: float, one: int, other: int) -> float:
    """A difference of two means of so many syntheses, in standard errors."""
    if spread == 0:
        return 0.0 if off == 0 else inf
    return off / (spread * sqrt(1 / one + 1 / other))
