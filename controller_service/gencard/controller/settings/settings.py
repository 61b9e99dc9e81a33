"""The settings file: tables of the service and of its datasets."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    PositiveInt,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from gencard.controller.records.file_format import FileFormat
from gencard.controller.records.tables.address import TableAddress, place_of
from gencard.controller.sandbox.limits import Isolation
from gencard.controller.settings.boxes import BoxEntry, CellTable, LendingTable, Name
from gencard.controller.settings.files import (
    Address,
    Section,
    Table,
    is_loopback,
    read_table,
    refusal_of,
)
from gencard.controller.settings.policy import Caps, MeasuresTable, PolicyTable
from gencard.controller.settings.stewards import NotifyTable, PageTable
from gencard.core.errors import InvalidInputError
from gencard.core.generators.registry import GENERATORS


class Server(Section):
    """Address, certificates and call limits of the service.

    ``insecure_dev`` serves plaintext without certificates, on loopback only. ``key_passphrase_file``:
    of a ``key`` that is encrypted, for service and page alike. ``per_identity`` and
    ``maximum_concurrent_rpcs`` limit simultaneous calls, ``calls_per_second`` the average rate of one
    certificate, ``request_seconds`` the time for receiving one message.
    """

    address: Address = "localhost:7443"
    insecure_dev: bool = False
    certificate: Path = Path("server/certificate.pem")
    key: Path = Path("server/key.pem")
    key_passphrase_file: Path | None = None
    authority: Path = Path("authority/certificate.pem")
    maximum_concurrent_rpcs: PositiveInt = 64
    per_identity: PositiveInt = 8
    calls_per_second: PositiveInt = 100
    request_seconds: PositiveInt = 60

    @model_validator(mode="after")
    def _plaintext_stays_on_loopback(self) -> "Server":
        if self.insecure_dev and not is_loopback(self.address):
            raise InvalidInputError(
                field="server.insecure_dev", problem="is allowed only with an address on loopback"
            )
        return self


class State(Section):
    """Folder of the service's state; ``url`` names a database outside it, such as PostgreSQL."""

    folder: Path = Path("state")
    url: SecretStr | None = None

    @property
    def database_url(self) -> str:
        return self.url.get_secret_value() if self.url else f"sqlite:///{self.folder / 'state.sqlite'}"

    @property
    def shared(self) -> bool:
        """Whether several controllers may share the database, of which one leads: all but SQLite."""
        return not self.database_url.startswith("sqlite")

    @property
    def releases(self) -> Path:
        return self.folder / "releases"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def journals(self) -> Path:
        """Of audits that have begun and not ended."""
        return self.folder / "journals"

    @property
    def kept(self) -> Path:
        """What black boxes left under cards: fits and rows."""
        return self.folder / "kept"


class Identities(Section):
    """Trust domain of all certificates, and the controller's own URI."""

    trust_domain: str = Field(pattern=r"^[a-z0-9.-]{1,100}$")
    uri: str


class Signing(Section):
    """Keys for cards and log, salt of dataset versions, folder of enrolled people."""

    card_key: Path = Path("signing/card_key.pem")
    log_key: Path = Path("signing/log_key.pem")
    version_salt: Path = Path("signing/version_salt")
    identities: Path = Path("identities")


class Limits(Section):
    """Limits that are checked before work; ``cpu_seconds`` and ``memory_mib`` apply to each job.

    ``audits``: those that one submitter may begin on a dataset. ``operations``: unfinished ones of one
    certificate. ``refusals``: unreviewed failures of one analyst at the records of a dataset.
    ``tick_seconds``: operations report progress and end on a grid of this period; 0 for none.
    ``card_releases``, ``card_release_mib``: number and size of one card's releases.
    ``open_proposals``, ``cards``, ``card_mib``, ``releases``, ``release_mib``: of one certificate.
    ``records``: most that black boxes, audits, evaluations and runs at the records hold in memory.
    ``reserve_mib``: free space below which no card, offer or operation begins. ``keep_days``: age at
    which proposals that were never agreed are deleted; 0 for never. ``memory_mib`` limits address space,
    of which the libraries alone take half a GiB.
    """

    marginal_cells: PositiveInt = 1_000_000
    model_cells: PositiveInt = 50_000_000
    marginals: PositiveInt = 2_000
    rows: PositiveInt = 10_000_000
    records: PositiveInt = 2_000_000
    runs: PositiveInt = 100
    upload_rows: PositiveInt = 200_000
    cpu_seconds: PositiveInt = 1_800
    memory_mib: int = Field(default=4_096, ge=1_024)
    workers: PositiveInt = 2
    audits: PositiveInt = 20
    operations: PositiveInt = 50
    refusals: PositiveInt = 10
    card_releases: PositiveInt = 1_000
    card_release_mib: PositiveInt = 16_384
    open_proposals: PositiveInt = 50
    cards: PositiveInt = 1_000
    card_mib: PositiveInt = 32
    releases: PositiveInt = 5_000
    release_mib: PositiveInt = 32_768
    reserve_mib: int = Field(default=256, ge=0)
    keep_days: int = Field(default=90, ge=0)
    tick_seconds: float = Field(default=0.0, ge=0.0, le=86_400.0)


class Alone(StrEnum):
    """What one steward does not do alone, for the whole controller."""

    ROTATION = "rotation"
    ENROL = "enrol"
    RESTORE = "restore"


class StewardsTable(Section):
    """Decisions on the whole controller that two stewards take.

    ``rotation`` of signing keys; ``enrol``: letting people in, by a request or again; ``restore`` of
    a backup.
    """

    two: tuple[Alone, ...] = ()


