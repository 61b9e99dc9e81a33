"""Rows of ``benchmarks.engines`` about databases: our counts beside the same GROUP BYs typed by hand.

PostgreSQL is a server of the benchmark's own, on a socket in the folder; DuckDB has a file there; Spark
runs here, on the folder of Parquet. Each side runs in a process of its own, which opens the engine
before the clock starts. Ours is what a job does: the version, then psi.
"""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import duckdb

from benchmarks import bench
from benchmarks.made_records import CODING, PAIRS, PERSON
from gencard.controller.records.source import Persons
from gencard.core.coding import Edges, date_of_days
from gencard.core.domain import Clique, Domain
from gencard.core.statistics.marginals import cover
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


def beside(engine: str, folder: Path, most_records: int = 0) -> Beside:
    """One engine's row, on the records in a folder of Parquet.

    Args:
        most_records: Of one person that count for us; 0 where records are nobody's.
    """
    if reason := lacking(engine):
        return Beside(engine, lacking=reason)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="engine-") as scratch:
        Path(scratch).chmod(0o755)  # the server of PostgreSQL runs as another user
        server = postgres.server(Path(scratch)) if engine == "postgresql" else nullcontext("")
        with server as socket:
            address = address_of(engine, folder, Path(scratch), socket)
            seconds, peak, records = bench.alone(_ours, address, most_records)
            by_hand = bench.alone(_BY_HAND[engine], address)
    return Beside(engine, records, seconds, by_hand, seconds / by_hand, peak)


def lacking(engine: str) -> str:
    """Why an engine cannot be used here; empty where it can."""
    for module in (_TABLES, "ibis", *(["pyspark"] if engine == "spark" else [])):
        if find_spec(module) is None:
            return (
                f"{module} is not installed (make spark)" if module == "pyspark" else f"no {module} here"
            )
    if engine == "spark" and shutil.which("java") is None:
        return "no Java here (Debian: openjdk-17-jre-headless)"
    if engine == "postgresql" and not postgres.has_server():
        return "no PostgreSQL server here"
    return ""


def _ours(address: str, most_records: int) -> tuple[float, float, int]:
    """Seconds, peak memory and records counted."""
    # the extra ``ibis``, which this benchmark can do without
    address_of = import_module(f"{_TABLES}.address").TableAddress
    open_table = import_module(f"{_TABLES}.engines").open_table
    took: list[float] = []
    totals: list[int] = []
    with open_table(address_of(address), "", CODING, {}) as table:
        source, look = table, partial(table.version, _SALT)
        if most_records:
            persons = Persons.of(PERSON, most_records, _SALT)
            source = import_module(f"{_TABLES}.person_table").PersonTable(table, CODING, {}, persons)
            look = partial(source.confirm, source.version(_SALT), _SALT)  # a job is told the version

        def job() -> None:
            look()
            psi = measure(source, PAIRS, CODING.domain)
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


def address_of(engine: str, folder: Path, scratch: Path, socket: str = "") -> str:
    """The address of the records of a folder of Parquet, put where an engine reads them.

    Args:
        scratch: A folder for the engine's own file.
        socket: Of the server of PostgreSQL, on which the records get a database of their own.
    """
    if engine == "spark":
        return f"spark://local?parquet={folder}"
    if engine == "postgresql":
        url = postgres.new_database(socket).replace("+psycopg", "")
        _fill(url, folder, scratch)
        return f"{url}&table=records"
    file = Path(tempfile.mkdtemp(dir=scratch)) / "records.duckdb"
    with duckdb.connect(file, config={"memory_limit": "1GiB"}) as connection:
        connection.execute(f"CREATE TABLE records AS FROM '{folder}/*.parquet'")
    return f"duckdb://{file}?table=records"


def _fill(url: str, folder: Path, scratch: Path) -> None:
    """The table ``records`` of PostgreSQL, from CSV, one file of the folder after another."""
    import psycopg  # noqa: PLC0415

    files = sorted(folder.iterdir())
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE UNLOGGED TABLE records ({_columns(files[0])})")
        for file in files:
            piece = scratch / "piece.csv"
            duckdb.execute(f"COPY (FROM '{file}') TO '{piece}' (FORMAT csv, HEADER false)")
            with cursor.copy("COPY records FROM STDIN (FORMAT csv)") as copy, piece.open("rb") as text:
                while block := text.read(1 << 20):
                    copy.write(block)
            piece.unlink()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE records")


def _columns(file: Path) -> str:
    """Names and types of a file's columns in PostgreSQL."""
    described = duckdb.execute(f"DESCRIBE FROM '{file}'").fetchall()
    return ", ".join(f'"{name}" {_POSTGRES_TYPES.get(kind, kind)}' for name, kind, *_ in described)


_POSTGRES_TYPES = {"VARCHAR": "text", "DOUBLE": "float8", "FLOAT": "real", "TINYINT": "smallint"}
"""Types that DuckDB calls otherwise."""

_BY_HAND = {
    "postgresql": _by_hand_in_postgresql,
    "duckdb": _by_hand_in_duckdb,
    "spark": _by_hand_in_spark,
}
