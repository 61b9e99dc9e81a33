"""Tables of the settings: policy, caps and evaluations of a dataset; page and notifications.

Policy, caps and evaluations are dataclasses of the core, whose docstrings describe the settings; this
module lists the differences of files.
"""

from collections.abc import Collection, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, PlainSerializer, PositiveInt, SecretStr, model_validator
from pydantic_core import PydanticCustomError

from gencard.controller.base.files import Section, TableOf
from gencard.controller.base.listening import Address, is_loopback
from gencard.controller.boxes import Name
from gencard.core.card.budget import Neighbouring, Price
from gencard.core.card.privacy import NOISES, AddedNoise, Mechanism, noise_with
from gencard.core.errors import InvalidInputError
from gencard.core.generators.registry import BY_CONSTRUCTION
from gencard.core.policy import USUAL_RULES, AnalysesPolicy, MomentPolicy
from gencard.core.statistics.formula import Analysis
from gencard.measures.evaluation.registry import EVALUATIONS

# Stewards: their page, and notifications by webhook or mail.

Mailbox = Annotated[str, Field(pattern=r"^[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,190}$")]
Port = Annotated[int, Field(ge=1, le=65_535)]
Subject = Annotated[str, Field(pattern=r"^[\x21-\x7e]{1,255}$")]
Holder = Annotated[str, Field(pattern=r"^[a-z0-9._-]{1,63}$")]


def _https(origin: str) -> str:
    parts = urlsplit(origin)
    host = parts.hostname or ""
    is_host_name = bool(host) and not host.replace(".", "").isdigit() and ":" not in host
    if origin and (not is_host_name or origin != f"https://{parts.netloc}" or "@" in parts.netloc):
        problem = "is not of the form https://name or https://name:port"
        raise InvalidInputError(field="page.origin", problem=problem)
    return origin


def _issuer(address: str) -> str:
    if not is_https(address) or urlsplit(address).query:
        problem = "is not an address that begins with https://, without a query"
        raise InvalidInputError(field="page.oidc.issuer", problem=problem)
    return address


def is_https(address: str) -> bool:
    """Whether TLS protects an address, which must have no user name and no fragment."""
    try:
        parts = urlsplit(address)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return False
    plain = address.isascii() and address.isprintable() and not {*' "<>\\#@'} & {*address}
    return parts.scheme == "https" and bool(host) and plain


class OidcTable(Section):
    """Sign-in with OpenID Connect, in addition to passkeys.

    Register the page at the issuer with the redirect address ``ORIGIN/sign-in/oidc/answer``.
    """

    issuer: Annotated[str, AfterValidator(_issuer)]
    """Address of the issuer, exactly as its metadata states it; it begins with ``https://``."""
    client_id: Subject
    """Client ID of the page at the issuer."""
    secret_file: Path | None = None
    """File with the client secret; a public client has none. Other users must not have access to it."""
    authority: Path | None = None
    """Certificate of a private authority that issued the certificate of the issuer; by default the
    authorities of the system are trusted."""
    subjects: Mapping[Subject, Holder]
    """Name of the enrolled steward for each subject (``sub``) of the issuer. No other subject
    can sign in with it."""


class PageTable(Section):
    """The stewards' page, with the certificate of the service; without this table it is not served.

    It needs ``pip install 'gencard[controller,page]'`` and cannot be combined with ``insecure_dev``.
    """

    address: Address = "127.0.0.1:7444"
    """Address to listen on, as ``host:port``, on loopback. Other machines reach it by a tunnel."""
    origin: Annotated[str, AfterValidator(_https)] = ""
    """Address of the page in browsers, ``https://name:port``; by default ``https://localhost`` and the
    port of ``address``. Passkeys are bound to the name."""
    idle_minutes: int = Field(default=15, ge=1, le=60)
    """Minutes without a request after which a session ends, 1 to 60."""
    oidc: OidcTable | None = None
    """Sign-in with OpenID Connect."""

    @model_validator(mode="after")
    def _is_on_loopback(self) -> "PageTable":
        if not is_loopback(self.address):
            raise InvalidInputError(field="page.address", problem="must be an address on loopback")
        return self


