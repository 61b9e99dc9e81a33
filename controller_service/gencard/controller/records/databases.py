"""Opening tables of PostgreSQL, DuckDB and Spark: read-only, and as one snapshot where there are any."""

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from itertools import islice
from threading import Event
from typing import Any

from gencard.controller.records.file_format import CLOSED_ENGINE, silently
from gencard.controller.records.table_address import TableAddress
from gencard.controller.records.table_codes import in_zones
from gencard.controller.records.tables import IbisTable
from gencard.core.coding import Coding, Reading
from gencard.core.errors import InvalidInputError

_BATCH = 1 << 16
_CONNECT_SECONDS = 10
_RETRIES = 5  # of Spark Connect: about twenty seconds

_SESSION = "-c default_transaction_read_only=on -c datestyle=ISO -c timezone=UTC -c search_path="
"""Options of PostgreSQL: a cast to text or date must not depend on the server's configuration."""

_SPARK = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.log.level": "OFF",  # a log may quote a record
}


@contextmanager
def open_table(
    address: TableAddress, secret: str, coding: Coding, readings: Mapping[str, Reading]
) -> Iterator[IbisTable]:
    """Open the table at an address, for the length of the context.

    ``secret`` is the password of PostgreSQL, or token of Spark Connect; empty for none. Raises
    DatasetUnavailableError, or InvalidInputError without the libraries or for a zone that does not
    fit.
    """
    with open_backend(address, secret) as backend, ExitStack() as going:
        records = silently(lambda: records_of(backend, address))
        run, snapshot = runner(backend, address), address.engine in ("postgresql", "duckdb")
        if address.engine == "postgresql":
            run = partial(_one_copy, backend, going)
        instants = instants_of(backend, records)
        records, plain = in_zones(records, coding, readings, instants)
        yield IbisTable(run, records, coding, plain, address.identity, snapshot, instants)


def runner(backend: Any, address: TableAddress) -> Callable[[Any], Iterable[Any]]:
    """Return a function that executes an expression of Ibis and yields batches of Arrow."""
    if address.engine == "duckdb":
        return partial(_run_by_duckdb, backend)
    return partial(backend.to_pyarrow_batches, chunk_size=_BATCH)


@contextmanager
def open_backend(address: TableAddress, secret: str) -> Iterator[Any]:
    """Open the backend of Ibis; raises as ``open_table``."""
    extra = "spark" if address.engine in ("spark", "sc") else "ibis"
    for module in ("ibis", *(["pyspark"] if extra == "spark" else [])):
        try:
            import_module(module)
        except ImportError:
            problem = f"needs pip install 'gencard[{extra}]'"
            raise InvalidInputError(field="data", problem=problem) from None
    opener = {"postgresql": _postgres, "duckdb": _duckdb}.get(address.engine, _spark)
    with opener(address, secret) as backend:
        yield backend


@contextmanager
def _postgres(address: TableAddress, secret: str) -> Iterator[Any]:
    import ibis  # noqa: PLC0415
    import psycopg  # noqa: PLC0415

    credentials: dict[str, Any] = {"password": secret} if secret else {}
    how = {"connect_timeout": _CONNECT_SECONDS, "options": _SESSION, **credentials}
    connection = silently(lambda: psycopg.connect(address.url, autocommit=True, **how))
    try:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        backend = silently(lambda: ibis.postgres.from_connection(connection))
        # the transactions that Ibis opens become savepoints of this one
        with connection.transaction():
            yield backend
    finally:
        connection.close()


@contextmanager
def _duckdb(address: TableAddress, _secret: str) -> Iterator[Any]:
    import duckdb  # noqa: PLC0415
    import ibis  # noqa: PLC0415

    # no other process can write the file while this one has it open
    config = CLOSED_ENGINE | {"memory_limit": "1GiB"}
    connection = silently(lambda: duckdb.connect(address.path, read_only=True, config=config))
    try:
        backend = silently(lambda: ibis.duckdb.from_connection(connection))
        connection.execute("SET enable_progress_bar = false")
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET enable_external_access = false")  # views may name other files
        # Last: it keeps every later statement, also one inside a view, from changing the settings above.
        connection.execute("SET lock_configuration = true")
        yield backend
    finally:
        connection.close()


