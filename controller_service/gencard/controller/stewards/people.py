"""People at the desk: enrolled people and roles; enrol from a request, disable, enable."""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from cryptography.x509 import load_pem_x509_certificate
from sqlalchemy import Connection

from gencard.controller.people.certificates import LEAF_LIFE, read_authority
from gencard.controller.people.enrolment import (
    Enrolled,
    Enrolment,
    answer_to,
    examined,
    known_person,
    read_identities,
    write,
)
from gencard.controller.people.enrolment import EnrolmentKind as Enrolling
from gencard.controller.people.passkeys import Passkeys
from gencard.controller.state.log import EventLog
from gencard.controller.stewards.actions import Applied, Demands, argument, refuse_others
from gencard.core.errors import AuthorityElsewhereError, InvalidInputError
from gencard.files import KEY_LIMIT, read_file
from gencard.wire.canonical import Document, digest_of, sha256
from gencard.wire.dsse import key_id
from gencard.wire.keys import LARGEST, Identity, Role, request_of_document
from gencard.wire.steward import Action, Kind, Person

PERSON = "people/"
ENROL = "enrol"


@dataclass(frozen=True, slots=True)
class RequestView:
    """Preview of an enrolment from a request; compare the fingerprint with the person first.

    Args:
        kind: new, renewed or replaced.
        requested_role, requested_project: Role and project in the request; the steward decides.
    """

    name: str
    role: str
    project: str
    requested_role: str
    requested_project: str
    kind: str
    fingerprint: str
    shown: str