class MetricsTable(Section):
    """Metrics for the machine's operator in OpenMetrics, served in plain HTTP where this table is there.

    ``address``: whoever reaches it reads all metrics, so leave it on loopback or in an inner network.
    """

    address: Address = "127.0.0.1:7445"


class ClusterTable(Section):
    """Workers on other machines for the runs of audits, by Dask; ``pip install 'gencard[cluster]'``.

    ``scheduler``: what `gencard-controller worker scheduler` serves. ``folder``: this controller's
    certificate in the cluster, which the first `gencard-controller worker certificate` makes.
    """

    scheduler: str = Field(pattern=r"^tls://[A-Za-z0-9.:\[\]-]{1,250}:[0-9]{1,5}$")
    folder: Path = Path("cluster/controller")


class FormatTable(Section):
    """How a file of records is written, where it is not CSV or Parquet as programs write them."""

    encoding: str = "utf-8"
    delimiter: str = ""
    quote: str = '"'
    skip: int = 0
    decimal: str = "."
    thousands: str = ""
    dates: tuple[str, ...] = ()
    trim: bool = False

    def format(self) -> FileFormat:
        """Raises InvalidInputError where the marks are not possible."""
        return FileFormat(**self.model_dump())


def _place(value: object) -> object:
    return place_of(value) if isinstance(value, str) else value


Place = Annotated[Path | TableAddress, BeforeValidator(_place)]
"""A file or folder of records, or the address of a table."""


class DatasetTable(Section):
    """A dataset on offer.

    ``holdout`` names other records of the same population under the same schema, for evaluations; no
    release is made from them. Both may be addresses of tables: ``postgresql://role@host/database?table=
    name``, ``duckdb:///file?table=name``, ``spark://`` or ``sc://``.
    """

    name: Name
    data: Place
    schema_file: Path = Field(alias="schema")
    holdout: Place | None = None
    format: FormatTable = FormatTable()
    measures: MeasuresTable = MeasuresTable()
    policy: PolicyTable
    caps: Caps


class Settings(BaseSettings):
    """All of it."""

    model_config = SettingsConfigDict(
        env_prefix="GENCARD_", env_nested_delimiter="__", extra="forbid", frozen=True
    )

    server: Server = Server()
    state: State = State()
    identity: Identities
    signing: Signing = Signing()
    limits: Limits = Limits()
    stewards: StewardsTable = StewardsTable()
    page: PageTable | None = None
    metrics: MetricsTable | None = None
    cluster: ClusterTable | None = None
    cell: CellTable = CellTable()
    datasets: tuple[DatasetTable, ...] = ()
    black_boxes: tuple[BoxEntry, ...] = ()
    lending: LendingTable = LendingTable()
    notify: NotifyTable = NotifyTable()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003  # the signature is pydantic's
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment first, then the file."""
        return env_settings, init_settings

    @model_validator(mode="after")
    def _names_are_used_once(self) -> "Settings":
        for field, entries in (("datasets", self.datasets), ("black_boxes", self.black_boxes)):
            names = [entry.name for entry in entries]
            if len(set(names)) != len(names):
                raise InvalidInputError(field=field, problem="two entries have the same name")
        if any(box.name in GENERATORS for box in self.black_boxes):
            raise InvalidInputError(field="black_boxes", problem="an entry has the name of a generator")
        return self

    @model_validator(mode="after")
    def _what_is_lent_is_there(self) -> "Settings":
        there = {*GENERATORS, *(box.name for box in self.black_boxes)}
        for name in self.lending.black_boxes:
            if name not in there:
                problem = "must name black boxes of these settings, or generators"
                raise InvalidInputError(field="lending.black_boxes", problem=problem)
        return self

    @model_validator(mode="after")
    def _a_page_has_a_certificate(self) -> "Settings":
        if self.page is not None and self.server.insecure_dev:
            problem = "needs a certificate, so it cannot be combined with server.insecure_dev"
            raise InvalidInputError(field="page", problem=problem)
        return self

    @model_validator(mode="after")
    def _an_open_cell_is_for_development(self) -> "Settings":
        if self.cell.isolation is Isolation.PROCESSES and not self.server.insecure_dev:
            raise InvalidInputError(
                field="cell.isolation", problem="may be processes only with server.insecure_dev"
            )
        return self

    @classmethod
    def load(cls, path: Path) -> "Settings":
        """The settings in a file, with absolute paths.

        Raises:
            InvalidInputError: Names the first field that is wrong, never its value.
        """
        if not path.is_file():
            problem = "cannot be read; name the controller.toml that init made, with --config"
            raise InvalidInputError(field=path, problem=problem)
        return cls.of_table(read_table(path), path)

    @classmethod
    def of_table(cls, table: Table, path: Path) -> "Settings":
        """The settings that a table of a file describes; raises as ``load``."""
        try:
            settings = cls(**table)
        except ValidationError as error:
            refusal = refusal_of(error, path.name)
        else:
            anchored: Settings = _anchored(settings, path.absolute().parent)
            return anchored
        raise refusal


def _anchored(value: Any, folder: Path) -> Any:
    """The same value with every relative path below ``folder``."""
    match value:
        case Path():
            return folder / value
        case TableAddress():
            return value.below(folder)
        case BaseModel():
            fields = {name: _anchored(getattr(value, name), folder) for name in type(value).model_fields}
            return value.model_copy(update=fields)
        case tuple():
            return tuple(_anchored(entry, folder) for entry in value)
    return value
