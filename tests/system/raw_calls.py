"""The edge of a running controller, as an attacker sees it: any certificate, any bytes, any method."""

import hashlib
import math
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from grpc_status import rpc_status

from gencard.client import Analyst
from gencard.client.card import Card
from gencard.controller import audits
from gencard.controller.people.keys import KeyPair, certify, issue, read_authority
from gencard.controller.service.access import MAY_CALL
from gencard.controller.service.guard import TRACE
from gencard.controller.state.requests import UNFINISHED
from gencard.wire.error_table import error_of
from gencard.wire.keys import Role
from tests.system.house import House

SECONDS = 60.0
LOOK_EVERY = 0.02
NOBODYS = "datasets/survey/cards/0123456789abcdef"
URI = "spiffe://gencard.local/pilot/{role}/{name}"


@dataclass(frozen=True)
class Ending:
    """End of a call: OK with messages, or a status with the reason of our catalogue.

    Two that ended alike are equal; each has its own, random ``trace``.
    """

    code: grpc.StatusCode
    reason: str = ""
    text: str = ""
    answers: tuple[bytes, ...] = ()
    trailers: str = ""
    trace: str = field(default="", compare=False)


def methods() -> dict[str, MethodDescriptor]:
    """Every method of every served service, from the descriptors."""
    services = dict.fromkeys(path.split("/")[1] for path in MAY_CALL)
    pool = descriptor_pool.Default()
    return {
        f"/{service}/{method.name}": method
        for service in services
        for method in pool.FindServiceByName(service).methods
    }


def call(
    channel: grpc.Channel,
    path: str,
    *requests: bytes | Message,
    seconds: float = SECONDS,
    metadata: Iterable[tuple[str, str]] = (),
    compression: grpc.Compression | None = None,
) -> Ending:
    """Call a method with these bytes, whatever its kind."""
    described = methods().get(path)
    sent = [part if isinstance(part, bytes) else part.SerializeToString() for part in requests]
    kind = "unary_unary"
    if described is not None and described.server_streaming:
        kind = "stream_stream" if described.client_streaming else "unary_stream"
    stub = getattr(channel, kind)(path)
    argument = iter(sent) if kind == "stream_stream" else sent[0]
    try:
        answer = stub(argument, timeout=seconds, metadata=tuple(metadata), compression=compression)
        answers = (answer,) if kind == "unary_unary" else tuple(answer)
    except grpc.RpcError as error:
        return _ending(error)
    return Ending(grpc.StatusCode.OK, answers=answers)


def _ending(error: grpc.RpcError) -> Ending:
    status = rpc_status.from_call(error)
    ours = error_of(status) if status is not None else None
    metadata: Any = error.trailing_metadata() or ()
    trailers = [(key, value) for key, value in metadata if key != TRACE]
    traces = [value for key, value in metadata if key == TRACE]
    return Ending(
        error.code(),
        ours.reason if ours else "",
        error.details() or "",
        trailers=str(trailers),
        trace="".join(map(str, traces)),
    )


# Certificates ---------------------------------------------------------------------------------


def channel_of(house: House, pair: KeyPair | None, *options: tuple[str, object]) -> grpc.Channel:
    """A channel with this certificate, or with none."""
    root = (house.folder / "authority" / "certificate.pem").read_bytes()
    own = (pair.key_pem, pair.certificate_pem) if pair else (None, None)
    credentials = grpc.ssl_channel_credentials(root, *own)
    channel = grpc.secure_channel(house.address, credentials, options)
    house._channels.append(channel)
    return channel


def certificate(house: House, uri: str, now: datetime | None = None) -> KeyPair:
    """A certificate of the house's own authority, for the key of the person who is enrolled, if any."""
    authority, moment = read_authority(house.folder / "authority"), now or datetime.now(UTC)
    key = own_key(house, uri.rpartition("/")[2])
    if key is None:
        return issue(authority, uri, moment)
    return KeyPair(certify(authority, uri, key.public_key(), moment), key)


def own_key(house: House, name: str) -> ec.EllipticCurvePrivateKey | None:
    """TLS key of a person whose folder lies here."""
    file = house.person(name) / "key.pem"
    key = load_pem_private_key(file.read_bytes(), None) if file.exists() else None
    assert key is None or isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def certificate_naming(house: House, *names: x509.GeneralName, common: str = "x") -> KeyPair:
    """A certificate of the house's own authority with exactly these alternative names."""
    extensions = (x509.SubjectAlternativeName(names),) if names else ()
    return certificate_with(house, *extensions, common=common)


