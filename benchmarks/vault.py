"""The vault: measuring a file of ten million records, Parquet and CSV, in bounded memory.

``python -m benchmarks.vault [--quick] [--json FILE]``
"""

import tempfile
from itertools import combinations
from pathlib import Path

import duckdb

from benchmarks import bench
from gencard.controller.records.vault import Vault
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.statistics.measure import measure

_TEXTS = 12
_NUMBERS = 3

CODING = Coding(
    (
        *(
            Attribute(f"text {k}", Labels(tuple(f"level {level}" for level in range(3 + k))))
            for k in range(_TEXTS)
        ),
        *(
            Attribute(f"number {k}", Edges(tuple(float(edge) for edge in range(0, 101, 10))))
            for k in range(_NUMBERS)
        ),
    )
)


def write(path: Path, records: int) -> None:
    """Made-up records under ``CODING``."""
    texts = (
        f"'level ' || CAST(hash(i * 17 + {k}) % {3 + k} AS VARCHAR) AS \"text {k}\""
        for k in range(_TEXTS)
    )
    numbers = (f'(hash(i * 13 + {k}) % 1000) / 10.0 AS "number {k}"' for k in range(_NUMBERS))
    columns = ", ".join([*texts, *numbers])
    with duckdb.connect() as engine:
        engine.execute("SET enable_progress_bar = false")
        engine.execute(f"COPY (SELECT {columns} FROM range({records}) r(i)) TO '{path}'")


def count(path: Path) -> int:
    """Measure all pairs; the number of records that psi is of."""
    cliques = list(combinations(CODING.domain.attributes, 2))
    psi = measure(Vault(path, CODING), cliques, CODING.domain)
    return int(psi.measurements[0].values.sum())


def measured(path: Path) -> tuple[float, float, int]:
    """Seconds, peak memory of the whole process in MiB, and the records that were counted."""
    counted: list[int] = []
    took: list[float] = []
    before = bench.resident_mib()
    above = bench.peak_mib(lambda: took.append(bench.once(lambda: counted.append(count(path)))))
    return took[0], before + above, counted[0]


def run(quick: bool) -> bench.Result:
    records = 1_000_000 if quick else 10_000_000
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("parquet", "csv"):
            path = Path(folder) / f"records.{kind}"
            write(path, records)
            size = path.stat().st_size / 2**20
            rows.append((kind, size, *bench.alone(measured, path)))
            path.unlink()
    title = f"105 two-way marginals of 15 attributes, {records:,} records in a file"
    columns = ("file", "MiB", "seconds", "peak MiB of the process", "records counted")
    worst = max(peak for _, _, _, peak, _ in rows)
    missing = sum(records - counted for *_, counted in rows)
    return bench.Result(
        [bench.Table(title, columns, rows)],
        [
            bench.Target("peak memory", worst, 1024, "at most", "MiB"),
            bench.Target("records not counted", missing, 0, "at most"),
        ],
    )


if __name__ == "__main__":
    bench.main("vault", run)
