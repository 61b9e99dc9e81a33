"""Numbers drawn by an earlier gencard or by SDV's Gaussian copula, in a process of its own.

``python numbers_once.py PROGRAM FILE COLUMN OTHER GROUP DRAWS OUT``: draws of the column, each of as
many rows as records, are saved as an array (draws, rows) in OUT. ``gencard`` is the one on the path: it
drafts the file's schema, measures all pairs of the three columns exactly and draws rows of maximum
entropy. ``sdv`` fits the whole file. Imports of either program stand in its own function, since neither
environment has both.
"""

import sys
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np


def main() -> None:
    program, file, column, other, group, draws, out = sys.argv[1:]
    if program == "gencard":
        drawn = _gencard(Path(file), (column, other, group), int(draws))
    else:
        drawn = _copula(Path(file), column, int(draws))
    np.save(out, np.array(drawn))


def _gencard(path: Path, names: tuple[str, ...], draws: int) -> list[Any]:
    from datetime import date  # noqa: PLC0415

    from gencard.controller.drafting.schema_draft import draft_schema  # noqa: PLC0415
    from gencard.controller.records.vault import Vault  # noqa: PLC0415
    from gencard.core.coding import Coding  # noqa: PLC0415
    from gencard.core.generators.contract import rng_of  # noqa: PLC0415
    from gencard.core.generators.registry import generator_named  # noqa: PLC0415
    from gencard.core.statistics.measure import measure  # noqa: PLC0415
    from gencard.run.levels import Numbers  # noqa: PLC0415

    draft = draft_schema(path, path.stem, today=date(2026, 11, 27))
    coding = Coding(tuple(one for one in draft.schema.coding.attributes if one.name in names))
    vault = Vault(path, coding, draft.schema.readings, draft.format)
    psi = measure(vault, [*combinations(coding.domain.attributes, 2)], coding.domain)
    generator = generator_named("maximum-entropy", structural_zeros=(), max_cells=10_000_000)
    model, records = generator.fit(psi, psi.domain), int(psi.measurements[0].values.sum())
    levels: Any = coding.attribute(names[0]).coding
    drawn = []
    for seed in range(draws):
        codes = model.sample(records, rng=rng_of(seed)).column(names[0])
        drawn.append(Numbers(seed).of(names[0], levels, codes))
    return drawn


def _copula(path: Path, column: str, draws: int) -> list[Any]:
    records = import_module("pandas").read_parquet(path)
    tables = {"records": records}
    metadata = import_module("sdv.metadata").Metadata.detect_from_dataframes(tables)
    model = import_module("sdv.single_table").GaussianCopulaSynthesizer(metadata)
    model.fit(tables)
    samples = (model.sample(len(records)) for _ in range(draws))
    return [sample["records"][column].to_numpy(dtype=float) for sample in samples]


if __name__ == "__main__":
    main()
