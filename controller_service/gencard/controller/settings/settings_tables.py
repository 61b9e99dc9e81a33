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
    """Where and for whom the service listens.

    ``insecure_dev`` is plaintext without certificates, and is refused anywhere but on loopback.
    ``per_identity`` and ``maximum_concurrent_rpcs`` bound calls at a time, ``calls_per_second`` those of
    one certificate in the long run; ``request_seconds`` is how long a caller may take for one message.
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
    """Where the service keeps its state; ``url`` names a database elsewhere than in ``folder``."""

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
    """The trust domain of all certificates, and the controller's own URI in it."""

    trust_domain: str = Field(pattern=r"^[a-z0-9.-]{1,100}$")
    uri: str


class Signing(Section):
    """Keys that sign cards and the log, the salt of dataset versions, who else may sign."""

    card_key: Path = Path("signing/card_key.pem")
    log_key: Path = Path("signing/log_key.pem")
    version_salt: Path = Path("signing/version_salt")
    identities: Path = Path("identities")


class Limits(Section):
    """Bounds that hold before any work is done; ``cpu_seconds`` and ``memory_mib`` for each job.

    ``audits`` bounds those that one submitter may begin on one dataset, ``operations`` the unfinished
    ones of one certificate, ``refusals`` those of one analyst that failed at the records of a dataset
    and that no steward has looked at. Operations tell how far they are, and that they ended, at the
    ticks of a grid of ``tick_seconds``; 0 for none.
    ``card_releases`` and ``card_release_mib`` bound the releases of one card, in number and in all.
    ``open_proposals``, ``cards`` and ``card_mib`` bound what the cards of one certificate take of the
    state; below ``reserve_mib`` of free space no card, offer or operation begins. ``releases`` and
    ``release_mib`` bound the releases of all cards of one certificate. Proposals that were never agreed
    are deleted ``keep_days`` after their last change; 0 for never.
    ``memory_mib`` bounds address space, of which the libraries alone take half a GiB.
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

    ``holdout`` names other records of the same population under the same schema; no release is ever
    made from them, and measures of risk compare with them.
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
