"""The settings file: tables of the service and of its datasets."""

from collections.abc import Mapping
from dataclasses import replace
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

from gencard.controller.base.files import Section, Stated, Table, TableOf, read_table, refusal_of
from gencard.controller.base.listening import Address, is_loopback
from gencard.controller.boxes import SANDBOX, BoxEntry, LendingTable, Name
from gencard.controller.records.file_format import FileFormat
from gencard.controller.records.table_address import TableAddress, place_of
from gencard.controller.sandbox.limits import Isolation, SandboxSettings
from gencard.controller.settings_tables import CAPS, MEASURES, POLICY, NotifyTable, PageTable
from gencard.controller.state.ledger import Caps
from gencard.core.errors import InvalidInputError
from gencard.core.generators.registry import GENERATORS
from gencard.core.policy import Policy
from gencard.measures.evaluation.evaluation import NOTHING_DECLARED, Declared


class Server(Section):
    """Address, certificates and call limits of the service.

    A call over a limit is refused with ``SERVICE_BUSY``; health checks and cancellations do not count.
    """

    address: Address = "localhost:7443"
    """Address to listen on, as ``host:port``. Port 0 takes any free port."""
    insecure_dev: bool = False
    """``true`` serves plaintext without certificates, for development, on loopback only. Every caller is
    then the analyst ``developer``."""
    certificate: Path = Path("server/certificate.pem")
    """Certificate of the service, in PEM. The files of certificate, key and authority are read again
    when they change."""
    key: Path = Path("server/key.pem")
    """Private key of the certificate, in PEM. Other users must not have access to the file."""
    key_passphrase_file: Path | None = None
    """File with the passphrase of ``key``: required if the key is encrypted, refused if it is not."""
    authority: Path = Path("authority/certificate.pem")
    """Certificate of the authority that issues the certificates of callers, in PEM."""
    maximum_concurrent_rpcs: PositiveInt = 64
    """Simultaneous calls of all callers together."""
    per_identity: PositiveInt = 8
    """Simultaneous calls of one caller."""
    calls_per_second: PositiveInt = 100
    """Average rate of calls of one caller. After a pause, the calls of up to 10 seconds may come at
    once."""
    request_seconds: PositiveInt = 60
    """Seconds within which one message of a caller must arrive; then the call is cancelled."""

    @model_validator(mode="after")
    def _plaintext_stays_on_loopback(self) -> "Server":
        if self.insecure_dev and not is_loopback(self.address):
            problem = "is allowed only with an address on loopback"
            raise InvalidInputError(field="server.insecure_dev", problem=problem)
        return self


class State(Section):
    """Storage of cards, ledger, log, releases and unfinished work."""

    folder: Path = Path("state")
    """Folder of the SQLite database, releases, fits and unfinished work."""
    url: SecretStr | None = None
    """Address of a PostgreSQL database that replaces SQLite,
    ``postgresql+psycopg://user:password@host/name``; releases and fits are then stored in it too. It
    holds a password: set it in the environment, as ``GENCARD_STATE__URL``."""

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
        """Folder of audits that have begun and not ended."""
        return self.folder / "journals"

    @property
    def kept(self) -> Path:
        """Folder of fits and rows that black boxes left under cards."""
        return self.folder / "kept"


class Identities(Section):
    """Names in certificates; ``init`` sets them."""

    trust_domain: str = Field(pattern=r"^[a-z0-9.-]{1,100}$")
    """Trust domain, the first part of the URI of each person: 1 to 100 of a-z, 0-9, ``.`` and ``-``."""
    uri: str
    """URI of the controller, such as ``spiffe://gencard.local/service/controller/controller``. Cards and
    log name it."""


class Signing(Section):
    """Signing keys, the secret for dataset versions, and the folder of enrolled people.

    Keys are Ed25519 private keys in PEM. Other users must not have access to the files of keys and salt.
    """

    card_key: Path = Path("signing/card_key.pem")
    """Key that signs cards, receipts and verdicts."""
    log_key: Path = Path("signing/log_key.pem")
    """Key that signs checkpoints of the log."""
    version_salt: Path = Path("signing/version_salt")
    """File with the secret that enters digests of records. Without the secret, records cannot be guessed
    from digests. With another secret, all records count as changed."""
    identities: Path = Path("identities")
    """Folder with one file for each enrolled person. The files are read again when they change."""


