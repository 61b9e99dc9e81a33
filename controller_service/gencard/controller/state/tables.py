"""The tables of the newest revision, and their column types; ``migration`` makes them."""

from datetime import UTC, datetime

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.types import TypeDecorator

from gencard.wire.canonical import time_text

SERIAL = BigInteger().with_variant(Integer, "sqlite")
"""A number that the database assigns, larger than all earlier numbers."""


class Instant(TypeDecorator[datetime]):
    """An aware datetime as RFC 3339 text in UTC, to the second: as in every document."""

    impl = String(20)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:  # noqa: ARG002  the base class's signature
        """Raises ValueError, a StorageError outside, for a datetime without a time zone."""
        if value is not None and value.tzinfo is None:
            raise ValueError("a time without a zone")
        return None if value is None else time_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002  the base class's signature
        """Raises ValueError, a StorageError outside, for a text that was not written here."""
        time = None if value is None else datetime.fromisoformat(value)
        if time is not None and time.tzinfo is not UTC:
            raise ValueError("a time that is not in UTC")
        return time


class Seed(TypeDecorator[int]):
    """A seed as decimal text: it has 64 bits without a sign, and integer columns have 63."""

    impl = String(20)
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> str | None:  # noqa: ARG002  the base class's signature
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> int | None:  # noqa: ARG002  the base class's signature
        return None if value is None else int(value)


CURRENCIES = ("statistics", "nano_epsilon", "nano_rho")
_NOT_NEGATIVE = " AND ".join(f"{name} >= 0" for name in CURRENCIES)

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)


