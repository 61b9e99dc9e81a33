"""Noise for persons, attacked: lower bounds on epsilon from many measurements of neighbouring records.

    python -m benchmarks.person_noise [--runs 2000]

One person has 20 records, all in one cell; records with and without the person (or with another person
in another cell) are measured again and again. A test on the noisy counts of these cells, its threshold
chosen on half of the runs, tells the two apart in the other half; what it reaches bounds epsilon from
below (Clopper-Pearson, wrong once in a thousand). Bounds may not pass the claim. They can where k
records of a person count and noise is drawn for one record ("for one record"), and where besides all 20
count ("not limited").
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from gencard.controller.noise import OpenDpNoise
from gencard.controller.records.source import Persons
from gencard.controller.records.vault import Vault
from gencard.core.card.budget import Neighbouring
from gencard.core.card.privacy import AddedNoise, Mechanism, Noise, noise_with
from gencard.core.coding import Attribute, Coding, Labels
from gencard.core.statistics.noise import epsilon_of, noisy_marginal
from gencard.core.statistics.psi import Measurement, Psi
from gencard.core.types import FloatArray

CODING = Coding((Attribute("a", Labels(("x", "y", "z"))), Attribute("b", Labels(("x", "y")))))
CLIQUES = (("a",), ("a", "b"))
RECORDS_OF_PERSON = 20
BETA = 0.001
DELTA = 1e-5


@dataclass(frozen=True, slots=True)
class Bound:
    """Epsilon that the runs prove for one method of measuring.

    Args:
        way: "for a person", "for one record" or "not limited".
        claim, proved: Epsilon, at ``DELTA`` for Gaussian noise.
    """

    mechanism: str
    relation: str
    most_records: int
    way: str
    claim: float
    proved: float


def bounds(
    folder: Path,
    most_records: int,
    mechanism: Mechanism,
    relation: Neighbouring,
    runs: int,
    noise: Noise,
) -> Iterator[Bound]:
    """The right way to measure, and the two wrong ones."""
    budget = {"epsilon": "1"} if mechanism is Mechanism.LAPLACE else {"rho": "0.1"}
    one = noise_with(mechanism, {**budget, "neighbouring": relation})
    person = noise_with(mechanism, {**one.parameters, "most_records": str(most_records)})
    claim = float(
        one.budget if mechanism is Mechanism.LAPLACE else epsilon_of(one.budget, Decimal(str(DELTA)))
    )
    for way, privacy, limit in (
        ("for a person", person, most_records),
        ("for one record", one, most_records),
        ("not limited", one, 1_000),
    ):
        low, high = (_counted(folder, limit, there=there, relation=relation) for there in (False, True))
        scores = [_scores(psi, privacy, runs, noise) for psi in (low, high)]
        delta = 0.0 if mechanism is Mechanism.LAPLACE else DELTA
        proved = lower_bound(*scores, delta=delta, beta=BETA)
        yield Bound(mechanism, relation, most_records, way, claim, proved)


def lower_bound(low: FloatArray, high: FloatArray, *, delta: float, beta: float) -> float:
    """Epsilon that is proved at level ``beta`` by scores that should be alike; at least 0.

    The first halves choose a threshold, the second halves test it.
    """
    half = len(low) // 2
    thresholds = np.unique(np.concatenate([low[:half], high[:half]]))
    chosen = thresholds[_epsilons(low[:half], high[:half], thresholds, delta, beta).argmax()]
    return max(0.0, float(_epsilons(low[half:], high[half:], np.array([chosen]), delta, beta)[0]))


def _epsilons(
    low: FloatArray, high: FloatArray, thresholds: FloatArray, delta: float, beta: float
) -> FloatArray:
    """Return the epsilon that each threshold proves; minus infinity if it proves nothing."""
    hits, false = (len(part) - np.searchsorted(np.sort(part), thresholds) for part in (high, low))
    least = np.where(hits, stats.beta.ppf(beta / 2, hits, len(high) - hits + 1), 0.0)
    few = np.minimum(false, len(low) - 1)
    most = np.where(false < len(low), stats.beta.ppf(1 - beta / 2, few + 1, len(low) - few), 1.0)
    with np.errstate(divide="ignore"):
        proved: FloatArray = np.log(np.maximum(least - delta, 0.0) / most)
    return proved


def _counted(folder: Path, limit: int, *, there: bool, relation: Neighbouring) -> Psi:
    """One side, counted by the vault: with the person, or without it, or with another in its place."""
    rng = np.random.default_rng(5)
    drawn = {"id": rng.integers(0, 100, 300), "a": rng.choice(list("xyz"), 300)}
    others = pd.DataFrame(drawn | {"b": rng.choice(list("xy"), 300)})
    levels = ("x", "x") if there else ("z", "y")
    mine = pd.DataFrame([{"id": 999, "a": levels[0], "b": levels[1]}] * RECORDS_OF_PERSON)
    alone = not there and relation is Neighbouring.ADD_REMOVE
    path = folder / f"{relation}-{there}.parquet"
    (others if alone else pd.concat([others, mine])).to_parquet(path)
    tables = Vault(path, CODING, persons=Persons("id", limit, b"key")).count(CLIQUES)
    return Psi(CODING.domain, tuple(map(Measurement, CLIQUES, tables)))


def _scores(psi: Psi, privacy: AddedNoise, runs: int, noise: Noise) -> FloatArray:
    """Sum in each run the noisy counts of the person's cells, less the counts of the other person's."""
    budgets = privacy.parts([1] * len(psi.measurements))
    one, two = (
        noisy_marginal(repeated(measurement, runs), privacy, noise, budget).values
        for measurement, budget in zip(psi.measurements, budgets, strict=True)
    )
    scores: FloatArray = np.asarray(one[:, 0] + two[:, 0, 0] - one[:, 2] - two[:, 2, 1], dtype=float)
    return scores


def repeated(measurement: Measurement, runs: int) -> Measurement:
    """The same table so many times, along a first axis: noise on each count is drawn by itself."""
    return Measurement(measurement.clique, np.repeat(measurement.values[None], runs, axis=0))


def table(rows: Sequence[Bound]) -> str:
    """For people; a bound above its claim is marked."""
    lines = [f"{'noise':<9} {'neighbours':<12} {'k':>3}  {'noise drawn':<15} {'claim':>6} {'proved':>7}"]
    for row in rows:
        mark = "  above the claim" if row.proved > row.claim else ""
        lines.append(
            f"{row.mechanism:<9} {row.relation:<12} {row.most_records:>3}  {row.way:<15} "
            f"{row.claim:>6.2f} {row.proved:>7.2f}{mark}"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=2_000, help="measurements of each side")
    runs = parser.parse_args().runs
    noise = OpenDpNoise()
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            bound
            for mechanism in (Mechanism.LAPLACE, Mechanism.GAUSSIAN)
            for relation in Neighbouring
            for most_records in (1, 3, 10)
            for bound in bounds(Path(folder), most_records, mechanism, relation, runs, noise)
        ]
    print(table(rows))


if __name__ == "__main__":
    main()