class WebhookTable(Section):
    """A receiver of signed messages in the format of standardwebhooks.com.

    It needs ``pip install 'gencard[controller,page]'``.
    """

    url: SecretStr
    """Address of the receiver: ``https://``, or ``http://`` on loopback."""
    secret_file: Path
    """File with the secret that the receiver knows too: ``whsec_`` and at least 24 random bytes in
    base64. Other users must not have access to it."""
    authority: Path | None = None
    """Certificate of a private authority that issued the certificate of the receiver; by default the
    authorities of the system are trusted."""

    @model_validator(mode="after")
    def _is_private(self) -> "WebhookTable":
        if problem := _problem(self.url.get_secret_value()):
            raise InvalidInputError(field="notify.webhook.url", problem=problem)
        return self


def _problem(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "is not an address"
    if not host or parts.fragment or not url.isascii() or not url.isprintable() or " " in url:
        return "is not an address"
    if parts.username or parts.password:
        return "must contain no password; the messages are signed with secret_file"
    at = f"[{host}]:{port or 0}" if ":" in host else f"{host}:{port or 0}"
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(at)):
        return "must begin with https://, or http:// for a receiver on this machine"
    return ""


class MailTable(Section):
    """Notifications by mail."""

    host: str = Field(pattern=r"^[A-Za-z0-9.:-]{1,255}$")
    """Host name of the mail server (SMTP)."""
    port: Port = 587
    """Port of the mail server."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """``starttls``, ``tls`` (from the first byte), or ``none``, for a server on this machine only."""
    user: str = Field(default="", pattern=r"^[\x21-\x7e]{0,255}$")
    """User name at the mail server, together with ``password_file``. Omit both if the server
    requires no sign-in."""
    password_file: Path | None = None
    """File with the password. Other users must not have access to it."""
    authority: Path | None = None
    """Certificate of a private authority that issued the certificate of the mail server; by default the
    authorities of the system are trusted."""
    sender: Mailbox
    """Address of the sender."""
    to: tuple[Mailbox, ...] = Field(min_length=1, max_length=50)
    """Addresses of the recipients, 1 to 50."""

    @model_validator(mode="after")
    def _is_private(self) -> "MailTable":
        if self.security == "none" and not is_loopback(f"{self.host}:{self.port}"):
            problem = "may be 'none' only for a server on this machine"
            raise InvalidInputError(field="notify.mail.security", problem=problem)
        if bool(self.user) != (self.password_file is not None):
            problem = "and password_file must be given together"
            raise InvalidInputError(field="notify.mail.user", problem=problem)
        return self


class NotifyTable(Section):
    """Notifications to stewards of what waits for them; without a webhook or mail none are sent."""

    link: str = Field(default="", pattern=r"^(https://[\x21-\x7e]{1,300})?$")
    """Link in the notifications, ``https://`` and up to 300 characters; by default the stewards'
    page."""
    quiet_seconds: int = Field(default=300, ge=0, le=86_400)
    """Shortest time between two notifications, in seconds, 0 to 86,400. What comes in between is in the
    next one."""
    webhook: WebhookTable | None = None
    """Notifications by webhook."""
    mail: MailTable | None = None
    """Notifications by mail."""


# Datasets: evaluations, policy and caps.

MEASURES = TableOf(attacks=Annotated[int, Field(ge=10, le=10_000)])
"""Table of ``Declared``."""


def _measure(name: str) -> str:
    if name not in EVALUATIONS:
        raise PydanticCustomError("no_measure", "no evaluation has this name")
    return name


MOST_DAYS = 36_500
"""Life of a card."""

_ADDED = [noise.mechanism for noise in NOISES]


def _one_of(allowed: Collection[Mechanism]) -> AfterValidator:
    """Return a validator of mechanisms. It rejects a generator's own noise, which measures no psi."""

    def checked(mechanism: Mechanism) -> Mechanism:
        if mechanism not in allowed:
            raise ValueError(f"must be {' or '.join(allowed)}")
        return mechanism

    return AfterValidator(checked)


