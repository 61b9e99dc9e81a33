"""Tables of PostgreSQL, DuckDB and Spark, opened read-only and as one snapshot; rights of the role."""

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from itertools import islice
from threading import Event
from typing import Any, NamedTuple

from gencard.controller.records.file_format import silently
from gencard.controller.records.table_address import TableAddress
from gencard.controller.records.table_codes import in_zones
from gencard.controller.records.tables import IbisTable
from gencard.core.coding import Coding, Reading
from gencard.core.errors import InvalidInputError, RoleNotReadOnlyError

_BATCH = 1 << 16
_CONNECT_SECONDS = 10
_RETRIES = 5  # of Spark Connect: about twenty seconds

_SESSION = "-c default_transaction_read_only=on -c datestyle=ISO -c timezone=UTC -c search_path="
"""Options of PostgreSQL: a cast to text or date must not depend on the server's configuration."""

_DUCKDB: dict[str, Any] = {
    "memory_limit": "1GiB",
    "threads": 2,
    "temp_directory": "",  # nothing may spill to disk
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
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

    Args:
        secret: Password of PostgreSQL, or token of Spark Connect; empty for none.

    Raises:
        DatasetUnavailableError: The database cannot be reached, or has no such table.
        InvalidInputError: The libraries for the database are not installed, or the column of a zone
            does not fit.
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
    connection = silently(
        lambda: psycopg.connect(
            address.url,
            autocommit=True,
            connect_timeout=_CONNECT_SECONDS,
            options=_SESSION,
            **credentials,
        )
    )
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
    connection = silently(lambda: duckdb.connect(address.path, read_only=True, config=_DUCKDB))
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
    """Return a session of Spark Connect; fails within seconds if the server cannot be reached."""
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
    options = {
        "read_options": csv.ReadOptions(column_names=schema.names),
        "parse_options": csv.ParseOptions(newlines_in_values=True),
        # NULL is nothing, and an empty text is two marks
        "convert_options": csv.ConvertOptions(
            column_types=schema,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    }
    statement = f"COPY ({backend.compile(query)}) TO STDOUT (FORMAT csv)"
    with backend.con.transaction(), backend.con.cursor().copy(statement) as copy:
        while lines := b"".join(map(bytes, islice(copy, _BATCH))):
            yield from csv.read_csv(BufferReader(lines), **options).combine_chunks().to_batches()
    return True


def _run_by_duckdb(backend: Any, query: Any) -> Iterable[Any]:
    # Workaround: to_pyarrow_batches of Ibis 12 calls fetch_record_batch, which DuckDB 2 has removed
    # (ibis-project/ibis#12001 is the same for tables).
    batches: Iterable[Any] = backend.con.sql(backend.compile(query)).to_arrow_reader(_BATCH)
    return batches


# Rights of an address's role in PostgreSQL, from the catalogs: no record is read.
#
# All rights count: of the role itself, of all roles (PUBLIC), and of a role that it is a member of,
# even if it has to SET ROLE first. A function that runs with its owner's rights (SECURITY DEFINER) may
# do everything that its owner may, so the role may execute none. The catalogs of one database do not
# show the rights of PUBLIC in the server's other databases, which are therefore not checked.


_ROLES = """WITH roles AS (
    SELECT oid, pg_catalog.quote_ident(rolname) AS name, rolname = session_user AS own,
        rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls
            OR rolname LIKE 'pg\\_%' AS powerful
    FROM pg_catalog.pg_roles WHERE pg_catalog.pg_has_role(session_user, oid, 'MEMBER')
)
"""

_MEMBERSHIPS = """SELECT name, own, powerful,
    EXISTS (
        SELECT FROM pg_catalog.pg_shdepend
        WHERE refobjid = oid AND refclassid = 'pg_catalog.pg_authid'::regclass AND deptype = 'o'
    ),
    ARRAY(
        SELECT direct.name
        FROM pg_catalog.pg_auth_members AS link
        JOIN roles AS one ON one.oid = link.member AND one.own
        JOIN roles AS direct ON direct.oid = link.roleid
        WHERE pg_catalog.pg_has_role(direct.oid, roles.oid, 'MEMBER')
        ORDER BY 1
    )
FROM roles ORDER BY own DESC, name"""
"""Query of the session's role, then of roles that it can act as, and by which of its memberships."""

_GRANTS = """, grantees AS (SELECT oid, name FROM roles UNION ALL SELECT 0, 'PUBLIC'),
relations AS (
    SELECT pg_class.oid, nspname, relname, relacl, relowner, relkind = 'S' AS counts
    FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
),
objects AS (
    SELECT 'pg_catalog.pg_class'::regclass AS catalog, oid, 0 AS subid, nspname, relname, '' AS part,
        CASE WHEN counts THEN 'SEQUENCE ' ELSE 'TABLE ' END
            || pg_catalog.format('%I.%I', nspname, relname) AS place,
        coalesce(relacl, acldefault(CASE WHEN counts THEN 's' ELSE 'r' END::"char", relowner)) AS acl
    FROM relations
    UNION ALL
    SELECT 'pg_catalog.pg_class'::regclass, relations.oid, attnum, nspname, relname,
        pg_catalog.format(' (%I)', attname),
        pg_catalog.format('TABLE %I.%I', nspname, relname), attacl
    FROM relations JOIN pg_catalog.pg_attribute ON attrelid = relations.oid
    WHERE attacl IS NOT NULL AND NOT attisdropped
    UNION ALL
    SELECT 'pg_catalog.pg_proc'::regclass, pg_proc.oid, 0, nspname, '', '',
        CASE prokind WHEN 'p' THEN 'PROCEDURE ' ELSE 'FUNCTION ' END || pg_catalog.format(
            '%I.%I(%s)', nspname, proname, pg_catalog.pg_get_function_identity_arguments(pg_proc.oid)
        ),
        coalesce(proacl, acldefault('f', proowner))
    FROM pg_catalog.pg_proc JOIN pg_catalog.pg_namespace ON pg_namespace.oid = pronamespace
    WHERE prosecdef OR proacl IS NOT NULL AND nspname IN ('pg_catalog', 'information_schema')
    UNION ALL
    SELECT 'pg_catalog.pg_namespace'::regclass, oid, 0, nspname, '', '',
        pg_catalog.format('SCHEMA %I', nspname),
        coalesce(nspacl, acldefault('n', nspowner))
    FROM pg_catalog.pg_namespace
    UNION ALL
    SELECT 'pg_catalog.pg_database'::regclass, oid, 0, '', '', '',
        pg_catalog.format('DATABASE %I', datname),
        coalesce(datacl, acldefault('d', datdba))
    FROM pg_catalog.pg_database WHERE datname = current_database()
)
SELECT DISTINCT nspname, relname, place, item.privilege_type || part, name
FROM objects, pg_catalog.aclexplode(acl) AS item JOIN grantees ON grantees.oid = item.grantee
WHERE item.grantee <> 0 OR nspname NOT IN ('pg_catalog', 'information_schema')
OR nspname = 'pg_catalog' AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_init_privs AS usual, pg_catalog.aclexplode(initprivs) AS given
    WHERE (usual.classoid, usual.objoid, usual.objsubid) = (catalog, objects.oid, subid)
    AND (given.grantee, given.privilege_type) = (0, item.privilege_type)
)
ORDER BY 3, 4, 5"""
"""Query of rights given to one of the roles or to PUBLIC, without PUBLIC's initial rights.

Functions are functions that run as their owner, and functions of the catalogs that PUBLIC may not
execute.
"""

_HARMLESS = {"USAGE of SCHEMA", "CONNECT of DATABASE", "TEMPORARY of DATABASE"}


class SessionRole(NamedTuple):
    """A role that the session can act as; all names are quoted as in SQL.

    Args:
        own: Whether the session logged in as this role.
        powerful: Whether the role is a superuser, may make roles or databases, replicate, or bypass row
            security, or is predefined (pg_...).
        owner: Whether the role owns an object in a database of the server.
        through: Memberships of the session's own role by which it can act as this role.
    """

    name: str
    own: bool
    powerful: bool
    owner: bool
    through: list[str]


class Right(NamedTuple):
    """A right on a place such as ``TABLE public.people``; ``holder`` is a role or PUBLIC."""

    schema: str
    table: str
    place: str
    privilege: str
    holder: str


def check_role(
    address: TableAddress, secret: str, dataset: str, declared: Iterable[TableAddress]
) -> None:
    """Check that an address's role can read the declared tables of its database, and nothing else.

    Args:
        dataset: Name of the dataset for the error.
        declared: Addresses of the settings; addresses of the same role and database count.

    Raises:
        RoleNotReadOnlyError: The role may write, or see more; the error names the statements that change
            it.
        DatasetUnavailableError: The database cannot be reached.
    """
    with open_backend(address, secret) as backend:
        roles = [
            SessionRole(*row)
            for row in silently(lambda: backend.con.execute(_ROLES + _MEMBERSHIPS).fetchall())
        ]
        rights = [
            Right(*row) for row in silently(lambda: backend.con.execute(_ROLES + _GRANTS).fetchall())
        ]
    tables = {one.schema_and_name for one in declared if one.session == address.session}
    excess = [right for right in rights if _is_too_much(right, tables)]
    # what owners and superusers may do besides is not listed, too: it ends with what they are
    problems = dict(_by_role(roles)) or dict(_by_right(excess, roles))
    if problems:
        statements = "; ".join(dict.fromkeys(problems.values()))
        raise RoleNotReadOnlyError(
            dataset=dataset,
            role=roles[0].name,
            problem=", ".join(problems),
            advice=f"Steward: let the database's administrator run: {statements}",
        )


def _is_too_much(right: Right, tables: Collection[tuple[str, str]]) -> bool:
    kind, privilege = right.place.partition(" ")[0], right.privilege.partition(" ")[0]
    if privilege == "SELECT" and (right.schema, right.table) in tables:
        return False
    return f"{privilege} of {kind}" not in _HARMLESS


def _by_role(roles: Sequence[SessionRole]) -> Iterator[tuple[str, str]]:
    """Yield the problems of a role itself, each with the statement against it."""
    own = roles[0]
    if own.powerful:
        problem = "it is a superuser, or may make roles or databases, replicate or bypass row security"
        limits = "NOSUPERUSER NOCREATEROLE NOCREATEDB NOREPLICATION NOBYPASSRLS"
        yield problem, f"ALTER ROLE {own.name} {limits}"
        return
    if own.owner:
        yield "it owns objects", f"REASSIGN OWNED BY {own.name} TO another role"
    for role in roles[1:]:
        if role.powerful or role.owner:
            yield f"it is a member of {role.name}, which may write or see more", _leave(role, own)


def _by_right(rights: Iterable[Right], roles: Sequence[SessionRole]) -> Iterator[tuple[str, str]]:
    """Yield the rights that were given, by place and holder, each with the statement against it."""
    by_name, own = {role.name: role for role in roles}, roles[0]
    privileges_by_holder: dict[tuple[str, str], list[str]] = defaultdict(list)
    for right in rights:
        privileges_by_holder[right.place, right.holder].append(right.privilege)
    for (place, holder), privileges in privileges_by_holder.items():
        what = f"{', '.join(privileges)} ON {place}"
        if holder in by_name and holder != own.name:
            yield f"{what} as a member of {holder}", _leave(by_name[holder], own)
        else:
            yield f"{what} by {holder}", f"REVOKE {what} FROM {holder}"


def _leave(role: SessionRole, own: SessionRole) -> str:
    return f"REVOKE {', '.join(role.through)} FROM {own.name}"
