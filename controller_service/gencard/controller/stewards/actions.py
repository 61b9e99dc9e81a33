"""What stewards may do: actions, their digests and effects, who has to agree, decisions."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection

from gencard.controller.state.log import LONGEST_DETAIL
from gencard.core.errors import InvalidInputError, TooLargeError
from gencard.wire.signatures.canonical import (
    Document,
    digest_of,
    document_of,
    json_bytes,
    time_of,
    time_text,
)

LARGEST_ARGUMENTS = 1 << 18
"""Bytes of an action's arguments."""


class Kind(StrEnum):
    """What an action does; beside each its resource and its arguments.

    Arguments that are not named here are refused; those with a default may be left out.
    """

    APPROVE = "approve"
    """datasets/D/cards/C. Offer what was asked, or the nearest that the policy allows."""
    COUNTER = "counter"
    """datasets/D/cards/C; ``drop``: lists of attributes, ``rows``; or ``terms``: a whole document."""
    REJECT = "reject"
    """datasets/D/cards/C; ``remark``: shown to the analyst."""
    REVOKE = "revoke"
    """datasets/D/cards/C; ``remark``: shown to the analyst."""
    RELEASE_ANSWER = "release-answer"
    """datasets/D/cards/C/answers/A; ``withhold``: names of numbers, ``digits``, ``red``."""
    REFUSE_ANSWER = "refuse-answer"
    """datasets/D/cards/C/answers/A; ``code``: of the reason, which the analyst gets."""
    SETTLE = "settle"
    """ledger/N."""
    VOID = "void"
    """ledger/N."""
    DISMISS_REFUSAL = "dismiss-refusal"
    """operations/O."""
    CLEAR_AUDITS = "clear-audits"
    """datasets/D; ``black_box``."""
    ENROL = "enrol"
    """people/NAME; ``request``: the document, ``fingerprint``, ``role``, ``project``, ``address``,
    ``again``."""
    DISABLE = "disable"
    """people/NAME."""
    ENABLE = "enable"
    """people/NAME."""
    ROTATE = "rotate"
    """keys/cards or keys/log."""


@dataclass(frozen=True, slots=True)
class Action:
    """What a steward wants done.

    Args:
        arguments: JSON: texts, whole numbers, truth values, lists and objects of them.
        reason: Why; one printable line of at most 200 characters, written into the log.
        shown: SHA-256, in hex, of what the steward was shown; views give it.

    Raises:
        InvalidInputError: The reason is not such a line, or the arguments have no canonical form.
        TooLargeError: The arguments have more than 256 KiB.
    """

    kind: Kind
    resource: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    shown: str = ""

    def __post_init__(self) -> None:
        if not self.reason.strip() or len(self.reason) > LONGEST_DETAIL or not self.reason.isprintable():
            problem = f"must be one printable line of 1 to {LONGEST_DETAIL} characters"
            raise InvalidInputError(field="reason", problem=problem)
        arguments_bytes(self.arguments)

    @property
    def digest(self) -> str:
        """SHA-256, in hex, of all but the reason: what two stewards have to agree on."""
        return action_digest(str(self.kind), self.resource, self.arguments, self.shown)


