"""Utility of rows under the budgets that `init` drafts: ``python -m benchmarks.drafted_budget``.

Mean total variation between the pairs of synthetic rows and of the records, over all pairs and three
draws of noise and rows, for exact counts and for Gaussian noise at several rho.
"""

import tempfile
from itertools import combinations
from pathlib import Path

import numpy as np

from examples.fair_survey import SCHEMA, write_records
from gencard.controller.noise import OpenDpNoise
from gencard.controller.records.schema_file import read_schema
from gencard.controller.records.vault import Vault
from gencard.core.card.privacy import EXACT, gaussian
from gencard.core.generators.family import ipf
from gencard.core.statistics.measure import measure, measure_dataset
from tests.system.house import SCHEMA as MADE_UP_SCHEMA
from tests.system.house import survey

RHOS = (None, "0.5", "0.1", "0.05", "0.01")
DRAWS = 3


def total_variation(vault: Vault, rho: str | None) -> float:
    """Mean over all pairs and draws; rows are as many as records."""
    domain = vault.coding.domain
    pairs = list(combinations(domain.attributes, 2))
    true = [counts.reshape(-1) for counts in vault.count(pairs)]
    records = int(true[0].sum())
    privacy = EXACT if rho is None else gaussian(rho, neighbouring="add-remove")
    noise = None if rho is None else OpenDpNoise()
    distances = []
    for draw in range(DRAWS):
        psi = measure(vault, pairs, domain, privacy, noise=noise)
        rows = ipf().fit(psi, domain).sample(records, rng=np.random.default_rng(draw))
        made = {part.clique: part.values for part in measure_dataset(rows, pairs).measurements}
        distances += [
            np.abs(made[pair].reshape(-1) - counts).sum() / (2 * records)
            for pair, counts in zip(pairs, true, strict=True)
        ]
    return float(np.mean(distances))


def main() -> None:
    """Print one line for each survey."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_records(folder / "fair.csv")
        survey().to_csv(folder / "made-up.csv", index=False)
        print(f"{'records':10}", *(f"{'exact' if rho is None else f'rho {rho}':>9}" for rho in RHOS))
        for survey_name, schema_text in (("fair", SCHEMA), ("made-up", MADE_UP_SCHEMA)):
            (folder / "schema.toml").write_text(schema_text)
            schema = read_schema(folder / "schema.toml")
            vault = Vault(folder / f"{survey_name}.csv", schema.coding, schema.readings)
            print(f"{survey_name:10}", *(f"{total_variation(vault, rho):9.4f}" for rho in RHOS))


if __name__ == "__main__":
    main()
