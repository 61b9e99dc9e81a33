"""Rows of ``benchmarks.engines`` about databases: our counts beside the same GROUP BYs typed by hand.

PostgreSQL is a server of the benchmark's own, on a socket in the folder; DuckDB has a file there; Spark
runs here, on the folder of Parquet. Each side runs in a process of its own, which opens the engine
before the clock starts. Ours is what a job does: the version, then psi.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import duckdb

from benchmarks import bench
from benchmarks.made_records import CODING, PAIRS, columns
from gencard.core.coding import Edges, date_of_days
from gencard.core.domain import Clique, Domain
from gencard.core.statistics.counting import cover
from gencard.core.statistics.measure import measure
from tests.controller.state import postgres

ENGINES = ("postgresql", "duckdb", "spark")

_TABLE_CELLS = 10**6
"""Cells of one GROUP BY, as in ``records.tables.table``."""

_TABLES = "gencard.controller.records.tables"
_SALT = b"salt of the benchmark"


class Beside(NamedTuple):
    """Seconds of one engine for all pairs, ours and by hand.

    Args:
        peak: Peak memory of our process, without the engine's own, in MiB.
        lacking: Why there are no figures.
    """

    engine: str
    records: int = 0
    seconds: float | None = None
    by_hand: float | None = None
    times: float | None = None
    peak: float | None = None
    lacking: str = ""


def beside(engine: str, folder: Path) -> Beside:
    """One engine's row, on the records in a folder of Parquet."""
    if lacking := _lacking(engine):
        return Beside(engine, lacking=lacking)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="engine-") as scratch:
        for address in _PLACES[engine](folder, Path(scratch)):
            seconds, peak, records = bench.alone(_ours, address)
            by_hand = bench.alone(_BY_HAND[engine], address)
            return Beside(engine, records, seconds, by_hand, seconds / by_hand, peak)
    raise AssertionError("an engine has one place")


def _lacking(engine: str) -> str:
    for module in (_TABLES, "ibis", *(["pyspark"] if engine == "spark" else [])):
        if find_spec(module) is None:
            return f"{module} is not installed"
    if engine == "spark" and shutil.which("java") is None:
        return "no Java here"
    if engine == "postgresql" and not postgres.has_server():
        return "no PostgreSQL server here"
    return ""


def _ours(address: str) -> tuple[float, float, int]:
    """Seconds, peak memory and records counted."""
    # the extra ``ibis``, which this benchmark can do without
    address_of = import_module(f"{_TABLES}.address").TableAddress
    open_table = import_module(f"{_TABLES}.engines").open_table
    took: list[float] = []
    totals: list[int] = []
    with open_table(address_of(address), "", CODING, {}) as table:

        def job() -> None:
            table.version(_SALT)
            psi = measure(table, PAIRS, CODING.domain)
            totals.append(int(psi.measurements[0].values.sum()))

        before = bench.resident_mib()
        above = bench.peak_mib(lambda: took.append(bench.once(job)))
    return took[0], before + above, totals[0]


def sets() -> tuple[Clique, ...]:
    """The attributes of each GROUP BY."""
    domain = CODING.domain
    sizes = {name: size + 1 for name, size in zip(domain.attributes, domain.sizes, strict=True)}
    return cover(Domain.of(sizes), PAIRS, _TABLE_CELLS)


def statements(table: str) -> list[str]:
    """The GROUP BYs as a person would type them: classes of numbers by CASE, labels as they are."""
    return [
        f"SELECT {', '.join(map(_class, names))}, count(*) FROM {table} "
        f"GROUP BY {', '.join(str(place + 1) for place in range(len(names)))}"
        for names in sets()
    ]


def _class(name: str) -> str:
    coding = CODING.attribute(name).coding
    if not isinstance(coding, Edges):
        return name
    edges = [f"DATE '{date_of_days(edge)}'" if coding.dates else repr(edge) for edge in coding.edges]
    cases = " ".join(f"WHEN {name} < {edge} THEN {code}" for code, edge in enumerate(edges[1:-1]))
    return f"CASE {cases} WHEN {name} <= {edges[-1]} THEN {len(edges) - 2} END"


def _all(execute: Callable[[str], object], table: str) -> float:
    return bench.once(lambda: [execute(statement) for statement in statements(table)])


def _by_hand_in_postgresql(address: str) -> float:
    import psycopg  # noqa: PLC0415

    with psycopg.connect(address.partition("&table")[0]) as connection:
        return _all(lambda statement: connection.execute(statement).fetchall(), "records")


def _by_hand_in_duckdb(address: str) -> float:
    file = address.removeprefix("duckdb://").partition("?")[0]
    with duckdb.connect(file, read_only=True, config={"threads": 2, "memory_limit": "1GiB"}) as engine:
        engine.execute("SET enable_progress_bar = false")
        return _all(lambda statement: engine.execute(statement).fetchall(), "records")


def _by_hand_in_spark(address: str) -> float:
    builder = (
        import_module("pyspark.sql")
        .SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
    )
    builder = builder.config("spark.sql.shuffle.partitions", "8").config("spark.log.level", "OFF")
    session = builder.config("spark.driver.memory", "1g").getOrCreate()
    try:
        session.read.parquet(address.partition("parquet=")[2]).createOrReplaceTempView("records")
        return _all(lambda statement: session.sql(statement).collect(), "records")
    finally:
        session.stop()


def _postgresql(folder: Path, scratch: Path) -> Iterator[str]:
    import psycopg  # noqa: PLC0415

    scratch.chmod(0o755)  # the server runs as another user
    with postgres.server(scratch) as socket:
        url = postgres.new_database(socket).replace("+psycopg", "")
        with psycopg.connect(url) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE UNLOGGED TABLE records ({columns()})")
            for piece in _csv(folder, scratch):
                with (
                    cursor.copy("COPY records FROM STDIN (FORMAT csv)") as copy,
                    piece.open("rb") as text,
                ):
                    while block := text.read(1 << 20):
                        copy.write(block)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE records")
        yield f"{url}&table=records"


def _csv(folder: Path, scratch: Path) -> Iterator[Path]:
    """The files of the folder as CSV without a header, one after another."""
    piece = scratch / "piece.csv"
    for file in sorted(folder.iterdir()):
        duckdb.execute(f"COPY (FROM '{file}') TO '{piece}' (FORMAT csv, HEADER false)")
        yield piece
        piece.unlink()


def _duckdb(folder: Path, scratch: Path) -> Iterator[str]:
    with duckdb.connect(scratch / "records.duckdb", config={"memory_limit": "1GiB"}) as engine:
        engine.execute(f"CREATE TABLE records AS FROM '{folder}/*.parquet'")
    yield f"duckdb://{scratch}/records.duckdb?table=records"


def _spark(folder: Path, _scratch: Path) -> Iterator[str]:
    yield f"spark://local?parquet={folder}"


_PLACES = {"postgresql": _postgresql, "duckdb": _duckdb, "spark": _spark}
_BY_HAND = {
    "postgresql": _by_hand_in_postgresql,
    "duckdb": _by_hand_in_duckdb,
    "spark": _by_hand_in_spark,
}
