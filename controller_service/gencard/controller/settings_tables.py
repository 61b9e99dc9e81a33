"""The tables of the settings file, and what each field means."""

import ipaddress
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PositiveInt, SecretStr, model_validator

from gencard.controller import policy
from gencard.controller.moment_policy import MomentPolicy
from gencard.controller.settings_boxes import BuiltInBox, Name, ProgramBox
from gencard.controller.settings_measures import MeasuresTable
from gencard.controller.toml_file import Section
from gencard.core.budget import Mechanism, Neighbouring, Price, Privacy
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError
from gencard.core.generators.registry import BY_CONSTRUCTION, GENERATORS
from gencard.core.measures.registry import MEASURES
from gencard.core.moment import MomentKind
from gencard.core.transform import Transform


def _listened_on(address: str) -> str:
    """Of a port beyond 65535 gRPC would take another one, without a word."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise InvalidInputError(field="server.address", problem="is not of the form host:port")
    return address


Address = Annotated[str, AfterValidator(_listened_on)]


def _known(name: str) -> str:
    if name not in GENERATORS:
        raise ValueError("there is no generator of this name")
    return name


Generator = Annotated[Name, AfterValidator(_known)]


def _measure(name: str) -> str:
    if name not in MEASURES:
        raise ValueError("there is no measure of this name")
    return name


MeasureName = Annotated[str, AfterValidator(_measure)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


class Server(Section):
    """Where and for whom the service listens.

    ``insecure_dev`` is plaintext without certificates, and is refused anywhere but on loopback.
    """

    address: Address = "localhost:7443"
    insecure_dev: bool = False
    certificate: Path = Path("server/certificate.pem")
    key: Path = Path("server/key.pem")
    authority: Path = Path("authority/certificate.pem")
    maximum_concurrent_rpcs: PositiveInt = 64
    per_identity: PositiveInt = 8

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

    ``audits`` bounds those that one submitter may begin on one dataset.
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


class Amounts(Section):
    """A price, or a cap, in each currency of the ledger."""

    statistics: int = Field(default=0, ge=0)
    epsilon: Decimal = Decimal(0)
    rho: Decimal = Decimal(0)

    @model_validator(mode="after")
    def _is_a_price(self) -> "Amounts":
        self.price()
        return self

    def price(self) -> Price:
        return Price(self.statistics, self.epsilon, self.rho)


class NoiseTable(Section):
    """The noise on offer: its budget where nobody asks for another, its relation for everybody."""

    mechanism: Literal[Mechanism.LAPLACE, Mechanism.GAUSSIAN]
    neighbouring: Neighbouring
    epsilon: Decimal | None = None
    rho: Decimal | None = None
    delta: Decimal | None = None

    @model_validator(mode="after")
    def _is_a_privacy(self) -> "NoiseTable":
        self.privacy()
        return self

    def privacy(self) -> Privacy:
        return Privacy(self.mechanism, self.neighbouring, self.epsilon, self.rho, self.delta)


class TransformTable(Section):
    """What happens to exact counts before they are psi; see ``core.transform.Transform``."""

    threshold: int = 0
    freedom: int = 0
    dominance_count: int = 0
    dominance_percent: int = 0
    remainder_percent: int = 0
    zeros: bool = False
    rounding: int = 1

    @model_validator(mode="after")
    def _is_a_transform(self) -> "TransformTable":
        self.transform()
        return self

    def transform(self) -> Transform:
        return Transform(**dict(self))


class MomentsTable(Section):
    """Linear statistics besides marginals; see ``moment_policy.MomentPolicy``."""

    kinds: tuple[MomentKind, ...] = ()
    highest: PositiveInt = 2


class PolicyTable(Section):
    """What a proposal may ask for; see ``policy.Policy``."""

    largest_order: PositiveInt
    largest_marginal_cells: PositiveInt
    most_marginals: PositiveInt
    most_rows: PositiveInt
    most_per_card: Amounts
    forbidden: tuple[Clique, ...] = ()
    generators: tuple[Name, ...] = BY_CONSTRUCTION
    mechanisms: tuple[Mechanism, ...] = (Mechanism.EXACT,)
    noise: NoiseTable | None = None
    transform: TransformTable = TransformTable()
    moments: MomentsTable = MomentsTable()
    measures: tuple[MeasureName, ...] = ()
    without_uniques: bool = False
    automatic: bool = False
    valid_days: PositiveInt = 90

    def policy(self) -> policy.Policy:
        values = {
            "most_per_card": self.most_per_card.price(),
            "noise": None if self.noise is None else self.noise.privacy(),
            "transform": self.transform.transform(),
            "moments": MomentPolicy(**dict(self.moments)),
        }
        return policy.Policy(**dict(self) | values)


class Caps(Section):
    """Most that may ever be spent: on the dataset, by one project, by one analyst."""

    dataset: Amounts
    project: Amounts
    analyst: Amounts


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


class HonestBox(Section):
    """Measures Phi and synthesises from it."""

    kind: Literal["honest"]
    name: Name
    generator: Generator = "ipf"
    description: str = ""


class AddsMarginalBox(HonestBox):
    """Measures one marginal more than it says."""

    kind: Literal["adds_marginal"]  # type: ignore[assignment]  # narrows the tag of the union
    clique: Clique = Field(min_length=1)


class CopiesRowsBox(HonestBox):
    """Copies records, each row with probability ``share``."""

    kind: Literal["copies_rows"]  # type: ignore[assignment]  # narrows the tag of the union
    share: Share


BoxEntry = Annotated[
    HonestBox | AddsMarginalBox | CopiesRowsBox | ProgramBox | BuiltInBox, Field(discriminator="kind")
]


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
