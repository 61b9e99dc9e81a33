"""Enrolment at the controller: a person's request becomes an identity file and an answer.

The controller sees public keys alone. The person's private keys are made on the person's machine and
stay there (``gencard.client.connection.credentials``).
"""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pydantic import Field

from gencard.controller.base.disk import write_whole
from gencard.controller.base.files import Section, public_key, read_table, toml_text, validated
from gencard.controller.people.keys import (
    KeyPair,
    certify,
    private_pem,
    public_pem,
    trust_domain_of,
    write_new,
)
from gencard.core.errors import GencardError, InvalidInputError, StorageError, UnauthenticatedError
from gencard.files import KEY_LIMIT, read_file
from gencard.wire.canonical import sha256
from gencard.wire.dsse import key_id
from gencard.wire.keys import (
    EnrolmentAnswer,
    EnrolmentRequest,
    Identity,
    Role,
    checked_identity,
    request_document,
    request_of_document,
)

# Enrolled people: a TOML file for each person, with the public key that this person signs with.


_Stamp = tuple[tuple[str, int, int, int], ...]
"""Name, time, size and inode of each file of a person, which change with the file."""

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
    """Return all enrolled people, by URI; raises InvalidInputError or UnauthenticatedError."""
    enrolled = [enrolled_in(path) for path in sorted(folder.glob("*.toml"))]
    people = {entry.identity.uri: entry for entry in enrolled}
    if len(people) != len(enrolled):
        raise InvalidInputError(field=folder.name, problem="contains two files for the same identity")
    return people


class Roster:
    """Enrolled people at this moment: a file that is added or deleted counts at the next call.

    A file that cannot be used enrols no person and affects no other person. If two files have one
    identity, neither enrols it, because the right signing key is not known. ``on_change`` gets all
    enrolled people before a change takes effect; if it raises, the caller is refused.
    """

    def __init__(self, folder: Path, on_change: PeopleAreRead | None = None) -> None:
        self._folder = folder
        self._on_change = on_change
        self._seen: tuple[_Stamp, Mapping[str, Enrolled]] = ((), {})

    def admits(self, identity: Identity, tls_key: str) -> bool:
        """Whether a person of this name is enrolled, who may call with this TLS key.

        UnauthenticatedError says that the person is disabled, or the key was replaced: only a caller
        with a certificate of the authority gets here.
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
        enrolled = self.person(identity)
        if enrolled is None:
            raise UnauthenticatedError
        return enrolled.signing_key

    def person(self, identity: Identity) -> Enrolled | None:
        """Return the person enrolled at this moment; None for strangers and disabled people."""
        enrolled = self._people().get(identity.uri)
        return None if enrolled is None or enrolled.disabled else enrolled

    def _people(self) -> Mapping[str, Enrolled]:
        stamp: _Stamp = ()
        # every call asks for it: pathlib takes more than twice as long
        with suppress(OSError), os.scandir(self._folder) as entries:
            files = [(one.name, one.stat()) for one in entries if one.name.endswith(".toml")]
            stamp = tuple(sorted((name, of.st_mtime_ns, of.st_size, of.st_ino) for name, of in files))
        if stamp == self._seen[0]:
            return self._seen[1]
        people_by_uri: dict[str, list[Enrolled]] = {}
        for name, *_ in stamp:
            with suppress(GencardError):
                enrolled = enrolled_in(self._folder / name)
                people_by_uri.setdefault(enrolled.identity.uri, []).append(enrolled)
        people = {uri: people[0] for uri, people in people_by_uri.items() if len(people) == 1}
        if self._on_change is not None:
            self._on_change(people)
        if len(people) == len(stamp):  # else look again: a file that could not be read now may be soon
            self._seen = stamp, people
        return people


def health_check(trust_domain: str) -> Identity:
    """Return the identity of the controller's own health check, which may call nothing else."""
    return Identity(trust_domain, "service", Role.CONTROLLER, "health")


def identity_text(enrolled: Enrolled) -> str:
    pem = public_pem(enrolled.signing_key).decode()
    text = f"uri = {toml_text(enrolled.identity.uri)}\nsigning_key = {toml_text(pem)}\n"
    earlier = [public_pem(key).decode() for key in enrolled.earlier]
    text += f"earlier = {toml_text(earlier)}\n" if earlier else ""
    text += f"tls_keys = {toml_text(list(enrolled.tls_keys))}\n" if enrolled.tls_keys else ""
    return f"{text}disabled = true\n" if enrolled.disabled else text