revision = Table(
    "alembic_version",
    metadata,
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""One row: the revision of all tables. By this name earlier versions refuse a state newer than they."""


def _number() -> Column[int]:
    return Column("number", SERIAL, primary_key=True, autoincrement=True)


def _price() -> tuple[Column[int], ...]:
    """Whole numbers: statistics, and nano-units of epsilon and rho."""
    return tuple(Column(name, BigInteger, nullable=False) for name in CURRENCIES)


balances = Table(
    "balances",
    metadata,
    Column("scope", String(20), primary_key=True),
    Column("dataset", String(300), primary_key=True),
    Column("holder", String(400), primary_key=True),
    *_price(),
    CheckConstraint(_NOT_NEGATIVE, name="not_negative"),
)

lines = Table(
    "lines",
    metadata,
    _number(),
    Column("dataset", String(300), nullable=False),
    Column("project", String(100), nullable=False),
    Column("analyst", String(400), nullable=False),
    Column("resource", String(400), nullable=False),
    Column("kind", String(50), nullable=False),
    *_price(),
    Column("state", String(20), nullable=False),
    Column("created", Instant, nullable=False),
    Column("ended", Instant),
    CheckConstraint(_NOT_NEGATIVE, name="not_negative"),
    Index(None, "analyst"),
    Index(None, "dataset"),
    sqlite_autoincrement=True,
)

events = Table(
    "events",
    metadata,
    Column("index", SERIAL, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
    Column("leaf", LargeBinary(32), nullable=False),
)

log_nodes = Table(
    "log_nodes",
    metadata,
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary(32), nullable=False),
)

checkpoints = Table(
    "checkpoints",
    metadata,
    Column("size", SERIAL, primary_key=True, autoincrement=False),
    Column("envelope", LargeBinary, nullable=False),
)

answers = Table(
    "answers",
    metadata,
    Column("actor", String(400), primary_key=True),
    Column("request_id", String(36), primary_key=True),
    Column("method", String(200), nullable=False),
    Column("request_digest", String(64), nullable=False),
    Column("answer", LargeBinary, nullable=False),
    Column("created", Instant, nullable=False),
)

cards = Table(
    "cards",
    metadata,
    _number(),
    Column("name", String(400), nullable=False, unique=True),
    Column("dataset", String(300), nullable=False),
    Column("analyst", String(400), nullable=False),
    Column("state", String(20), nullable=False),
    Column("etag", String(100), nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("created", Instant, nullable=False),
    Column("changed", Instant, nullable=False),
    Index(None, "analyst"),
    Index(None, "dataset"),
    Index(None, "state", "changed", "name"),
    sqlite_autoincrement=True,
)

psis = Table(
    "psis",
    metadata,
    Column("card", String(400), ForeignKey("cards.name"), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("document", LargeBinary, nullable=False),
    Column("created", Instant, nullable=False),
)

operations = Table(
    "operations",
    metadata,
    _number(),
    Column("name", String(400), nullable=False, unique=True),
    Column("owner", String(400), nullable=False),
    Column("kind", String(50), nullable=False),
    Column("resource", String(400), nullable=False),
    Column("request", LargeBinary, nullable=False),
    Column("state", String(20), nullable=False),
    Column("stage", String(50), nullable=False),
    Column("permille", Integer, nullable=False),
    Column("response", LargeBinary),
    Column("error", LargeBinary),
    Column("created", Instant, nullable=False),
    Column("changed", Instant, nullable=False),
    CheckConstraint("permille BETWEEN 0 AND 1000", name="permille"),
    Index(None, "owner"),
    sqlite_autoincrement=True,
)

releases = Table(
    "releases",
    metadata,
    _number(),
    Column("name", String(400), nullable=False, unique=True),
    Column("card", String(400), ForeignKey("cards.name"), nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False, server_default="0"),
    Column("seed", Seed, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("psi_digest", String(64), nullable=False),
    Column("receipt", LargeBinary, nullable=False),
    Column("file_name", String(300), nullable=False),
    Column("created", Instant, nullable=False),
    Index(None, "card"),
    sqlite_autoincrement=True,
)

audits = Table(
    "audits",
    metadata,
    _number(),
    Column("name", String(400), nullable=False, unique=True),
    Column("card", String(400), ForeignKey("cards.name"), nullable=False),
    Column("dataset", String(300), nullable=False),
    Column("submitter", String(400), nullable=False),
    Column("black_box", String(100), nullable=False),
    Column("box_digest", String(64), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("level", String(40)),
    Column("verdict", String(20)),
    Column("wording", Text),
    Column("attestation", LargeBinary),
    Column("report", LargeBinary),
    Column("created", Instant, nullable=False),
    Column("ended", Instant),
    Column("author", String(200)),
    Column("family_try", Integer),
    Column("cleared", Instant),
    UniqueConstraint("dataset", "submitter", "attempt"),
    Index(None, "card"),
    Index(None, "dataset"),
    sqlite_autoincrement=True,
)

measures = Table(
    "measures",
    metadata,
    _number(),
    Column("name", String(400), nullable=False, unique=True),
    Column("card", String(400), ForeignKey("cards.name"), nullable=False),
    Column("measure", String(50), nullable=False),
    Column("submitter", String(400), nullable=False),
    Column("statistics", BigInteger, nullable=False),
    Column("document", LargeBinary, nullable=False),
    Column("created", Instant, nullable=False),
    Index(None, "card"),
    sqlite_autoincrement=True,
)

runs = Table(
    "runs",
    metadata,
    _number(),
    Column("name", String(400), nullable=False, unique=True),
    Column("card", String(400), ForeignKey("cards.name"), nullable=False),
    Column("dataset", String(300), nullable=False),
    Column("version", String(64), nullable=False),
    Column("submitter", String(400), nullable=False),
    Column("tier", String(20), nullable=False),
    Column("question", String(64), nullable=False),
    Column("request", LargeBinary, nullable=False),
    Column("state", String(20), nullable=False),
    Column("line", BigInteger),
    Column("statistics", BigInteger, nullable=False),
    Column("outcome", LargeBinary),
    Column("envelope", LargeBinary),
    Column("log_index", BigInteger),
    Column("created", Instant, nullable=False),
    Column("ended", Instant),
    Column("counts", Integer, nullable=False, server_default="0"),
    Index(None, "card"),
    Index(None, "dataset"),
    sqlite_autoincrement=True,
)

key_changes = Table(
    "key_changes",
    metadata,
    Column("use", String(20), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("envelope", LargeBinary, nullable=False),
)

rules = Table(
    "rules",
    metadata,
    Column("resource", String(400), primary_key=True),
    Column("fields", Text, nullable=False),
)

first_decisions = Table(
    "first_decisions",
    metadata,
    _number(),
    Column("digest", String(64), nullable=False, unique=True),
    Column("kind", String(50), nullable=False),
    Column("resource", String(400), nullable=False),
    Column("arguments", LargeBinary, nullable=False),
    Column("shown", String(64), nullable=False),
    Column("reason", String(200), nullable=False),
    Column("actor", String(400), nullable=False),
    Column("keys", Text, nullable=False),
    Column("created", Instant, nullable=False),
    Index(None, "resource"),
    sqlite_autoincrement=True,
)

announced = Table("announced", metadata, Column("digest", String(64), primary_key=True))

messages = Table(
    "messages",
    metadata,
    _number(),
    Column("name", String(64), nullable=False, unique=True),
    Column("channel", String(20), nullable=False),
    Column("kinds", Text, nullable=False),
    Column("state", String(20), nullable=False),
    Column("tries", Integer, nullable=False),
    Column("due", Instant, nullable=False),
    Column("created", Instant, nullable=False),
    sqlite_autoincrement=True,
)

passkeys = Table(
    "passkeys",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("holder", String(400), nullable=False),
    Column("credential", LargeBinary, nullable=False),
    Column("public_key", LargeBinary, nullable=False),
    Column("uses", BigInteger, nullable=False),
    Column("created", Instant, nullable=False),
    Column("used", Instant),
    Index(None, "holder"),
)

passkey_links = Table(
    "passkey_links",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("holder", String(400), nullable=False),
    Column("ends", Instant, nullable=False),
    Column("used", Instant),
)

risks = Table(
    "risks",
    metadata,
    Column("card", String(400), primary_key=True),
    Column("tables", String(64), nullable=False),
    Column("report", LargeBinary, nullable=False),
    Column("cards", Text, nullable=False),
    Column("seen", Text, nullable=False),
    Column("created", Instant, nullable=False),
)

leader = Table(
    "leader",
    metadata,
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("fence", BigInteger, nullable=False),
    Column("holder", String(64), nullable=False),
)
"""One row: the number of the present leadership, and the random name of its holder."""

files = Table(
    "files",
    metadata,
    Column("name", String(400), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("size", BigInteger, nullable=False),
)

pieces = Table(
    "pieces",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("bytes", LargeBinary, nullable=False),
)
"""Contents of files, by their SHA-256 in hex."""