def certificate_with(house: House, *extensions: x509.ExtensionType, common: str = "x") -> KeyPair:
    """A certificate of the house's own authority with exactly these extensions, for sam's key."""
    authority = read_authority(house.folder / "authority")
    plain = certificate(house, URI.format(role="steward", name="sam"))
    old = plain.certificate
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common)]))
        .issuer_name(old.issuer)
        .public_key(old.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(old.not_valid_before_utc)
        .not_valid_after(old.not_valid_after_utc)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return KeyPair(builder.sign(authority.key, hashes.SHA256()), plain.key)


def enrolled(house: House, name: str, role: Role = Role.ANALYST, project: str = "survey") -> str:
    """Somebody's name, enrolled now if not before."""
    if not house.person(name).exists():
        house.enrol(name, role, project)
    return name


def configure(house: House, section: str, **values: object) -> House:
    """Set keys in a section of controller.toml."""
    lines = "".join(f"{name} = {value}\n" for name, value in values.items())
    text = house.settings_file.read_text()
    head, found, rest = text.partition(f"\n[{section}]")
    assert found, section
    comment, _, rest = rest.partition("\n")
    own, more, others = rest.partition("\n[")
    rest = re.sub(rf"(?m)^({'|'.join(values)}) = .*\n", "", own) + more + others
    house.settings_file.write_text(f"{head}{found}{comment}\n{lines}{rest}")
    return house


# Cards and state ------------------------------------------------------------------------------

PAIRS = (("sex", "health"), ("work", "region"))


def agreed(
    analyst: Analyst, *marginals: tuple[str, ...], rows: int = 1_000, dataset: str = "survey"
) -> Card:
    """A card in force."""
    return analyst.propose(dataset, list(marginals or PAIRS), purpose="a test", rows=rows).accept()


TABLES = (
    "balances", "lines", "cards", "psis", "operations", "releases", "audits", "measures", "answers",
    "runs",
)  # fmt: skip
LASTING = ("balances", "cards", "psis", "releases", "audits", "measures", "runs")
"""State that must not change even if a failed operation leaves its own trace."""


def state_of(house: House, tables: Iterable[str] = TABLES) -> str:
    """Digest of the state's tables, the log apart, and of every file below the state's folder."""
    digest = hashlib.sha256()
    with closing(sqlite3.connect(house.folder / "state" / "state.sqlite")) as connection:
        for table in tables:
            rows = connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()
            digest.update(repr((table, rows)).encode())
    for path in sorted((house.folder / "state").rglob("*")):
        if path.is_file() and not path.name.startswith("state.sqlite"):
            digest.update(f"{path} {path.stat().st_size}".encode())
    return digest.hexdigest()


def is_idle(house: House) -> bool:
    """No operation runs, and none waits in the queue for the coordinator that will run it."""
    controller = house.controller
    assert controller is not None
    with closing(sqlite3.connect(house.folder / "state" / "state.sqlite")) as connection:
        query = "SELECT count(*) FROM operations WHERE state IN (?, ?)"
        unfinished = connection.execute(query, UNFINISHED).fetchone()[0]
    return not (unfinished or controller.operations._runs)


@contextmanager
def state_unchanged(house: House, tables: Iterable[str] = TABLES) -> Iterator[None]:
    assert eventually(lambda: is_idle(house)), "work goes on"
    before = state_of(house, tables)
    yield
    assert state_of(house, tables) == before


@contextmanager
def known_seeds() -> Iterator[None]:
    """Audits draw the same part of their seeds every time, so that no verdict is left to chance."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audits, "_drawn", lambda seed: seed + 1_000)
        yield


def eventually(holds: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Whether it holds within a time, in which a pause of the whole machine counts as one look."""
    waited = 0.0
    while not (held := holds()) and waited < seconds:
        begin = time.monotonic()
        time.sleep(LOOK_EVERY)
        waited += min(time.monotonic() - begin, 2 * LOOK_EVERY)
    return held


def quickest(act: Callable[[], object], within: float, tries: int = 5) -> float:
    """Seconds that it takes: of so many tries the quickest, as a busy machine makes any one slow."""
    took = math.inf
    for _ in range(tries):
        begin = time.monotonic()
        act()
        took = min(took, time.monotonic() - begin)
        if took < within:
            break
    return took


def open_files(pid: int | str = "self") -> dict[str, str]:
    """Return the open files of a process, by number; a file closed meanwhile is left out."""
    found = {}
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found[entry.name] = str(entry.readlink())
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def resident_kib() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024
