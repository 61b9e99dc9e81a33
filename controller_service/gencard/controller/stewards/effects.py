"""Effects of stewards' actions: on people, answers, ledger, failures, audits and signing keys.

Each says which data is to be reviewed, which stewards have to agree, and how the state changes.
"""

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

from cryptography.x509 import load_pem_x509_certificate
from sqlalchemy import Connection

from gencard.controller.answers.decisions import STEWARD, Decisions, Review, RunOutcome
from gencard.controller.cards.book import question_of
from gencard.controller.failures import Refusals, Refused
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
from gencard.controller.people.keys import LEAF_LIFE, KeyRotation, read_authority
from gencard.controller.records.catalogue import dataset_of
from gencard.controller.state import results
from gencard.controller.state.ledger import Ledger
from gencard.controller.state.log import EventLog
from gencard.controller.state.results import RunRow, RunTier
from gencard.controller.state.stewards import Passkeys
from gencard.core.errors import (
    AuthorityElsewhereError,
    InvalidInputError,
    NotFoundError,
    PermissionDeniedError,
)
from gencard.core.policy import OUTPUT_RULES, TwoStewards
from gencard.core.program_outputs import DIGITS
from gencard.files import KEY_LIMIT, read_file
from gencard.wire.canonical import Document, digest_of, sha256
from gencard.wire.documents import price_document
from gencard.wire.dsse import key_id
from gencard.wire.keys import LARGEST, Identity, Role, request_of_document
from gencard.wire.steward import (
    Action,
    AnswerReview,
    AnswerSummary,
    Failure,
    FirstDecision,
    Kind,
    Person,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Demands:
    """Conditions that a decision has to meet.

    Args:
        dataset: Dataset whose policy says whether two stewards decide; empty for the controller's rules.
        gives: Whether the action discloses data or removes a protection: a policy of two stewards
            covers it. Refusing and ending never need two.
        under: Names of single rules that cover it, as the settings name them.
        subject: URI of the person whom the action is about, who cannot decide on it.
        changes_people: Whether it admits a person, anew or with other keys, or removes a steward: if
            anything needs two stewards, one alone could otherwise become two, or the only one.
    """

    dataset: str = ""
    gives: bool = False
    under: frozenset[str] = frozenset()
    subject: str = ""
    changes_people: bool = False


@dataclass(frozen=True, slots=True)
class Applied:
    """Texts that an action returns, by name, and files that change once the transaction is true.

    The log holds the decision by then.
    """

    result: Mapping[str, str] = field(default_factory=dict)
    afterwards: Callable[[], None] | None = None


class ActionEffect(Protocol):
    """One kind of action. All of it looks at the state as it is in the transaction.

    What also writes files needs a turn besides: see ``Desk.decide``.
    """

    def shown(self, tx: Connection, resource: str, arguments: Mapping[str, Any]) -> Document:
        """Return the document that a steward has to have seen; its digest is compared."""

    def demands(self, tx: Connection, action: Action) -> Demands:
        """Return the conditions of an action: who has to agree."""

    def apply(self, tx: Connection, by: str, action: Action) -> Applied:
        """Make it true; raises what the action may end in.

        Args:
            by: URI of the steward who decided last.
        """


def argument(arguments: Mapping[str, Any], name: str, kind: type[T], default: T) -> T:
    """Return one argument of an action, which must be of this type."""
    value = arguments.get(name, default)
    if type(value) is not kind:
        raise InvalidInputError(field=f"arguments.{name}", problem="has the wrong type")
    return value


def texts(arguments: Mapping[str, Any], name: str) -> tuple[str, ...]:
    values = argument(arguments, name, list, [])
    if not all(isinstance(value, str) for value in values):
        raise InvalidInputError(field=f"arguments.{name}", problem="is not a list of texts")
    return tuple(values)


def check_steward(who: Identity) -> None:
    """Raise PermissionDeniedError for a person who is no steward."""
    if who.role is not Role.STEWARD:
        raise PermissionDeniedError


def refuse_others(arguments: Mapping[str, Any], *names: str) -> None:
    if not arguments.keys() <= {*names}:
        problem = f"may contain only {', '.join(names) or 'nothing'}"
        raise InvalidInputError(field="arguments", problem=problem)


# People at the desk: enrolled people and roles; enrol from a request, disable, enable.

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
        """Hold the lock on people's files, across processes: a key may belong to one person only.

        It is held from before the transaction until its consequences are done.
        """
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
        return Demands(under=frozenset({ENROL}), subject=identity.uri, changes_people=not same_keys)

    def apply(self, tx: Connection, by: str, action: Action) -> Applied:
        """Raises AuthorityElsewhereError if certificates are issued on another machine."""
        if action.kind is not Kind.ENROL:
            refuse_others(action.arguments)
            person = known_person(self.folder, action.resource.removeprefix(PERSON))
            changed_person = replace(person, disabled=action.kind is Kind.DISABLE)
            if changed_person.disabled:  # what a thief made must not come back with the person
                self.passkeys.forget(tx, person.identity.uri, by)
            return Applied({"uri": person.identity.uri}, lambda: write(self.folder, changed_person))
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
        granted = (identity.name, str(identity.role), identity.project)
        shown = digest_of(_enrolment_document(enrolment, arguments))
        proof = (str(enrolment.kind), request.fingerprint, shown)
        return RequestView(*granted, request.role, request.project, *proof)

    def steward(self, name: str) -> Identity | None:
        """Return the identity of the steward of this name; None if none is enrolled."""
        with suppress(InvalidInputError):
            who = known_person(self.folder, name).identity
            return who if who.role is Role.STEWARD else None
        return None

    def views(
        self, seen: Mapping[str, datetime], certified: Mapping[str, datetime]
    ) -> tuple[Person, ...]:
        """Return all enrolled people, by URI; the times are those of ``LogReader.times``."""
        views: list[Person] = []
        for uri, person in read_identities(self.folder / "identities").items():
            name, key = person.identity.name, key_id(person.signing_key)
            end = certified[name] + LEAF_LIFE if name in certified else None
            if (file := self.folder / "people" / name / "certificate.pem").is_file():
                content = read_file(file, "certificate", KEY_LIMIT)
                end = load_pem_x509_certificate(content).not_valid_after_utc
            shown = digest_of(_person_document(person))
            views.append(Person(uri, key, person.disabled, end, seen.get(uri), shown))
        return tuple(views)

    @staticmethod
    def _check_fingerprint(arguments: Mapping[str, Any], fingerprint: str) -> None:
        if "".join(argument(arguments, "fingerprint", str, "").split()).lower() != fingerprint:
            problem = "does not match the request, which may have been changed in transit"
            advice = "Compare what you typed with what the person gave you. If it is the same, ask "
            advice += "the person for the request again."
            raise InvalidInputError(field="fingerprint", problem=problem, advice=advice)


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


# Answers at the desk: what a run gave, number by number, and what of it leaves.


def summary_of(row: RunRow) -> AnswerSummary:
    """Return a run whose answer waits, without its numbers."""
    return AnswerSummary(row.name, row.submitter, question_of(row), row.created)


@dataclass(frozen=True, slots=True)
class AnswerEffect:
    decisions: Decisions

    def shown(self, tx: Connection, resource: str, arguments: Mapping[str, Any]) -> Document:  # noqa: ARG002
        """Return the run and what it gave; raises InvalidInputError if it does not wait."""
        row = results.get_run(tx, resource)
        RunOutcome.of(row)
        outcome, request = (sha256(part or b"") for part in (row.outcome, row.request))
        return {"name": row.name, "state": str(row.state), "outcome": outcome, "request": request}

    def view(
        self, tx: Connection, name: str, shown: str, firsts: tuple[FirstDecision, ...], *, two: bool
    ) -> AnswerReview:
        row = results.get_run(tx, name)
        outcome = RunOutcome.of(row)
        reviewed = row.tier is RunTier.REVIEWED
        review = Review.of(outcome) if reviewed else None
        return AnswerReview(
            summary_of(row),
            () if review is None else tuple(review.cells()),
            "" if review is None else review.program,
            None if reviewed else outcome.answer,
            None if reviewed else outcome.marks,
            outcome.reasons,
            two,
            shown,
            firsts,
        )

    def demands(self, tx: Connection, action: Action) -> Demands:
        """Releasing what a program gave may need two by itself."""
        row = results.get_run(tx, action.resource)
        release = action.kind is Kind.RELEASE_ANSWER
        under = {TwoStewards.REVIEWED_RUNS} if release and row.tier is RunTier.REVIEWED else ()
        return Demands(dataset_of(row.name), release, frozenset(under), row.submitter)

    def apply(self, tx: Connection, by: str, action: Action) -> Applied:
        """Raises InvalidInputError, CardStateError as ``Decisions.release``."""
        row = results.get_run(tx, action.resource)
        outcome = RunOutcome.of(row)
        if action.kind is Kind.REFUSE_ANSWER:
            refuse_others(action.arguments, "code")
            code = argument(action.arguments, "code", str, STEWARD)
            ended_row = self.decisions.refuse(tx, row, replace(outcome, reasons=(code,)), by)
        else:
            ended_row = self.decisions.release(tx, row, released(row, outcome, action.arguments), by)
        return Applied({"statistics": str(ended_row.statistics), "log_index": str(ended_row.log_index)})


def released(row: RunRow, outcome: RunOutcome, arguments: Mapping[str, Any]) -> RunOutcome:
    refuse_others(arguments, "withhold", "digits", "red")
    if row.tier is not RunTier.REVIEWED:
        if arguments:
            problem = "applies to programs only; built-in analyses are released or refused as a whole"
            raise InvalidInputError(field="option", problem=problem)
        return replace(outcome, reasons=())
    digits = argument(arguments, "digits", int, DIGITS + 1)
    if "digits" in arguments and not 1 <= digits <= DIGITS:
        raise InvalidInputError(field="digits", problem=f"must be from 1 to {DIGITS}")
    answer, numbers, codes = Review.of(outcome).released(
        question_of(row).formula,
        texts(arguments, "withhold"),
        digits if "digits" in arguments else None,
        red=argument(arguments, "red", bool, False),
    )
    return replace(outcome, answer=answer, numbers=numbers, reasons=tuple(sorted(codes)))


LINE, KEY = "ledger/", "keys/"
ROTATION = "rotation"


@dataclass(frozen=True, slots=True)
class LineEffect:
    """Reservations that a crash left: they stay spent, or nothing was released for them."""

    ledger: Ledger
    log: EventLog
    clock: Callable[[], datetime]

    def shown(self, tx: Connection, resource: str, arguments: Mapping[str, Any]) -> Document:  # noqa: ARG002
        line = self.ledger.line(tx, _number(resource))
        price, name = price_document(line.price), f"{LINE}{line.line}"
        return {"line": name, "state": str(line.state), "price": price, "resource": line.resource}

    def demands(self, tx: Connection, action: Action) -> Demands:
        """Raises InvalidInputError if the line pays for an answer that is still undecided."""
        line = self.ledger.line(tx, _number(action.resource))
        run = results.undecided_run(tx, line.line)
        if run is not None:
            problem = "pays for an answer that is still undecided"
            advice = f"Release or refuse the answer, which ends the line: {run.name}"
            raise InvalidInputError(field="line", problem=problem, advice=advice)
        return Demands(line.dataset, action.kind is Kind.VOID, subject=line.analyst)

    def apply(self, tx: Connection, by: str, action: Action) -> Applied:
        """Raises InvalidInputError if the line is no longer reserved."""
        refuse_others(action.arguments)
        line, now = _number(action.resource), self.clock()
        resource = self.ledger.line(tx, line).resource
        end = self.ledger.void if action.kind is Kind.VOID else self.ledger.settle
        end(tx, line, now)
        details = {"line": str(line)}
        event = {"action": str(action.kind), "actor": by, "resource": resource}
        self.log.append(tx, **event, details=details, now=now)
        return Applied(details)


@dataclass(frozen=True, slots=True)
class RefusalEffect:
    """Work that failed or was refused because of the records; it counts until it is dismissed."""

    refusals: Refusals
    log: EventLog
    clock: Callable[[], datetime]

    def shown(self, tx: Connection, resource: str, arguments: Mapping[str, Any]) -> Document:  # noqa: ARG002
        return _failure_document(self.refusals.named(tx, resource))

    def demands(self, tx: Connection, action: Action) -> Demands:
        row = self.refusals.named(tx, action.resource)
        return Demands(dataset_of(row.resource), gives=True, subject=row.owner)

    def views(self, tx: Connection) -> tuple[Failure, ...]:
        views: list[Failure] = []
        for row in self.refusals.reviewable(tx):
            facts, shown = (row.name, row.owner, row.kind), digest_of(_failure_document(row))
            views.append(Failure(*facts, row.resource, row.reason, row.time, shown))
        return tuple(views)

    def apply(self, tx: Connection, by: str, action: Action) -> Applied:
        """Raises NotFoundError if no such operation counts."""
        refuse_others(action.arguments)
        row = self.refusals.look_at(tx, action.resource)
        event = {"action": "look", "actor": by, "resource": row.resource}
        # analysts may read the log: it names no rule of a refused run
        details = {"operation": row.name, "reason": OUTPUT_RULES if row.signed else row.reason}
        self.log.append(tx, **event, details=details, now=self.clock())
        return Applied({"operation": row.name})


@dataclass(frozen=True, slots=True)
class AuditEffect:
    """Evidence of audits: cleared, no ended audit of a black box on a dataset counts any more.

    Cards whose audit failed stay failed. Audits that still run, and audits of the same bytes under
    another name, keep counting.
    """

    log: EventLog
    clock: Callable[[], datetime]

    def shown(self, tx: Connection, resource: str, arguments: Mapping[str, Any]) -> Document:
        box = argument(arguments, "black_box", str, "")
        rows = [
            row for row in results.counting_audits(tx) if (row.dataset, row.black_box) == (resource, box)
        ]
        return {"dataset": resource, "audits": [[row.name, str(row.verdict)] for row in rows]}

    def demands(self, tx: Connection, action: Action) -> Demands:  # noqa: ARG002
        return Demands(action.resource, gives=True)

    def apply(self, tx: Connection, by: str, action: Action) -> Applied:
        """Raises NotFoundError if no ended audit of this black box counts on the dataset."""
        refuse_others(action.arguments, "black_box")
        box, now = argument(action.arguments, "black_box", str, ""), self.clock()
        cleared = results.clear_audits(tx, action.resource, box, now)
        if not cleared:
            raise NotFoundError
        event = {"action": "clear-audits", "actor": by, "resource": action.resource}
        details = {"black_box": box, "remark": action.reason, "tries": str(cleared)}
        self.log.append(tx, **event, details=details, now=now)
        return Applied({"tries": str(cleared)})


@dataclass(frozen=True, slots=True)
class KeyEffect:
    """The controller's signing keys: a new one signs from now on."""

    rotation: KeyRotation

    def shown(self, tx: Connection, resource: str, arguments: Mapping[str, Any]) -> Document:  # noqa: ARG002
        current = self.rotation.key(resource.removeprefix(KEY)).current(tx)
        return {"use": resource, "key": key_id(current.public_key())}

    def demands(self, tx: Connection, action: Action) -> Demands:  # noqa: ARG002
        return Demands(under=frozenset({ROTATION}))

    def apply(self, tx: Connection, by: str, action: Action) -> Applied:
        """Raises StorageError if state or files cannot be written; the old key stays in force."""
        refuse_others(action.arguments)
        use = action.resource.removeprefix(KEY)
        change = self.rotation.rotate(tx, use, by)
        result = {"key": key_id(change.key), "previous_key": key_id(change.previous)}
        return Applied(result, lambda: self.rotation.settle(use))


def _failure_document(row: Refused) -> Document:
    return {"operation": row.name, "reason": row.reason, "resource": row.resource}


def _number(resource: str) -> int:
    text = resource.removeprefix(LINE)
    if resource == text or not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise NotFoundError(what="ledger line")
    return int(text)
