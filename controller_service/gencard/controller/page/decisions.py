"""Decisions on the page: from the fields of a form to an action of the desk, and back."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from gencard.controller.page.passkeys import Ceremonies, Session
from gencard.controller.page.security import Form
from gencard.controller.page.views import ChangeResult
from gencard.controller.stewards.desk import Desk
from gencard.core.errors import InvalidInputError, PermissionDeniedError, UnauthenticatedError
from gencard.wire.keys import grouped
from gencard.wire.steward import Action, Kind

_LONGEST_NUMBER = 12


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER):
        raise InvalidInputError(field=name, problem="is not a whole number")
    return int(text)


def _list(text: str, name: str) -> list[str]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
        raise InvalidInputError(field=name, problem="is not a list of names")
    return value


@dataclass(frozen=True, slots=True)
class Field:
    """An argument of an action as a field of a form.

    Args:
        read: The argument from the field's text.
        many: The field may be there more than once.
    """

    read: Callable[[str, str], Any] = lambda text, _name: text
    write: Callable[[Any], str] = str
    many: bool = False


_TEXT = Field()
_FLAG = Field(lambda _text, _name: True, lambda _value: "yes")
ARGUMENTS: Mapping[Kind, Mapping[str, Field]] = {
    Kind.COUNTER: {
        "drop": Field(_list, json.dumps, many=True),
        "without": Field(many=True),
        "rows": Field(_number),
    },
    Kind.REJECT: {"remark": _TEXT},
    Kind.REVOKE: {"remark": _TEXT},
    Kind.RELEASE_ANSWER: {"withhold": Field(many=True), "digits": Field(_number), "red": _FLAG},
    Kind.REFUSE_ANSWER: {"code": _TEXT},
    Kind.CLEAR_AUDITS: {"black_box": _TEXT},
    Kind.ENROL: {
        **dict.fromkeys(("request", "fingerprint", "role", "project", "address"), _TEXT),
        "again": _FLAG,
    },
}
"""Arguments of each kind of action; the other kinds have none."""

_PLACES = {
    Kind.SETTLE: "/budget",
    Kind.VOID: "/budget",
    Kind.RELEASE_ANSWER: "/answers",
    Kind.REFUSE_ANSWER: "/answers",
    Kind.DISMISS_REFUSAL: "/",
    Kind.CLEAR_AUDITS: "/releases",
    Kind.ENROL: "/people",
    Kind.DISABLE: "/people",
    Kind.ENABLE: "/people",
    Kind.ROTATE: "/people",
}
"""Page that a steward sees after a decision; after a decision on a card it is the card."""

_DONE = {
    Kind.APPROVE: "The card is offered to the analyst.",
    Kind.COUNTER: "The changed terms are offered to the analyst.",
    Kind.REJECT: "The proposal is refused.",
    Kind.REVOKE: "The card is revoked.",
    Kind.RELEASE_ANSWER: "The answer is released.",
    Kind.REFUSE_ANSWER: "The answer is refused.",
    Kind.SETTLE: "The reservation is settled: its price stays spent.",
    Kind.VOID: "The reservation is void: its price is given back.",
    Kind.DISMISS_REFUSAL: "The failure no longer counts against its analyst.",
    Kind.CLEAR_AUDITS: "The audits no longer count.",
    Kind.ENROL: "The person is enrolled.",
    Kind.DISABLE: "The person is disabled.",
    Kind.ENABLE: "The person is enabled.",
    Kind.ROTATE: "The key is replaced.",
}
_FIRST_OF_TWO = (
    "Your decision is in the log. It takes effect when another steward makes the same decision."
)


def action_of(form: Form) -> Action:
    """Return the action that a form asks for.

    Raises:
        InvalidInputError: A field is missing or malformed.
    """
    try:
        kind = Kind(form.text("kind"))
    except ValueError:
        kind = None
    if kind is None:
        raise InvalidInputError(field="kind", problem="is not a kind of decision")
    arguments: dict[str, Any] = {}
    for name, field in ARGUMENTS.get(kind, {}).items():
        texts = [text for text in form.texts(name) if text.strip()]
        if field.many and texts:
            arguments[name] = [field.read(text, name) for text in texts]
        elif texts:
            arguments[name] = field.read(form.text(name), name)
    return Action(kind, form.text("resource"), arguments, form.text("reason"), form.text("shown"))


def fields_of(kind: str, arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Fields of a form that asks for the same again, as a second steward does."""
    fields: list[tuple[str, str]] = []
    for name, value in arguments.items():
        field = ARGUMENTS.get(Kind(kind), {}).get(name, _TEXT)
        values = value if field.many else [value]
        fields += [(name, field.write(one)) for one in values if one is not False]
    return fields


@dataclass(frozen=True, slots=True)
class DecisionPages:
    """Decisions of signed-in stewards; if two have to agree, each signs with the passkey."""

    desk: Desk
    ceremonies: Ceremonies

    def options(self, session: Session, form: Form) -> str:
        """Return the browser's request to its authenticator, as JSON; empty without need of a passkey.

        Raises:
            GencardError: The decision would be refused; the form is still open in the browser.
        """
        action = action_of(form)
        self.desk.preview(session.who, action.kind, action.resource, action.arguments)
        self.desk.check_offer(session.who, action)
        if not self.desk.needs_two(session.who, action):
            return ""
        return self.ceremonies.assertion_options(_purpose(session, action), session)

    def decide(self, session: Session, form: Form) -> ChangeResult:
        """Decide; raises as ``Desk.decide``, and PermissionDeniedError without the passkey."""
        action, request_id = action_of(form), request_id_of(form)
        passkey = session.passkey
        if self.desk.needs_two(session.who, action):
            passkey = self._signed(session, action, form.text("assertion"))
        keys = {passkey} if passkey else set()
        decision = self.desk.decide(session.who, action, request_id, keys)
        place = _PLACES.get(action.kind, f"/cards/{action.resource}")
        if "answer" in decision.result:
            name = action.resource.rpartition("/")[2]
            context = {"title": f"{name} is enrolled", "name": name, "grouped": grouped}
            return ChangeResult(place, template="enrolled.html", context={**context, **decision.result})
        notice = _DONE[Kind(decision.kind)] if decision.done else _FIRST_OF_TWO
        return ChangeResult(place, notice)

    def _signed(self, session: Session, action: Action, answer: str) -> str:
        """Name of the passkey that signed the action; raises PermissionDeniedError."""
        try:
            who, passkey = self.ceremonies.assertion(_purpose(session, action), answer)
            if who == session.who and session.passkey in ("", passkey.key):
                return passkey.key
        except UnauthenticatedError:
            pass
        raise PermissionDeniedError(
            advice="Two stewards must agree on this: confirm the decision with your passkey."
        )


def _purpose(session: Session, action: Action) -> str:
    return f"decide {session.name} {action.digest}"


def request_id_of(form: Form) -> str:
    """Return the UUID by which a change that is sent twice is made once; raises InvalidInputError."""
    text = form.text("request_id")
    try:
        return str(UUID(text))
    except ValueError:
        pass
    raise InvalidInputError(field="request_id", problem="is not a UUID")
