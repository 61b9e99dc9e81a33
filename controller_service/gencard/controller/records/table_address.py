"""Address of a table of records in the settings. It holds no password.

    postgresql://ROLE@HOST:PORT/DATABASE?table=SCHEMA.NAME
    duckdb:///FILE?table=NAME
    spark://local?table=NAME, or a master's HOST:PORT
    sc://HOST:PORT/;use_ssl=true?table=NAME         a server of Spark Connect

``parquet=FOLDER`` names a folder that Spark reads, in place of a table. ``password_file=FILE`` or
``password_variable=NAME`` say where the password, or the token of Spark Connect, is read for each job. A
token is sent by TLS only, or to this machine under the name ``localhost``.
"""

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from gencard.controller.base.files import secret_bytes
from gencard.core.errors import InvalidInputError

_SECRETS = {"password_file", "password_variable"}
_TLS = {"sslmode", "sslrootcert", "sslcert", "sslkey"}
_OPTIONS = {
    "postgresql": {"table", "host", *_SECRETS, *_TLS},
    "duckdb": {"table"},
    "spark": {"table", "parquet"},
    "sc": {"table", "parquet", *_SECRETS},
}
"""Options of an address, after the question mark, by engine."""

_FILES = ("password_file", "sslrootcert", "sslcert", "sslkey", "parquet")
_VERIFIED = ("verify-ca", "verify-full")


def place_of(text: str) -> "Path | TableAddress":
    """Return the place that a text of the settings names; InvalidInputError quotes none of it."""
    return TableAddress(text) if "://" in text else Path(text)


