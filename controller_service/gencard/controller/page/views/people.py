"""The view of people: their roles and certificates; enrol from a request, disable, enable."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from starlette.requests import Request

from gencard.controller.page.security import Form
from gencard.controller.page.views import ChangeResult, Context, FormAction, View
from gencard.controller.stewards.desk import Desk
from gencard.core.errors import InvalidInputError
from gencard.wire.keys import CARDS, LOG, PERSONS, Identity, grouped
from gencard.wire.steward import Kind, Person

SOON = timedelta(days=14)
"""A certificate that ends within it is marked."""

_EFFECTS = {
    "new": "A new person.",
    "renewed": "Already enrolled: the certificate is renewed, and the keys stay the same.",
    "replaced": "Already enrolled: the keys are replaced. The old signing key can no longer sign; what "
    "it signed stays valid. Passkeys are removed, and sessions end.",
}
_ORDER = {"steward": 0, "auditor": 1, "analyst": 2}


@dataclass(frozen=True, slots=True)
class PersonRow:
    """A row of the table of enrolled people."""

    person: Person
    state: str
    tone: str


def _people(request: Request, desk: Desk, who: Identity) -> Context:  # noqa: ARG001
    people = sorted(
        desk.people(who),
        key=lambda person: (_ORDER.get(person.identity.role, len(_ORDER)), person.identity.name),
    )
    firsts = [one for one in desk.first_decisions(who) if one.resource.startswith(("people/", "keys/"))]
    return {
        "rows": list(_rows(people, desk.clock())),
        "firsts": firsts,
        "two": desk.preview(who, Kind.DISABLE, f"people/{who.name}", {}).two,
        "keys": {use: desk.preview(who, Kind.ROTATE, f"keys/{use}", {}) for use in (CARDS, LOG)},
        "roles": PERSONS,
        "grouped": grouped,
    }


def _rows(people: list[Person], now: datetime) -> Iterator[PersonRow]:
    for person in people:
        until = person.certificate_until
        if person.disabled:
            yield PersonRow(person, "disabled", "bad")
        elif until is not None and until < now:
            yield PersonRow(person, "certificate expired", "bad")
        elif until is not None and until < now + SOON:
            yield PersonRow(person, "certificate expires soon", "warn")
        else:
            yield PersonRow(person, "enabled", "good")


def _request(form: Form, desk: Desk, who: Identity) -> ChangeResult:
    """Show the effect of enrolling from a request, with the fingerprint to compare."""
    texts = {name: form.text(name) for name in ("request", "role", "project")}
    if not texts["request"]:
        raise InvalidInputError(field="request", problem="is empty; choose the file or paste its text")
    arguments: dict[str, Any] = {name: text for name, text in texts.items() if text}
    if form.text("again"):
        arguments["again"] = True
    view = desk.request(who, arguments)
    context = {
        "title": f"Enrol {view.name}",
        "request": view,
        "arguments": arguments,
        "effect": _EFFECTS[view.kind],
        "grouped": grouped,
    }
    return ChangeResult("/people", template="request.html", context=context)


VIEWS = (View("/people", "people.html", _people, "People", label="People", key="p"),)
CHANGES = (FormAction("/people/request", _request),)