def tls_key_id(key: EllipticCurvePublicKey) -> str:
    """SHA-256, in hex, of a TLS key as certificates hold it."""
    return sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def enrolled_in(path: Path) -> Enrolled:
    """Return the person whom a file enrols; raises as ``read_identities``."""
    table = validated(_IdentityTable, read_table(path), path.name)
    identity = Identity.of(table.uri)
    earlier = (public_key(pem, f"{path.name}.earlier") for pem in table.earlier)
    key = public_key(table.signing_key, f"{path.name}.signing_key")
    return Enrolled(identity, key, tuple(earlier), table.disabled, table.tls_keys)


class EnrolmentKind(StrEnum):
    """Effect of the answer to a request."""

    NEW = "new"
    RENEWED = "renewed"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class Enrolment:
    """A request that may be answered; nothing is written yet."""

    kind: EnrolmentKind
    enrolled: Enrolled
    request: EnrolmentRequest

    @property
    def identity(self) -> Identity:
        return self.enrolled.identity

    @property
    def facts(self) -> dict[str, str]:
        """Facts for the log's entry; fingerprints are public."""
        identity = self.identity
        facts = {"role": str(identity.role), "project": identity.project}
        facts |= {"key": self.request.fingerprint, "kind": str(self.kind)}
        if self.kind is EnrolmentKind.REPLACED:
            facts["previous_key"] = key_id(self.enrolled.earlier[-1])
        return facts


def examined(
    folder: Path,
    request: EnrolmentRequest,
    trust_domain: str,
    *,
    role: str | None = None,
    project: str | None = None,
    again: bool = False,
) -> Enrolment:
    """Check a request and return the enrolment that an answer would make.

    With ``again``, new keys of an enrolled person replace the present keys, which sign no more.
    InvalidInputError says what contradicts the enrolled people; UnauthenticatedError: a file is
    malformed.
    """
    name = request.name
    entry = folder / "identities" / f"{name}.toml"
    enrolled = enrolled_in(entry) if entry.is_file() else None
    identity = _identity(enrolled, trust_domain, name, role, project)
    if enrolled is not None and enrolled.disabled:
        problem = f"{name} is disabled; run `gencard-controller person enable {name}` first"
        raise InvalidInputError(field="name", problem=problem)
    people = read_identities(folder / "identities")
    _check_keys_are_free(people, request, identity)
    tls_key = tls_key_id(request.tls_key)
    if enrolled is None:
        if identity.uri in people:
            problem = f"{name} is enrolled by another file than {entry.name}; rename that file"
            raise InvalidInputError(field="name", problem=problem)
        if again:
            problem = f"{name} is not enrolled, so --again does not apply"
            raise InvalidInputError(field="name", problem=problem)
        newcomer = Enrolled(identity, request.signing_key, tls_keys=(tls_key,))
        return Enrolment(EnrolmentKind.NEW, newcomer, request)
    tls_keys = (*(key for key in enrolled.tls_keys if key != tls_key), tls_key)  # the last is in force
    if enrolled.signing_key == request.signing_key:
        if not enrolled.connects_with(tls_key):
            # a copy of an old folder could otherwise bring its TLS key back into force
            problem = (
                "is not the one of the newest certificate, and a renewal keeps the key; to replace both "
                "keys, the person must run `gencard enrol NAME --again`"
            )
            raise InvalidInputError(field="TLS key", problem=problem)
        return Enrolment(EnrolmentKind.RENEWED, replace(enrolled, tls_keys=tls_keys), request)
    if request.signing_key in enrolled.earlier:
        problem = "was replaced by a newer key; the person must run `gencard enrol NAME --again`"
        raise InvalidInputError(field="signing key", problem=problem)
    if tls_key in enrolled.tls_keys:  # a thief who has the present one would stay connected
        problem = "is not new; the person must run `gencard enrol NAME --again`, which makes both keys"
        raise InvalidInputError(field="TLS key", problem=problem)
    if not again:
        problem = f"{name} is already enrolled with another signing key; use --again to replace it"
        raise InvalidInputError(field="name", problem=problem)
    earlier = (*enrolled.earlier, enrolled.signing_key)
    replaced = Enrolled(identity, request.signing_key, earlier, tls_keys=tls_keys)
    return Enrolment(EnrolmentKind.REPLACED, replaced, request)