@dataclass(frozen=True, slots=True)
class TableAddress:
    """The address of a table, as a text of the settings; InvalidInputError if it is not safe."""

    text: str

    def __post_init__(self) -> None:
        if self.engine not in _OPTIONS:
            raise _refusal(f"must be a file, a folder, or an address of {', '.join(_OPTIONS)}")
        if "token=" in self.text or ":" in urlsplit(self.text).netloc.rpartition("@")[0]:
            raise _refusal("contains a password: use password_file or password_variable instead")
        if unknown := self.options.keys() - _OPTIONS[self.engine]:
            known = ", ".join(sorted(_OPTIONS[self.engine]))
            problem = "password" if "password" in unknown else "an option that is not known"
            raise _refusal(f"contains {problem}; {self.engine} accepts {known}")
        if len(self.options.keys() & {"table", "parquet"}) != 1:
            raise _refusal("must name the table, as in ?table=people")
        if not all(self.table_parts) or len(self.table_parts) > 3:
            raise _refusal("must name the table as NAME, SCHEMA.NAME or CATALOGUE.SCHEMA.NAME")
        if self.engine == "duckdb" and (urlsplit(self.text).netloc or not self.path.name):
            problem = "must name the file of DuckDB with three slashes, as in duckdb:///srv/x.duckdb"
            raise _refusal(problem)
        if not self.is_protected:
            how = "use_ssl=true" if self.engine == "sc" else f"sslmode={' or '.join(_VERIFIED)}"
            raise _refusal(f"is on another machine: it needs {how}")
        # Spark's client speaks TLS to every name but localhost, whatever the address says.
        is_safe = self._has_tls or urlsplit(self.text).hostname == "localhost"
        if self.engine == "sc" and self.options.keys() & _SECRETS and not is_safe:
            raise _refusal("sends a token: it needs use_ssl=true, or the host name localhost")

    def __str__(self) -> str:
        return self.text

    @property
    def engine(self) -> str:
        return self.text.partition("://")[0]

    @property
    def options(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.text).query))

    @property
    def table_parts(self) -> tuple[str, ...]:
        """Catalogue, schema and name, as far as they are given."""
        return tuple(self.options.get("table", "records").split("."))

    @property
    def name(self) -> str:
        """The table's own name, or that of the folder."""
        return Path(self.options["parquet"]).stem if self.parquet else self.table_parts[-1]

    @property
    def schema_and_name(self) -> tuple[str, str]:
        """Schema and name of a table of PostgreSQL."""
        return ("public", *self.table_parts)[-2], self.name

    @property
    def parquet(self) -> str:
        """The folder that Spark reads; empty for a table."""
        return self.options.get("parquet", "")

    @property
    def path(self) -> Path:
        """The file of DuckDB."""
        return Path(urlsplit(self.text).path)

    @property
    def url(self) -> str:
        """Address for the engine's own client, without options of Gencard."""
        options = {key: value for key, value in self.options.items() if key in {"host", *_TLS}}
        return urlunsplit(urlsplit(self.text)._replace(query=urlencode(options, quote_via=quote)))

    @property
    def session(self) -> tuple[str, ...]:
        """Key that is equal for all addresses of one database that one role reads."""
        parts = urlsplit(self.text)
        return self.engine, self.options.get("host", ""), parts.netloc, parts.path

    @property
    def identity(self) -> str:
        """Text that is equal for all addresses of one table that differ in credentials alone."""
        parts = urlsplit(self.text)
        where = self.options.get("host", ""), parts.netloc.rpartition("@")[2], parts.path
        return " ".join((self.engine, *where, self.parquet, *self.table_parts))

    @property
    def is_protected(self) -> bool:
        """Whether traffic is protected from being read or changed on a network."""
        parts = urlsplit(self.text)
        if self.engine not in ("postgresql", "sc") or _is_here(self.options.get("host", parts.hostname)):
            return True
        if self.engine == "sc":
            return self._has_tls
        return self.options.get("sslmode") in _VERIFIED

    @property
    def _has_tls(self) -> bool:
        return "use_ssl=true" in urlsplit(self.text).path.split(";")

    def secret(self) -> str:
        """Return the password, read now; empty if there is none. Raises InvalidInputError."""
        if file := self.options.get("password_file"):
            return secret_bytes(Path(file), "password_file").decode(errors="replace").strip()
        name = self.options.get("password_variable", "")
        if name and name not in os.environ:
            raise InvalidInputError(field="password_variable", problem="is not set in the environment")
        return os.environ[name] if name else ""

    def below(self, folder: Path) -> "TableAddress":
        """Return the same with relative paths below a folder."""
        options = {
            key: str(folder / value) if key in _FILES else value for key, value in self.options.items()
        }
        if options == self.options:
            return self
        query = urlencode(options, quote_via=quote, safe="/.")
        return TableAddress(urlunsplit(urlsplit(self.text)._replace(query=query)))


def name_of(place: Path | TableAddress) -> str:
    """Return the name of the records: the name of the table, or of the file without its ending."""
    return place.name if isinstance(place, TableAddress) else place.stem


def records_at(text: str, field: str) -> Path | TableAddress:
    """Return the place that a person names, relative to the working folder; raises InvalidInputError."""
    place = place_of(text)
    if isinstance(place, TableAddress):
        return place.below(Path.cwd())
    if place.is_symlink():
        # as inside folders of records: a link could be pointed at other records, or count some twice
        problem = f"is a symbolic link: {place}; name the file or folder that it leads to"
        raise InvalidInputError(field=field, problem=problem)
    if not (place.is_file() or place.is_dir()):
        raise InvalidInputError(field=field, problem=f"there is no file or folder {place}")
    return place


def secret_of(place: Path | TableAddress) -> str:
    """Return the password for a place; empty if it needs none; raises as ``TableAddress.secret``."""
    return place.secret() if isinstance(place, TableAddress) else ""


def _is_here(host: str | None) -> bool:
    """Whether a host is this machine: a socket's folder, or loopback."""
    if not host or host.startswith("/") or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _refusal(problem: str) -> InvalidInputError:
    return InvalidInputError(field="data", problem=problem)