@dataclass(frozen=True, slots=True)
class Decision:
    """An action that was decided on.

    Args:
        action: As the last steward asked for it.
        by: URIs of those who decided, first to last.
        done: False where it waits for a second steward.
        expires: Until when it waits; None once it is done.
        result: What came of it: texts, by name.
    """

    action: Action
    by: tuple[str, ...]
    done: bool
    time: datetime
    expires: datetime | None = None
    result: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        return self.action.digest

    def stored(self) -> bytes:
        """As the state keeps it, for who repeats the request."""
        return json_bytes(
            {
                "by": list(self.by),
                "done": self.done,
                "expires": "" if self.expires is None else time_text(self.expires),
                "result": dict(self.result),
                "time": time_text(self.time),
            }
        )

    @classmethod
    def read(cls, action: Action, stored: Mapping[str, Any]) -> "Decision":
        """The decision that was stored for an action."""
        expires = time_of(stored["expires"]) if stored["expires"] else None
        by, time = tuple(stored["by"]), time_of(stored["time"])
        return cls(action, by, stored["done"], time, expires, stored["result"])


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Demands:
    """What a decision has to meet.

    Args:
        dataset: Whose policy says whether two stewards decide; empty for the whole controller's rules.
        gives: The action gives something away or takes a protection off: a policy of two stewards
            covers it. Refusing and ending never need two.
        under: Names of single rules that cover it, as the settings name them.
        subject: URI of the person whom it is about: nobody decides on themselves.
        changes_people: It lets a person in, anew or with other keys, or takes a steward's rights: where
            anything needs two stewards, one alone could otherwise become two, or the only one.
    """

    dataset: str = ""
    gives: bool = False
    under: frozenset[str] = frozenset()
    subject: str = ""
    changes_people: bool = False


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of an action.

    Args:
        result: Texts, by name.
        afterwards: Files that change once the transaction is true; the log holds the decision by then.
    """

    result: Mapping[str, str] = field(default_factory=dict)
    afterwards: Callable[[], None] | None = None


class Effect(Protocol):
    """One kind of action. All of it looks at the state as it is in the transaction."""

    def turn(self) -> AbstractContextManager[object]:
        """Held from before the transaction until all that follows it has changed."""
        ...

    def shown(self, tx: Connection, resource: str, arguments: Mapping[str, Any]) -> Document:
        """What a steward has to have seen; its digest is compared.

        Raises:
            NotFoundError: No such resource.
        """
        ...

    def demands(self, tx: Connection, action: Action) -> Demands:
        """Who has to agree."""
        ...

    def apply(self, tx: Connection, by: str, action: Action) -> Applied:
        """Make it true; raises what the action may end in.

        Args:
            by: URI of who decided last.
        """
        ...


class InTheState:
    """Of effects that change the state alone: writers of the state follow one another."""

    __slots__ = ()

    def turn(self) -> AbstractContextManager[object]:
        """Nothing follows the transaction."""
        return nullcontext()


def argument(arguments: Mapping[str, Any], name: str, kind: type[T], default: T) -> T:
    """One argument of an action.

    Raises:
        InvalidInputError: It has another type.
    """
    value = arguments.get(name, default)
    if type(value) is not kind:
        raise InvalidInputError(field=f"arguments.{name}", problem="has the wrong type")
    return value


def texts(arguments: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A list of texts; raises InvalidInputError where it is none."""
    values = argument(arguments, name, list, [])
    if not all(isinstance(value, str) for value in values):
        raise InvalidInputError(field=f"arguments.{name}", problem="is not a list of texts")
    return tuple(values)


def refuse_others(arguments: Mapping[str, Any], *names: str) -> None:
    """Raises InvalidInputError where there is an argument of another name."""
    if not arguments.keys() <= {*names}:
        problem = f"may contain only {', '.join(names) or 'nothing'}"
        raise InvalidInputError(field="arguments", problem=problem)


def action_digest(kind: str, resource: str, arguments: Mapping[str, Any], shown: str) -> str:
    """SHA-256, in hex, of an action and what was shown before it, without its reason.

    Args:
        shown: Digest of what the steward was shown.

    Raises:
        InvalidInputError: The arguments have no canonical form.
    """
    action = {"kind": kind, "resource": resource, "arguments": dict(arguments), "shown": shown}
    return digest_of(action)


def arguments_bytes(arguments: Mapping[str, Any]) -> bytes:
    """Arguments as RFC 8785 JSON; nothing for none.

    Raises:
        InvalidInputError: They have no canonical form.
        TooLargeError: They have more than 256 KiB.
    """
    content = json_bytes(dict(arguments)) if arguments else b""
    if len(content) > LARGEST_ARGUMENTS:
        raise TooLargeError(what="The number of bytes of the arguments", limit=LARGEST_ARGUMENTS)
    return content


def arguments_of(content: bytes) -> Document:
    """The arguments in a message; raises InvalidInputError or TooLargeError where they are none."""
    if len(content) > LARGEST_ARGUMENTS:
        raise TooLargeError(what="The number of bytes of the arguments", limit=LARGEST_ARGUMENTS)
    return document_of(content, "arguments") if content else {}