class Limits(Section):
    """Limits of proposals, jobs and stored data.

    Proposals over a limit are refused and not negotiated. Policies of datasets set narrower bounds.
    """

    marginal_cells: PositiveInt = 1_000_000
    """Cells of one marginal in a proposal; more are refused with ``TOO_LARGE``."""
    model_cells: PositiveInt = 50_000_000
    """Cells of a generator's model; fewer where ``memory_mib`` less 512 MiB does not hold so many. The
    table of generators below says what is counted, and how much memory a cell needs."""
    marginals: PositiveInt = 2_000
    """Marginals and moments of one proposal; more are refused with ``TOO_LARGE``."""
    rows: PositiveInt = 10_000_000
    """Rows of one proposal; more are refused with ``TOO_LARGE``."""
    records: PositiveInt = 2_000_000
    """Records that one job loads into memory. For larger datasets, black boxes, audits, evaluations and
    runs on the records are refused with ``TOO_MANY_RECORDS``; statistics can still be measured."""
    runs: PositiveInt = 100
    """Runs of the generator, on each side of an audit, that a proposal may ask for; more are refused
    with ``TOO_LARGE``."""
    upload_rows: PositiveInt = 200_000
    """Rows that a caller may upload to a lent black box, and that it may return; more are refused with
    ``TOO_LARGE``."""
    cpu_seconds: PositiveInt = 1_800
    """CPU time of one job, in seconds; then the job fails with ``JOB_LIMIT``."""
    memory_mib: int = Field(default=4_096, ge=1_024)
    """Address space of one job, in MiB, at least 1,024; libraries alone take about 512. A job that needs
    more fails with ``JOB_LIMIT``."""
    workers: PositiveInt = 2
    """Jobs that run at the same time; others wait. If there are 2 or more, the jobs of one person use at
    most all workers but one."""
    audits: PositiveInt = 20
    """Audits that one person may ever start on one dataset; more are refused with
    ``TOO_MANY_AUDITS``."""
    operations: PositiveInt = 50
    """Unfinished operations of one person; more are refused with ``SERVICE_BUSY``."""
    refusals: PositiveInt = 10
    """Failed operations on the records that one analyst may have on one dataset before a steward must
    review them; then new operations are refused with ``TOO_MANY_REFUSALS``."""
    card_releases: PositiveInt = 1_000
    """Releases of one card; more are refused with ``TOO_LARGE``."""
    card_release_mib: PositiveInt = 16_384
    """Size of all releases of one card, in MiB; more is refused with ``TOO_LARGE``."""
    open_proposals: PositiveInt = 50
    """Proposals and offers of one analyst that are neither agreed nor ended; more are refused with
    ``QUOTA_EXCEEDED``."""
    cards: PositiveInt = 1_000
    """Cards of one analyst, ended ones included; more are refused with ``QUOTA_EXCEEDED``."""
    card_mib: PositiveInt = 32
    """Size of all cards of one analyst, in MiB; more is refused with ``QUOTA_EXCEEDED``."""
    releases: PositiveInt = 5_000
    """Releases of all cards of one analyst; more are refused with ``QUOTA_EXCEEDED``."""
    release_mib: PositiveInt = 32_768
    """Size of all releases of one analyst, in MiB; more is refused with ``QUOTA_EXCEEDED``."""
    reserve_mib: int = Field(default=256, ge=0)
    """Free disk space, in MiB, that is kept for ledger and log. With less, no card, offer or operation
    can start (``STORAGE_RESERVE``)."""
    keep_days: int = Field(default=90, ge=0)
    """Days after its last change at which a proposal that was never agreed is deleted; 0 keeps all of
    them."""
    file_mib: PositiveInt = 16_384
    """Size of a file of records when it is unpacked, in MiB; more is refused with ``TOO_LARGE``."""
    tick_seconds: float = Field(default=0.0, ge=0.0, le=86_400.0)
    """Seconds between the times at which an operation reports progress or its end, so that durations
    reveal little about records: 0 to 86,400. 0 reports at once."""


class Alone(StrEnum):
    """Decisions on the whole controller that one steward cannot make alone."""

    ROTATION = "rotation"
    ENROL = "enrol"
    RESTORE = "restore"


class StewardsTable(Section):
    """Decisions on the whole controller. The policy of a dataset has the decisions on the dataset."""

    two: tuple[Alone, ...] = ()
    """Decisions that need two stewards: ``rotation`` (new signing keys), ``enrol`` (also renewing a
    certificate), ``restore`` (restoring a backup). If anything here or in a policy needs two, so does
    enrolling or enabling a person and disabling a steward."""


class MetricsTable(Section):
    """Metrics in the OpenMetrics format, at ``/metrics``; without this table none are served."""

    address: Address = "127.0.0.1:7445"
    """Address to listen on, as ``host:port``, in plain HTTP. All who can connect read all metrics:
    use loopback or an internal network."""


WORKER_NAME = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"