@contextmanager
def _spark(address: TableAddress, secret: str) -> Iterator[Any]:
    import ibis  # noqa: PLC0415

    with ExitStack() as closing:
        # Workaround: PySpark sets this variable for a session of Spark Connect (SPARK-43509) and leaves
        # it set when a remote session stops; afterwards the process can open no other kind of session.
        closing.callback(os.environ.pop, "SPARK_CONNECT_MODE_ENABLED", None)
        session = silently(lambda: _session(address, secret))
        closing.callback(silently, session.stop)
        yield silently(lambda: ibis.pyspark.connect(session))


def _session(address: TableAddress, secret: str) -> Any:
    if address.engine == "sc":
        return _session_of_server(address, secret)
    from pyspark.sql import SparkSession  # noqa: PLC0415

    os.environ.setdefault("PATH", os.defpath)  # jobs have no environment, and Spark looks for Java there
    master = "local[2]" if address.url == "spark://local" else address.url
    builder = SparkSession.builder.master(master).appName("gencard")
    for key, value in _SPARK.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _session_of_server(address: TableAddress, secret: str) -> Any:
    from pyspark.sql import SparkSession  # noqa: PLC0415
    from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415

    token = f";token={secret}" if secret else ""
    url = address.url.rstrip("/;") + "/" * (";" not in address.url) + token
    # Spark's client would try for ten minutes, also where one side speaks TLS and the other does not
    ready = Event()

    def look(state: Any) -> None:
        if state.name == "READY":
            ready.set()

    with DefaultChannelBuilder(url).toChannel() as channel:
        channel.subscribe(look, try_to_connect=True)
        if not ready.wait(_CONNECT_SECONDS):
            raise TimeoutError
    session: Any = SparkSession.builder.remote(url).create()
    session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])
    return session


def records_of(backend: Any, address: TableAddress) -> Any:
    """Return the table of an address, as an expression of Ibis."""
    if address.parquet:
        return backend.read_parquet(address.parquet)
    *database, name = address.table_parts
    if address.engine == "postgresql" and not database:
        database = ["public"]
    return backend.table(name, database=tuple(database) or None)


def instants_of(backend: Any, records: Any) -> frozenset[str]:
    """Return the columns whose values are instants by their type: timestamps with a zone."""
    if backend.name == "pyspark":  # for Ibis, its timestamps with a zone and those without are one type
        fields = silently(lambda: backend.raw_sql(backend.compile(records)).schema.fields)
        return frozenset(one.name for one in fields if one.dataType.typeName() == "timestamp")
    types = records.schema().items()
    return frozenset(name for name, one in types if one.is_timestamp() and one.timezone is not None)


def _one_copy(backend: Any, going: ExitStack, query: Any) -> Iterator[Any]:
    """Yield batches by COPY; a half-read COPY is cancelled before the next, or when ``going`` closes.

    Until then the connection is blocked: the end of its transaction would wait for ever.
    """
    going.close()
    batches = _copied(backend, query)
    going.callback(silently, batches.close)
    if not (yield from batches):
        raise RuntimeError("the COPY was cancelled before its end, by another one")


def _copied(backend: Any, query: Any) -> Generator[Any, None, bool]:
    """Yield batches by COPY, in half the time of a cursor; stopping early keeps the snapshot.

    Returns True at the end; a generator that was closed returns None.
    """
    from pyarrow import BufferReader, csv  # noqa: PLC0415

    schema = query.schema().to_pyarrow()
    # NULL is nothing, and an empty text is two marks
    nulls = {"null_values": [""], "strings_can_be_null": True, "quoted_strings_can_be_null": False}
    options = (
        csv.ReadOptions(column_names=schema.names),
        csv.ParseOptions(newlines_in_values=True),
        csv.ConvertOptions(column_types=schema, **nulls),
    )
    statement = f"COPY ({backend.compile(query)}) TO STDOUT (FORMAT csv)"
    with backend.con.transaction(), backend.con.cursor().copy(statement) as copy:
        while lines := b"".join(map(bytes, islice(copy, _BATCH))):
            yield from csv.read_csv(BufferReader(lines), *options).combine_chunks().to_batches()
    return True


def _run_by_duckdb(backend: Any, query: Any) -> Iterable[Any]:
    # Workaround: to_pyarrow_batches of Ibis 12 calls fetch_record_batch, which DuckDB 2 has removed
    # (ibis-project/ibis#12001 is the same for tables).
    batches: Iterable[Any] = backend.con.sql(backend.compile(query)).to_arrow_reader(_BATCH)
    return batches