_PRICE = Annotated[Price, TableOf(statistics=Annotated[int, Field(ge=0)])]


class NoiseTable(Section):
    """Noise of a card for which the analyst requests none of the ``mechanisms``."""

    # a section, not a form of a dataclass: the mechanism chooses among several

    mechanism: Annotated[Mechanism, _one_of(_ADDED)]
    """``laplace`` or ``gaussian``; it must be one of ``mechanisms``."""
    neighbouring: Neighbouring
    """Neighbouring relation of all noise on the dataset: ``add-remove`` or ``replace-one``. After a
    change, a dataset that gave noise gives no more."""
    epsilon: Decimal | None = None
    """Budget of Laplace noise, from 1e-9 to 1,000,000; required for it, refused for Gaussian noise."""
    rho: Decimal | None = None
    """Budget of Gaussian noise, from 1e-9 to 1,000,000; required for it, refused for Laplace noise."""
    delta: Decimal | None = None
    """Delta at which cards with Gaussian noise also state an epsilon, from 1e-18 to below 1. It does not
    change the noise."""

    @model_validator(mode="after")
    def _is_a_privacy(self) -> "NoiseTable":
        self.noise()
        return self

    def noise(self) -> AddedNoise:
        parameters = {name: str(value) for name, value in self if value is not None}
        return noise_with(Mechanism(parameters.pop("mechanism")), parameters)

    @classmethod
    def of(cls, noise: AddedNoise) -> dict[str, object]:
        """Return the table that states the noise."""
        return {name: getattr(noise, name, None) for name in cls.model_fields}


_CHECKS = USUAL_RULES.checks
_MOST_RECORDS = 1_000_000
_OFF: Literal["off"] = "off"
_INFLUENCE = Annotated[
    Annotated[float, Field(gt=0, le=_MOST_RECORDS)] | Literal["off"],
    AfterValidator(lambda number: None if number == _OFF else number),
    PlainSerializer(lambda number: _OFF if number is None else number),
]

ANALYSES = TableOf(
    kinds=tuple[Analysis, ...],
    threshold=Annotated[int, Field(ge=_CHECKS.threshold, le=_MOST_RECORDS)],
    rounding=Annotated[int, Field(ge=_CHECKS.rounding, le=_MOST_RECORDS)],
    influence=_INFLUENCE,
)
"""Table of ``AnalysesPolicy``."""

POLICY = TableOf(
    largest_order=PositiveInt,
    largest_order_exact=PositiveInt,
    largest_marginal_cells=PositiveInt,
    most_marginals=PositiveInt,
    most_rows=PositiveInt,
    generators=(tuple[Name, ...], BY_CONSTRUCTION),
    most_per_card=_PRICE,
    mechanisms=tuple[Annotated[Mechanism, _one_of([Mechanism.EXACT, *_ADDED])], ...],
    noise=Annotated[NoiseTable, AfterValidator(NoiseTable.noise), PlainSerializer(NoiseTable.of)] | None,
    moments=Annotated[MomentPolicy, TableOf(highest=PositiveInt)],
    measures=tuple[Annotated[str, AfterValidator(_measure)], ...],
    analyses=Annotated[AnalysesPolicy, ANALYSES],
    valid_days=Annotated[int, Field(ge=1, le=MOST_DAYS)],
    stewards=Annotated[int, Field(ge=1, le=2)],
    most_records=None,  # the schema states it
)
"""Table of ``Policy``."""

CAPS = TableOf(
    dataset=_PRICE,
    project=_PRICE,
    analyst=_PRICE,
    projects=dict[str, _PRICE],
    analysts=dict[str, _PRICE],
)
"""Table of ``Caps``."""