class ClusterTable(Section):
    """Workers on other machines that run audits. The controller connects to them.

    Without this table, or without workers, audits run on the machine of the controller.
    """

    workers: Mapping[Annotated[str, Field(pattern=WORKER_NAME)], Address] = Field(default_factory=dict)
    """Address of each worker, ``HOST:PORT``, by the name in its certificate, such as
    ``{ w1 = "10.0.0.6:8786" }``."""
    repeated: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Share of the runs on each side that the controller draws at random, after the answers, and repeats
    to compare them; it repeats as many more on which the verdict rests most. At least one each."""
    folder: Path = Path("cluster/controller")
    """Folder with the certificate of this controller in the cluster; the first
    ``gencard-controller worker certificate`` makes it."""
    scheduler: str = ""
    """Ignored: address of the scheduler that earlier versions had. Name the workers in ``workers``."""

    @property
    def notice(self) -> str:
        """Advice on changing settings of an earlier version; empty if they are current."""
        if not self.scheduler:
            return ""
        return (
            "cluster.scheduler is ignored: there is no scheduler any more. Make new certificates with "
            "`gencard-controller worker certificate`, and name the workers in cluster.workers."
        )


Place = Annotated[
    Path | TableAddress,
    BeforeValidator(lambda value: place_of(value) if isinstance(value, str) else value),
]
"""A file or folder of records, or the address of a table."""


class DatasetTable(Section):
    """A dataset on offer; one table for each."""

    name: Name
    """Name, as in ``datasets/NAME``: a letter, then up to 62 of a-z, 0-9, ``_`` and ``-``."""
    data: Place
    """Records: a file of text, Parquet, Excel, Stata, SPSS or SAS, a folder of Parquet files, or the
    address of a table: ``postgresql://role@host/database?table=name``, ``duckdb:///file?table=name``,
    ``spark://local?table=name`` or ``sc://host:port?table=name``."""
    schema_file: Path = Field(alias="schema")
    """TOML file that declares the attributes and their levels. It must be reviewed before the dataset is
    served."""
    holdout: Place | None = None
    """Records of other people of the same population, under the same schema, for evaluations. No release
    is made from them."""
    format: Annotated[Stated[FileFormat], TableOf()] = Field(default={}, validate_default=True)
    """Format of the files of ``data`` and ``holdout``."""
    measures: Annotated[Declared, MEASURES] = NOTHING_DECLARED
    """Declarations for evaluations."""
    policy: Annotated[Policy, POLICY]
    """Limits on cards: what they may contain."""
    caps: Annotated[Caps, CAPS]
    """Budgets."""

    @property
    def file_format(self) -> FileFormat:
        return self.format.value


class Settings(BaseSettings):
    """The sections of the file; their own docstrings describe them."""

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
    cell: Annotated[SandboxSettings, SANDBOX] = SandboxSettings()
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
        """Return the environment first, then the file."""
        return env_settings, init_settings

    @model_validator(mode="after")
    def _fits_together(self) -> "Settings":
        """Check names, what is lent, the page and the cell against the rest of the settings."""
        for field, entries in (("datasets", self.datasets), ("black_boxes", self.black_boxes)):
            names = [entry.name for entry in entries]
            if len(set(names)) != len(names):
                raise InvalidInputError(field=field, problem="two entries have the same name")
        if any(box.name in GENERATORS for box in self.black_boxes):
            raise InvalidInputError(field="black_boxes", problem="an entry has the name of a generator")
        there = {*GENERATORS, *(box.name for box in self.black_boxes)}
        for name in self.lending.black_boxes:
            if name not in there:
                problem = "must name black boxes of these settings, or generators"
                raise InvalidInputError(field="lending.black_boxes", problem=problem)
        if self.page is not None and self.server.insecure_dev:
            problem = "needs a certificate, so it cannot be combined with server.insecure_dev"
            raise InvalidInputError(field="page", problem=problem)
        if self.cell.isolation is Isolation.PROCESSES and not self.server.insecure_dev:
            problem = "may be processes only with server.insecure_dev"
            raise InvalidInputError(field="cell.isolation", problem=problem)
        return self

    @classmethod
    def load(cls, path: Path) -> "Settings":
        """Return the settings in a file, with absolute paths.

        Raises:
            InvalidInputError: Names the first field that is wrong, never its value.
        """
        if not path.is_file():
            problem = "cannot be read; name the controller.toml that init made, with --config"
            raise InvalidInputError(field=path, problem=problem)
        return cls.of_table(read_table(path), path)

    @classmethod
    def of_table(cls, table: Table, path: Path) -> "Settings":
        """Return the settings that a table of a file describes; raises as ``load``."""
        try:
            settings = cls(**table)
        except ValidationError as error:
            refusal = refusal_of(error, path.name, cls.model_fields)
        else:
            anchored: Settings = _anchored(settings, path.absolute().parent)
            # the limit of all files holds for a dataset's format that states none
            limit = {"file_mib": anchored.limits.file_mib}
            datasets = [
                entry.model_copy(
                    update={"format": replace(entry.format, values={**limit, **entry.format.values})}
                )
                for entry in anchored.datasets
            ]
            return anchored.model_copy(update={"datasets": tuple(datasets)})
        raise refusal


def _anchored(value: Any, folder: Path) -> Any:
    """Return the same value with every relative path below ``folder``."""
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
