"""The tables of the settings file about the service itself and about its datasets."""

import ipaddress
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, PositiveInt, SecretStr, model_validator

from gencard.controller.settings.settings_boxes import Name
from gencard.controller.settings.settings_measures import MeasuresTable
from gencard.controller.settings.settings_policy import Caps, PolicyTable
from gencard.controller.settings.toml_file import Section
from gencard.core.errors import InvalidInputError


def _listened_on(address: str) -> str:
    """Of a port beyond 65535 gRPC would take another one, without a word."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise InvalidInputError(field="server.address", problem="is not of the form host:port")
    return address


Address = Annotated[str, AfterValidator(_listened_on)]


class Server(Section):
    """Address, certificates and call limits of the service.

    ``insecure_dev`` serves plaintext without certificates, on loopback only. ``per_identity`` and
    ``maximum_concurrent_rpcs`` limit simultaneous calls, ``calls_per_second`` the average rate of one
    certificate, ``request_seconds`` the time for receiving one message.
    """

    address: Address = "localhost:7443"
    insecure_dev: bool = False
    certificate: Path = Path("server/certificate.pem")
    key: Path = Path("server/key.pem")
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
    ``reserve_mib``: free space below which no card, offer or operation begins. ``keep_days``: age at
    which proposals that were never agreed are deleted; 0 for never. ``memory_mib`` limits address space,
    of which the libraries alone take half a GiB.
    """

    marginal_cells: PositiveInt = 1_000_000
    model_cells: PositiveInt = 50_000_000
    marginals: PositiveInt = 2_000
    rows: PositiveInt = 10_000_000
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


class DatasetEntry(Section):
    """A dataset on offer.

    ``holdout`` names other records of the same population under the same schema, for evaluations; no
    release is made from them.
    """

    name: Name
    data: Path
    schema_file: Path = Field(alias="schema")
    holdout: Path | None = None
    measures: MeasuresTable = MeasuresTable()
    policy: PolicyTable
    caps: Caps


def is_loopback(address: str) -> bool:
    """Whether ``host:port`` can be reached from this machine alone.

    >>> [is_loopback(address) for address in ("localhost:1", "127.0.0.1:1", "[::1]:1", "0.0.0.0:1")]
    [True, True, True, False]
    """
    host = address.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