@dataclass(frozen=True, slots=True)
class PersonEffect:
    """Enrols, disables and enables people.

    Args:
        folder: The controller's folder, as ``draft`` made it.
        address: Address of the service for people, unless the action names one.
        authority_key: The authority's private key, if it is not in the folder.
    """

    folder: Path
    trust_domain: str
    address: str
    log: EventLog
    passkeys: Passkeys
    clock: Callable[[], datetime]
    authority_key: Path | None = None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the lock on people's files, across processes: a key may belong to one person only."""
        descriptor = os.open(self.folder / "identities", os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def shown(self, tx: Connection, resource: str, arguments: Mapping[str, Any]) -> Document:  # noqa: ARG002
        """Return the person, or what the request would do."""
        if "request" not in arguments:
            return _person_document(known_person(self.folder, resource.removeprefix(PERSON)))
        return _enrolment_document(self.examined(resource, arguments), arguments)

    def demands(self, tx: Connection, action: Action) -> Demands:  # noqa: ARG002
        """Return the conditions: admitting a person, and disabling a steward, may need two stewards."""
        name = action.resource.removeprefix(PERSON)
        if action.kind is Kind.DISABLE:
            return Demands(changes_people=known_person(self.folder, name).identity.role is Role.STEWARD)
        if action.kind is Kind.ENABLE:
            identity, same_keys = known_person(self.folder, name).identity, False
        else:
            enrolment = self.examined(action.resource, action.arguments)
            identity, same_keys = enrolment.identity, enrolment.kind is Enrolling.RENEWED
        under = frozenset({ENROL})
        return Demands(under=under, subject=identity.uri, changes_people=not same_keys)

    def has_two_stewards(self) -> bool:
        """Whether there are two stewards who could agree."""
        people = read_identities(self.folder / "identities").values()
        stewards = [one for one in people if one.identity.role is Role.STEWARD and not one.disabled]
        return len(stewards) > 1

    def apply(self, tx: Connection, by: str, action: Action) -> Applied:
        """Raises AuthorityElsewhereError if certificates are issued on another machine."""
        if action.kind is Kind.ENROL:
            return self._enrolled(tx, by, action)
        refuse_others(action.arguments)
        person = known_person(self.folder, action.resource.removeprefix(PERSON))
        changed_person = replace(person, disabled=action.kind is Kind.DISABLE)
        if changed_person.disabled:  # what a thief made must not come back with the person
            self.passkeys.forget(tx, person.identity.uri, by)
        return Applied({"uri": person.identity.uri}, lambda: write(self.folder, changed_person))

    def examined(self, resource: str, arguments: Mapping[str, Any]) -> Enrolment:
        """Return the enrolment that would follow; raise InvalidInputError as ``enrolment.examined``."""
        refuse_others(arguments, "request", "fingerprint", "role", "project", "address", "again")
        document = argument(arguments, "request", str, "").encode()
        if len(document) > LARGEST:
            raise InvalidInputError(field="arguments.request", problem="is too long for a request")
        request = request_of_document(document)
        reachable(argument(arguments, "address", str, "") or self.address)
        if resource != f"{PERSON}{request.name}":
            raise InvalidInputError(field="name", problem=f"is {request.name!r} in the request")
        if "fingerprint" in arguments:  # also in a preview, so that a typing error is seen before
            self._check_fingerprint(arguments, request.fingerprint)
        return examined(
            self.folder,
            request,
            self.trust_domain,
            role=argument(arguments, "role", str, "") or None,
            project=argument(arguments, "project", str, "") or None,
            again=argument(arguments, "again", bool, False),
        )

    def request_view(self, arguments: Mapping[str, Any]) -> RequestView:
        """Describe the enrolment that a request wants, before anything is decided."""
        request = request_of_document(argument(arguments, "request", str, "").encode())
        enrolment = self.examined(f"{PERSON}{request.name}", arguments)
        identity = enrolment.identity
        return RequestView(
            identity.name,
            str(identity.role),
            identity.project,
            request.role,
            request.project,
            str(enrolment.kind),
            request.fingerprint,
            digest_of(_enrolment_document(enrolment, arguments)),
        )

    def steward(self, name: str) -> Identity | None:
        """Return the identity of the steward of this name; None if none is enrolled."""
        with suppress(InvalidInputError):
            who = known_person(self.folder, name).identity
            return who if who.role is Role.STEWARD else None
        return None

    def views(
        self, seen: Mapping[str, datetime], certified: Mapping[str, datetime]
    ) -> tuple[Person, ...]:
        """Return all enrolled people, by URI.

        Args:
            seen: Time of the last action of each URI.
            certified: Time of the last certificate of each name.
        """
        people = read_identities(self.folder / "identities").values()
        return tuple(
            Person(
                person.identity.uri,
                key_id(person.signing_key),
                person.disabled,
                self._certificate_end(person.identity.name, certified),
                seen.get(person.identity.uri),
                digest_of(_person_document(person)),
            )
            for person in people
        )

    def _enrolled(self, tx: Connection, by: str, action: Action) -> Applied:
        enrolment = self.examined(action.resource, action.arguments)
        self._check_fingerprint(action.arguments, enrolment.request.fingerprint)
        address = argument(action.arguments, "address", str, "") or self.address
        if not (self.authority_key or self.folder / "authority" / "key.pem").is_file():
            raise AuthorityElsewhereError
        authority, now = read_authority(self.folder / "authority", self.authority_key), self.clock()
        answer = answer_to(self.folder, enrolment, authority, address=address, now=now)
        facts = enrolment.facts
        self.log.append(tx, action="enrol", actor=by, resource=action.resource, details=facts, now=now)
        if enrolment.kind is Enrolling.REPLACED:  # a thief of the old keys may have enrolled a passkey
            self.passkeys.forget(tx, enrolment.identity.uri, by)
        result = {"answer": answer.document.decode(), "fingerprint": answer.fingerprint}
        return Applied(result, lambda: write(self.folder, enrolment.enrolled))

    @staticmethod
    def _check_fingerprint(arguments: Mapping[str, Any], fingerprint: str) -> None:
        """Raise InvalidInputError if the person's fingerprint is not that of the request."""
        if "".join(argument(arguments, "fingerprint", str, "").split()).lower() != fingerprint:
            raise InvalidInputError(
                field="fingerprint",
                problem="does not match the request, which may have been changed in transit",
                advice="Compare what you typed with what the person gave you. If it is the same, ask "
                "the person for the request again.",
            )

    def _certificate_end(self, name: str, certified: Mapping[str, datetime]) -> datetime | None:
        file = self.folder / "people" / name / "certificate.pem"
        if file.is_file():
            return load_pem_x509_certificate(
                read_file(file, "certificate", KEY_LIMIT)
            ).not_valid_after_utc
        return certified[name] + LEAF_LIFE if name in certified else None


def reachable(address: str) -> str:
    """Return the address for the person; raises InvalidInputError if it names no host to connect to."""
    if address.rpartition(":")[0] in ("", "0.0.0.0", "[::]"):  # noqa: S104 - to refuse it
        problem = f"{address} names no host to connect to; give one with --address"
        raise InvalidInputError(field="address", problem=problem)
    return address


def _enrolment_document(enrolment: Enrolment, arguments: Mapping[str, Any]) -> Document:
    request = sha256(argument(arguments, "request", str, "").encode())
    return {"request": request, "uri": enrolment.identity.uri, **enrolment.facts}


def _person_document(person: Enrolled) -> Document:
    key, uri = key_id(person.signing_key), person.identity.uri
    return {"uri": uri, "key": key, "disabled": person.disabled, "tlsKey": "".join(person.tls_keys[-1:])}
