"""Enrolled people: a TOML file for each person, with the public key that this person signs with."""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pydantic import Field

from gencard.controller.base.files import Section, public_key, read_table, toml_text, validated
from gencard.controller.people.certificates import public_pem
from gencard.core.errors import GencardError, InvalidInputError, UnauthenticatedError
from gencard.wire.signatures.canonical import sha256
from gencard.wire.signatures.dsse import key_id
from gencard.wire.signatures.identity import Identity, Role

_Stamp = tuple[tuple[str, int, int, int], ...]
PeopleAreRead = Callable[[Mapping[str, "Enrolled"]], None]


@dataclass(frozen=True, slots=True)
class Enrolled:
    """A person and the public half of the key that this person signs cards with.

    Args:
        earlier: Keys that the person signed with before; they sign no more.
        disabled: Whether the person is refused like a stranger; the name stays taken.
        tls_keys: Fingerprints of the keys of all certificates so far, the newest last: only the newest
            opens connections. Empty for people who were enrolled before fingerprints were kept.
    """

    identity: Identity
    signing_key: Ed25519PublicKey
    earlier: tuple[Ed25519PublicKey, ...] = ()
    disabled: bool = False
    tls_keys: tuple[str, ...] = ()

    @property
    def keys(self) -> frozenset[str]:
        """Fingerprints of all keys that the person has or had."""
        return frozenset({*map(key_id, (self.signing_key, *self.earlier)), *self.tls_keys})

    @property
    def keys_in_force(self) -> frozenset[str]:
        """Fingerprints of the signing key and, if it is recorded, of the TLS key."""
        return frozenset({key_id(self.signing_key), *self.tls_keys[-1:]})

    def connects_with(self, tls_key: str) -> bool:
        """Whether the person's connections may use this TLS key; any if none is recorded."""
        return not self.tls_keys or tls_key == self.tls_keys[-1]


class _IdentityTable(Section):
    uri: str
    signing_key: str
    earlier: tuple[str, ...] = ()
    disabled: bool = False
    tls_keys: tuple[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")], ...] = ()


def read_identities(folder: Path) -> Mapping[str, Enrolled]:
    """Return all people enrolled in a folder, by URI.

    Raises:
        InvalidInputError: A file is malformed, or two files enrol the same URI.
        UnauthenticatedError: A URI is not that of an identity.
    """
    enrolled = [enrolled_in(path) for path in sorted(folder.glob("*.toml"))]
    people = {entry.identity.uri: entry for entry in enrolled}
    if len(people) != len(enrolled):
        raise InvalidInputError(field=folder.name, problem="contains two files for the same identity")
    return people


class Roster:
    """Enrolled people at this moment: a file that is added or deleted counts at the next call.

    A file that cannot be used enrols no person and affects no other person. If two files have one
    identity, neither enrols it, because the right signing key is not known.


    Args:
        folder: Folder of the files.
        on_change: Called with all enrolled people whenever a file has changed, before the change takes
            effect; if it raises, the caller is refused.
    """

    def __init__(self, folder: Path, on_change: PeopleAreRead | None = None) -> None:
        self._folder = folder
        self._on_change = on_change
        self._seen: tuple[_Stamp, Mapping[str, Enrolled]] = ((), {})

    def admits(self, identity: Identity, tls_key: str) -> bool:
        """Whether a person of this name is enrolled, who may call with this TLS key.

        Raises:
            UnauthenticatedError: The person is disabled, or the key was replaced; it says which. Only a
                caller with a certificate of the authority gets here.
        """
        enrolled = self._people().get(identity.uri)
        if enrolled is not None and enrolled.disabled:
            raise UnauthenticatedError(
                why="the person of this certificate is disabled",
                advice="Ask the controller's steward to enable you; cards and budgets are kept.",
            )
        if enrolled is not None and not enrolled.connects_with(tls_key):
            raise UnauthenticatedError(why="the key of this certificate was replaced by a newer one")
        return enrolled is not None

    def signing_key(self, identity: Identity) -> Ed25519PublicKey:
        """Return the public key with which a person signs; raises UnauthenticatedError for strangers."""
        enrolled = self._find(identity)
        if enrolled is None:
            raise UnauthenticatedError
        return enrolled.signing_key

    def person(self, identity: Identity) -> Enrolled | None:
        """Return the person enrolled at this moment; None for strangers and disabled people."""
        return self._find(identity)

    def _find(self, identity: Identity) -> Enrolled | None:
        enrolled = self._people().get(identity.uri)
        return None if enrolled is None or enrolled.disabled else enrolled

    def _people(self) -> Mapping[str, Enrolled]:
        stamp = _stamp(self._folder)
        if stamp == self._seen[0]:
            return self._seen[1]
        people = _usable(self._folder / name for name, *_ in stamp)
        if self._on_change is not None:
            self._on_change(people)
        if len(people) == len(stamp):  # else look again: a file that could not be read now may be soon
            self._seen = stamp, people
        return people


def health_check(trust_domain: str) -> Identity:
    """Return the identity of the controller's own health check, which may call nothing else."""
    return Identity(trust_domain, "service", Role.CONTROLLER, "health")


def identity_text(enrolled: Enrolled) -> str:
    """Return the person's file."""
    pem = public_pem(enrolled.signing_key).decode()
    text = f"uri = {toml_text(enrolled.identity.uri)}\nsigning_key = {toml_text(pem)}\n"
    earlier = [public_pem(key).decode() for key in enrolled.earlier]
    text += f"earlier = {toml_text(earlier)}\n" if earlier else ""
    text += f"tls_keys = {toml_text(list(enrolled.tls_keys))}\n" if enrolled.tls_keys else ""
    return f"{text}disabled = true\n" if enrolled.disabled else text


def tls_key_id(key: EllipticCurvePublicKey) -> str:
    """SHA-256, in hex, of a TLS key as certificates hold it."""
    return sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def _stamp(folder: Path) -> _Stamp:
    """Return name, time, size and inode of each file, which change with the file."""
    # every call asks for it: pathlib takes more than twice as long
    with suppress(OSError), os.scandir(folder) as entries:
        files = [(entry.name, entry.stat()) for entry in entries if entry.name.endswith(".toml")]
        return tuple(sorted((name, file.st_mtime_ns, file.st_size, file.st_ino) for name, file in files))
    return ()


def _usable(paths: Iterable[Path]) -> Mapping[str, Enrolled]:
    people_by_uri: dict[str, list[Enrolled]] = {}
    for path in paths:
        with suppress(GencardError):
            enrolled = enrolled_in(path)
            people_by_uri.setdefault(enrolled.identity.uri, []).append(enrolled)
    return {uri: people[0] for uri, people in people_by_uri.items() if len(people) == 1}


def enrolled_in(path: Path) -> Enrolled:
    """Return the person whom a file enrols; raises as ``read_identities``."""
    table = validated(_IdentityTable, read_table(path), path.name)
    identity = Identity.of(table.uri)
    earlier = (public_key(pem, f"{path.name}.earlier") for pem in table.earlier)
    key = public_key(table.signing_key, f"{path.name}.signing_key")
    return Enrolled(identity, key, tuple(earlier), table.disabled, table.tls_keys)
