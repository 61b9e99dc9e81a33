"""Counting where the records live: all pairs of 15 attributes, from folders of Parquet and in databases.

``python -m benchmarks.engines [--full] [--only NAME ...] [--folder DIR] [--json FILE] [--plot FILE]``

Folders of 1 and 10 million records; with ``--full`` of 10 and 100 million, which take 2 GB of disk below
DIR, the system's temporary folder by default, until the end. The databases (``benchmarks.engine_rows``)
have the smaller number of records. ``--only`` names parts: parquet, postgresql, duckdb, spark, and
persons: the same records, of persons of whom three count each, in PostgreSQL and DuckDB.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks import bench
from benchmarks.engine_rows import ENGINES, Beside, beside
from benchmarks.made_records import CODING, PAIRS, write
from gencard.controller.records.vault import Vault
from gencard.core.statistics.measure import measure

_MILLION = 1_000_000
_MOST_SECONDS, _MOST_MIB, _MOST_TIMES = 90, 1_024, 3
_RECORDS_OF_A_PERSON = 3
PARQUET = "parquet"
PERSONS = "persons"
PARTS = (PARQUET, *ENGINES, PERSONS)
_SALT = b"salt of the benchmark"


class Counted(NamedTuple):
    """Time and memory of counting all pairs, in a process of its own.

    Args:
        version: Seconds for the version, which a job computes before and after.
        processor: Processor seconds of the count, of all threads.
        peak: Peak memory of the whole process, in MiB.
    """

    records: int
    mib: float
    seconds: float
    processor: float
    version: float
    peak: float


def counted(folder: Path) -> Counted:
    """All pairs of the records in a folder of Parquet."""
    vault = Vault(folder, CODING)
    size = sum(file.stat().st_size for file in folder.iterdir()) / 2**20
    version = bench.once(lambda: vault.version(_SALT))
    totals: list[int] = []

    def count() -> None:
        psi = measure(vault, PAIRS, CODING.domain)
        totals.append(int(psi.measurements[0].values.sum()))

    took: list[float] = []
    used, before = bench.processor_seconds(), bench.resident_mib()
    above = bench.peak_mib(lambda: took.append(bench.once(count)))
    used = bench.processor_seconds() - used
    return Counted(totals[0], size, took[0], used, version, before + above)


def run(quick: bool, parent: Path | None = None, only: Sequence[str] = PARTS) -> bench.Result:
    few, many = (_MILLION, 10 * _MILLION) if quick else (10 * _MILLION, 100 * _MILLION)
    rows, persons = [], []
    with tempfile.TemporaryDirectory(prefix="gencard-engines-", dir=parent) as scratch:
        Path(scratch).chmod(0o755)  # PostgreSQL runs as another user
        folder = Path(scratch) / "records"
        write(folder, 0, few)
        databases = [beside(engine, folder) for engine in ENGINES if engine in only]
        if PARQUET in only:
            rows.append(bench.alone(counted, folder))
            write(folder, few, many)
            rows.append(bench.alone(counted, folder))
        if PERSONS in only:
            folder = Path(scratch) / PERSONS
            write(folder, 0, few, people=few // _RECORDS_OF_A_PERSON)
            persons = [beside(one, folder, _RECORDS_OF_A_PERSON) for one in ("postgresql", "duckdb")]
    parts = [_of_folders(rows, (few, many))] if rows else []
    parts += [_of_databases(databases)] if databases else []
    parts += [_of_persons(persons)] if persons else []
    return bench.Result(
        [table for part in parts for table in part.tables],
        [target for part in parts for target in part.targets],
        {
            name: [one._asdict() for one in part]
            for name, part in ((PARQUET, rows), ("databases", databases), (PERSONS, persons))
        },
        partial(_plot, rows=rows) if rows else None,
    )


def _of_folders(rows: Sequence[Counted], sizes: Sequence[int]) -> bench.Result:
    title = f"{len(PAIRS)} two-way marginals of {len(CODING.attributes)} attributes, folder of Parquet"
    columns = ("records", "MiB", "seconds", "processor seconds", "seconds of one version", "peak MiB")
    table = bench.Table(title, columns, [(f"{one.records:,}", *one[1:]) for one in rows])
    return bench.Result([table], _targets(rows, sizes))


def _beside_table(title: str, records: str, rows: Sequence[Beside]) -> bench.Table:
    columns = ("engine", records, "seconds", "by hand", "times", "peak MiB of our process", "")
    return bench.Table(title, columns, [(one.engine, f"{one.records:,}", *one[2:]) for one in rows])


def _of_persons(rows: Sequence[Beside]) -> bench.Result:
    """By hand all records are counted, and none is chosen."""
    title = f"The same pairs, of {_RECORDS_OF_A_PERSON} records of each person at most"
    targets = [
        bench.Target(f"{one.engine}: peak memory for persons", one.peak, _MOST_MIB, "at most", "MiB")
        for one in rows
        if one.peak is not None
    ]
    return bench.Result(
        [_beside_table(title, "records that count", rows)],
        [*targets, *_beside_by_hand([one for one in rows if one.engine == "postgresql"])],
    )


def _of_databases(rows: Sequence[Beside]) -> bench.Result:
    title = "The same pairs counted by databases, beside the GROUP BYs typed by hand"
    return bench.Result([_beside_table(title, "records", rows)], list(_beside_by_hand(rows)))


def _beside_by_hand(rows: Sequence[Beside]) -> Iterator[bench.Target]:
    for one in rows:
        if one.times is not None:
            yield bench.Target(
                f"{one.engine} beside by hand", one.times, _MOST_TIMES, "at most", "times"
            )


def _targets(rows: Sequence[Counted], sizes: Sequence[int]) -> list[bench.Target]:
    few, many = rows
    growth = many.processor / few.processor / (many.records / few.records)
    missing = sum(size - one.records for size, one in zip(sizes, rows, strict=True))
    bound = _MOST_SECONDS * many.records / (100 * _MILLION)
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    busy = many.seconds > bound and load > 1.5 * cores
    excuse = f"other work, load {load:.1f} of {cores} cores" if busy else ""
    return [
        bench.Target(f"{many.records:,} records", many.seconds, bound, "at most", "s", excuse),
        bench.Target("peak memory", max(one.peak for one in rows), _MOST_MIB, "at most", "MiB"),
        bench.Target("growth beyond linear", growth, 1.25, "at most"),
        bench.Target("records not counted", missing, 0, "at most"),
    ]


def _plot(path: Path, rows: Sequence[Counted]) -> None:
    import matplotlib  # noqa: PLC0415 - only where a plot is wanted

    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, axes = pyplot.subplots(figsize=(5, 3.5), layout="constrained")
    records = [one.records for one in rows]
    axes.loglog(records, [one.seconds for one in rows], "o-", label="seconds")
    axes.loglog(records, [one.processor for one in rows], "s--", label="processor seconds")
    last = rows[-1]
    beyond = [last.records, 10 * last.records]
    axes.loglog(beyond, [last.seconds, 10 * last.seconds], ":", color="gray", label="if it stays linear")
    axes.set(xlabel="records", ylabel="seconds", title=f"All {len(PAIRS)} pairs of 15 attributes")
    axes.legend()
    figure.savefig(path)


if __name__ == "__main__":
    options = bench.parser("engines", usually_quick=True)
    options.add_argument("--folder", type=Path, metavar="DIR", help="where the records are written")
    options.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts; all by default")
    chosen = options.parse_args()
    bench.finish("engines", partial(run, parent=chosen.folder, only=chosen.only), chosen)
