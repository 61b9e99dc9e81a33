"""Addresses and sockets that a server listens on, and the files of its TLS certificate."""

import errno
import ipaddress
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509 import load_pem_x509_certificates
from pydantic import AfterValidator

from gencard.controller.base.files import secret_bytes
from gencard.core.errors import InvalidInputError
from gencard.files import KEY_LIMIT, read_file

UNLOCKED_BY = "server.key_passphrase_file"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files of certificate, key and authority; read again when they change."""

    certificate: Path
    key: Path
    authority: Path
    passphrase: Path | None = None

    def read(self) -> tuple[tuple[bytes, bytes], bytes]:
        """Return key and certificate, and the authority, all in PEM; raises InvalidInputError."""
        certificate = _certificate(self.certificate, "server.certificate")
        authority = _certificate(self.authority, "server.authority")
        return (self._plain_key(), certificate), authority

    def password(self) -> str:
        """Return the passphrase of the key; empty if it has none, which prevents a prompt for one."""
        if self.passphrase is None:
            return ""
        with suppress(UnicodeDecodeError):
            return secret_bytes(self.passphrase, UNLOCKED_BY).decode().rstrip("\r\n")
        raise InvalidInputError(field=UNLOCKED_BY, problem="is not text in UTF-8")

    def _plain_key(self) -> bytes:
        """Return the key as gRPC takes it, which knows no passphrase: decrypted in memory alone."""
        content, password = secret_bytes(self.key, "server.key"), self.password()
        if not password and b"ENCRYPTED" not in content:
            return content
        field, problem = UNLOCKED_BY, "does not open server.key"
        try:
            key = load_pem_private_key(content, password.encode() or None)
            return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        except TypeError:  # a passphrase without need, or none where one is needed
            if password:
                problem = "is not needed: server.key has no passphrase"
            else:
                field, problem = "server.key", f"has a passphrase; name its file in {UNLOCKED_BY}"
        except (ValueError, UnsupportedAlgorithm):
            pass
        raise InvalidInputError(field=field, problem=problem)

    def stamp(self) -> tuple[int, ...]:
        return tuple(path.stat().st_mtime_ns for path in (self.certificate, self.key, self.authority))


def _certificate(path: Path, field: str) -> bytes:
    """Return a file of certificates; gRPC would take any bytes, and speak of the address."""
    pem = read_file(path, field, KEY_LIMIT)
    try:
        load_pem_x509_certificates(pem)
    except ValueError:
        raise InvalidInputError(field=field, problem="is not a certificate in PEM") from None
    return pem


_PROBLEMS: Mapping[int | None, tuple[str, str]] = {
    errno.EADDRINUSE: (
        "is in use by another process",
        "Stop that process (`ss -ltnp` shows it), or set another port in {}.",
    ),
    errno.EACCES: ("may not be used by this account", "Set a port from 1024 to 65535 in {}."),
}
_FOREIGN = (
    "is not an address of this machine",
    "Set a host of this machine in {}, such as localhost or 0.0.0.0.",
)


def unusable(field: str, place: str, number: int | None) -> InvalidInputError:
    """Return the error about a ``host:port`` that is not available, by the system's error number."""
    problem, advice = _PROBLEMS.get(number, _FOREIGN)
    return InvalidInputError(field=field, problem=f"{problem}: {place}", advice=advice.format(field))


_LOOPBACK: Mapping[socket.AddressFamily, str] = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}
_TRIES = 20
"""Number of free ports to try until a port is free at every address."""


def bound(address: str, field: str) -> list[socket.socket]:
    """Return sockets bound to every address of the host of ``host:port``: to all of them, or to none.

    ``localhost`` has both loopback addresses, whatever the machine's list of hosts says, since
    clients try both. ``[::]`` takes IPv4 too. Port 0 takes a port that is free at every address.
    Raises InvalidInputError for an address that is held, or not this machine's.
    """
    host, _, port = address.rpartition(":")
    places = _places(host.strip("[]"), field)
    for last in (False,) * (_TRIES - 1) + (True,):
        sockets: list[socket.socket] = []
        try:
            for place in places:
                free = sockets[0].getsockname()[1] if sockets else int(port)
                sockets.append(_bound(*place, free))
            return sockets
        except OSError as error:
            _close(sockets)
            if int(port) or last or error.errno != errno.EADDRINUSE:
                where = f"[{place[1]}]:{port}" if ":" in place[1] else f"{place[1]}:{port}"
                raise unusable(field, where, error.errno) from None
    raise AssertionError  # the last try returns or raises


def _close(sockets: Sequence[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


def _places(host: str, field: str) -> list[tuple[socket.AddressFamily, str]]:
    """Families and addresses of a host, without families that this machine does not have."""
    try:
        answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise InvalidInputError(field=field, problem=f"names a host without address: {host}") from None
    places: dict[tuple[socket.AddressFamily, str], None]
    places = {(family, str(place[0])): None for family, _, _, _, place in answers if family in _LOOPBACK}
    if host == "localhost":
        places |= dict.fromkeys((family, own) for family, own in _LOOPBACK.items())
    missing = {family for family, _ in places if not _has(family)}
    return [place for place in places if place[0] not in missing or missing == set(_LOOPBACK)]


def _bound(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock


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


def listened_on(address: str, *, field: str = "server.address") -> str:
    """Return an address of the form ``host:port``.

    gRPC would silently take another port for a port beyond 65535. Raises InvalidInputError.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        advice = "Write a host and a port up to 65535, such as localhost:7443."
        raise InvalidInputError(field=field, problem="is not of the form host:port", advice=advice)
    return address


Address = Annotated[str, AfterValidator(listened_on)]
"""``host:port`` to listen on."""

CLUSTER_CONTROLLER = "controller"
"""Name of the controller in the certificates of its cluster."""

MEMBER_FILES = ("authority.pem", "certificate.pem", "key.pem")
"""Files in the folder of each member of a cluster."""


def worker_host(name: str) -> str:
    """Name of a worker as a host, which its certificate has, at whatever address it is."""
    return f"{name}.workers.gencard.internal"


def _has(family: socket.AddressFamily) -> bool:
    """Whether this machine has a family of addresses at all: containers often have IPv4 alone."""
    try:
        _bound(family, _LOOPBACK[family], 0).close()
    except OSError:
        return False
    return True