def answer_to(
    folder: Path, enrolment: Enrolment, authority: KeyPair, *, address: str, now: datetime
) -> EnrolmentAnswer:
    """Return the answer to a request; nothing is written. Raises InvalidInputError for unusable keys."""
    request = enrolment.request
    return EnrolmentAnswer(
        certificate=certify(authority, enrolment.identity.uri, request.tls_key, now),
        authority=authority.certificate,
        card_key=_public_key(folder / "signing" / "card_key.pub"),
        log_key=_public_key(folder / "signing" / "log_key.pub"),
        signing_key=request.signing_key,
        address=address,
    )


def enrol(
    folder: Path,
    request: EnrolmentRequest,
    authority: KeyPair,
    *,
    role: str | None = None,
    project: str | None = None,
    address: str,
    now: datetime,
    again: bool = False,
) -> EnrolmentAnswer:
    """Answer a request, and write the person's file; raises as ``examined`` and ``write``."""
    domain = trust_domain_of(authority)
    enrolment = examined(folder, request, domain, role=role, project=project, again=again)
    answer = answer_to(folder, enrolment, authority, address=address, now=now)
    write(folder, enrolment.enrolled)
    return answer


def _identity(
    enrolled: Enrolled | None, trust_domain: str, name: str, role: str | None, project: str | None
) -> Identity:
    known = None if enrolled is None else enrolled.identity
    if known is not None:
        role, project = role or known.role, project or known.project
    if role is None or project is None:
        problem = f"{name} is not enrolled yet; give --role and --project"
        raise InvalidInputError(field="role and project", problem=problem)
    identity = checked_identity(trust_domain, project, role, name)
    if known is not None and identity != known:
        problem = f"{name} is taken: {known.role} in project {known.project}; choose another name"
        raise InvalidInputError(field="name", problem=problem)
    return identity


def _check_keys_are_free(
    people: Mapping[str, Enrolled], request: EnrolmentRequest, identity: Identity
) -> None:
    """Raise InvalidInputError if a key is or was another person's: a steward must not count twice."""
    keys = {"signing key": request.fingerprint, "TLS key": tls_key_id(request.tls_key)}
    for uri, other in people.items():
        for field, key in keys.items():
            if uri != identity.uri and key in other.keys:
                problem = f"belongs to {other.identity.name}; each identity needs keys of its own"
                raise InvalidInputError(field=field, problem=problem)


def _public_key(file: Path) -> Ed25519PublicKey:
    try:
        text = read_file(file, f"signing/{file.name}", KEY_LIMIT).decode()
    except UnicodeDecodeError:
        text = ""
    return public_key(text, f"signing/{file.name}")


def write(folder: Path, enrolled: Enrolled) -> None:
    """Put a person's file in its place, unless it says the same; StorageError leaves the earlier one."""
    entry = folder / "identities" / f"{enrolled.identity.name}.toml"
    with suppress(OSError):
        entry.parent.mkdir(mode=0o700, exist_ok=True)
        if not entry.is_file() or enrolled_in(entry) != enrolled:
            write_whole(entry, [identity_text(enrolled).encode()])
        return
    raise StorageError


def known_person(folder: Path, name: str) -> Enrolled:
    """Return a person by name; raises InvalidInputError if there is none, or the file is malformed."""
    entry = folder / "identities" / f"{name}.toml"
    if not re.fullmatch(r"[a-z0-9._-]+", name) or not entry.is_file():
        problem = f"nobody is enrolled as {name!r}; the list of people names everybody"
        raise InvalidInputError(field="name", problem=problem)
    return enrolled_in(entry)


PROJECT = "pilot"
PEOPLE = {"ana": Role.ANALYST, "aud": Role.AUDITOR, "sam": Role.STEWARD}
"""The people of demonstrations, and their project."""


def make_people(
    folder: Path,
    authority: KeyPair,
    people: Mapping[str, Role],
    project: str,
    *,
    address: str,
    now: datetime,
) -> None:
    """Enrol people, with keys in ``people/NAME``; raises InvalidInputError, StorageError or OSError."""
    for name, role in people.items():
        person = folder / "people" / name
        tls = KeyPair(authority.certificate, ec.generate_private_key(ec.SECP256R1()))
        signing_key = Ed25519PrivateKey.generate()
        request = request_of_document(request_document(tls.key, signing_key, name=name))
        answer = enrol(folder, request, authority, role=role, project=project, address=address, now=now)
        write_new(person / "key.pem", tls.key_pem)
        write_new(person / "signing_key.pem", private_pem(signing_key))
        for file, content in answer.files().items():
            write_new(person / file, content, private=False)


def demo_people(folder: Path) -> tuple[str, ...]:
    """Return the names of the people whose private keys are in the controller's folder."""
    return tuple(sorted(file.parent.name for file in (folder / "people").glob("*/signing_key.pem")))
