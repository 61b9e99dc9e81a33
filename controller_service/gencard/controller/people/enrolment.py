"""Enrolment at the controller: a person's request becomes an identity file and an answer.

The controller sees public keys alone. The person's private keys are made on the person's machine and
stay there (``gencard.client.connection.enrolment``).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gencard.controller.base.disk import write_whole
from gencard.controller.base.files import public_key
from gencard.controller.people.certificates import (
    KeyPair,
    certify,
    private_pem,
    trust_domain_of,
    write_new,
)
from gencard.controller.people.identities import (
    Enrolled,
    enrolled_in,
    identity_text,
    read_identities,
    tls_key_id,
)
from gencard.core.errors import InvalidInputError, StorageError
from gencard.files import KEY_LIMIT, read_file
from gencard.wire.documents.enrolment import (
    EnrolmentAnswer,
    EnrolmentRequest,
    checked_identity,
    request_document,
    request_of_document,
)
from gencard.wire.signatures.dsse import key_id
from gencard.wire.signatures.identity import Identity, Role


class EnrolmentKind(StrEnum):
    """Effect of the answer to a request."""

    NEW = "new"
    RENEWED = "renewed"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class Enrolment:
    """A request that may be answered; nothing is written yet.

    Args:
        kind: A new person, a new certificate for the same keys, or new keys for an enrolled person.
        enrolled: The person, with the keys that this person signed with before.
        request: Request of the person.
    """

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

    Args:
        folder: The controller's folder, as ``draft`` made it.
        request: The person's request, verified.
        role: Role given by the steward; by default that of the enrolled person.
        project: Project given by the steward; by default that of the enrolled person.
        again: Whether new keys of an enrolled person replace the present keys, which sign no more.

    Raises:
        InvalidInputError: Role or project is missing or differs from the enrolled person's, the name is
            taken, a key is or was another person's, or was replaced before, or only one of a person's
            two keys is new.
        UnauthenticatedError: An identity file is malformed.
    """
    entry = folder / "identities" / f"{request.name}.toml"
    enrolled = enrolled_in(entry) if entry.is_file() else None
    identity = _identity(enrolled, trust_domain, request.name, role, project)
    if enrolled is not None and enrolled.disabled:
        problem = (
            f"{request.name} is disabled; run `gencard-controller person enable {request.name}` first"
        )
        raise InvalidInputError(field="name", problem=problem)
    people = read_identities(folder / "identities")
    _check_keys_are_free(people, request, identity)
    tls_key = tls_key_id(request.tls_key)
    if enrolled is None:
        if identity.uri in people:
            problem = f"{request.name} is enrolled by another file than {entry.name}; rename that file"
            raise InvalidInputError(field="name", problem=problem)
        if again:
            raise InvalidInputError(
                field="name", problem=f"{request.name} is not enrolled, so --again does not apply"
            )
        return Enrolment(
            EnrolmentKind.NEW, Enrolled(identity, request.signing_key, tls_keys=(tls_key,)), request
        )
    if enrolled.signing_key == request.signing_key:
        if not enrolled.connects_with(tls_key):
            # a copy of an old folder could otherwise bring its TLS key back into force
            problem = (
                "is not the one of the newest certificate, and a renewal keeps the key; to replace both "
                "keys, the person must run `gencard enrol NAME --again`"
            )
            raise InvalidInputError(field="TLS key", problem=problem)
        return Enrolment(
            EnrolmentKind.RENEWED, replace(enrolled, tls_keys=_with(enrolled, tls_key)), request
        )
    if request.signing_key in enrolled.earlier:
        problem = "was replaced by a newer key; the person must run `gencard enrol NAME --again`"
        raise InvalidInputError(field="signing key", problem=problem)
    if tls_key in enrolled.tls_keys:  # a thief who has the present one would stay connected
        problem = "is not new; the person must run `gencard enrol NAME --again`, which makes both keys"
        raise InvalidInputError(field="TLS key", problem=problem)
    if not again:
        problem = (
            f"{request.name} is already enrolled with another signing key; use --again to replace it"
        )
        raise InvalidInputError(field="name", problem=problem)
    earlier = (*enrolled.earlier, enrolled.signing_key)
    tls_keys = _with(enrolled, tls_key)
    replaced = Enrolled(identity, request.signing_key, earlier, tls_keys=tls_keys)
    return Enrolment(EnrolmentKind.REPLACED, replaced, request)


def _with(enrolled: Enrolled, tls_key: str) -> tuple[str, ...]:
    """Return the fingerprints of a person's TLS keys with this key last, which puts it in force."""
    return (*(key for key in enrolled.tls_keys if key != tls_key), tls_key)


def complete(
    folder: Path, enrolment: Enrolment, authority: KeyPair, *, address: str, now: datetime
) -> EnrolmentAnswer:
    """Make the answer, and ``write`` the person's file; raises as both."""
    answer = answer_to(folder, enrolment, authority, address=address, now=now)
    write(folder, enrolment.enrolled)
    return answer


def answer_to(
    folder: Path, enrolment: Enrolment, authority: KeyPair, *, address: str, now: datetime
) -> EnrolmentAnswer:
    """Return the answer to a request; nothing is written.

    Args:
        address: Address of the controller for the person, ``host:port``.
        now: Begin of the certificate's validity.

    Raises:
        InvalidInputError: The authority or the controller's public keys cannot be used.
    """
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
    """``examined``, then ``complete``."""
    domain = trust_domain_of(authority)
    enrolment = examined(folder, request, domain, role=role, project=project, again=again)
    return complete(folder, enrolment, authority, address=address, now=now)


def _identity(
    enrolled: Enrolled | None, trust_domain: str, name: str, role: str | None, project: str | None
) -> Identity:
    """Return the identity that the person would have; raises InvalidInputError."""
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
    """Put a person's file in its place, unless it says the same.

    Raises:
        StorageError: A file cannot be written; the person stays enrolled as before.
    """
    entry = folder / "identities" / f"{enrolled.identity.name}.toml"
    try:
        entry.parent.mkdir(mode=0o700, exist_ok=True)
        if entry.is_file() and enrolled_in(entry) == enrolled:
            return
        write_whole(entry, [identity_text(enrolled).encode()])
        return
    except OSError:
        pass
    raise StorageError


def known_person(folder: Path, name: str) -> Enrolled:
    """Return a person by name; raises InvalidInputError if there is none, or the file is malformed."""
    entry = folder / "identities" / f"{name}.toml"
    if not re.fullmatch(r"[a-z0-9._-]+", name) or not entry.is_file():
        raise InvalidInputError(
            field="name", problem=f"nobody is enrolled as {name!r}; the list of people names everybody"
        )
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
    """Enrol people, and leave the keys of each in ``people/NAME``, which the controller can read.

    Raises:
        InvalidInputError: A person of this name is enrolled, or a name or the project is invalid.
        StorageError, OSError: The files cannot be written.
    """
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
